"""What rules look at: one setting, one role of a point, a point, a point on a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from recipegen.clusters import ClusterProfile
from recipegen.engine.flag_catalogue import FlagCatalogue
from recipegen.errors import Source
from recipegen.launch import WorkerLayout
from recipegen.model import Recipe, Role, RoleRecipe, Setting
from recipegen.sizing.sizes import RoleSizes


@dataclass(frozen=True, kw_only=True)
class SettingView:
    """An engine flag as the author wrote it, and the flags of the engine build."""

    setting: Setting
    catalogue: FlagCatalogue
    derived: bool = False


@dataclass(frozen=True, kw_only=True)
class RoleView:
    """A role of a resolved point. `layout` is None where the topology cannot be placed, `sizes` where nothing can be sized."""

    recipe: Recipe
    role: RoleRecipe
    layout: WorkerLayout | None
    sizes: RoleSizes | None
    catalogue: FlagCatalogue

    def at(self, *flags: str) -> Source:
        """Where the first of these flags that is set was written, dotted keys of it included; else where the role's shape stands."""
        for flag in flags:
            for own in self.role.flags:
                if own.source.file and (own.name == flag or own.name.startswith(f"{flag}.")):
                    return own.source
        return self.role.source

    def at_env(self, name: str) -> Source:
        """Where a variable was written; else where the role's shape stands."""
        return next((var.source for var in self.role.env if var.name == name and var.source.file), self.role.source)

    def env(self, name: str) -> str | None:
        """The value that the recipe gives a variable."""
        return next((str(var.value) for var in self.role.env if var.name == name), None)


@dataclass(frozen=True, kw_only=True)
class PointView:
    """A resolved point with its roles."""

    recipe: Recipe
    roles: tuple[RoleView, ...]

    @property
    def pair(self) -> tuple[RoleView, RoleView] | None:
        """Prefill and decode; None for an aggregated point."""
        found = {view.role.role: view for view in self.roles}
        return (found[Role.PREFILL], found[Role.DECODE]) if Role.PREFILL in found and Role.DECODE in found else None


@dataclass(frozen=True, kw_only=True)
class ClusterView:
    """A point on a cluster. Faults of the profile stand at `profile_source`, its file as a whole."""

    point: PointView
    profile: ClusterProfile
    profile_source: Source
