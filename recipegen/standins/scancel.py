"""scancel for a local job: a signal for its steps or its batch script, or a request to its supervisor to end it."""

from __future__ import annotations

import os
import re
import signal
import sys
import time

from recipegen.standins import records


def main(argv: list[str]) -> int:
    """`scancel JOB` ends the job; `--signal=SIG` reaches its steps, with `--batch` the script, with `--full` all of it."""
    options = [word for word in argv if word.startswith("-")]
    jobs = [word for word in argv if not word.startswith("-")]
    signum = 0
    for option in options:
        name, _, value = option.partition("=")
        if name == "--signal" and _number(value):
            signum = _number(value)
        elif name == "--signal":
            return _fail(f"scancel: error: Unknown job signal: {value}", 1)
        elif option not in ("--batch", "--full", "--quiet"):
            return _fail(f"scancel: unrecognized option '{option}'", 1)
    if not jobs:
        return _fail("scancel: error: No job identification provided", 1)
    return max(_cancel(job, signum, options) for job in jobs)


def _cancel(target: str, signum: int, options: list[str]) -> int:
    folder = os.environ.get(records.FOLDER_VARIABLE, "")
    job, _, step = target.partition(".")
    if not re.fullmatch(r"\d+(\.\d+)?", target):
        return _fail(f"scancel: error: Invalid job id {target}", 1)
    if not folder or job != os.environ.get("SLURM_JOB_ID"):
        return _fail(f"scancel: error: Kill job error on job id {target}: Invalid job id specified", 1) if signum else 0
    if not signum and not step:
        try:
            records.write(os.path.join(folder, records.CANCEL), {"how": "all", "time": time.time()})
        except OSError as error:
            return _fail(f"scancel: error: Kill job error on job id {target}: {error.strerror}", 1)
        return 0
    if "--batch" in options or "--full" in options:
        records.batch_of(folder).send(signum or signal.SIGTERM)
    if "--batch" not in options:
        for number in [int(step)] if step else records.steps(folder):
            for one in records.step_processes(folder, number):
                one.send(signum or signal.SIGKILL)
    return 0


def _number(name: str) -> int:
    """Return a signal's number from `TERM`, `SIGTERM` or `15`; 0 for what is none."""
    if name.isdecimal():
        return int(name) if int(name) in {int(one) for one in signal.Signals} else 0
    found = getattr(signal, f"SIG{name.upper().removeprefix('SIG')}", 0)
    return int(found) if isinstance(found, signal.Signals) else 0


def _fail(text: str, code: int) -> int:
    sys.stderr.write(f"{text}\n")
    return code
