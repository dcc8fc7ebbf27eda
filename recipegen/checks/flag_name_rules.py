"""Rules over the names of engine flags: which there are in the declared build, and who takes them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import replace

from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import SettingView
from recipegen.engine.flag_catalogue import FlagCatalogue
from recipegen.engine.flag_history import Sighting, look_around
from recipegen.engine.flag_notes import flag_notes
from recipegen.engines import REAL

_MISSPELT = 0.93
"""How alike a name and a flag are, as difflib counts, that one must be the other misspelt: a letter left out of ten."""


@rule("flag-unknown", Severity.ERROR, covers=(2,))
def unknown(view: SettingView) -> Iterator[Fault]:
    """The engine build has no such flag.

    Neither vLLM's parser nor Dynamo's knows it: the worker stops with "unrecognized arguments" as soon as it starts, in every job,
    after nodes were allocated and the container was made. A name that is cut short counts as unknown too: argparse takes it only as
    long as no second flag begins like it. So does the short form of a flag (`-tp`), which recipegen would write with two dashes.
    Where only another build's flags are known, it is an error if the name is all but that of a flag, else a warning.

    Mend: take the near match, or leave the flag out.
    Source: vLLM 0.26 to 0.29, `engine/arg_utils.py`; Dynamo 1.2, `dynamo/vllm/args.py`.
    """
    head = view.head
    use = view.use
    if use is not None and f"-{head}" in use.spec.aliases:
        message = f"'{head}' is a short form; recipegen would write --{head}, which vLLM does not know"
        yield Fault(view.setting.name_place, message, _write(use.spec.name))
    if use is not None or head in flag_notes().refused or str(_sighting(view)):
        return
    near = _near_flag(view.catalogue, head)
    message = f"{view.catalogue.label} has no flag '{head}'; the worker stops with 'unrecognized arguments' when it starts"
    sure = view.catalogue.sure or _ratio(head, near) >= _MISSPELT
    yield Fault(view.setting.name_place, message, _successor(head) or (f"did you mean '{near}'?" if near else ""), None if sure else Severity.WARNING)


@rule("flag-removed", Severity.ERROR, covers=(2,))
def removed(view: SettingView) -> Iterator[Fault]:
    """A flag that earlier builds had is gone, or a worker does not take it any more.

    The recipe was written for another build: the worker stops with "unrecognized arguments", or with Dynamo's own refusal, as soon
    as it starts.

    Mend: what took its place, or leave it out.
    Source: the flags of vLLM 0.26 to 0.29, one against the other; Dynamo 1.2 `dynamo/vllm/args.py` for `connector`.
    """
    head = view.head
    if why := flag_notes().refused.get(head):
        yield Fault(view.setting.name_place, f"'{head}' stops the worker: {why}", _successor(head))
    elif (seen := _sighting(view)).removed:
        message = f"'{head}' was {seen}, and the worker stops with 'unrecognized arguments' when it starts"
        yield Fault(view.setting.name_place, message, _successor(head) or "leave it out", _doubt(view.catalogue))


@rule("flag-too-new", Severity.ERROR, covers=(2,))
def too_new(view: SettingView) -> Iterator[Fault]:
    """A flag comes only with a later build.

    The worker of the declared build stops with "unrecognized arguments" as soon as it starts.

    Mend: leave it out, or take the later build.
    Source: the flags of vLLM 0.26 to 0.29, one against the other.
    """
    if added := _sighting(view).added:
        message = f"'{view.head}' is new in vLLM {added}, and {view.catalogue.label} stops with 'unrecognized arguments' when it starts"
        yield Fault(view.setting.name_place, message, f"leave it out, or take vLLM {added}", _doubt(view.catalogue))


@rule("flag-serve-only", Severity.ERROR)
def serve_only(view: SettingView) -> Iterator[Fault]:
    """A flag belongs to the HTTP server of `vllm serve`, which does not run under Dynamo.

    A worker is started as `python -m dynamo.vllm`, whose parser takes the engine's flags and Dynamo's own; requests come through
    Dynamo's frontend. The worker stops with "unrecognized arguments".

    Mend: Dynamo's own flag where there is one, or leave it out.
    Source: vLLM `entrypoints/openai/cli_args.py`; Dynamo 1.2 `dynamo/vllm/args.py`.
    """
    use = view.use
    if use is not None and not use.spec.engine:
        head = view.head
        message = f"'{head}' is a flag of `vllm serve`, not of Dynamo's worker, which stops with 'unrecognized arguments' when it starts"
        yield Fault(view.setting.name_place, message, _successor(head) or "leave it out", _doubt(view.catalogue))


NAME_RULES: tuple[Rule[SettingView], ...] = (unknown, removed, too_new, serve_only)


def unless_owned(judge: Rule[SettingView]) -> Rule[SettingView]:
    """Return the rule without a word on flags that are decided elsewhere: `flag-owned` says all that there is to say of them."""
    owned = REAL.owned_flags()

    def check(view: SettingView) -> Iterable[Fault]:
        return () if view.head in owned else judge.check(view)

    return replace(judge, check=check)


def _doubt(catalogue: FlagCatalogue) -> Severity | None:
    """What is found by another release's flags is no error."""
    return None if catalogue.sure else Severity.WARNING


def _sighting(view: SettingView) -> Sighting:
    """In which other builds a flag is that this one has not."""
    if view.use is not None:
        return Sighting()
    return look_around(view.catalogue, lambda other: other.find(view.setting.name) is not None)


def _successor(head: str) -> str:
    found = flag_notes().instead.get(head)
    return _write(found) if found else ""


def _write(flag: str) -> str:
    return f"write '{flag}'"


def _near_flag(catalogue: FlagCatalogue, head: str) -> str:
    """The flag that a name is short for, or is nearest to; empty where none is near."""
    names = [spec.name for spec in catalogue.flags.values() if spec.engine]
    names += [f"no-{spec.name}" for spec in catalogue.flags.values() if spec.engine and spec.negatable]
    full = [name for name in names if name.startswith(head)]
    if len(full) == 1:
        return full[0]
    return next(iter(difflib.get_close_matches(head, names, n=1, cutoff=0.6)), "")


def _ratio(name: str, near: str) -> float:
    return 1.0 if near.startswith(name) and near else difflib.SequenceMatcher(None, name, near).ratio()
