"""scontrol for a local job: the names of its hosts, and the record of itself."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from recipegen.standins import records
from recipegen.standins.hostlist import expand


def main(argv: list[str]) -> int:
    """`show hostnames [LIST]` and `show job ID`, the latter on one line with `--oneliner`."""
    words = [word for word in argv if not word.startswith("-")]
    options = [word for word in argv if word.startswith("-")]
    if [option for option in options if option not in ("--oneliner", "-o")]:
        return _fail(f"scontrol: unrecognized option '{options[0]}'", 1)
    if words[:2] == ["show", "hostnames"] and len(words) <= 3:
        return _show_hostnames(words[2] if len(words) == 3 else os.environ.get("SLURM_JOB_NODELIST", ""))
    if words[:2] == ["show", "job"] and len(words) == 3:
        return _show_job(words[2], " " if options else "\n   ")
    return _fail(f"invalid keyword: {' '.join(words)}", 1)


def _show_hostnames(text: str) -> int:
    try:
        sys.stdout.write("".join(f"{host}\n" for host in expand(text)))
    except ValueError as error:
        return _fail(str(error), 1)
    return 0


def _show_job(job: str, separator: str) -> int:
    folder = os.environ.get(records.FOLDER_VARIABLE, "")
    if not folder or job != os.environ.get("SLURM_JOB_ID"):
        return _fail("slurm_load_jobs error: Invalid job id specified", 1)
    record, started = records.read(os.path.join(folder, records.JOB)), records.read(os.path.join(folder, records.STARTED))
    sys.stdout.write(separator.join(_lines(job, record, started)) + "\n\n")
    return 0


def _lines(job: str, record: dict[str, Any], started: dict[str, Any]) -> list[str]:
    command = " ".join([str(record.get("script")), *record.get("args", [])])
    return [
        f"JobId={job} JobName={record.get('name')}",
        "JobState=RUNNING Reason=None Dependency=(null)",
        f"Requeue=0 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0 TimeLimit={_limit(int(record.get('time_limit_s', 0)))}",
        f"StartTime={_time(started.get('time'))} EndTime={_time(started.get('end_time'))}",
        f"NodeList={record.get('node_list')} NumNodes={record.get('nodes')}",
        f"Command={command}",
        f"WorkDir={record.get('work_dir')}",
        f"StdOut={record.get('output')}",
    ]


def _limit(seconds: int) -> str:
    return f"{seconds // 86400}-{seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}".removeprefix("0-")


def _time(value: object) -> str:
    if not isinstance(value, (int, float)):
        return "Unknown"
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(value))


def _fail(text: str, code: int) -> int:
    sys.stderr.write(f"{text}\n")
    return code
