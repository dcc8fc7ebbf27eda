"""Flags of an engine build: every flag that a worker, or only the engine's own server, takes; which file of them fits a build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

from recipegen.builds import build_of
from recipegen.engine.flag_format import FlagTable, parse_flags
from recipegen.engine.flag_spec import FlagKind, FlagSpec, FlagUse
from recipegen.engine.flag_versions import is_development, nearest, same_minor, version_key

__all__ = ["FlagCatalogue", "FlagKind", "FlagSpec", "FlagUse", "flag_versions", "load_flags"]

VLLM, DYNAMO = "vllm", "dynamo"
MOST_REMEMBERED = 4096
"""Names that a catalogue remembers: all that recipes use, and no more than a file of nonsense may take of memory."""


@dataclass(frozen=True, kw_only=True)
class FlagCatalogue:
    """Every flag of one build. `asked` is the build that the recipe declares, `version` the one these flags are of.

    `exact` tells that the two take the same flags; `close`, that they are releases of one minor version, which differ in mends.
    `dynamo` is the Dynamo that the recipe declares, empty where none is.
    """

    asked: str
    version: str
    flags: Mapping[str, FlagSpec]
    exact: bool = True
    close: bool = False
    dynamo: str = ""

    @property
    def sure(self) -> bool:
        """Whether what these flags tell holds for the build that was asked for."""
        return self.exact or self.close

    @property
    def label(self) -> str:
        """Which build these flags are of, in words."""
        nearest = f"the nearest known to {self.asked}," if self.asked else "the newest known,"
        return f"vLLM {self.asked}" if self.sure else f"vLLM {self.version}, {nearest}"

    def find(self, name: str) -> FlagUse | None:
        """Understand a name as vLLM's parser does: `_` is `-` up to the first dot, then keys of a JSON argument; aliases and `no-` forms."""
        if name not in self._understood:
            if len(self._understood) >= MOST_REMEMBERED:
                self._understood.clear()
            self._understood[name] = self._understand(name)
        return self._understood[name]

    @cached_property
    def _understood(self) -> dict[str, FlagUse | None]:
        """Names that were asked for: the same few stand in every point, and rules ask for them over and over."""
        return {}

    def _understand(self, name: str) -> FlagUse | None:
        head, *keys = name.split(".")
        head = head.replace("_", "-")
        if spec := self.flags.get(head) or self._aliases.get(head):
            return FlagUse(spec=spec, keys=tuple(keys))
        spec = self.flags.get(head.removeprefix("no-")) if head.startswith("no-") else None
        return FlagUse(spec=spec, negative=True, keys=tuple(keys)) if spec and spec.negatable else None

    @cached_property
    def _aliases(self) -> Mapping[str, FlagSpec]:
        return {alias.lstrip("-"): spec for spec in self.flags.values() for alias in spec.aliases}


@cache
def load_flags(build: str, dynamo: str = "") -> FlagCatalogue:
    """Return the flags that `python -m dynamo.vllm` takes with this vLLM build and this Dynamo, and those that only `vllm serve` takes.

    A release or a known build has its own; any other gets those of the nearest release, and says so. Of Dynamo's own flags, the
    nearest release's are taken.
    """
    versions = flag_versions(VLLM)
    known = build_of(build)
    follows = known.named or is_development(build)
    version = build if build in versions else known.release if follows and known.release in versions else ""
    exact = bool(version) and known.sure
    version = version or next((known for known in versions if _same(known, build)), "") or nearest(build, versions)
    exact = exact or _same(version, build)
    own = load_table(DYNAMO, nearest(dynamo, flag_versions(DYNAMO))).flags
    return FlagCatalogue(
        asked=build,
        version=version,
        flags={**load_table(VLLM, version).flags, **own},
        exact=exact,
        dynamo=dynamo,
        close=not exact and not is_development(build) and same_minor(build, version),
    )


@cache
def flag_versions(program: str = VLLM) -> tuple[str, ...]:
    """Releases whose flags are shipped, the oldest first."""
    names = (entry.name for entry in (files("recipegen") / "data" / "engine_flags").iterdir())
    found = [name.removeprefix(f"{program}-").removesuffix(".json") for name in names if name.startswith(f"{program}-") and name.endswith(".json")]
    return tuple(sorted(found, key=lambda version: version_key(version) or ((), ("", 0), 0, 0)))


@cache
def load_table(program: str, version: str) -> FlagTable:
    """Return one shipped file of `vllm` or `dynamo`; `version` is one of `flag_versions`."""
    return parse_flags((files("recipegen") / "data" / "engine_flags" / f"{program}-{version}.json").read_text(encoding="utf-8"))


def _same(known: str, build: str) -> bool:
    """Whether two names are one version: `v0.28` and `0.28.0`, with any local part (`0.28.0+cu130`) of a release."""
    return not is_development(build) and version_key(known) == version_key(build)
