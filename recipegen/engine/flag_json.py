"""What the keys of a JSON argument take, as pydantic sees them: numbers and truth values may be text, text may not be a number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from recipegen.engine.flag_misfit import NUMBER, SUFFIXED, WANTED, WHOLE, Misfit, Wrong, limits, shown
from recipegen.engine.flag_spec import FlagKind, FlagSpec
from recipegen.errors import near_match
from recipegen.role_flags import read_json

_TRUTHS = frozenset({"true", "false", "1", "0", "yes", "no", "on", "off", "t", "f", "y", "n"})


def json_misfits(spec: FlagSpec, text: str) -> Iterator[Misfit]:
    """Yield what is wrong with a JSON argument; bare numbers in it may have a suffix (`80m`). A flag of text or JSON takes braces as JSON."""
    if spec.kind is FlagKind.JSON_OR_STR and not re.fullmatch(r"\s*\{.*\}\s*", text, re.DOTALL):
        return
    try:
        value = read_json(text)
    except ValueError as error:
        message = f"is no JSON ({str(error).lower()}); argparse stops at it when the worker starts"
        yield Misfit(Wrong.JSON, message, "write it as a YAML mapping")
        return
    if spec.keys and not isinstance(value, dict):
        yield Misfit(Wrong.JSON, f"takes a JSON object, not {shown(value)}; vLLM refuses it when the worker starts", "write it as a YAML mapping")
    else:
        yield from key_misfits(spec, value)


def dotted_value(text: str, *, appended: bool) -> object:
    """What vLLM makes of `--flag.key VALUE`: JSON, else a number with a suffix, else text; after `key+`, a list."""
    if appended:
        return text.split(",")
    try:
        return read_json(text, suffixes=False)
    except ValueError:
        return _count(text.strip()) if SUFFIXED.fullmatch(text) else text


def key_misfits(spec: FlagSpec, value: object, path: tuple[str, ...] = ()) -> Iterator[Misfit]:
    """Yield what a JSON argument's value breaks, key by key; null always fits, and what is not known takes anything."""
    if value is None or spec.kind is FlagKind.ANY:
        return
    if not _fits(spec.kind, value):
        yield Misfit(Wrong.KEY, f"takes {WANTED[spec.kind]}, not {shown(value)}; vLLM refuses it when the worker starts", path=path)
    elif isinstance(value, dict):
        for key, own in value.items() if spec.keys else ():
            if key in spec.keys:
                yield from key_misfits(spec.keys[key], own, (*path, key))
            else:
                mend = near_match(key.replace("-", "_"), spec.keys)
                message = "is no key of it; vLLM refuses keys that it does not know when the worker starts"
                yield Misfit(Wrong.KEY, message, mend, (*path, key), on_key=True)
    elif isinstance(value, list):
        for own in value if spec.item else ():
            yield from key_misfits(FlagSpec(name=spec.name, kind=spec.item or FlagKind.ANY, choices=spec.choices), own, path)
    else:
        yield from (replace(found, wrong=Wrong.KEY, path=path) for found in limits(spec, value))


def _count(suffixed: str) -> int:
    """A whole number in the place of one with a suffix: what it comes to does not matter to its kind."""
    return int(min(float(suffixed[:-1]), 2**53))


def _fits(kind: FlagKind, value: object) -> bool:
    fits = _FITS.get(kind)
    return fits is None or fits(value)


def _truth(value: object) -> bool:
    return value.lower() in _TRUTHS if isinstance(value, str) else isinstance(value, bool | int | float) and value in {0, 1}


def _whole(value: object) -> bool:
    if isinstance(value, str):
        return bool(WHOLE.fullmatch(re.sub(r"\.0+(?=\s*$)", "", value)))
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def _number(value: object) -> bool:
    return bool(NUMBER.fullmatch(value)) if isinstance(value, str) else isinstance(value, int | float)


_FITS: dict[FlagKind, Callable[[object], bool]] = {
    FlagKind.BOOL: _truth,
    FlagKind.SWITCH: _truth,
    FlagKind.INT: _whole,
    FlagKind.HUMAN_INT: _whole,
    FlagKind.INT_OR_AUTO: _whole,
    FlagKind.FLOAT: _number,
    FlagKind.STR: lambda value: isinstance(value, str),
    FlagKind.ENUM: lambda value: isinstance(value, str | int | float),
    FlagKind.LIST: lambda value: isinstance(value, list),
    FlagKind.JSON: lambda value: isinstance(value, dict),
}
