"""From srt-slurm recipes to matrices: reading, expanding, grouping, writing."""

from __future__ import annotations
