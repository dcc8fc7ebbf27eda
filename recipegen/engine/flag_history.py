"""When a flag, a choice or a sub-key was there: what the other builds' flags tell of one that a build does not have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recipegen.engine.flag_catalogue import FlagCatalogue, flag_versions, load_flags
from recipegen.engine.flag_versions import version_key


@dataclass(frozen=True)
class Sighting:
    """In which other builds something is: the last before it was removed, or the first that has it; empty: in none."""

    removed: str = ""
    added: str = ""

    def __str__(self) -> str:
        return f"removed in vLLM {self.removed}" if self.removed else f"new in vLLM {self.added}" if self.added else ""


def look_around(catalogue: FlagCatalogue, has: Callable[[FlagCatalogue], bool]) -> Sighting:
    """Tell in which release what `catalogue` has not was removed, or with which it comes; an earlier release counts first."""
    versions = flag_versions()
    at = version_key(catalogue.version) or ()
    earlier = [v for v in versions if (version_key(v) or ()) < at]
    later = [v for v in versions if (version_key(v) or ()) > at]
    for index in range(len(earlier) - 1, -1, -1):
        if has(load_flags(earlier[index], catalogue.dynamo)):
            return Sighting(removed=[*earlier, catalogue.version][index + 1])
    return Sighting(added=next((v for v in later if has(load_flags(v, catalogue.dynamo))), ""))
