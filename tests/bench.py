"""Speed and memory as ratios within one run: `make bench`. Nothing here fails; CI does not time anything."""

from __future__ import annotations

import gc
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent.parent))

from recipegen.pipeline import check_matrix, plan_matrix, render_plans
from recipegen.review.diff import MatrixText, TextPair, compare_all
from tests.support import LEAF, MINIMAL

REPEATS = 5
CLI = [sys.executable, "-m", "recipegen"]


def main() -> None:
    gc.set_threshold(50_000)  # as the command line has it
    python = seconds_of([sys.executable, "-c", "pass"])
    print(f"bare python                      {python * 1000:7.0f} ms   1.0 x")
    for label, command in {
        "recipegen --help": [*CLI, "--help"],
        "check of the leaf": [*CLI, "check", str(LEAF)],
        "render --check of the leaf": [*CLI, "render", "--check", str(LEAF)],
        "plan of the leaf": [*CLI, "plan", str(LEAF)],
        "status, no runs": [*CLI, "status"],
    }.items():
        spent = seconds_of(command)
        print(f"{label:32} {spent * 1000:7.0f} ms {spent / python:5.1f} x")
    text = (LEAF / "matrix.yaml").read_bytes()
    plans = plan_matrix(text, "matrix.yaml")
    print(f"check of eight, in process       {timed(lambda: check_matrix(text, 'matrix.yaml')) * 1000:7.1f} ms")
    print(f"plan of eight points, in process {timed(lambda: plan_matrix(text, 'matrix.yaml')) * 1000:7.1f} ms")
    print(f"render of eight, in process      {timed(lambda: render_plans(plans)) * 1000:7.1f} ms")
    linearity()
    differences(text.decode())
    print(f"peak memory of this process      {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:7.0f} MiB")


def linearity() -> None:
    """Time per point should not grow with the number of points."""
    base = None
    for count in (100, 1_000, 10_000):
        text = many_points(count)
        per_point = timed(lambda text=text: check_matrix(text, "matrix.yaml"), repeats=1) / count
        base = base or per_point
        print(f"plan, sizes and checks of {count:6}  {per_point * 1e6:7.0f} us a point {per_point / base:5.2f} x")


def many_points(count: int) -> bytes:
    lines = (f'  - {{agg: TP8, concurrency: [{n}], time_limit: "1:00:00"}}\n' for n in range(1, count + 1))
    return (MINIMAL + "".join(lines)).encode()


def differences(text: str, count: int = 200) -> None:
    """A diff follows every point on both sides, sizes and rules included: its cost beside that of planning the same points."""
    olds = [text.replace("name: ", f"name: m{n}-").replace("isl: 8192", f"isl: {8192 - n}").encode() for n in range(count)]
    news = [old.replace(b"kv-cache-dtype: fp8 ", b"gpu-memory-utilization: 0.9\n    kv-cache-dtype: fp8 ") for old in olds]
    pairs = [TextPair(*(MatrixText(path=f"{n}", data=data) for data in pair)) for n, pair in enumerate(zip(olds, news, strict=True))]
    one = pairs[: count // 2] + [TextPair(pair.old, pair.old) for pair in pairs[count // 2 :]]
    points = sum(len(plan_matrix(data, "m")) for data in (*olds, *news))
    planned = timed(lambda: [plan_matrix(data, "m") for data in (*olds, *news)], repeats=3)
    print(f"plan of {points // 2} points, both sides   {planned:7.2f} s    1.0 x")
    for label, some in {"diff, every point changed": pairs, "diff, half of them changed": one}.items():
        spent = timed(lambda some=some: compare_all(some), repeats=3)
        print(f"{label:32} {spent:7.2f} s  {spent / planned:5.1f} x")


def timed(action: Callable[[], object], *, repeats: int = REPEATS) -> float:
    spent = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)


def seconds_of(command: list[str]) -> float:
    with TemporaryDirectory() as state:
        return timed(lambda: subprocess.run(command, env={"XDG_STATE_HOME": state}, check=True, capture_output=True))


if __name__ == "__main__":
    main()
