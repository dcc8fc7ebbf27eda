"""The command line: finds the verb, runs it, and turns what it raises into words and an exit code."""

from __future__ import annotations

import gc
import importlib
import keyword
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn, TextIO

import click

from recipegen import __version__
from recipegen.cli.table import printable
from recipegen.errors import InputError, RecipegenError, near_match

VERBS = {
    "render": "Write the bundles of a matrix, or check that they are fresh.",
    "check": "Check a matrix against everything that is known to fail.",
    "plan": "Show nodes, sizes, processes, ports and commands of a point.",
    "submit": "Submit a bundle to a cluster.",
    "diff": "Show what a change of matrices changes in what runs.",
    "import": "Make matrices of srt-slurm recipes.",
    "export": "Write points as srt-slurm recipes, InferenceX entries or plain commands.",
    "set": "Change values of a matrix and nothing else in the file.",
    "index": "Write the table of all recipes, or check that it is fresh.",
    "schema": "Print the JSON schema of a matrix or a cluster profile.",
    "size": "Size topologies without a matrix, or show what is measured.",
    "model": "Add a model from its config.json, or list the known ones.",
    "flags": "Extract the flags of an engine build.",
    "status": "Show the runs, or one run.",
    "watch": "Follow a run until it is ready or has ended.",
    "wait": "Wait until a run is ready or has ended.",
    "cancel": "End a run.",
}
"""Every verb and what it does; the module of `module_of` holds its `command`, and is imported when it runs."""

INTERRUPTED = 130
_GC_THRESHOLD = 50_000
"""What a verb makes lives until it ends: looking through it every 700 objects costs a tenth of its time, and more of a large matrix's."""
BROKEN_PIPE = 141


def module_of(verb: str) -> str:
    """The module of a verb; `import`, being a word of Python, has an underscore behind it."""
    return f"recipegen.cli.{verb}{'_' * keyword.iskeyword(verb)}"


class VerbGroup(click.Group):
    """Imports a verb's module only to run it: `--help` and completion stay quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(module_of(cmd_name)).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in VERBS or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        raise InputError(f"no such verb: {name!r}", hint=near_match(name, VERBS) or "`recipegen --help` lists the verbs")

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401  # click's signature
        """Run the verb; a reader that went away (`| head`) is no error of ours."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _silence(sys.stdout)
            ctx.exit(BROKEN_PIPE)
        except OSError as error:
            if error.filename is not None:
                raise
            # of the calls that verbs make themselves, only those that write their output name no file
            _silence(sys.stdout)
            from recipegen.files import reason

            raise RecipegenError(f"the output cannot be written: {reason(error)}") from error
        return result

    def main(self, args: Sequence[str] | None = None, *more: Any, **extra: Any) -> NoReturn:  # noqa: ANN401
        """Run and exit; the one place that catches."""
        extra["standalone_mode"] = False
        gc.set_threshold(_GC_THRESHOLD)
        _open_standard_streams()
        try:
            result = super().main(args, *more, **extra)
        except RecipegenError as error:
            _explain(error)
            sys.exit(error.exit_code)
        except click.ClickException as error:
            _explain_usage(error)
            sys.exit(error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        sys.exit(result if isinstance(result, int) else 0)


@click.group(cls=VerbGroup, name="recipegen", context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="recipegen", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """From a topology matrix to a live, disaggregated vLLM/Dynamo endpoint on Slurm."""
    from recipegen.cli.connect import Session  # not for --help

    ctx.obj = ctx.obj or Session.of_process(os.environ, terminal=sys.stdout.isatty())
    if ctx.obj.environ.get("NO_COLOR") or ctx.obj.environ.get("TERM") == "dumb":
        ctx.color = False


def _explain(error: RecipegenError) -> None:
    """Say what is wrong, problem by problem, and what to do next; on standard error."""
    problems = error.problems if isinstance(error, InputError) else ()
    for problem in problems:
        _complain(f"error: {problem}" + (f" [{problem.rule}]" if problem.rule else ""))
    if not problems:
        _complain(f"error: {error}")
    if error.hint:
        _complain(f"hint: {error.hint}")


def _explain_usage(error: click.ClickException) -> None:
    """Say what click found wrong, as we say things."""
    _complain(f"error: {error.format_message()}")
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        _complain(f"hint: `{context.command_path} --help` tells how it is used")


def _complain(text: str) -> None:
    """Write to standard error; where that is full or gone, the exit code has to say it alone.

    Further lines are marked: what a name or a program said must not pass for a line of ours, or for a CI runner's command.
    """
    try:
        click.echo(printable(text, keep="\n").replace("\n", "\n| "), err=True)
    except OSError:
        _silence(sys.stderr)


def _silence(stream: TextIO) -> None:
    """Have what is still buffered not tried again at exit: https://docs.python.org/3/library/signal.html#note-on-sigpipe."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_standard_streams() -> None:
    """Put /dev/null where a standard stream was closed (`>&-`): a file of ours must not get its number, nor Python miss it."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
