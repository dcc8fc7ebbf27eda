"""What a check says: a Finding, and the Fault from which it is made."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from recipegen.errors import Source


class Severity(str, Enum):
    """`error` refuses render and submit, `warning` is shown, `note` is shown by `check` only."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Fault:
    """One breach of a rule: where, what fails and when it would have shown, and the mend.

    `severity` stands in for the rule's own where a case is less certain than the others.
    """

    source: Source
    message: str
    mend: str = ""
    severity: Severity | None = None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A fault with the rule that it breaks and the points that it concerns (none: the file as a whole).

    `allowed` is the reason by which the matrix allows it, empty when it does not.
    """

    rule: str
    severity: Severity
    source: Source
    message: str
    mend: str = ""
    allowed: str = ""
    points: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = f"{self.source}: " if self.source.file else ""
        mend = f"; {self.mend}" if self.mend else ""
        return f"{self.severity.value}: {place}{self.message}{mend} [{self.rule}]"
