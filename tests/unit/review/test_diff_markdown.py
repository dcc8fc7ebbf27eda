"""The Markdown of a diff: nothing that a file says is obeyed, and it fits into a comment."""

from __future__ import annotations

import re

import pytest

from recipegen.cli.table import printable
from recipegen.review.diff_markdown import MARKER, MOST_BYTES, code, markdown_lines
from recipegen.review.diff_model import Change, Diff, Fact, MatrixChange, PointChange, Section


def report(*values: str, matrices: int = 1, points: int = 1) -> str:
    changes = tuple(Change(None, Fact(Section.ENV, "decode", f"NAME{i}", v, v)) for i, v in enumerate(values))
    found = tuple(PointChange(old=f"p{i}", new=f"p{i}", changes=changes) for i in range(points))
    matrix = [MatrixChange(old=f"m{i}.yaml", new=f"m{i}.yaml", compared=points, points=found) for i in range(matrices)]
    return "\n".join(markdown_lines(Diff(old="HEAD", new="working tree", matrices=tuple(matrix))))


def test_the_first_line_is_the_marker() -> None:
    assert report("x").splitlines()[0] == MARKER == "<!-- recipegen diff -->"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("80", "`80`"),
        ("<b>@team</b> **x** [y](z)", "`<b>@team</b> **x** [y](z)`"),
        ("a | b", "<code>a &#124; b</code>"),
        ("`</code>`", "<code>&#96;&#60;&#47;code&#62;&#96;</code>"),
        ("\\|", "<code>&#92;&#124;</code>"),
        (" x", "<code> x</code>"),
        ("", "<code> </code>"),
        ("a\n- b", "<code>a - b</code>"),
        ("\u00e9", "`\u00e9`"),
    ],
)
def test_values_stand_in_code_that_they_cannot_leave(text: str, expected: str) -> None:
    assert code(text) == expected


HOSTILE = ["x`|</td></code><script>", "@team `@team`", "a\n\n# head\n| x | y |", "|" * 5, "``` \n<!-- -->", "\\`|", "<!-- recipegen diff -->|"]


@pytest.mark.parametrize("value", HOSTILE)
def test_nothing_of_a_hostile_value_stands_outside_of_code(value: str) -> None:
    text = report(value)
    outside = re.sub(r"`[^`]*`|<code>[^<`|]*</code>", "", text.removeprefix(MARKER))
    assert not set("`<@\\") & set(outside), outside
    row = next(line for line in text.splitlines() if "NAME0" in line)
    assert row.count("|") == 5
    assert text.count("\n#") == 2


def test_a_long_value_is_cut() -> None:
    assert len(report("y" * 100_000)) < 2_000


def test_what_does_not_fit_a_comment_is_counted() -> None:
    text = report(*(["z" * 290] * 30), matrices=40)
    assert MOST_BYTES / 2 < len(text.encode()) < MOST_BYTES
    assert re.search(r"left out: the details of \d+ of these matrices and \d+ more matrices that differ\. `recipegen diff` with", text)
    many = report(matrices=4_000)
    assert MOST_BYTES / 2 < len(many.encode()) < MOST_BYTES
    assert re.search(r"left out: \d{3,} more matrices that differ\. `recipegen diff` with `--format text` prints all of it\.\Z", many)


@pytest.mark.parametrize("value", ["\u00e9", "\u4e00", "\U0001f600", "|", "\x7f", "\u2028", "\udcff"])
def test_the_bytes_of_everything_are_counted(value: str) -> None:
    """As they are printed: what is made printable takes up to three bytes."""
    for count in (1, 7, 40):
        text = report(*([value * 290] * count), matrices=60)
        assert len(printable(text, keep="\n").encode()) < MOST_BYTES
        assert text.count("<details") == text.count("</details>")
