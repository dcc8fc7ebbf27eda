"""What rules look at: one setting, one role of a point, a point, a point on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from recipegen.engine.flag_catalogue import FlagCatalogue
from recipegen.engine.flag_misfit import Misfit
from recipegen.engine.flag_spec import FlagUse
from recipegen.engine.flag_values import derived_misfits, misfits
from recipegen.errors import NOWHERE, Source
from recipegen.launch import WorkerLayout
from recipegen.model import Recipe, Role, RoleRecipe
from recipegen.settings import Setting
from recipegen.sizing.sizes import RoleSizes

if TYPE_CHECKING:
    from recipegen.clusters import ClusterProfile


@dataclass(frozen=True, kw_only=True)
class SettingView:
    """An engine flag as the author wrote it, and the flags of the engine build."""

    setting: Setting
    catalogue: FlagCatalogue
    derived: bool = False

    @cached_property
    def head(self) -> str:
        """The flag without keys after a dot, spelt with `-`."""
        return self.setting.name.partition(".")[0].replace("_", "-")

    @cached_property
    def use(self) -> FlagUse | None:
        """How the build understands the name; None where it has no such flag."""
        return self.catalogue.find(self.setting.name)

    @cached_property
    def misfits(self) -> tuple[Misfit, ...]:
        """What the flag does not take of the value; none of a flag that is not there, or not a worker's, or is taken back."""
        use, value = self.use, self.setting.value
        if use is None or not use.spec.engine or value is None:
            return ()
        return tuple(derived_misfits(use) if self.derived else misfits(use, value))


@dataclass(frozen=True, kw_only=True)
class RoleView:
    """A role of a resolved point. `layout` is None where the topology cannot be placed, `sizes` where nothing can be sized.

    `site_env` is what the cluster profile adds to every process beneath the recipe's own variables, without those that the launcher
    sets over it, and `site_source` its file; empty: there is no profile. `args_source` is where the matrix's flags begin, the place
    of what is left out of them; NOWHERE: what is left out stands at the role's shape.
    """

    recipe: Recipe
    role: RoleRecipe
    layout: WorkerLayout | None
    sizes: RoleSizes | None
    catalogue: FlagCatalogue
    site_env: Mapping[str, str] = field(default_factory=dict)
    site_source: Source = NOWHERE
    args_source: Source = NOWHERE

    @property
    def omission(self) -> Source:
        """The place of what is left out."""
        return self.args_source if self.args_source.file else self.role.source

    def at(self, *flags: str) -> Source:
        """Where the first of these flags that is set was written, dotted keys of it included; else where the role's shape stands."""
        for flag in flags:
            for own in self.role.flags:
                if own.source.file and (own.name == flag or own.name.startswith(f"{flag}.")):
                    return own.source
        return self.role.source

    def at_env(self, name: str) -> Source:
        """Where a variable was written, in the recipe or else in the profile; else where the role's shape stands."""
        for var in self.role.env:
            if var.name == name and var.source.file:
                return var.source
        return self.site_source if name in self.site_env and self.site_source.file else self.role.source

    def env(self, name: str) -> str | None:
        """The value that a process finds in a variable: the recipe's, or else the site's."""
        own = next((str(var.value) for var in self.role.env if var.name == name), None)
        return self.site_env.get(name) if own is None else own


@dataclass(frozen=True, kw_only=True)
class PointView:
    """A resolved point with its roles. `front_ends` is how many it gets; nginx stands before several."""

    recipe: Recipe
    roles: tuple[RoleView, ...]
    front_ends: int = 1

    @cached_property
    def pair(self) -> tuple[RoleView, RoleView] | None:
        """Prefill and decode; None for an aggregated point."""
        found = {view.role.role: view for view in self.roles}
        return (found[Role.PREFILL], found[Role.DECODE]) if Role.PREFILL in found and Role.DECODE in found else None


@dataclass(frozen=True, kw_only=True)
class ClusterView:
    """A point on a cluster; `profile_source` is the profile's file as a whole."""

    point: PointView
    profile: ClusterProfile
    profile_source: Source

    def at(self, *path: str | int) -> Source:
        """Where the profile says something, by the keys that lead to it; else where it says what is around it, or the file."""
        return self.profile.place(*path) or self.profile_source
