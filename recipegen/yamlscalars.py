"""What a YAML scalar means, provided that every YAML reader agrees on it.

Read are the words and numbers that YAML 1.1 and the 1.2 core schema read alike: `true`, `Null`, `~`, `12`, `0x1F`, `1.5`, `.5`,
`1.0e+3`. What one takes for a word or number, and the other for something else, is an error that asks for quotes: `on`, `010`,
`1:30:00`, `1_000`, `1e3`, `-.5`. All other text is a string; so are dates, which 1.2 does not know.
"""

from __future__ import annotations

import math
import re

CORE = "tag:yaml.org,2002:"
FORBIDDEN = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069\\ufeff\\ufffe\\uffff\\ud800-\\udfff]")
"""Control characters, foreign line ends, marks that reorder text on the screen, what UTF-8 cannot hold."""

_INT64 = 1 << 63
_INT64_LENGTH = len(f"{-_INT64}")
_SHOWN = 60
_WORDS = {spelled: value for word, value in (("true", True), ("false", False), ("null", None)) for spelled in (word, word.title(), word.upper())}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"(?:[-+]?(?:0|[1-9][0-9]*)\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]+)?")
_TAGGED: dict[str, type | tuple[type, ...]] = {"int": int, "float": (int, float), "bool": bool, "null": type(None)}
_SURPRISES = tuple(
    (re.compile(pattern), f"{reading}; expected {wanted}, or quotes around it")
    for pattern, reading, wanted in (
        ("y|Y|yes|Yes|YES|on|On|ON", "is true to some YAML readers and text to others", "true"),
        ("n|N|no|No|NO|off|Off|OFF", "is false to some YAML readers and text to others", "false"),
        (r"[-+]?[0-9][0-9_]*(?::[0-9]+)+(?:\.[0-9_]*)?", "is a number in base 60 to some YAML readers", "a plain number"),
        (r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "is not a finite number", "one"),
        (r"[-+]?0o[0-7]+", "is an octal number to some YAML readers and text to others", "a decimal number"),
        (r"[-+]?0b[01_]+", "is a binary number to some YAML readers and text to others", "a decimal number"),
        (r"[-+]?0x[0-9a-fA-F_]+", "is a number to some YAML readers and text to others", "hexadecimal digits without a sign or '_'"),
        (r"[-+]?0[0-9]+(?:\.[0-9]*)?", "is an octal number to some YAML readers and a decimal one to others", "no leading zero"),
        (
            r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?",
            "is a number to some YAML readers and text to others",
            "digits around a point (1000, -0.5, 1.0e+3)",
        ),
    )
)


class UnreadableScalarError(Exception):
    """A scalar without one meaning; the message says what it is and what was expected, `rule` which rule it breaks."""

    def __init__(self, message: str, rule: str = "yaml-scalar") -> None:
        super().__init__(message)
        self.rule = rule


def read_scalar(text: str, *, plain: bool, tag: str | None) -> str | int | float | bool | None:
    """Return the value of a scalar with this text, or raise UnreadableScalarError; quoted text is a string."""
    if tag is not None and tag != CORE + "str":
        return _read_tagged(text, tag)
    if plain and tag is None:
        return _resolve(text)
    if bad := FORBIDDEN.search(text):
        raise UnreadableScalarError(forbidden_message(bad.group()), "text-control")
    return text


def quote(text: str) -> str:
    """Return text for a message: quoted, escaped, shortened."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")


def tag_message(tag: str, holder: str) -> str:
    """Say that `holder` cannot carry this tag."""
    shown = "!!" + tag.removeprefix(CORE) if tag.startswith(CORE) else tag
    return f"tag {quote(shown)} is not allowed on {holder}; expected no tag"


def forbidden_message(character: str) -> str:
    """Say what is wrong with a character that FORBIDDEN matches."""
    if character == "\r":
        return "a carriage return without a newline; expected a newline"
    return f"character U+{ord(character):04X} is not allowed; expected printable text"


def _read_tagged(text: str, tag: str) -> int | float | bool | None:
    name = tag.removeprefix(CORE)
    if name == tag or name not in _TAGGED:
        raise UnreadableScalarError(tag_message(tag, "a text or number"), "yaml-tag")
    data = _resolve(text)
    if isinstance(data, str) or not isinstance(data, _TAGGED[name]) or (isinstance(data, bool) and name != "bool"):
        raise UnreadableScalarError(f"{quote(text)} does not fit its tag !!{name}; expected no tag", "yaml-tag")
    return float(data) if name == "float" and data is not None else data


def _resolve(text: str) -> str | int | float | bool | None:
    if text in ("", "~") or text in _WORDS:
        return _WORDS.get(text)
    if text[0] not in "+-.0123456789yYnNoO":
        return text
    if _INT.fullmatch(text):
        return _read_int(text)
    if _FLOAT.fullmatch(text):
        if math.isinf(float(text)):
            raise UnreadableScalarError(f"{quote(text)} is too large; expected a smaller number, or quotes around it")
        return float(text)
    for pattern, message in _SURPRISES:
        if pattern.fullmatch(text):
            raise UnreadableScalarError(f"{quote(text)} {message}")
    return text


def _read_int(text: str) -> int:
    number = int(text, 0) if len(text) <= _INT64_LENGTH else _INT64
    if not -_INT64 <= number < _INT64:
        raise UnreadableScalarError(f"{quote(text)} does not fit in 64 bits; expected a smaller number, or quotes around it")
    return number
