"""The rules over public recipes: an error on one of them is true, or the rule is wrong."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from recipegen.pipeline import check_points
from tests.contract.srt_recipes import as_matrix, expanded

CORPUS = os.environ.get("RECIPEGEN_CORPUS", "")
FOLDERS = ("qwen38", "srt-slurm", "srt-slurm-recipes")
_SERVE_ONLY = "the options belong to `vllm serve`; under Dynamo the worker's parser knows them by other names and stops"
TRUE_ERRORS: dict[str, dict[str, str]] = {
    "recipes/multi-node/DeepSeek-V4-Pro/H100/vllm/1k1k-mtp.yaml": {"flag-serve-only": _SERVE_ONLY},
}
"""Errors on public recipes that are true: the end of a path -> rule -> why."""


def recipes() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in Path(CORPUS, folder).rglob("*.yaml")) if CORPUS else []


@pytest.mark.skipif(not recipes(), reason="RECIPEGEN_CORPUS does not point to a folder with public recipes")
def test_public_recipes_raise_no_false_error() -> None:
    found: Counter[tuple[str, str]] = Counter()
    count = 0
    for path in recipes():
        known = next((rules for end, rules in TRUE_ERRORS.items() if str(path).endswith(end)), {})
        for recipe in expanded(path):
            count += 1
            matrix = as_matrix(recipe, path.name)
            for finding in check_points(matrix, matrix.points).errors:
                if finding.rule not in known:
                    found[path.name, str(finding)] += 1
    assert count > 111
    assert not found, "\n".join(f"{number} x {text}" for (_, text), number in found.items())
