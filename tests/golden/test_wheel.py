"""The built wheel, installed outside the checkout, renders the committed bytes."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support import LEAF, ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT], check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    return built


def test_templates_and_data_are_in_the_wheel(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    templates = {
        f"recipegen/templates/{p.relative_to(ROOT / 'templates')}" for p in (ROOT / "templates").rglob("*") if p.is_file() and p.suffix != ".pyc"
    }
    data = {str(p.relative_to(ROOT)) for p in (ROOT / "recipegen/data").rglob("*.yaml")}
    assert templates | data <= names
    assert not [name for name in names if name.startswith(("tests/", "recipes/", "docs/"))]


def test_the_installed_wheel_renders_the_committed_bytes(wheel: Path, tmp_path: Path) -> None:
    """Unpacked into an empty folder and run from there: nothing of the checkout is on the path but what it depends on."""
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import recipegen.cli as c; assert c.__file__.startswith(sys.path[0]); c.main(sys.argv[1:])"
    )
    run = [sys.executable, "-c", code, str(site), "render", str(LEAF / "matrix.yaml"), "--out", str(tmp_path / "out")]
    subprocess.run(run, check=True, cwd=tmp_path, capture_output=True)
    rendered = {p.relative_to(tmp_path / "out"): p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()}
    committed = {p.relative_to(LEAF): p.read_bytes() for p in LEAF.rglob("*") if p.is_file() and p.suffix != ".yaml"}
    assert rendered == committed
