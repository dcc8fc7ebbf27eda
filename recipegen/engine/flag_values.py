"""Whether a flag takes a value, as the command line carries it: `true` is the bare flag, `false` its `--no-` form, a list several words."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.engine.flag_json import dotted_value, json_misfits, key_misfits
from recipegen.engine.flag_misfit import NUMBER, SUFFIXED, WANTED, WHOLE, Misfit, Wrong, limits, shown
from recipegen.engine.flag_spec import FlagKind, FlagSpec, FlagUse
from recipegen.settings import Value

_SUPERFLUOUS = "argparse refuses the rest as unrecognized arguments"
_COUNTS = (FlagKind.INT, FlagKind.HUMAN_INT, FlagKind.INT_OR_AUTO, FlagKind.FLOAT, FlagKind.ANY)
_BARE = (FlagKind.BOOL, FlagKind.SWITCH, FlagKind.BOOL_OR_STR, FlagKind.ANY)
_KEYED = (FlagKind.JSON, FlagKind.JSON_OR_STR, FlagKind.ANY)


def misfits(use: FlagUse, value: Value) -> Iterator[Misfit]:
    """Yield everything of a value that a flag does not take."""
    spec = use.spec
    if use.negative:
        yield from _negative(spec, value)
    elif use.keys:
        yield from _dotted(use, value)
    elif isinstance(value, bool):
        yield from _alone(spec, on=value)
    elif isinstance(value, tuple) and spec.kind not in {FlagKind.LIST, FlagKind.ANY}:
        yield Misfit(Wrong.TYPE, f"takes one value, but {len(value)} are given; {_SUPERFLUOUS}")
    else:
        for word in value if isinstance(value, tuple) else (value,):
            yield from _word(spec, word)


def derived_misfits(use: FlagUse) -> Iterator[Misfit]:
    """Yield what is wrong with a flag that is given by a formula, which gives a whole number."""
    target = use.target
    if use.negative or (target is not None and target.kind not in _COUNTS):
        yield Misfit(Wrong.TYPE, "does not take the whole number that a formula gives", "set it under `args`")
    elif use.keys:
        yield from _dotted(use, None)


def _negative(spec: FlagSpec, value: Value) -> Iterator[Misfit]:
    if value is not True:
        message = f"takes no value and has no opposite, but {shown(value)} is given; argparse stops at it"
        yield Misfit(Wrong.TYPE, message, f"write `{spec.name}: true` or `{spec.name}: false`")


def _alone(spec: FlagSpec, *, on: bool) -> Iterator[Misfit]:
    if on and spec.kind not in _BARE:
        yield Misfit(Wrong.TYPE, f"takes {WANTED[spec.kind]}, but `true` writes the flag alone; argparse stops with 'expected one argument'")
    elif not on and not spec.negatable and spec.kind is not FlagKind.ANY:
        mend = "leave it out, or write null to take an inherited one back"
        yield Misfit(Wrong.TYPE, f"cannot be false: there is no --no-{spec.name}, and argparse refuses it as unrecognized", mend)


def _word(spec: FlagSpec, word: str | int | float) -> Iterator[Misfit]:
    text = str(word)
    if spec.optional and text in {"", "None"}:
        return
    if spec.kind in {FlagKind.BOOL, FlagKind.SWITCH}:
        message = f"takes no value; {shown(word)} after it is refused as an unrecognized argument"
        yield Misfit(Wrong.TYPE, message, "write true or false, without quotes")
    elif spec.kind in {FlagKind.JSON, FlagKind.JSON_OR_STR}:
        yield from json_misfits(spec, text)
    elif spec.kind is FlagKind.LIST:
        yield from _word(FlagSpec(name=spec.name, kind=spec.item or FlagKind.ANY, choices=spec.choices), word)
    elif not _reads(spec.kind, text):
        mend = "write a list" if " " in text.strip() or "," in text else ""
        yield Misfit(Wrong.TYPE, f"takes {WANTED[spec.kind]}, not {shown(word)}; argparse stops at it", mend)
    else:
        yield from limits(spec, word)


def _reads(kind: FlagKind, text: str) -> bool:
    """Whether vLLM's conversion takes a word: Python's int and float, or a number with a suffix."""
    match kind:
        case FlagKind.INT:
            return bool(WHOLE.fullmatch(text))
        case FlagKind.HUMAN_INT:
            return bool(SUFFIXED.fullmatch(text) or WHOLE.fullmatch(text))
        case FlagKind.INT_OR_AUTO:
            return text.strip().lower() == "auto" or _reads(FlagKind.HUMAN_INT, text)
        case FlagKind.FLOAT:
            return bool(NUMBER.fullmatch(text))
        case _:
            return True


def _dotted(use: FlagUse, value: Value | None) -> Iterator[Misfit]:
    """A key given as `--flag.key VALUE`; None is a whole number that is not known yet."""
    keys = tuple(key.removesuffix("+") for key in use.keys)
    if use.spec.kind not in _KEYED:
        yield Misfit(Wrong.TYPE, "takes no keys after a dot, as it is no JSON argument; vLLM makes JSON of them, and stops at it")
    elif isinstance(value, bool):
        word = str(value).lower()
        written = "stands without a value, and vLLM takes the next word for it" if value else "is written --no-..., which is no key"
        yield Misfit(Wrong.TYPE, f"is a key that with `{word}` {written}", f'write "{word}" in quotes, or the flag as a YAML mapping')
    elif isinstance(value, tuple):
        message = f"is a key that takes one word, but {len(value)} are given; {_SUPERFLUOUS}"
        yield Misfit(Wrong.TYPE, message, "write the flag as a YAML mapping")
    else:
        inner: object = None if value is None else dotted_value(str(value), appended=use.keys[-1].endswith("+"))
        for key in reversed(keys):
            inner = {key: inner}
        yield from key_misfits(use.spec, inner)
