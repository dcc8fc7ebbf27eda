"""The index of a tree: what a row says, and that the same recipes give the same page."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from recipegen.pipeline import check_matrix
from recipegen.review.index import HEADS, MARKER, HeadRoom, IndexEntry, index_json, index_rows, index_text, is_index, make_entry, row_cells
from tests.support import LEAF, agg_point, matrix_of

SMALL = '{prefill: 2xTP2DP4, decode: 1xTP4DP4, mtp: 3, concurrency: [256], time_limit: "1:30:00"}'


def entry_of(text: str | bytes, path: str = "a/matrix.yaml") -> IndexEntry:
    return make_entry(path, check_matrix(text if isinstance(text, bytes) else text.encode(), "matrix.yaml"))


PUBLISHED = entry_of((LEAF / "matrix.yaml").read_bytes())
ROW = IndexEntry(
    path="b/matrix.yaml",
    name="n",
    model="m",
    hardware="h",
    isl=1,
    osl=2,
    roles="agg",
    points=1,
    gpus=(4, 4),
    nodes=(1, 2),
    mtp=(0,),
    vllm="0.28.0",
    head_room=HeadRoom(share=-0.051, point="p", role="agg", known=1, roles=2),
    errors=1,
    warnings=2,
    allowed=3,
)


def test_the_published_recipe() -> None:
    assert (PUBLISHED.name, PUBLISHED.model, PUBLISHED.hardware) == ("qwen38-2.4t-nvfp4-gb300-disagg", "qwen3.8-2.4t-nvfp4", "gb300-nvl72")
    assert (PUBLISHED.isl, PUBLISHED.osl, PUBLISHED.roles, PUBLISHED.points) == (8192, 1024, "disagg", 8)
    assert (PUBLISHED.gpus, PUBLISHED.nodes, PUBLISHED.mtp) == ((16, 48), (4, 12), (0, 3))
    assert (PUBLISHED.errors, PUBLISHED.warnings) == (0, 0)


def test_the_head_room_is_the_smallest_of_all_points_and_roles() -> None:
    checked = check_matrix((LEAF / "matrix.yaml").read_bytes(), "matrix.yaml")
    shares = {(view.recipe.point, role.role.role.value): role.sizes.head_room for view in checked.points for role in view.roles if role.sizes}
    room = PUBLISHED.head_room
    assert room is not None
    assert (room.known, room.roles) == (16, 16)
    assert shares[room.point, room.role] == min(share for share in shares.values() if share is not None) == pytest.approx(room.share, abs=1e-4)


@pytest.mark.parametrize(
    ("points", "roles", "gpus"),
    [((SMALL,), "disagg", (32, 32)), ((agg_point("TP8"),), "agg", (8, 8)), ((SMALL, agg_point("TP8")), "disagg + agg", (8, 32))],
)
def test_roles_and_gpus(points: tuple[str, ...], roles: str, gpus: tuple[int, int]) -> None:
    entry = entry_of(matrix_of(*points))
    assert (entry.roles, entry.gpus, entry.points) == (roles, gpus, len(points))


def test_several_front_ends_stand_beside_the_nodes() -> None:
    assert (PUBLISHED.front_ends, dict(zip(HEADS, row_cells(PUBLISHED), strict=True))["nodes"]) == ((1, 1), "4-12")
    several = entry_of(matrix_of(SMALL, agg_point("TP8")) + "frontend: {replicas: 5}\n")
    assert several.front_ends == (1, 5)
    assert dict(zip(HEADS, row_cells(several), strict=True))["nodes"] == "2-8, 1-5 front ends"


def test_errors_are_counted_and_those_that_are_allowed_apart() -> None:
    bad = matrix_of(SMALL).replace("kv-cache-dtype: fp8", "kv-cache-dtype: fp9")
    assert entry_of(bad).errors == 1
    allowed = entry_of(bad + "allow:\n  - {rule: flag-choice, reason: a build of ours}\n")
    assert (allowed.errors, allowed.allowed) == (0, 1)


def test_a_matrix_that_cannot_be_used_has_a_row() -> None:
    entry = entry_of(matrix_of(SMALL).replace("isl: 8192", "isl: many"))
    assert (entry.points, entry.errors) == (0, 1)
    assert row_cells(entry) == ("a/matrix.yaml", *["-"] * (len(HEADS) - 2), "cannot be used: 1 error")
    assert len(row_cells(entry)) == len(row_cells(PUBLISHED)) == len(HEADS)


def test_cells() -> None:
    cells = dict(zip(HEADS, row_cells(ROW), strict=True))
    assert (cells["recipe"], cells["GPUs"], cells["nodes"], cells["MTP"]) == ("b", "4", "1-2", "off")
    assert cells["KV head room"] == "-5% (agg of p, of 1 of 2 roles)"
    assert cells["findings"] == "1 error, 2 warnings, 3 allowed"
    unknown = replace(ROW, head_room=HeadRoom(share=None, point="", role="", known=0, roles=2))
    assert dict(zip(HEADS, row_cells(unknown), strict=True))["KV head room"] == "-"


def test_the_page_does_not_depend_on_the_order_of_entries() -> None:
    entries = [replace(ROW, path=f"{name}/matrix.yaml") for name in "cabed"]
    text, rows, as_json = index_text(entries), index_rows(entries), index_json(entries)
    for seed in range(5):
        random.Random(seed).shuffle(entries)
        assert (index_text(entries), index_rows(entries), index_json(entries)) == (text, rows, as_json)
    assert [row[0] for row in rows] == list("abcde")


def test_the_page_is_a_table_with_links_and_the_marker() -> None:
    text = index_text([PUBLISHED, ROW])
    assert text.startswith(f"{MARKER}\n# Recipes\n")
    assert is_index(text.encode())
    assert not is_index(b"# Recipes\n")
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {len(HEADS) + 1}
    assert "| [b](b/matrix.yaml) |" in text


@pytest.mark.parametrize(
    ("path", "link"),
    [
        ("a b/matrix.yaml", "[a b](a%20b/matrix.yaml)"),
        ("a|b/matrix.yaml", "[a\\|b](a%7Cb/matrix.yaml)"),
        ("[a]/matrix.yaml", "[\\[a\\]](%5Ba%5D/matrix.yaml)"),
        ("a\nb/matrix.yaml", "[a b](a%0Ab/matrix.yaml)"),
        ("a)b(c/matrix.yaml", "[a)b(c](a%29b%28c/matrix.yaml)"),
        ("a%20b#c?d/matrix.yaml", "[a%20b#c?d](a%2520b%23c%3Fd/matrix.yaml)"),
        ("a:b/matrix.yaml", "[a:b](a%3Ab/matrix.yaml)"),
        ("<b>`*\\/matrix.yaml", "[\\<b>\\`\\*\\\\](%3Cb%3E%60%2A%5C/matrix.yaml)"),
        ("\u00e9\udcff/matrix.yaml", "[\u00e9\ufffd](%C3%A9%FF/matrix.yaml)"),
        ("../Qwen3.8/8k_1k+x/matrix.yaml", "[../Qwen3.8/8k_1k+x](../Qwen3.8/8k_1k+x/matrix.yaml)"),
    ],
)
def test_odd_names_do_not_break_the_table(path: str, link: str) -> None:
    assert f"| {link} |" in index_text([replace(ROW, path=path)])


def test_json_holds_every_value() -> None:
    (found,) = json.loads(index_json([ROW]))
    assert found["gpus"] == {"lowest": 4, "highest": 4}
    assert found["head_room"] == {"share": -0.051, "point": "p", "role": "agg", "known": 1, "roles": 2}
    assert set(found) == set(ROW.__dataclass_fields__)
