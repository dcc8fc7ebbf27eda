"""`recipegen model`: add a model from its `config.json`, or list the known ones."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recipegen.cli.table import printable, say
from recipegen.errors import InputError, Problem, Source
from recipegen.files import read_regular, reason, replace_file

if TYPE_CHECKING:
    from recipegen.model import ModelSpec

_KEY = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_MOST_INDEX_BYTES = 512 << 20
"""Indices of models with many experts hold a line for each of their tensors: some tens of MB."""
_STDOUT = Path("-")
_OPTIONS = ("repo", "revision", "served_name", "checkpoint_bytes")
"""Keys of the data file that options of the same name give."""


@click.group(name="model", short_help="Add a model from its config.json, or list the known ones.", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Add a model from the config.json of its checkpoint, or list the known ones."""
    if ctx.invoked_subcommand is None:
        raise click.UsageError("no command; expected add or list", ctx)


@command.command(name="list", short_help="List the models that are known.")
@click.option("--format", "output", default="text", type=click.Choice(["text", "json"]), help="One key a line, or a JSON list.")
def list_models(output: str) -> None:
    """List the keys that `model:` of a matrix takes."""
    from recipegen.catalogue import model_keys

    if output == "json":
        import json

        click.echo(json.dumps(model_keys(), indent=2))
    else:
        for key in model_keys():
            click.echo(key)


@command.command(name="add", short_help="Add a model from its config.json.")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--repo", required=True, help="The repository on the hub, ORG/NAME.")
@click.option("--revision", required=True, help="The commit on the hub: 40 hex digits.")
@click.option("--served-name", help="The name that clients ask for; default: NAME of --repo.")
@click.option("--checkpoint-bytes", type=click.IntRange(min=1), help="Bytes of the safetensors files.")
@click.option("--index", type=click.Path(path_type=Path), help="A model.safetensors.index.json, which says --checkpoint-bytes.")
@click.option("--key", help="The model's key in a matrix; default: NAME of --repo in lower case.")
@click.option("--out", type=click.Path(path_type=Path), help="Write this file, or `-` for standard output; default: where models are looked up.")
@click.option("--force", is_flag=True, help="Overwrite a file that is there.")
def add(
    config: Path,
    repo: str,
    revision: str,
    served_name: str | None,
    checkpoint_bytes: int | None,
    index: Path | None,
    key: str | None,
    out: Path | None,
    force: bool,
) -> None:
    """Write the data file of the model that CONFIG, a config.json from the Hugging Face hub, describes."""
    from recipegen.hf_config import format_model, make_key, read
    from recipegen.model import ModelSpec

    reading = read(_read(config), str(config))
    spec = ModelSpec(
        key=_checked_key(key or make_key(repo)),
        repo=repo,
        revision=revision,
        served_name=served_name or repo.rpartition("/")[2],
        checkpoint_bytes=_bytes(checkpoint_bytes, index),
        architecture=reading.architecture,
    )
    data = format_model(spec, reading.notes)
    _check(spec, data)
    for note in reading.notes:
        say(f"note: {note}", err=True)
    if out == _STDOUT:
        click.echo(data.decode(), nl=False)
    else:
        _write(out or _data_folder() / f"{spec.key}.yaml", data, force=force)


def _read(path: Path, *, most: int | None = None) -> bytes:
    try:
        return read_regular(str(path), most=most) if most else read_regular(str(path))
    except OSError as error:
        raise InputError([Problem(Source(str(path)), f"cannot be read: {reason(error)}")]) from None


def _checked_key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise InputError(
            f"{printable(key)!r} is no key of a model; expected lower-case letters, digits, '.', '_' and '-'", hint="choose one with --key"
        )
    return key


def _bytes(stated: int | None, index: Path | None) -> int:
    if index is None:
        return stated or 0
    if stated:
        raise InputError("--index and --checkpoint-bytes both say the bytes of the checkpoint: give one")
    from recipegen.hf_config import read_total_size

    return read_total_size(_read(index, most=_MOST_INDEX_BYTES), str(index))


def _check(spec: ModelSpec, data: bytes) -> None:
    """Load what is to be written as the catalogue would: values that a data file does not take are named by their option."""
    from recipegen.catalogue import make_architecture
    from recipegen.matrix_schema import ModelSchema
    from recipegen.yamlsource import parse_yaml, validate

    try:
        loaded = validate(parse_yaml(data, f"{spec.key}.yaml"), ModelSchema)
    except InputError as error:
        raise InputError("\n".join(map(_by_option, error.problems))) from None
    if loaded.architecture is None or make_architecture(loaded.architecture) != spec.architecture:
        raise AssertionError(f"{spec.key}: the data file does not say what was read")


def _by_option(problem: Problem) -> str:
    """A problem of the data file as one of the option that the value comes from."""
    name, colon, rest = problem.message.partition(": ")
    option = f"--{name.replace('_', '-')}" if name in _OPTIONS else name
    return f"{option}{colon}{rest}" + (f"; {problem.hint}" if problem.hint else "")


def _data_folder() -> Path:
    """Where models are looked up, provided that what is written there stays."""
    from recipegen.cli.own_data import data_folder, is_installed_copy

    folder = data_folder("models")
    if is_installed_copy(folder):
        hint = "--out chooses a place; models are looked up in a checkout that is installed with `pip install -e .`"
        raise InputError(f"{folder} is an installed copy, which the next install replaces: nothing is written there", hint=hint)
    return folder


def _write(path: Path, data: bytes, *, force: bool) -> None:
    if os.path.lexists(path) and not force:
        raise InputError(f"{path} is there already", hint="--force overwrites it, --key and --out choose another place")
    try:
        replace_file(path, data, mode=0o644)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {reason(error)}", hint="--out chooses another place, `--out -` prints") from None
    say(f"written: {path}")
