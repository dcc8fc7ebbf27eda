"""The text of a recipe, parsed strictly but for what srtctl's reader takes otherwise: merge keys, and `y` and `n`, which are text."""

from __future__ import annotations

import re

from recipegen.document import Document
from recipegen.errors import InputError, Problem, Source
from recipegen.yamlsource import parse_yaml

_LETTER = re.compile(r"[yYnN](?=\s*(?:$|[,}\]:]|\s#))")
_ROUNDS = 20
"""A round quotes what one report of problems names: more than enough for the variables of a recipe."""


def parse_recipe(text: str | bytes, file: str) -> tuple[Document, list[Problem]]:
    """Return the parsed file, and a note for each letter that is read as text. InputError with every other problem.

    PyYAML, by which srtctl reads, knows yes and no as truth values, but not their first letters.
    """
    notes: list[Problem] = []
    for _ in range(_ROUNDS):
        try:
            return parse_yaml(text, file, merges=True), notes
        except InputError as error:
            letters = [problem.source for problem in error.problems if problem.rule == "yaml-scalar"]
            if isinstance(text, bytes):
                text = text.decode("utf-8", "strict").removeprefix("\ufeff").replace("\r\n", "\n") if letters else text
            quoted = _quoted(text, letters) if isinstance(text, str) else text
            if quoted == text or isinstance(text, bytes):
                raise
            notes += [Problem(place, "the letter is read as text, as srtctl reads it") for place in letters]
            text = quoted
    return parse_yaml(text, file, merges=True), notes


def _quoted(text: str, places: list[Source]) -> str:
    """Put quotes around single letters at these places; the text as it was when something else stands at one of them."""
    lines = text.split("\n")
    for place in sorted(places, reverse=True):  # from the end, so that columns before stay
        line, column = lines[place.line - 1], place.column - 1
        if not _LETTER.match(line, column):
            return text
        lines[place.line - 1] = f'{line[:column]}"{line[column]}"{line[column + 1 :]}'
    return "\n".join(lines)
