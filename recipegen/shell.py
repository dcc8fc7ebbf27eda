"""Quoting for bash, in one place."""

from __future__ import annotations

import shlex

from recipegen.model import Placeholder, Word


def quote_word(word: Word) -> str:
    """Return a word for bash: a placeholder as the variable in double quotes, any other text so that bash changes nothing."""
    if not isinstance(word, Placeholder):
        return shlex.quote(word)
    before, after = (shlex.quote(text) if text else "" for text in (word.before, word.after))
    return f'{before}"${word.name}"{after}'
