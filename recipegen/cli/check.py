"""`recipegen check`: everything that is known to fail, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recipegen.cli.connect import Session
from recipegen.cli.findings import refusal_of
from recipegen.cli.table import printable
from recipegen.errors import InputError
from recipegen.leaf import find_matrices, read_matrix

if TYPE_CHECKING:
    from recipegen.checks.finding import Finding
    from recipegen.checks.run import Cluster


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
        _explain(rule)
        return
    if path is None:
        raise InputError("PATH is missing: a matrix file, a leaf folder, or a tree of them")
    from recipegen.pipeline import check_matrix

    site = _site(session, cluster) if cluster else None
    matrices = find_matrices(path)
    checked = [check_matrix(read_matrix(m), str(m), points=[point] if point else [], cluster=site) for m in matrices]
    findings = [finding for one in checked for finding in one.findings]
    _print(output, [str(m) for m in matrices], findings)
    if refusal := refusal_of(checked, f"{path} is not fit to be submitted"):
        raise refusal


def _site(session: Session, cluster: str) -> Cluster:
    from recipegen.checks.run import Cluster
    from recipegen.cli.profiles import find_profile

    found = find_profile(session.environ, cluster)
    return Cluster(profile=found.profile, source=found.source)


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
        click.echo(printable(str(finding)) + (f" (allowed: {printable(finding.allowed)})" if finding.allowed else ""))
    if not findings:
        click.echo(f"{len(files)} {'matrix' if len(files) == 1 else 'matrices'}: nothing found", err=True)
