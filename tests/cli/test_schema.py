"""`recipegen schema`: printed, written, and the line that leads editors to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from recipegen.cli import main
from recipegen.review.json_schema import KINDS, schema_text


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["schema", *map(str, args)])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_printed(kind: str) -> None:
    done = run(kind)
    assert (done.exit_code, done.stdout) == (0, schema_text(kind))
    assert json.loads(done.stdout)["$id"] == f"urn:recipegen:{kind}:v1"


def test_a_matrix_is_meant_where_nothing_is_said() -> None:
    assert run().stdout == schema_text("matrix")
    assert run("matrx").exit_code == 2


def test_it_is_written_and_the_line_leads_there(tmp_path: Path) -> None:
    out = tmp_path / "schemas/matrix.schema.json"
    done = run("--out", out, "--for", tmp_path / "recipes/x/matrix.yaml")
    assert (done.exit_code, done.stdout) == (0, "# yaml-language-server: $schema=../../schemas/matrix.schema.json\n")
    assert out.read_text() == schema_text("matrix")
    assert run("--for", tmp_path / "matrix.yaml").exit_code == 2


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("--out", tmp_path / "file/x.json")
    assert done.exit_code == 2
    assert "cannot be written" in done.stderr
