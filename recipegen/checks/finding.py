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
    """One breach of a rule: where, what fails and when it would have shown, and the mend."""

    source: Source
    message: str
    mend: str = ""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A fault with the rule that it breaks; `allowed` is the reason by which the matrix allows it, empty when it does not."""

    rule: str
    severity: Severity
    source: Source
    message: str
    mend: str = ""
    allowed: str = ""

    def __str__(self) -> str:
        mend = f"; {self.mend}" if self.mend else ""
        return f"{self.source}: {self.severity.value}[{self.rule}]: {self.message}{mend}"
