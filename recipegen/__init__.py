"""recipegen: from a topology matrix to a measured, disaggregated vLLM/Dynamo endpoint on Slurm."""

from __future__ import annotations

__version__ = "0.1.0"
