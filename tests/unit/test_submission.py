"""What a submission works out before anything is touched."""

from __future__ import annotations

import pytest

from recipegen.clusters import local_profile, profile_to_json
from recipegen.pipeline import render_plans
from recipegen.submission import prepare
from tests.support import agg_point, matrix_of, plan_one


@pytest.mark.parametrize(
    ("more", "limit", "expected"),
    [
        ("", 4 * 3600, 7200),  # the profile's
        ("deadlines: {ready: 3600}\n", 4 * 3600, 7200),
        ('deadlines: {ready: "3:00:00"}\n', 4 * 3600, 10_800),
        ('deadlines: {ready: "3:00:00"}\n', 2 * 3600, 7140),  # the limit less the reserve
        ('deadlines: {ready: "3:00:00"}\n', None, 3540),
    ],
)
def test_the_later_deadline_counts_as_far_as_the_limit_allows(more: str, limit: int | None, expected: int) -> None:
    plan = plan_one(matrix_of(agg_point("TP8")) + more)
    (bundle,) = render_plans([plan])
    profile = local_profile(run_root="/runs", path_prefix="/bin")
    prepared = prepare(plan, bundle, profile, run_id="r", now=0.0, profile_json=profile_to_json(profile), time_limit_s=limit)
    assert prepared.record.ready_timeout_s == expected
