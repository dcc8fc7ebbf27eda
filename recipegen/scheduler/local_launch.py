"""Hands a local job's supervisor to submitit, from a session of its own: `python -m recipegen.scheduler.local_launch FOLDER`."""

from __future__ import annotations

import os
import sys

from recipegen.scheduler.local_job import supervise
from recipegen.standins import records

_MARGIN_S = 86400


def launch(folder: str) -> None:
    """Start the supervisor as a task of submitit's LocalExecutor, which outlives this process."""
    import submitit

    limit_s = int(records.read(os.path.join(folder, records.JOB))["time_limit_s"])
    executor = submitit.LocalExecutor(folder=os.path.join(folder, "submitit"))
    # submitit's own time limit must never be the one that is met
    executor.update_parameters(timeout_min=(limit_s + _MARGIN_S) / 60, stderr_to_stdout=True)
    executor.submit(supervise, folder)


if __name__ == "__main__":
    launch(sys.argv[1])
