"""Flags of an engine build, read from its files or its own help without running it."""

from __future__ import annotations
