"""Files to jobs: merges, zips, sweeps, and what their forms must not be."""

from __future__ import annotations

import itertools

import pytest

from recipegen.errors import InputError
from recipegen.srtslurm.expand import expand
from recipegen.srtslurm.tree import plain, plant
from recipegen.yamlsource import parse_yaml


def jobs_of(text: str) -> list[tuple[str, object]]:
    return [(job.variant, plain(job.tree)) for job in expand(plant(parse_yaml(text, "r.yaml")))]


def test_a_plain_file_is_one_job() -> None:
    assert jobs_of("name: x\na: 1\n") == [("", {"name": "x", "a": 1})]


def test_overrides_merge_deeply_replace_lists_and_delete_by_null() -> None:
    text = "base: {name: x, a: {b: 1, c: [1, 2]}, d: 4}\noverride_two: {a: {c: [3], e: 5}, d: null}\noverride_one: {d: 5}\n"
    assert jobs_of(text) == [
        ("override_one", {"name": "x_one", "a": {"b": 1, "c": [1, 2]}, "d": 5}),
        ("override_two", {"name": "x_two", "a": {"b": 1, "c": [3], "e": 5}}),
    ]


def test_zipped_overrides_go_in_step_and_repeat_what_is_one() -> None:
    text = "base: {name: x, a: 0}\nzip_override_z: {a: [1, 2], b: {c: [7]}, d: 9, e: [[1, 2], [3]]}\n"
    assert jobs_of(text) == [
        ("zip_override_z[0]", {"name": "x_z_0", "a": 1, "b": {"c": 7}, "d": 9, "e": [1, 2]}),
        ("zip_override_z[1]", {"name": "x_z_1", "a": 2, "b": {"c": 7}, "d": 9, "e": [3]}),
    ]
    assert [job for _, job in jobs_of("base: {name: x}\nzip_override_z: {name: [p, q]}\n")] == [{"name": "p"}, {"name": "q"}]


def test_a_base_alone_is_its_own_job() -> None:
    assert jobs_of("base: {name: x}\n") == [("base", {"name": "x"})]


def test_a_sweep_is_the_product_of_its_lists_with_their_types() -> None:
    text = 'name: "x-{tp}"\na: ["{tp}"]\nb: {c: "{ep}", d: "{other} {tp}"}\nsweep: {tp: [1, 2], ep: [true, false]}\n'
    expected = [
        (f"tp={tp}, ep={str(ep).lower()}", {"name": f"x-{tp}", "a": [tp], "b": {"c": ep, "d": f"{{other}} {tp}"}})
        for tp, ep in itertools.product([1, 2], [True, False])
    ]
    assert jobs_of(text) == expected


def test_places_and_paths_stay_through_merges_and_sweeps() -> None:
    (job,) = expand(plant(parse_yaml('base:\n  a: {b: "{x}"}\noverride_o:\n  c:\n    d: 1\nsweep: {x: [5]}\n', "r.yaml")))
    (b,) = (job.tree.entries or {})["a"].entries.values()  # type: ignore[union-attr]
    (d,) = (job.tree.entries or {})["c"].entries.values()  # type: ignore[union-attr]
    assert (b.scalar, b.path, str(b.source)) == (5, "a.b", "r.yaml:2:10")
    assert (d.path, str(d.key)) == ("c.d", "r.yaml:5:5")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: {a: 1}\novveride_x: {a: 2}\n", "r.yaml:2:1: 'ovveride_x' cannot stand beside 'base'; did you mean 'override_'?"),
        ("base: {a: 1}\noverride_x: 3\n", "r.yaml:2:1: 'override_x' is the number 3; expected a mapping"),
        ("base: {a: 1}\nzip_override_x: {a: [1, 2], b: [1, 2, 3]}\n", "r.yaml:2:1: 'zip_override_x' has lists of these lengths: 2, 3"),
        ("base: {a: 1}\nzip_override_x: {a: 1}\n", "r.yaml:2:1: 'zip_override_x' has lists of these lengths: none"),
        ("base: {a: 1}\nzip_override_x: {a: []}\n", "lists of these lengths: 0"),
        ("a: 1\nsweep: {tp: 4}\n", "r.yaml:2:9: 'sweep.tp' is the number 4; expected a list of values"),
        ("a: 1\nsweep: [1]\n", "r.yaml:2:1: 'sweep' is a list; expected names with lists of values"),
        (f"a: 1\nsweep: {{a: {list(range(101))}, b: {list(range(100))}}}\n", "'sweep' makes 10100 jobs; expected 10000 at most"),
    ],
)
def test_a_form_that_cannot_be_followed_is_told_at_its_place(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        jobs_of(text)
    assert message in str(caught.value)
