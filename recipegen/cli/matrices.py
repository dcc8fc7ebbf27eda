"""The matrices that PATH means, read and checked: what check, plan and render begin with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recipegen.cli.findings import findings_of
from recipegen.errors import InputError
from recipegen.leaf import find_matrices, read_matrix

if TYPE_CHECKING:
    from recipegen.checks.run import Cluster
    from recipegen.pipeline import Checked


def check_path(path: Path, point: str | None, *, simulate: bool = False, cluster: Cluster | None = None) -> list[tuple[Path, Checked]]:
    """Return each matrix of PATH with what came of it; one that cannot be read is a finding beside the others'.

    InputError when there is none, or when no point has the name that is asked for.
    """
    names = [] if point is None else [point]
    return [(matrix, _check(matrix, names, simulate=simulate, cluster=cluster)) for matrix in find_matrices(path)]


def target_of(matrix: Path, root: Path, out: Path | None) -> Path:
    """Where the files of a matrix of PATH (`root`) go: beside it, or below `out` in the same shape."""
    if out is None:
        return matrix.parent
    return out / matrix.parent.relative_to(root) if root.is_dir() else out


def _check(matrix: Path, points: Sequence[str], *, simulate: bool, cluster: Cluster | None) -> Checked:
    from recipegen.pipeline import Checked, check_matrix

    try:
        text = read_matrix(matrix)
    except InputError as error:
        return Checked(findings=tuple(findings_of(error)), usable=False)
    return check_matrix(text, str(matrix), points=points, simulate=simulate, cluster=cluster)
