"""`recipegen submit`: hand one bundle to a cluster, exactly as it was reviewed."""

from __future__ import annotations

import secrets
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from recipegen.cli.connect import Session
from recipegen.cli.findings import refuse_errors
from recipegen.cli.follow import Goal, conclude, detachable, follow, shown
from recipegen.cli.profiles import find_profile
from recipegen.clusters import ClusterProfile, profile_to_json
from recipegen.errors import InputError
from recipegen.launch import Bundle, LaunchPlan
from recipegen.leaf import compare, find_matrices, leaf_files, read_matrix
from recipegen.matrix import parse_duration
from recipegen.profile_files import FoundProfile
from recipegen.runs import format_run, new_run_id
from recipegen.scheduler.slurm import submit_command
from recipegen.submission import Prepared, prepare, submit


@click.command(name="submit", short_help="Submit a bundle to a cluster.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--point", required=True, help="The point to submit.")
@click.option("--cluster", default="local", show_default=True, help="A cluster profile: its name or its file; `local` needs no Slurm.")
@click.option("--simulate", is_flag=True, help="Mockers in the place of the engines: the same job without GPUs.")
@click.option("--time", "limit", help="Another time limit than the recipe's, H:MM:SS; recorded with the run.")
@click.option("--watch", is_flag=True, help="Follow the run until it is READY.")
@click.option("--dry-run", is_flag=True, help="Write and run nothing; print every file and command.")
@click.option("--format", "output", default="text", type=click.Choice(["text", "json"]), help="With --watch: text, or one JSON object a change.")
@click.pass_obj
def command(
    session: Session, path: Path, point: str, cluster: str, simulate: bool, limit: str | None, watch: bool, dry_run: bool, output: str
) -> None:
    """Submit one point of PATH, a matrix file or a leaf folder, and print the run's id."""
    found = find_profile(session.environ, cluster)
    profile = found.profile
    time_limit_s = None if limit is None else _limit(limit, profile)
    plan, bundle = _reviewed(path, point, found, time_limit_s, simulate=simulate)
    if profile.scheduler == "local" and not simulate:
        hint = "add --simulate, or name a cluster with --cluster"
        raise InputError(f"cluster {profile.name} is this machine, which runs simulations only", hint=hint)
    now = session.clock.now()
    prepared = prepare(
        plan,
        bundle,
        profile,
        run_id=new_run_id(point, now, secrets.token_hex(2)),
        now=now,
        profile_json=profile_to_json(profile),
        time_limit_s=time_limit_s,
    )
    if dry_run:
        _print_dry_run(prepared, profile)
        return
    machine = session.connect(prepared.record.cluster, profile.scheduler)
    with unwinding():
        record = submit(prepared, machine.transport, machine.scheduler, session.index, now=session.clock.now())
    click.echo(f"submitted job {record.job} to {profile.name}; run folder {record.run_dir}", err=True)
    if not watch:
        click.echo(record.id)
        return
    click.echo(f"run {record.id}", err=True)
    tracker = session.track([record], machine)
    with detachable(record), shown(session, output) as show:
        last = follow(tracker, Goal.READY.reached, deadline=None, show=show)
    conclude(Goal.READY, last)


def _reviewed(path: Path, point: str, found: FoundProfile, time_limit_s: int | None, *, simulate: bool) -> tuple[LaunchPlan, Bundle]:
    """The plan and the bundle as committed; one that checks refuse, or that is not what the matrix renders, is no reviewed one."""
    from recipegen.checks.run import Cluster
    from recipegen.pipeline import check_matrix, render_plans

    matrices = find_matrices(path)
    if len(matrices) > 1:
        raise InputError(f"{path} holds {len(matrices)} matrices; name the leaf folder of one")
    leaf = matrices[0].parent
    site = None if simulate or found.profile.scheduler == "local" else Cluster(profile=found.profile, source=found.source)
    checked = check_matrix(read_matrix(matrices[0]), str(matrices[0]), points=[point], simulate=simulate, cluster=site, time_limit_s=time_limit_s)
    refuse_errors([checked], "nothing was submitted")
    (plan,) = checked.plans
    (bundle,) = render_plans([plan])
    if not simulate and (differences := compare(leaf, leaf_files([bundle]), only_point=point)):
        listed = ", ".join(f"{what} {name}" for what, name in differences.lines()[:5])
        raise InputError(f"the bundle in {leaf} is not what its matrix renders: {listed}", hint=f"recipegen render {path}, and have it reviewed")
    return plan, bundle


@contextmanager
def unwinding() -> Iterator[None]:
    """Have TERM and HUP take back what was begun, as Ctrl-C does."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    old = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _limit(text: str, profile: ClusterProfile) -> int:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise InputError(f"--time: {error}") from None
    if seconds <= profile.reserve_s:
        raise InputError(f"--time {text} leaves nothing beside the reserve of {profile.reserve_s} s for the tear-down")
    return seconds


def _print_dry_run(prepared: Prepared, profile: ClusterProfile) -> None:
    submission, record = prepared.submission, prepared.record
    click.echo(f"# run {record.id} on {profile.name}, bundle {record.digest}")
    click.echo(f"mkdir {shlex.quote(record.run_dir)}")
    for name, data in prepared.files.items():
        click.echo(f"write {shlex.quote(name)}  # {len(data)} bytes")
    click.echo(f"write {shlex.quote(record.paths.record)}")
    for name, data in {record.paths.site_env: prepared.files[record.paths.site_env], record.paths.record: format_run(record)}.items():
        click.echo(f"\n# {name}\n{data.decode()}", nl=False)
    command = submit_command(submission) if profile.scheduler == "slurm" else ("bash", submission.script, *submission.args)
    click.echo("\n" + shlex.join(command))
