"""Rules over the values of engine flags: kinds, choices, bounds, JSON arguments and their keys."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import SettingView
from recipegen.engine.flag_catalogue import FlagCatalogue
from recipegen.engine.flag_history import look_around
from recipegen.engine.flag_misfit import Misfit, Wrong
from recipegen.engine.flag_notes import Replacement, flag_notes
from recipegen.engine.flag_spec import FlagUse
from recipegen.engine.flag_values import misfits
from recipegen.errors import Source
from recipegen.role_flags import read_json
from recipegen.settings import Value


@rule("flag-type", Severity.ERROR)
def wrong_type(view: SettingView) -> Iterator[Fault]:
    """A value is not of the kind that the flag takes.

    Text for a number, a value after a switch, a switch in place of a value, several values for one, `false` for a flag that has no
    `--no-` form, a formula for a flag that takes no number: argparse stops the worker when it starts.

    Mend: what the flag takes, as the message says.
    Source: vLLM `engine/arg_utils.py` `_compute_kwargs`, `utils/argparse_utils.py`.
    """
    return _of(view, Wrong.TYPE)


@rule("flag-choice", Severity.ERROR)
def wrong_choice(view: SettingView) -> Iterator[Fault]:
    """A value is none of the flag's choices in this build.

    argparse refuses it ("invalid choice"), or vLLM does when it looks the name up, as soon as the worker starts.

    Mend: one of the choices.
    Source: the choices of vLLM 0.26 to 0.29.
    """
    return _of(view, Wrong.CHOICE)


@rule("flag-range", Severity.ERROR)
def out_of_range(view: SettingView) -> Iterator[Fault]:
    """A number lies outside of what the engine accepts.

    argparse takes any number; pydantic refuses it when the configuration is made, before the load.

    Mend: a number inside.
    Source: the bounds (`ge`, `gt`, `le`, `lt`) of the fields in vLLM's `config/`.
    """
    return _of(view, Wrong.RANGE)


@rule("flag-json", Severity.ERROR)
def bad_json(view: SettingView) -> Iterator[Fault]:
    """A JSON argument does not parse, or is no object.

    argparse stops the worker with "cannot be converted", or vLLM with a validation error, as soon as it starts.

    Mend: write the argument as a YAML mapping, which recipegen turns into JSON.
    Source: vLLM `engine/arg_utils.py` `_compute_kwargs`.
    """
    return _of(view, Wrong.JSON)


@rule("flag-json-key", Severity.ERROR)
def bad_key(view: SettingView) -> Iterator[Fault]:
    """A JSON argument has a key that the build does not know, or a key's value is not what it takes.

    vLLM's configuration classes forbid unknown keys: the worker stops with a validation error when it starts. After a dot, keys are
    left as they are: `_` and `-` differ there.

    Mend: the near match, or what the message says.
    Source: the classes in vLLM's `config/`, which `config/utils.py` `config` makes with `extra="forbid"`.
    """
    return _of(view, Wrong.KEY)


@rule("flag-replaced", Severity.WARNING)
def replaced(view: SettingView) -> Iterator[Fault]:
    """The engine takes a value, and uses another.

    Nothing fails: vLLM logs a warning and goes on with what it puts in the place. What is measured is not what the recipe says.
    Old names of the same thing, and what is deprecated and still works, are notes.

    Mend: write what is meant.
    Source: vLLM 0.26 to 0.29, `config/parallel.py`, `config/speculative.py`, `config/attention.py`, `config/vllm.py`; the NIXL connector.
    """
    use = view.use
    if use is None or use.negative or view.setting.value is None or view.derived or not view.catalogue.sure:
        return
    for known in flag_notes().replaced_of(use.spec.name):
        value = _written(view.setting.value, use, known)
        if value is not None and known.holds(value):
            place = view.setting.place_of(tuple(known.flag.split(".")[1:]))
            yield Fault(place, f"'{known.flag}: {value}': {known.message}", known.mend, Severity.NOTE if known.note else None)


VALUE_RULES: tuple[Rule[SettingView], ...] = (wrong_type, wrong_choice, out_of_range, bad_json, bad_key, replaced)


def _of(view: SettingView, wrong: Wrong) -> Iterator[Fault]:
    """Faults of one kind; a flag that is not there, or not a worker's, and one that is taken back have none."""
    use = view.use
    for found in view.misfits:
        if use is not None and found.wrong is wrong:
            name = ".".join((use.spec.name, *found.path)) if found.path else view.setting.name
            seen = _elsewhere(view, found)
            basis = "" if view.catalogue.sure else f" (by vLLM {view.catalogue.version})"
            message = f"'{name}' {found.message}" + (f" ({seen})" if seen else "") + basis
            successor = flag_notes().instead.get(name)
            mend = f"write '{successor}'" if successor else found.mend
            yield Fault(_place(view, use, found), message, mend, None if view.catalogue.sure else Severity.WARNING)


def _place(view: SettingView, use: FlagUse, found: Misfit) -> Source:
    """Where the part that does not fit stands; keys after a dot are part of the flag's name."""
    within = found.path[len(use.keys) :]
    return view.setting.name_place if found.on_key and not within else view.setting.place_of(within, key=found.on_key)


def _elsewhere(view: SettingView, found: Misfit) -> str:
    """In which other build a choice or a key is that this one has not."""
    value = view.setting.value
    if found.wrong not in {Wrong.CHOICE, Wrong.KEY} or value is None or view.derived:
        return ""

    def takes(other: FlagCatalogue) -> bool:
        use = other.find(view.setting.name)
        return use is not None and not any((m.wrong, m.path) == (found.wrong, found.path) for m in misfits(use, value))

    return str(look_around(view.catalogue, takes))


def _written(value: Value, use: FlagUse, known: Replacement) -> object | None:
    """What the value of a flag gives, itself or at the key of a JSON argument, where that is replaced; None where it gives nothing."""
    keys = known.flag.split(".")[1:]
    if not keys or list(use.keys) == keys:
        return None if known.where and keys else value
    given = _object(value) if not use.keys else {}
    return given.get(keys[0]) if all(given.get(key) == own for key, own in known.where.items()) else None


def _object(value: object) -> dict[str, object]:
    try:
        found = read_json(value) if isinstance(value, str) else None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
