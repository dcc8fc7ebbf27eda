"""What is on record about a local job: small JSON files in the folder `local` of its run."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Set
from typing import Any

from recipegen.standins.processes import Process, below, marked, process_from_json, this_process, with_environment

FOLDER_VARIABLE = "RECIPEGEN_LOCAL_DIR"
"""In the environment of all processes of a job: its record folder, which no other job has."""
JOB_VARIABLE = "RECIPEGEN_LOCAL_JOB"
"""In the environment of all processes of a job: its id."""
STEP_VARIABLE = "RECIPEGEN_LOCAL_STEP"
JOB, STARTED, CANCEL, ENDED = "job.json", "started.json", "cancel.json", "ended.json"
STEPS, STEP = "steps", "step.json"


def write(path: str, data: dict[str, Any]) -> None:
    """Write a record whole or not at all."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(data, file)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def read(path: str) -> dict[str, Any]:
    """Return a record; an empty one when it is not there or not whole."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def new_step(folder: str) -> tuple[int, str]:
    """Take the next free step number and make its folder."""
    number = 0
    os.makedirs(os.path.join(folder, STEPS), exist_ok=True)
    while True:
        path = os.path.join(folder, STEPS, str(number))
        try:
            os.mkdir(path)
        except FileExistsError:
            number += 1
        else:
            return number, path


def steps(folder: str) -> list[int]:
    """Return the numbers of all steps so far."""
    try:
        return sorted(int(name) for name in os.listdir(os.path.join(folder, STEPS)) if name.isdigit())
    except OSError:
        return []


def srun_of(folder: str, step: int) -> Process:
    """Return the srun that runs a step; one that is not alive when there is none."""
    return process_from_json(read(os.path.join(folder, STEPS, str(step), STEP)).get("srun"))


def batch_of(folder: str) -> Process:
    return process_from_json(read(os.path.join(folder, STARTED)).get("batch"))


def supervisor_of(folder: str) -> Process:
    return process_from_json(read(os.path.join(folder, STARTED)).get("supervisor"))


def step_processes(folder: str, step: int) -> set[Process]:
    """Return all processes of a step: what is below its srun, or what carries its mark when that is gone."""
    srun = srun_of(folder, step)
    if srun.alive:
        return below([srun])
    return _with_descendants(marked({FOLDER_VARIABLE: folder, STEP_VARIABLE: str(step)}))


def job_processes(folder: str) -> set[Process]:
    """Return all processes of a job but its supervisor, and but the one that asks."""
    supervisor = supervisor_of(folder)
    return (_with_descendants(marked({FOLDER_VARIABLE: folder})) | below([supervisor])) - {supervisor, this_process()}


def processes_of_lost_job(root: str, job: str) -> set[Process]:
    """Return all processes of a job below `root` whose records are gone: only their environment still tells."""
    mark, below_root = os.fsencode(f"{JOB_VARIABLE}={job}"), os.fsencode(f"{FOLDER_VARIABLE}={root.rstrip('/')}/")

    def fits(variables: Set[bytes]) -> bool:
        return mark in variables and any(variable.startswith(below_root) for variable in variables)

    return _with_descendants(with_environment(fits)) - {this_process()}


def _with_descendants(roots: set[Process]) -> set[Process]:
    return roots | below(roots)
