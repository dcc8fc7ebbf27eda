"""Which release's rules a declared build of vLLM has: releases, builds that are known, development builds by their commits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from recipegen.yamlsource import parse_yaml, validate

if TYPE_CHECKING:
    from recipegen.matrix_schema import BuildsSchema, RuleSpanSchema

_RELEASE = re.compile(r"v?(?P<release>(?P<major>\d+)\.(?P<minor>\d+)(?:\.\d+)?)(?P<rest>.*)", re.ASCII)
_DEVELOPMENT = re.compile(r"v?(?P<tag>[^+]*)\.dev(?P<commits>\d+)", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Build:
    """A declared build: the release whose rules it has, their names, and whether that is certain.

    `sure` is false for a development build that no entry names, and for a release newer than those that are known; `named`, that an
    entry of the data is for just this build.
    """

    declared: str
    release: str
    rules: frozenset[str]
    sure: bool
    named: bool = False

    @property
    def version(self) -> tuple[int, int]:
        """Major and minor number of the release."""
        return _minor(self.release)

    def has(self, rule: str) -> bool:
        return rule in self.rules


@cache
def build_of(declared: str) -> Build:
    """Return the rules of a declared build; what has no number counts as the newest release that is known."""
    data = _data()
    if known := data.builds.get(declared):
        return replace(_build(declared, known.release, known.ahead, sure=True), named=True)
    development = _DEVELOPMENT.match(declared)
    if development:
        for entry in data.development:
            if development["tag"] == entry.tag and int(development["commits"]) >= entry.commits:
                return _build(declared, entry.release, entry.ahead, sure=False)
    number = _RELEASE.match(declared)
    if not number:
        return _build(declared, data.newest, (), sure=False)
    return _build(declared, number["release"], (), sure=not development and _minor(number["release"]) <= _minor(data.newest))


def _build(declared: str, release: str, ahead: list[str] | tuple[str, ...], *, sure: bool) -> Build:
    return Build(declared=declared, release=release, rules=_rules(_data().rules, release) | set(ahead), sure=sure)


def _rules(spans: Mapping[str, RuleSpanSchema], release: str) -> frozenset[str]:
    minor = _minor(release)
    return frozenset(name for name, span in spans.items() if _minor(span.since) <= minor and (not span.until or minor <= _minor(span.until)))


def _minor(release: str) -> tuple[int, int]:
    major, minor, *_ = release.split(".")
    return int(major), int(minor)


@cache
def _data() -> BuildsSchema:
    from recipegen.matrix_schema import BuildsSchema

    text = (files("recipegen") / "data" / "builds.yaml").read_bytes()
    return validate(parse_yaml(text, "data/builds.yaml"), BuildsSchema)
