"""The block size that both sides get when their own differ."""

from __future__ import annotations

import pytest

from tests.unit.checks.views_for_tests import POINT, pair, point_of

OWN = "prefill: 1xTP4DP2, decode: 1xTP8, concurrency: [16]"
CONFIG = "common: {args: {speculative-config: {method: mtp, num_speculative_tokens: 3}}}"


@pytest.mark.parametrize(
    ("point", "changes", "sizes"),
    [
        (pair("1xTP4DP2", "1xTP8", mtp=3), (), {2176}),
        (pair("1xTP4DP2", "1xTP8", mtp=0), (), {2112}),
        (f'{{{OWN}, {CONFIG}, time_limit: "1:00:00"}}', (), {2176}),  # the same depth, said by the flag
        (f'{{{OWN}, common: {{args: {{spec-method: mtp, spec-tokens: 3}}}}, time_limit: "1:00:00"}}', (), {2176}),
        (pair("1xTP4DP2", "1xTP8", mtp=3), (("mamba-ssm-cache-dtype: bfloat16", "mamba-ssm-cache-dtype: float32"),), {4224}),
        (pair("1xTP4DP2", "{shape: 1xTP4DP2, args: {speculative-config: {method: mtp, num_speculative_tokens: 3}}}", mtp=0), (), {2176}),
        (POINT, (), {None}),  # the same alone
    ],
)
def test_block_size_by_what_each_role_runs_with(point: str, changes: tuple[tuple[str, str], ...], sizes: set[int | None]) -> None:
    view = point_of(point, *changes)
    assert {role.role.flag("block-size") for role in view.roles} == sizes
    assert len({role.sizes.blocks.chosen for role in view.roles if role.sizes}) == 1
