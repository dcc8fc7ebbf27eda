"""Cluster profiles on disk: where they lie, which one a name means, and how one is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recipegen.clusters import LOCAL, ClusterProfile, parse_profile
from recipegen.errors import NOWHERE, InputError, Problem, Source, near_match
from recipegen.files import reason


@dataclass(frozen=True)
class FoundProfile:
    """A profile and its file; the built-in one has none."""

    profile: ClusterProfile
    source: Source = NOWHERE


def profile_folders(environment: Mapping[str, str], cwd: str) -> tuple[str, ...]:
    """Return the folders that hold profiles, first match first; the environment is passed in."""
    config = environment.get("XDG_CONFIG_HOME") or os.path.join(environment.get("HOME") or os.path.expanduser("~"), ".config")
    own = environment.get("RECIPEGEN_CLUSTERS")
    return tuple(dict.fromkeys([os.path.join(cwd, "clusters"), *([own] if own else []), os.path.join(config, "recipegen", "clusters")]))


def resolve_profile(cluster: str, *, folders: Sequence[str], local: Callable[[], ClusterProfile]) -> FoundProfile:
    """Return the profile that `--cluster` names: `local`, which is made when asked for, a path, or a name in one of `folders`."""
    if cluster == LOCAL:
        return FoundProfile(local())
    if "/" in cluster or cluster.endswith((".yaml", ".yml")):
        return FoundProfile(load_profile(cluster), Source(cluster))
    found = next((path for folder in folders if (path := os.path.join(folder, f"{cluster}.yaml")) and os.path.isfile(path)), None)
    if found is None:
        known = sorted({LOCAL, *(path.stem for folder in folders for path in _profiles_in(folder))})
        looked = ", ".join(folders)
        hint = near_match(cluster, known) or f"known: {', '.join(known)}; looked in {looked}"
        raise InputError(f"no cluster profile '{cluster}'; expected a path, or {cluster}.yaml in one of: {looked}", hint=hint)
    profile = load_profile(found)
    if profile.name != cluster:
        message = f"the profile calls itself '{profile.name}'; expected '{cluster}', as its file is called"
        raise InputError([Problem(profile.place("name") or Source(found), message, rule="profile-name")])
    return FoundProfile(profile, Source(found))


def load_profile(path: str) -> ClusterProfile:
    """Read one profile, or raise InputError with everything that is wrong with it."""
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise InputError([Problem(Source(path), f"cannot be read: {reason(error)}", rule="profile-unreadable")]) from None
    return parse_profile(text, path)


def _profiles_in(folder: str) -> list[Path]:
    return sorted(Path(folder).glob("*.yaml")) if os.path.isdir(folder) else []
