"""Every exception recipegen raises on purpose: its message, its hint, its exit code.

RecipegenError
├── InputError           2  the matrix, the profile or an argument cannot be used (carries every problem found)
├── DifferencesFound     1  `render --check` or `diff` found something
├── ChecksFailed         1  a check found errors
├── SubmissionRefused    3  nothing was submitted
│   └── SubmissionInterrupted 130  stopped by a signal; whether the job was queued is not known
├── JobFailed            4  the job failed, was cancelled or lost
├── DeadlinePassed       5  a deadline passed before READY
├── PollError            1  the scheduler could not be asked; says nothing about any job
└── TransportError       1  a machine or its files could not be reached
    └── PathExists       1  what was to be made is already there
Anything else is a bug and keeps its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Source:
    """A place in a file; line and column count from 1, 0 stands for the file as a whole."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


NOWHERE = Source("")
"""The place of what no file says."""


@dataclass(frozen=True)
class Problem:
    """One thing wrong with an input: where, what (with what was expected), a hint such as a near match, and the rule that it breaks."""

    source: Source
    message: str
    hint: str = ""
    rule: str = ""

    def __str__(self) -> str:
        return f"{self.source}: {self.message}" + (f"; {self.hint}" if self.hint else "")


class RecipegenError(Exception):
    """Base of all: `exit_code` is what the command ends with, `hint` says what to do next."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class InputError(RecipegenError):
    """An input cannot be used; `problems` holds all that was found, in file order."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem] | str, *, hint: str = "") -> None:
        self.problems: tuple[Problem, ...] = () if isinstance(problems, str) else tuple(sorted(problems, key=_order))
        super().__init__(problems if isinstance(problems, str) else "\n".join(map(str, self.problems)), hint=hint)


class DifferencesFound(RecipegenError):
    """What was compared is not the same."""

    exit_code = 1


class ChecksFailed(RecipegenError):
    """Checks found errors; what they would have broken was not begun."""

    exit_code = 1


class SubmissionRefused(RecipegenError):
    """The scheduler or the run root refused; nothing was submitted and nothing is left behind."""

    exit_code = 3


class SubmissionInterrupted(SubmissionRefused):
    """Ctrl-C, or another signal to stop, met a submission whose answer was still to come."""

    exit_code = 130


class JobFailed(RecipegenError):
    """The job failed, was cancelled or lost."""

    exit_code = 4


class DeadlinePassed(RecipegenError):
    """A deadline or the time limit passed before the endpoint was READY."""

    exit_code = 5


class PollError(RecipegenError):
    """The scheduler could not be asked, or its answer not be read; that says nothing about any job."""


class TransportError(RecipegenError):
    """A machine, a command on it or a file of it could not be reached in time."""


class PathExists(TransportError):
    """What was to be made is already there, whoever made it."""


def near_match(word: str, candidates: Iterable[str]) -> str:
    """Return `did you mean 'x'?` for the closest candidate, or an empty string."""
    found = difflib.get_close_matches(word, list(candidates), n=1, cutoff=0.6)
    return f"did you mean '{found[0]}'?" if found else ""


def _order(problem: Problem) -> tuple[Source, str]:
    return problem.source, problem.message
