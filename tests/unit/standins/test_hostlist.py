"""Host lists, as `scontrol show hostnames` reads and writes them."""

from __future__ import annotations

import pytest

from recipegen.standins.hostlist import compress, expand


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("local-01", ["local-01"]),
        ("local-[01-03]", ["local-01", "local-02", "local-03"]),
        ("local-[01,03-04],login", ["local-01", "local-03", "local-04", "login"]),
        ("r[1-2]-x", ["r1-x", "r2-x"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("", []),
    ],
)
def test_expand(text: str, hosts: list[str]) -> None:
    assert expand(text) == hosts


@pytest.mark.parametrize("text", ["n[1-", "n[a]", "n[1]]"])
def test_what_is_no_host_list(text: str) -> None:
    with pytest.raises(ValueError, match="Invalid hostlist"):
        expand(text)


@pytest.mark.parametrize("text", ["local-01", "local-[01-03]", "local-[01,03-04]", "a,b", "n[99-101]"])
def test_compress_is_the_way_back(text: str) -> None:
    assert expand(compress(expand(text))) == expand(text)
    assert compress(expand("local-[01-03,07]")) == "local-[01-03,07]"
