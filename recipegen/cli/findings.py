"""Findings on standard error, and the refusal that follows from errors: what render, plan and submit share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from recipegen.cli.table import say
from recipegen.errors import ChecksFailed, InputError, RecipegenError

if TYPE_CHECKING:
    from recipegen.checks.finding import Finding
    from recipegen.pipeline import Checked

_HINT = "`recipegen check --explain RULE` tells more of a rule in [brackets]"


MOST_WARNINGS = 10
"""More warnings are counted: those of a tree would bury what a command has to say."""


def show_findings(checked: Iterable[Checked]) -> None:
    """Print errors, and the first warnings; the others, what the matrix allows, and notes are for `check` alone."""
    from recipegen.checks.finding import Severity

    found = [finding for one in checked for finding in one.findings if not finding.allowed]
    warnings = [finding for finding in found if finding.severity is Severity.WARNING]
    shown = {id(finding) for finding in warnings[:MOST_WARNINGS]}
    for finding in found:
        if finding.severity is Severity.ERROR or id(finding) in shown:
            say(str(finding), err=True)
    if more := len(warnings) - len(shown):
        click.echo(f"{more} more warnings; `recipegen check` shows all", err=True)


def refuse_errors(checked: Sequence[Checked], what: str) -> None:
    """Print findings; raise InputError when an input could not be used, ChecksFailed when there are errors else."""
    show_findings(checked)
    if refusal := refusal_of(checked, what):
        raise refusal


def refusal_of(checked: Sequence[Checked], what: str) -> RecipegenError | None:
    """The exception that stands for the errors found, `what` telling what comes of them."""
    errors: list[Finding] = [finding for one in checked for finding in one.errors]
    if not errors:
        return None
    message = f"{len(errors)} {'error' if len(errors) == 1 else 'errors'}: {what}"
    return ChecksFailed(message, hint=_HINT) if all(one.usable for one in checked) else InputError(message, hint=_HINT)


def findings_of(error: InputError) -> list[Finding]:
    """An input that cannot be used as findings, for output that programs read."""
    from recipegen.checks.registry import ARGUMENT
    from recipegen.checks.run import finding_of
    from recipegen.errors import NOWHERE, Problem

    problems = error.problems or (Problem(NOWHERE, str(error), error.hint),)
    return [finding_of(problem if problem.rule else replace(problem, rule=ARGUMENT.id)) for problem in problems]
