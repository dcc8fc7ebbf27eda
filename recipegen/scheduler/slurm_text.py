"""What Slurm's commands print, as values; no command is run here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from recipegen.scheduler import JobView, SchedulerState

SQUEUE_FORMAT = "JobID:|,State:|,exit_code:|,RestartCnt:|,StartTime:|,NodeList:|,Reason:|"
"""For `squeue -O`: a suffix in place of a width keeps values whole. Reason comes last, it is the one free text."""
SACCT_FIELDS = "JobIDRaw,State,ExitCode,Start,NodeList,Reason"
"""For `sacct -X -P -o`."""
COMMENT_FORMAT = "%i %k"
"""For `squeue -o`: the comment whole, as `-O` would not show it before 23.02 without a width."""

_JOB = re.compile(r"[1-9]\d*")
_ABSENT = frozenset(("", "(null)", "N/A", "n/a", "None", "Unknown", "None assigned", "UNLIMITED"))
_NO_SUCH_JOB = re.compile(r"Invalid job id", re.IGNORECASE)
_ALREADY_GONE = re.compile(r"Invalid job id|already (?:complet|finish)|Job/step already", re.IGNORECASE)
_NO_ACCOUNTING = re.compile(r"accounting storage is disabled|not running a supported accounting_storage plugin", re.IGNORECASE)


@dataclass(frozen=True)
class Ending:
    """The two halves of Slurm's `0:15`; None where nothing is told."""

    code: int | None
    signal: int


def is_job(text: str) -> bool:
    """Whether this is a plain job id; any other in a list spoils the answer for all (`Bad job/step specified`)."""
    return _JOB.fullmatch(text) is not None


def parse_submitted(stdout: str) -> str | None:
    """Return the id that `sbatch --parsable` printed: `777`, or `777;cluster`; site wrappers may print lines before it."""
    for line in reversed(stdout.splitlines()):
        job = line.strip().split(";", 1)[0]
        if is_job(job):
            return job
    return None


def parse_squeue(text: str) -> list[JobView]:
    """Read `squeue -h -O SQUEUE_FORMAT` with times as UNIX seconds."""
    views = []
    for line in text.splitlines():
        cells = line.split("|")
        if len(cells) < 7 or not is_job(cells[0].strip()):
            continue
        cells = [cell.strip() for cell in cells]
        views.append(_view([*cells[:6], "|".join(cells[6:]).rstrip("|")]))
    return views


def job_of_comment(text: str, comment: str) -> str | None:
    """Return the newest job that `squeue -o COMMENT_FORMAT` shows with exactly this comment."""
    lines = [line.strip().partition(" ") for line in text.splitlines()]
    jobs = [job for job, _, words in lines if words.strip() == comment and is_job(job)]
    return max(jobs, key=int, default=None)


def parse_sacct(text: str) -> list[JobView]:
    """Read `sacct -n -X -P -o SACCT_FIELDS` with times as UNIX seconds; of a requeued job's lines the last counts."""
    views: dict[str, JobView] = {}
    for line in text.splitlines():
        cells = line.split("|")
        if len(cells) < 6 or not is_job(cells[0]):
            continue
        views[cells[0]] = _view([*cells[:3], "", *cells[3:5], "|".join(cells[5:])])
    return list(views.values())


def parse_scontrol_job(text: str) -> list[JobView]:
    """Read `scontrol --oneliner show job`; with SLURM_TIME_FORMAT=%s its times are UNIX seconds, too."""
    views = []
    for line in text.splitlines():
        # values hold blanks and '=' (Command, Comment): only keys that follow a blank and are known are looked at
        found = dict(re.findall(r"(?:^|\s)(JobId|JobState|ExitCode|Restarts|StartTime|NodeList|Reason)=(\S*)", line)[::-1])
        if is_job(found.get("JobId", "")):
            keys = ("JobId", "JobState", "ExitCode", "Restarts", "StartTime", "NodeList", "Reason")
            views.append(_view([found.get(key, "") for key in keys]))
    return views


def parse_ending(text: str) -> Ending:
    """Read `42:0`, `0:15`, or the raw wait status that squeue printed before 23.02 (33280 is exit code 130)."""
    found = re.fullmatch(r"(\d+)(?::(\d+))?", text.strip())
    if not found:
        return Ending(None, 0)
    if found[2] is None:
        status = int(found[1])
        return Ending(status >> 8 & 0xFF, status & 0x7F)
    return Ending(int(found[1]), int(found[2]))


def says_no_such_job(stderr: str) -> bool:
    """Whether squeue or scontrol failed because it does not know the (one) job."""
    return _NO_SUCH_JOB.search(stderr) is not None


def says_already_gone(stderr: str) -> bool:
    """Whether scancel failed because there is nothing left to signal."""
    return _ALREADY_GONE.search(stderr) is not None


def says_no_accounting(stderr: str) -> bool:
    """Whether sacct failed because the site keeps no accounts."""
    return _NO_ACCOUNTING.search(stderr) is not None


def message(stderr: str, fallback: str) -> str:
    """Return a command's own words, one line: its errors, without the prefix that repeats the command's name."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"\w+: (error|fatal|unrecognized)", line)] or lines
    return _joined(re.sub(r"^\w+: (?:(?:error|fatal): )?", "", line) for line in errors) or fallback


def _joined(lines: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(line for line in lines if line))


def _view(cells: Sequence[str]) -> JobView:
    job, state, ending, restarts, start, nodes, reason = cells
    parsed = SchedulerState.parse(state)
    end = parse_ending(ending)
    ended = parsed.activity.value == "ended"
    return JobView(
        job=job,
        state=parsed,
        reason="" if reason in _ABSENT else reason,
        exit_code=end.code if ended else None,
        signal=end.signal if ended else 0,
        nodes="" if nodes in _ABSENT else nodes,
        start=float(start) if re.fullmatch(r"\d+", start) and int(start) else None,
        restarts=int(restarts) if restarts.isdecimal() else None,
    )
