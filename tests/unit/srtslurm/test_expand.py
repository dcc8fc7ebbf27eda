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
        (f"m: '{{a}} {{b}}'\nsweep: {{a: {list(range(101))}, b: {list(range(100))}}}\n", "'sweep' makes 10100 jobs; expected 10000 at most"),
        (
            f"base: {{a: '{{x}}'}}\noverride_a: {{b: 1}}\noverride_b: {{b: 2}}\nsweep: {{x: {list(range(6000))}}}\n",
            "r.yaml:4:1: the file makes more than 10000 jobs by overrides and sweeps; expected 10000 at most",
        ),
        (f"base: {{a: 1}}\nzip_override_x: {{a: {list(range(10001))}}}\n", "r.yaml:2:1: 'zip_override_x' makes 10001 jobs; expected 10000 at most"),
        (f"base: {{a: 1, b: {[0] * 1000}}}\nzip_override_x: {{a: {list(range(3000))}}}\n", "r.yaml:2:1: the jobs of the file hold more than 2000000"),
        (f"base: {{b: {[0] * 9000}}}\n" + "".join(f"override_{n}: {{}}\n" for n in range(300)), "hold more than 2000000 values in all"),
        (f"a: '{{x}}'\nb: {[0] * 300}\nsweep: {{x: {list(range(9000))}}}\n", "hold more than 2000000 values in all"),
        (f"a: {['{x}'] * 3000}\nsweep: {{x: [{list(range(1000))}]}}\n", "hold more than 2000000 values in all"),
        (
            f"a: {'-{x}' * 3000}\nsweep: {{x: [{'y' * 300}]}}\n",
            "r.yaml:1:4: 'a' is a text of 912000 characters when it is filled in; expected 131071",
        ),
        (f"a: {'-{x}' * 300}\nsweep: {{x: {[f'{n}{chr(121) * 300}' for n in range(1000)]}}}\n", "longer than 16777216 characters in all"),
    ],
)
def test_a_form_that_cannot_be_followed_is_told_at_its_place(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        jobs_of(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("sweep", "values", "note"),
    [
        ("{tp: [1, 2], x: [1, 2, 3]}", [1, 2], "r.yaml:2:21: '{x}' stands nowhere in the recipe: its values make equal jobs, each imported once"),
        ("{tp: [4, 4, 8]}", [4, 8], "r.yaml:2:9: 'sweep.tp' says 1 of its values again: each is imported once"),
        ("{tp: [1, true, 1.0]}", [1, True, 1.0], ""),
    ],
)
def test_equal_jobs_are_one_job_with_a_note(sweep: str, values: list[object], note: str) -> None:
    jobs = expand(plant(parse_yaml(f'a: "{{tp}}"\nsweep: {sweep}\n', "r.yaml")))
    assert [repr(plain(job.tree)) for job in jobs] == [repr({"a": value}) for value in values]
    assert all("\n".join(map(str, job.notes)) == note for job in jobs)
