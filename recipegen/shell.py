"""Quoting for bash, in one place."""

from __future__ import annotations

import shlex

from recipegen.model import Placeholder, Word


def quote_word(word: Word) -> str:
    """Return a word for bash: a placeholder as the variable in double quotes, anything else so that bash changes nothing."""
    return f'"${word.name}"' if isinstance(word, Placeholder) else shlex.quote(word)
