"""Stand-ins for srun, scontrol and scancel on one machine without Slurm; standard library only, so that they start at once."""

from __future__ import annotations
