"""Rules by build: releases, known builds, development builds; the same releases as the flags are taken from."""

from __future__ import annotations

import pytest

from recipegen.builds import build_of
from recipegen.engine.flag_catalogue import load_flags

NIGHTLY = "0.26.1rc1.dev1177+ga9a17e709"
CAP, CACHING, ONE_SIDED = "capture-cap-1024", "hybrid-prefix-caching", "one-sided-sequence-parallel"


@pytest.mark.parametrize(
    ("declared", "version", "rules", "sure"),
    [
        (NIGHTLY, (0, 28), {CAP, CACHING, ONE_SIDED}, True),
        ("0.26.1rc1.dev1000+gabc", (0, 28), {CAP, CACHING, ONE_SIDED}, False),
        ("0.26.1rc1.dev999+gabc", (0, 26), {CACHING}, False),
        ("0.26.0", (0, 26), {CACHING}, True),
        ("0.27.0rc1", (0, 27), {CACHING}, True),
        ("v0.28.1", (0, 28), {CAP, CACHING}, True),
        ("0.29.1", (0, 29), {CAP, ONE_SIDED}, True),
        ("0.30.0", (0, 30), {CAP, ONE_SIDED}, False),
        ("nightly", (0, 29), {CAP, ONE_SIDED}, False),
    ],
)
def test_rules_of_a_build(declared: str, version: tuple[int, int], rules: set[str], sure: bool) -> None:
    found = build_of(declared)
    assert (found.version, found.rules, found.sure) == (version, rules, sure)


@pytest.mark.parametrize("declared", [NIGHTLY, "0.26.1rc1.dev1001", "0.26.0", "0.27.0", "0.28.0", "0.29.0", "nightly"])
def test_flags_and_rules_are_of_the_same_release(declared: str) -> None:
    assert build_of(declared).release == load_flags(declared).version
