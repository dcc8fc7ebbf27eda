"""Comments of recipes come along: each above what its section became, once, and none that is no comment."""

from __future__ import annotations

import pytest

from recipegen.srtslurm.comments import comment_behind, comment_of, read_remarks
from recipegen.srtslurm.recipe import Remark
from recipegen.srtslurm.source_text import parse_recipe
from recipegen.yamlsource import parse_yaml
from recipegen.yamlsyntax import without_values
from tests.unit.srtslurm.recipes import V1, V2, changed, import_one, import_texts, reasons


def below(text: str, comment: str) -> str:
    """The line below a comment's block."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.strip() == f"# {comment}")
    return next(line.strip() for line in lines[start:] if not line.lstrip().startswith("#"))


NOTE = "a remark"
OWN_LINE = f"# {NOTE}\n"


@pytest.mark.parametrize(
    ("layout", "change", "key"),
    [
        (V1, ("name: tiny-1xtp4-1xtp4-cc4-16\n", f"name: tiny-1xtp4-1xtp4-cc4-16\n{OWN_LINE}\n"), "schema: recipegen/v1"),
        (V1, ("\nmodel: {", f"\n{OWN_LINE}model: {{"), "model:"),
        (V1, ("identity:", f"{OWN_LINE}identity:"), "model:"),
        (V1, ("  frameworks:", f"  {OWN_LINE}  frameworks:"), "model:"),
        (V1, ("dynamo: {v", f"{OWN_LINE}dynamo: {{v"), "runtime:"),
        (V1, ("slurm:", f"{OWN_LINE}slurm:"), "- {prefill:"),
        (V1, ("slurm:", f"sbatch_directives: {{mem: x}}\n{OWN_LINE}slurm:"), "slurm:"),
        (V1, ("resources:", f"{OWN_LINE}resources:"), "hardware:"),
        (V1, ("  prefill_workers:", f"  {OWN_LINE}  prefill_workers:"), "hardware:"),
        (V1, ("gpus_per_decode: 4\n", f"gpus_per_decode: 4\n  {OWN_LINE}\n"), "hardware:"),
        (V1, ("frontend: {", f"{OWN_LINE}frontend: {{"), "schema:"),
        (V1, ("frontend: {type: dynamo", f"{OWN_LINE}frontend: {{args: {{a: b}}, type: dynamo"), "frontend:"),
        (V1, ("backend:", f"{OWN_LINE}backend:"), "common:"),
        (V1, ("  prefill_environment:", f"  {OWN_LINE}  prefill_environment:"), "prefill:"),
        (V1, ("    decode:", f"    {OWN_LINE}    decode:"), "decode:"),
        (V1, ("benchmark:", f"{OWN_LINE}benchmark:"), "benchmark:"),
        (V1, ("benchmark:", f"health_check: {{max_attempts: 60}} # {NOTE}\nbenchmark:"), "deadlines:"),
        (V1, ("  req_rate: inf\n", f"  req_rate: inf\n  {OWN_LINE}"), "benchmark:"),
        (V1, ("  req_rate: inf\n", f"  req_rate: inf\n\n{OWN_LINE}"), "benchmark:"),
        (V2, ("roles:", f"{OWN_LINE}roles:"), "common:"),
        (V2, ("  decode:", f"  {OWN_LINE}  decode:"), "decode:"),
        (V2, ("engine:", f"{OWN_LINE}engine:"), "common:"),
    ],
)  # fmt: skip
def test_a_comment_stands_above_what_its_section_became(layout: str, change: tuple[str, str], key: str) -> None:
    report, text = import_one(changed(layout, change))
    shown = f"health_check: {NOTE}" if "health_check" in change[1] else NOTE
    assert below(text, shown).startswith(key), (reasons(report), text)
    assert text.count(NOTE) == 1


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (("  prefill_nodes: 1\n", "  prefill_nodes: 1 # one\n"), ["# prefill_nodes: one"]),
        (("  prefill_nodes: 1\n", "  # first\n  #   second\n  #\n  # third\n  prefill_nodes: 1\n"), ["# first", "#   second", "#", "# third"]),
        (("  prefill_nodes: 1\n", "  #prefill_nodes: 2\n  prefill_nodes: 1\n"), ["# prefill_nodes: 2"]),
        (("  prefill_nodes: 1\n", "  # same\n  prefill_nodes: 1 # same\n"), ["# same"]),
        (("resources:\n", "# about\nresources:\n  # inner\n"), ["# about", "# inner"]),
    ],
)
def test_comments_keep_their_lines(change: tuple[str, str], lines: list[str]) -> None:
    _, plain = import_one(V1)
    _, text = import_one(changed(V1, change))
    assert text == plain.replace("hardware:", "\n".join((*lines, "hardware:")))


def test_comments_of_flags_and_variables_stay_theirs_alone() -> None:
    _, text = import_one(V1)
    assert text.count("enough") == text.count("grows with the load") == 1
    assert "max-num-seqs: 32 # enough" in text


def test_what_is_no_comment_stays_where_it_is() -> None:
    script = "benchmark:\n  command: |\n    # a line of the script\n    run '# this' # and that\n"
    _, text = import_one(changed(V1, ("benchmark:\n", script), ("prefill_environment:\n", "prefill_environment:\n    A: 'x # y'\n")))
    assert [line for line in text.splitlines() if "#" in line and "Imported" not in line and "a line of" not in line and "x # y" not in line] == [
        line for line in import_one(V1)[1].splitlines() if "#" in line and "Imported" not in line
    ]
    assert not any(line.lstrip().startswith("# a line") for line in text.splitlines())


def test_comments_of_variants_come_along_once() -> None:
    base = "".join(f"  {line}\n" for line in changed(V1, ("resources:", f"{OWN_LINE}resources:")).splitlines())
    report, text = import_one(f"# of the file\nbase:\n{base}override_x:\n  # of a variant\n  benchmark: {{concurrencies: 32}} # more\n")
    assert [text.count(one) for one in (NOTE, "# of the file", "# of a variant", "# benchmark: more")] == [1] * 4, reasons(report)
    assert below(text, NOTE).startswith("hardware:")
    assert below(text, "of a variant").startswith("benchmark:")


def test_comments_of_further_files_stand_above_their_first_point() -> None:
    first = f"# a recipe\n# for four\n{V1}"
    second = changed(
        first,
        ("# for four", "# for more"),
        ("cc4-16", "cc32"),
        ("4x16", "32"),
        ("slurm:", "# a queue\nslurm:"),
        ("  gpus_per_node: 4\n", "  gpus_per_node: 4 # a tray\n"),
        ("# enough", "# enough for all"),
    )
    (text,) = (data.decode() for data in import_texts(first, second).matrices.values())
    assert text.startswith("# a recipe\n# for four\n#\n# Imported from srt-slurm: 2 files")
    head, _, points = text.partition("points:\n")
    assert "more" not in head
    assert [line.strip() for line in points.splitlines()[1:6]] == [
        "# for more",
        "# a queue",
        "# gpus_per_node: a tray",
        "# max-num-seqs: enough for all",
        points.splitlines()[5].strip(),
    ]
    assert "concurrency: [32]" in points.splitlines()[5]


@pytest.mark.parametrize(
    ("line", "own", "behind"),
    [
        ("  #  deep", " deep", ""),
        ("##", "", ""),
        ("a: b # c", None, "c"),
        ("a: 'b # c' # d", None, "d"),
        ("a: b#c", None, ""),
        ("a: it's # c", None, "c"),
    ],
)
def test_what_a_comment_is(line: str, own: str | None, behind: str) -> None:
    masked = without_values(line)
    assert comment_of(masked) == own
    if own is None:
        assert comment_behind(masked) == behind


@pytest.mark.parametrize(
    ("written", "comments"),
    [
        ('environment: {X: "multi\n   line # not a comment"}', []),
        ("environment:\n  A: 'one\n      # two'", []),
        ('environment:\n  B: "x\n      y # z" # real', ["real"]),
        ("environment:\n  D: >- # head\n    text\n    # also text\n\n  E: e", ["head"]),
        ('environment:\n  F: "# ü" # é', ["é"]),
    ],
)
def test_no_piece_of_a_value_is_a_comment(written: str, comments: list[str]) -> None:
    document, _ = parse_recipe(f"name: x\n{written}\n", "r.yaml")
    assert [line for remark in read_remarks(document) for line in remark.lines] == comments


def test_remarks_of_a_file_with_merge_keys_and_lists() -> None:
    text = "a: &x # one\n  b: 1\n  # two\nc:\n  <<: *x # three\n  d:\n    - 1 # four\n    # five\n"
    assert read_remarks(parse_yaml(text, "", merges=True)) == (
        Remark("a", ("one",), behind=True),
        Remark("a.b", ("two",)),
        Remark("c", ("three",), behind=True),
        Remark("c.d", ("four",), behind=True),
        Remark("c.d", ("five",)),
    )
