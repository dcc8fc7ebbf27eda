"""A rule: its id, its severity, its explanation, and the function that looks for faults in one kind of view."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from recipegen.checks.finding import Fault, Finding, Severity

View = TypeVar("View")


@dataclass(frozen=True, kw_only=True)
class RuleText:
    """What is said of a rule. `text` has a title line, then why it fails, when it would have shown, and the mend.

    `covers` are rows of the list of public problems that the rule catches.
    """

    id: str
    severity: Severity = Severity.ERROR
    text: str
    covers: tuple[int, ...] = ()

    @property
    def title(self) -> str:
        return self.text.splitlines()[0]


@dataclass(frozen=True, kw_only=True)
class Rule(RuleText, Generic[View]):
    """One check; `text` is the function's docstring."""

    check: Callable[[View], Iterable[Fault]]

    def findings(self, view: View) -> Iterator[Finding]:
        return map(self.finding, self.check(view))

    def finding(self, fault: Fault) -> Finding:
        return Finding(rule=self.id, severity=fault.severity or self.severity, source=fault.source, message=fault.message, mend=fault.mend)


AnyRule = Rule[Any]


def rule(id: str, severity: Severity, *, covers: tuple[int, ...] = ()) -> Callable[[Callable[[View], Iterable[Fault]]], Rule[View]]:  # noqa: A002
    """Make a rule of a function; its parameter's type says which view it looks at."""

    def made(check: Callable[[View], Iterable[Fault]]) -> Rule[View]:
        return Rule(id=id, severity=severity, text=inspect.getdoc(check) or "", check=check, covers=covers)

    return made
