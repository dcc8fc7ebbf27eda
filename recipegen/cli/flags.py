"""`recipegen flags`: the flags of an engine build, as data for the checks."""

from __future__ import annotations

from pathlib import Path

import click

from recipegen.cli.table import say
from recipegen.errors import InputError


@click.group(name="flags", short_help="Extract the flags of an engine build.")
def command() -> None:
    """Extract the flags of an engine build."""


@command.command(name="extract", short_help="Read the flags of a wheel or of a help text.")
@click.argument("source", metavar="WHEEL|LISTING", type=click.Path(path_type=Path))
@click.option("--vllm-version", default="", metavar="V", help="The build, as `runtime.vllm` names it; else what the input says of itself.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write FILE whole, instead of printing.")
def extract(source: Path, vllm_version: str, out: Path | None) -> None:
    """Read the flags of a vLLM or ai-dynamo wheel (a .whl file, or an unpacked folder) or of what `vllm serve --help=all` prints.

    Nothing of the input is run. The result is a file of recipegen/data/engine_flags.
    """
    from recipegen.engine.flag_format import dump_flags
    from recipegen.flag_extract.extract import extract_flags, few_flags

    table = extract_flags(source, vllm_version)
    text = dump_flags(table)
    if out is None:
        click.echo(text, nl=False)
    else:
        _write(out, text)
    say(f"{table.program} {table.version}: {len(table.flags)} flags", err=True)
    for warning in filter(None, (few_flags(table), _unread(out))):
        say(f"warning: {warning}", err=True)


def _write(out: Path, text: str) -> None:
    from recipegen.files import reason, replace_file

    try:
        replace_file(out, text.encode(), mode=0o644)
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {reason(error)}") from error
    say(f"written: {out}")


def _unread(out: Path | None) -> str:
    """What to say of a file that lies in a folder of engine flags which checks do not read: that of a checkout beside an installed copy."""
    from recipegen.cli.own_data import data_folder

    folder = data_folder("engine_flags")
    if out is None or out.absolute().parent.name != folder.name or out.resolve().parent == folder:
        return ""
    return f"checks read {folder}, not this folder; `pip install -e .` makes them read the checkout's"
