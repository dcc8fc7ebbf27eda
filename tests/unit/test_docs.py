"""Documentation that stays true: links lead somewhere, every verb is told of, the README's promises hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from recipegen.cli import VERBS
from tests.support import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_verb_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    assert [verb for verb in VERBS if not re.search(rf"(`|recipegen ){verb}\b", text)] == []


def test_every_room_is_in_the_architecture() -> None:
    text = (ROOT / "docs/explanation/architecture.md").read_text()
    rooms = {p.stem for p in (ROOT / "recipegen").glob("*.py") if not p.stem.startswith("__")}
    folders = {p.parent.name for p in (ROOT / "recipegen").glob("*/__init__.py")}
    named = set(re.findall(r"`([a-z_]+)/?`", text))
    assert rooms | folders <= named, sorted((rooms | folders) - named)


def test_the_yaml_of_the_how_to_pages_is_accepted() -> None:
    from recipegen.matrix_schema import HardwareSchema, ModelSchema
    from recipegen.yamlsource import parse_yaml, validate

    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/how-to/add-data.md").read_text(), re.DOTALL)
    validate(parse_yaml(blocks[0], "model"), ModelSchema)
    validate(parse_yaml(blocks[1], "hardware"), HardwareSchema)


def test_the_profile_and_the_points_of_the_reference_are_accepted() -> None:
    from recipegen.clusters import parse_profile
    from recipegen.matrix import parse_matrix
    from tests.support import MINIMAL

    (profile,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/reference/cluster-profile.md").read_text(), re.DOTALL)
    assert parse_profile(profile, "profile").name == "oslo"
    (points,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/reference/matrix.md").read_text(), re.DOTALL)
    assert len(parse_matrix(MINIMAL + points, "matrix").points) == 3
