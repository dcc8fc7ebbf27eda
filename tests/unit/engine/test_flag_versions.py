"""The order of builds, and which known one is nearest."""

from __future__ import annotations

from itertools import pairwise

import pytest

from recipegen.engine.flag_versions import is_development, nearest, same_minor, version_key

KNOWN = ("0.26.0", "0.27.0", "0.28.0", "0.29.0")

ASCENDING = (
    "0.1.dev17492+g454b47db8",
    "0.9.2",
    "0.26.0",
    "0.26.1rc1.dev1177+ga9a17e709",
    "0.26.1rc1",
    "0.26.1",
    "0.27.0.dev3",
    "0.27.0a1",
    "0.27.0b2",
    "0.27.0rc1.dev2",
    "0.27.0rc1",
    "0.27.0rc10",
    "0.27.0",
    "0.27.0.post1",
    "0.27.1",
    "0.100.0",
    "1.0",
)


@pytest.mark.parametrize(("lower", "higher"), list(pairwise(ASCENDING)))
def test_builds_are_ordered(lower: str, higher: str) -> None:
    low, high = version_key(lower), version_key(higher)
    assert low is not None
    assert high is not None
    assert low < high


@pytest.mark.parametrize(("one", "other"), [("0.28", "0.28.0"), ("v0.28.0", "0.28.0"), ("0.28.0+cu130", "0.28.0"), (" 0.28.0 ", "0.28.0")])
def test_other_spellings_are_the_same_version(one: str, other: str) -> None:
    assert version_key(one) == version_key(other)


@pytest.mark.parametrize("text", ["nightly", "", "0.28.x", "main", "0.28.0 0.29.0", "\u0660.28"])
def test_what_is_no_version_has_no_key(text: str) -> None:
    assert version_key(text) is None


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("0.28.0", "0.28.0"),
        ("0.19.0", "0.26.0"),
        ("0.1.dev17492+g454b47db8", "0.26.0"),
        ("0.27.2", "0.27.0"),
        ("0.28.0rc2", "0.28.0"),
        ("0.28.1.dev5+g0123456", "0.28.0"),
        ("0.29.1", "0.29.0"),
        ("0.31.0", "0.29.0"),
        ("1.0.0", "0.29.0"),
        ("nightly", "0.29.0"),
    ],
)
def test_the_nearest_known_version(asked: str, found: str) -> None:
    assert nearest(asked, KNOWN) == found
    assert nearest(asked, reversed(KNOWN)) == found


@pytest.mark.parametrize(("build", "is_one"), [("0.28.0", False), ("0.28.0rc1", False), ("0.26.1rc1.dev1177+ga9a17e709", True), ("nightly", True)])
def test_what_is_a_development_build(build: str, is_one: bool) -> None:
    assert is_development(build) is is_one


def test_releases_of_one_minor_version() -> None:
    assert same_minor("0.28.3", "0.28.0")
    assert not same_minor("0.28.0", "0.29.0")
    assert not same_minor("nightly", "0.29.0")
