"""The cluster profile that `--cluster` names."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from recipegen.clusters import ClusterProfile, local_profile
from recipegen.profile_files import FoundProfile, profile_folders, resolve_profile
from recipegen.run_index import need_state_folder


def find_profile(environ: Mapping[str, str], cluster: str) -> FoundProfile:
    """Return a profile by name or path; the built-in one runs this Python. InputError with everything that is wrong."""

    def local() -> ClusterProfile:
        return local_profile(run_root=str(need_state_folder(environ) / "local"), path_prefix=str(Path(sys.executable).parent))

    found = resolve_profile(cluster, folders=profile_folders(environ, os.getcwd()), local=local)
    return replace(found, profile=replace(found.profile, run_root=os.path.abspath(found.profile.run_root)))
