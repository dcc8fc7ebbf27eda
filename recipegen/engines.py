"""Engines by name: one line for each."""

from __future__ import annotations

from recipegen.engine import Engine
from recipegen.engine.mocker import MockerEngine
from recipegen.engine.vllm import VllmEngine

REAL: Engine = VllmEngine()
SIMULATED: Engine = MockerEngine()


def choose_engine(*, simulate: bool) -> Engine:
    """The engine that runs: the recipe's, or the mocker in its place."""
    return SIMULATED if simulate else REAL
