"""Events of PyYAML's parser, and what it says of broken syntax in our words, with a place and a hint."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import yaml

from recipegen.yamlscalars import quote


class StopError(Exception):
    """A problem after which the rest of the file cannot be judged."""

    def __init__(self, index: int, message: str, hint: str = "", *, rule: str = "yaml-syntax") -> None:
        super().__init__(index, message)
        self.index, self.message, self.hint, self.rule = index, message, hint, rule


_SYNTAX = (  # part of the parser's message, ours, whether it concerns the place where the construct began
    ("could not find expected ':'", "no ': ' follows; expected 'key: value'", True),
    ("mapping values are not allowed", "a ': ' is not allowed here; expected quotes around text with ': ', or another indentation", False),
    ("sequence entries are not allowed", "a '- ' is not allowed here; expected a list on lines of its own", False),
    ("mapping keys are not allowed", "a '? ' is not allowed here; expected 'key: value'", False),
    ("scanning a quoted scalar: found unexpected", "the quote that opens here is never closed", True),
    ("double-quoted scalar", "{found} is no escape; expected one that YAML knows, such as \\n or \\u00e9, or single quotes", False),
    ("parsing a block mapping", "{found} does not fit here; expected a key, indented like the other keys of its mapping", False),
    ("parsing a block collection", "{found} does not fit here; expected '- ', indented like the other entries of its list", False),
    ("parsing a flow sequence", "{found} does not fit here; expected ',' or ']', or quotes around the text", False),
    ("parsing a flow mapping", "{found} does not fit here; expected ',' or '}}', or quotes around the text", False),
    ("parsing a flow node", "{found} does not fit here; expected a value", False),
    ("parsing a block node", "{found} does not fit here; expected a value", False),
    ("undefined tag handle", "an undefined tag; expected no tag", False),
    (" a tag", "a broken tag; expected no tag", True),
    ("scanning an anchor", "a broken anchor; expected letters, digits, '-' or '_' after '&'", True),
    ("scanning an alias", "a broken alias; expected letters, digits, '-' or '_' after '*'", True),
    ("scanning a block scalar", "{found} does not fit here; expected a line end, or first '+', '-' or a digit, after '|' or '>'", False),
    ("cannot start any token", "{found} cannot begin a value; expected quotes around it", False),
    ("yaml document", "an unknown YAML version; expected no directive", False),
    ("directive", "a broken directive; expected none", False),
)
_SYNTAX_RULES = (
    *((part, "yaml-tag") for part in ("undefined tag handle", " a tag")),
    *((part, "yaml-alias") for part in ("scanning an anchor", "scanning an alias")),
    *((part, "yaml-document") for part in ("yaml document", "directive")),
)


def events(loader: yaml.SafeLoader | yaml.CSafeLoader) -> Iterator[yaml.Event]:
    """Yield a loader's events; yaml.YAMLError where the syntax is broken."""
    try:
        while (event := loader.get_event()) is not None:
            yield event
    finally:
        loader.dispose()


def python_events(text: str) -> Iterator[yaml.Event]:
    """Yield the events of PyYAML's own parser; StopError where the syntax is broken."""
    loader = yaml.SafeLoader(text)
    try:
        yield from events(loader)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(text, error) from None
    except (ValueError, OverflowError):  # from chr()
        raise StopError(loader.index, "an escape beyond \\U0010ffff; expected a character that exists") from None


@lru_cache(maxsize=1)
def without_values(text: str) -> str:
    """Return a text that can be parsed with an `x` for each character of a scalar: what begins with '#' then is a comment."""
    masked, end = [], 0
    for start, stop in _scalars(text):
        masked += [text[end:start], re.sub(r"[^\n]", "x", text[start:stop])]
        end = stop
    return "".join([*masked, text[end:]])


def _scalars(text: str) -> Iterator[tuple[int, int]]:
    """Where scalars stand; of a block, what follows its head line, which may have a comment."""
    for token in yaml.scan(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(token, yaml.ScalarToken):
            start = text.find("\n", token.start_mark.index) if token.style in {"|", ">"} else token.start_mark.index
            yield start, max(start, token.end_mark.index)


def _syntax_error(text: str, error: yaml.MarkedYAMLError) -> StopError:
    index = error.problem_mark.index if error.problem_mark else 0
    if text[index : index + 1] == "\t":
        return _tab_error(text, index)
    said = f"{error.context}: {error.problem}".lower()
    message, at_start = next(((ours, start) for part, ours, start in _SYNTAX if part in said), ("{found} does not fit here", False))
    began = error.context_mark
    if at_start and began:
        index = began.index
    hint = _syntax_hint(text, index)
    if not hint and began and "parsing a flow" in said and text.count("\n", began.index, index):
        hint = f"it belongs to what opens on line {began.line + 1}"
    rule = next((rule for part, rule in _SYNTAX_RULES if part in said), "yaml-syntax")
    return StopError(index, message.format(found=_found(text, index)), hint, rule=rule)


def _syntax_hint(text: str, index: int) -> str:
    """Recognize two slips that show only later: `key:value`, and a quote within quotes."""
    before = text[:index].rsplit("\n", 2)
    if any(re.match(r"[ -]*\w[\w-]*:[^\s/:]", line) for line in before[-2:]):
        return "a key's ':' needs a space after it"
    return "a quoted text ends just before" if text[:index].rstrip(" ")[-1:] in ("'", '"') else ""


def _tab_error(text: str, index: int) -> StopError:
    indents = not text[text.rfind("\n", 0, index) + 1 : index].strip()
    later = len(re.findall(r"^ *\t", text[index + 1 :].partition("\n")[2], re.MULTILINE))
    hint = f"tabs begin {later} later line{'s' if later > 1 else ''} too" if later else ""
    return StopError(index, "indented with a tab; expected spaces" if indents else "a tab between values; expected spaces", hint, rule="yaml-tab")


def _found(text: str, index: int) -> str:
    line = text[index : index + 80].split("\n", 1)[0].split()
    if line:
        return quote(line[0])
    return "the end of the line" if text[index:].strip() else "the end of the file"
