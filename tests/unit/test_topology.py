from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipegen.model import Topology
from recipegen.topology import NotationError, parse_shape, parse_topology, slug


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TP2DP4", Topology(tp=2, dp=4)),
        ("tp2dp4", Topology(tp=2, dp=4)),
        ("TEP8", Topology(tp=8, ep=True)),
        ("DEP16", Topology(dp=16, ep=True)),
        ("TP1PP6", Topology(pp=6)),
        ("TP8+EP", Topology(tp=8, ep=True)),
        ("TP2DEP4", Topology(tp=2, dp=4, ep=True)),
        ("TP4·DP4+EP16", Topology(tp=4, dp=4, ep=True)),
        ("DP4TP2", Topology(tp=2, dp=4)),
    ],
)
def test_reads_the_field_s_notation(text: str, expected: Topology) -> None:
    assert parse_topology(text) == expected


def test_expert_parallelism_is_inherited_and_never_taken_back() -> None:
    assert parse_topology("TP8", ep=True).ep
    assert parse_topology("TEP8", ep=False).ep


def test_workers_stand_before_the_topology() -> None:
    assert parse_shape("2xTP2DP4") == (2, Topology(tp=2, dp=4))
    assert parse_shape("12XTEP8") == (12, Topology(tp=8, ep=True))
    assert parse_shape("TP8") == (1, Topology(tp=8))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("TP4XP2", "did you mean 'TP4DP2'?"),
        ("TPP8", "did you mean"),
        ("TP4+PE", "did you mean 'TP4+EP'?"),
        ("2xTP8+E", "did you mean 'TP8+EP'?"),
        ("TPP8+EP", "did you mean 'TP8+EP'?"),
        ("TP4+EP+EP", "did you mean 'TP4+EP'?"),
        ("8+EP", "is not a topology"),
        ("", "is not a topology"),
        ("8", "is not a topology"),
        ("TP", "is not a topology"),
        ("TP2TP4", "gives TP twice"),
        ("TP2TEP4", "gives TP twice"),
        ("TP0", "TP must be 1 to"),
        ("TP99999999999999999999", "TP must be 1 to"),
        ("0xTP8", "number of workers"),
        ("TP4DP4+EP8", "EP spans TP x DP = 16"),
        ("TP8 DP2", "is not a topology"),
        ("TP8; rm -rf /", "is not a topology"),
    ],
)
def test_says_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(NotationError) as caught:
        parse_shape(text)
    assert words in str(caught.value)


_SIZES = st.sampled_from([1, 2, 3, 4, 6, 8, 16])


@given(st.builds(Topology, tp=_SIZES, pp=_SIZES, dp=_SIZES, ep=st.booleans()))
def test_what_is_shown_reads_back(topology: Topology) -> None:
    assert parse_topology(str(topology)) == topology
    assert parse_topology(slug(topology), ep=topology.ep) == topology
    assert parse_topology(slug(topology, mark_ep=True), ep=topology.ep and topology.dp == 1) == topology


@pytest.mark.parametrize(
    ("topology", "name"),
    [
        (Topology(tp=8, ep=True), "tp8"),
        (Topology(tp=2, dp=4, ep=True), "tp2dep4"),
        (Topology(tp=2, dp=4), "tp2dp4"),
        (Topology(pp=6, ep=True), "pp6"),
        (Topology(dp=16, ep=True), "dep16"),
        (Topology(), "tp1"),
    ],
)
def test_names_in_points(topology: Topology, name: str) -> None:
    assert slug(topology) == name
