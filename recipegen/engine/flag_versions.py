"""The order of builds: releases, pre-releases, development and local builds, as PEP 440 has it."""

from __future__ import annotations

import re
from collections.abc import Iterable

_VERSION = re.compile(
    r"v?(?P<release>\d+(?:\.\d+)*)(?:[-_.]?(?P<pre>a|b|rc)\.?(?P<number>\d+))?(?:\.?post(?P<post>\d+))?(?:\.?dev(?P<dev>\d+))?(?:\+(?P<local>[\w.]+))?",
    re.ASCII | re.IGNORECASE,
)
_LAST = 10**9

VersionKey = tuple[tuple[int, ...], tuple[str, int], int, int]


def version_key(text: str) -> VersionKey | None:
    """What versions are ordered by; None for what is no version. The local part (`+g1234abc`) does not count.

    0.28.0.dev1 < 0.28.0rc1.dev2 < 0.28.0rc1 < 0.28.0 < 0.28.0.post1
    """
    found = _VERSION.fullmatch(text.strip())
    if not found:
        return None
    release = [int(part) for part in found["release"].split(".")]
    while len(release) > 1 and not release[-1]:
        release.pop()
    dev = int(found["dev"]) if found["dev"] else _LAST
    pre = (found["pre"].lower(), int(found["number"])) if found["pre"] else ("", 0) if found["dev"] and not found["post"] else ("z", 0)
    return tuple(release), pre, int(found["post"] or -1), dev


def nearest(asked: str, known: Iterable[str]) -> str:
    """Return the known version nearest to `asked`: of its two neighbours the one whose release differs in a later place, the newer at a tie.

    What is no version (`nightly`) is taken for newer than all. `known` must not be empty.
    """
    key = version_key(asked)
    around = neighbours(asked, known)
    return around[-1] if key is None else min(reversed(around), key=lambda version: _distance(version, key))


def is_development(asked: str) -> bool:
    """Whether a build is no release: its number says little of its age, as main counts on from the last tag that lies on it."""
    key = version_key(asked)
    return key is None or key[3] != _LAST


def same_minor(one: str, other: str) -> bool:
    """Whether two versions share major and minor number: 0.28.1 and 0.28.0."""
    keys = version_key(one), version_key(other)
    return None not in keys and len({_filled(key[0], 2)[:2] for key in keys if key}) == 1


def neighbours(asked: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the known versions next to `asked`, below and above it; one of them at the ends."""
    ordered = sorted(known, key=_key)
    key = version_key(asked)
    if key is None:
        return (ordered[-1],)
    below = [version for version in ordered if _key(version) <= key]
    above = [version for version in ordered if _key(version) >= key]
    return tuple(dict.fromkeys((*below[-1:], *above[:1])))


def _key(version: str) -> VersionKey:
    return version_key(version) or ((), ("", 0), 0, 0)


def _distance(version: str, asked: VersionKey) -> tuple[int, ...]:
    """How far apart two releases are, place by place; no pre-releases: a build before 0.29.0 is nearer to 0.29.0 than to 0.28.0."""
    own, other = _key(version)[0], asked[0]
    places = max(len(own), len(other))
    return tuple(abs(a - b) for a, b in zip(_filled(own, places), _filled(other, places), strict=True))


def _filled(release: tuple[int, ...], places: int) -> tuple[int, ...]:
    return release + (0,) * (places - len(release))
