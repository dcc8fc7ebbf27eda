"""recipegen: from a topology matrix to a measured, disaggregated vLLM/Dynamo endpoint on Slurm."""

__version__ = "0.1.0"
