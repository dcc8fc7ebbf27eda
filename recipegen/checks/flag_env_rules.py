"""Rules over the names of variables that the engine reads."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from functools import cache

from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import rule
from recipegen.checks.views import RoleView

VARIABLES = (
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
    "VLLM_ENGINE_READY_TIMEOUT_S",
    "VLLM_NIXL_SIDE_CHANNEL_HOST",
    "VLLM_NIXL_SIDE_CHANNEL_PORT",
    "VLLM_SSM_CONV_STATE_LAYOUT",
)
"""Variables of vLLM that the launcher sets, or on whose value other rules depend."""
_MISSPELT = 0.93
"""How alike two names are, as difflib counts, that one must be the other misspelt: one letter of ten or more."""


@rule("env-misspelt", Severity.WARNING)
def misspelt_variable(view: RoleView) -> Iterator[Fault]:
    """A variable is all but called like one that vLLM reads.

    vLLM does not read it, and at most logs that it does not know it: the default stays. A state layout that was meant and is not
    set shows when the first request moves from prefill to decode, hours after the start.

    Mend: the name that the message gives.
    Source: vLLM 0.28 `envs.py`, which reads variables by name and only warns of others that begin with VLLM_.
    """
    for variable in view.role.env:
        name = variable.name
        if name not in VARIABLES and (near := _near(name)):
            yield Fault(view.at_env(name), f"vLLM reads no '{name}': it stays without effect", f"did you mean '{near}'?")


@cache
def _near(name: str) -> str:
    """The variable that a name is all but equal to, or an empty string; the names of a matrix are few, and stand in every point."""
    return next(iter(difflib.get_close_matches(name.upper(), VARIABLES, n=1, cutoff=_MISSPELT)), "")
