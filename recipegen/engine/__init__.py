"""What an engine must tell: the flags it derives, the ports a process needs, and the command that starts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from recipegen.engine.flag_catalogue import FlagCatalogue
from recipegen.launch import Command, WorkerLayout
from recipegen.model import Dynamo, Flag, Recipe, RoleRecipe, Runtime, Topology


class Engine(Protocol):
    """An engine knows its flags; where its workers stand is told to it."""

    name: str

    def dynamo(self, runtime: Runtime) -> Dynamo:
        """The Dynamo that the engine's scripts need, and how it gets there."""

    def owned_flags(self) -> Mapping[str, str]:
        """Flags that a recipe must not set, each with the reason or the place where it is set instead."""

    def catalogue(self, runtime: Runtime) -> FlagCatalogue:
        """Every flag of the engine's build, or of the build nearest to it that is known."""

    def topology_flags(self, topology: Topology) -> tuple[Flag, ...]:
        """Flags that state the parallel sizes; sizes of 1 are left out."""

    def speculation_flags(self, mtp: int) -> tuple[Flag, ...]:
        """Flags that switch on multi-token prediction with `mtp` tokens; none for 0."""

    def port_needs(self, role: RoleRecipe, *, local_dp: int, one_node: bool) -> Mapping[str, int]:
        """Ports that one process binds: placeholder name and how many from that base on."""

    def command(self, recipe: Recipe, role: RoleRecipe, layout: WorkerLayout) -> Command:
        """The command of every process of this role, with addresses, ports and ranks as placeholders."""
