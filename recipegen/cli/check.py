"""`recipegen check`: everything that is known to fail, before anything runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recipegen.cli.connect import Session
from recipegen.cli.findings import findings_of, refusal_of
from recipegen.cli.matrices import check_path
from recipegen.cli.table import printable
from recipegen.errors import InputError

if TYPE_CHECKING:
    from recipegen.checks.finding import Finding
    from recipegen.checks.run import Cluster
    from recipegen.pipeline import Checked


@click.command(name="check", short_help="Check a matrix against everything that is known to fail.")
@click.argument("path", type=click.Path(path_type=Path), required=False)
@click.option("--point", help="Only this point.")
@click.option("--cluster", help="Also against a cluster profile: its name or its file.")
@click.option("--format", "output", default="text", type=click.Choice(["text", "json", "github", "sarif"]), help="For people, or for programs.")
@click.option("--explain", "rule", metavar="RULE", help="What a rule is about, instead of a check; `all` prints the page of all rules.")
@click.pass_obj
def command(session: Session, path: Path | None, point: str | None, cluster: str | None, output: str, rule: str | None) -> None:
    """Check PATH: a matrix file, a leaf folder, or a tree of them. Exit 1 when there are errors, 2 when an input cannot be used."""
    if rule is not None:
        if path is not None:
            raise click.UsageError("--explain tells of a rule instead of checking a PATH: leave one out")
        _explain(rule)
        return
    if path is None:
        raise InputError("PATH is missing: a matrix file, a leaf folder, or a tree of them")
    try:
        files, checked = _check(session, path, point, cluster)
    except InputError as error:
        if output != "text":
            _print(output, [str(path)], findings_of(error))
        raise
    _print(output, files, [finding for one in checked for finding in one.findings])
    if refusal := refusal_of(checked, f"{path} is not fit to be submitted"):
        raise refusal


def _check(session: Session, path: Path, point: str | None, cluster: str | None) -> tuple[list[str], list[Checked]]:
    found = check_path(path, point, cluster=None if cluster is None else _site(session, cluster))
    return [str(matrix) for matrix, _ in found], [checked for _, checked in found]


def _site(session: Session, cluster: str) -> Cluster | None:
    """The profile to check against; the built-in one runs simulations only, for which there is nothing to check."""
    from recipegen.checks.run import Cluster
    from recipegen.cli.profiles import find_profile

    found = find_profile(session.environ, cluster)
    return None if found.profile.scheduler == "local" else Cluster(profile=found.profile, source=found.source)


def _explain(rule: str) -> None:
    from recipegen.checks.explain import explain, rules_page

    click.echo((rules_page() if rule == "all" else explain(rule)).rstrip("\n"))


def _print(output: str, files: Sequence[str], findings: Sequence[Finding]) -> None:
    from recipegen.checks.output import as_github, as_json, as_sarif

    match output:
        case "json":
            click.echo(as_json(files, findings))
        case "sarif":
            click.echo(as_sarif(findings))
        case "github":
            if text := as_github(findings):
                click.echo(printable(text, keep="\n"))
        case _:
            _print_text(files, findings)


def _print_text(files: Sequence[str], findings: Sequence[Finding]) -> None:
    for finding in findings:
        click.echo(printable(f"allowed {finding} (reason: {finding.allowed})" if finding.allowed else str(finding)))
    counts = Counter("allowed" if finding.allowed else finding.severity.value for finding in findings)
    counted = [f"{number} {name}{'s' if number > 1 and name != 'allowed' else ''}" for name, number in counts.items()]
    click.echo(f"{len(files)} {'matrix' if len(files) == 1 else 'matrices'}: {', '.join(counted) or 'nothing found'}", err=True)
