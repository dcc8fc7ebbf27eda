"""What the checks of a cluster profile's values say, as JSON schema: pydantic's own schema cannot see into functions.

What no JSON schema says is left to the loader: unassigned and private characters beyond U+FFFF, variables that a job keeps for
itself, `1.0` where an integer is wanted (JSON schema takes it for one), flags that are one flag written twice, and all meaning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from recipegen.cluster_schema import OWNED_BY_JOB, OWNED_BY_TOOL
from recipegen.job_variables import SITE_VARIABLES

INVISIBLE = (
    r"\u0000-\u001f\u007f-\u009f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890-\u0891\u08e2\u180e"
    r"\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb"
)
"""Control and format characters and line ends up to U+FFFF, for a character class; Unicode 14."""

_BLANKS = r"\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\ue000-\uf8ff"
_VISIBLE = f"[^{INVISIBLE}]"
_ABSOLUTE = r"(?!.*/\.\.(?:/|$))"
_SETTLED = r"(?!(?:.*[/:#])?\.\.(?:[/:#]|$))"
_OPTION = "[a-z][a-z0-9-]*"
_NAME = {"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$"}
_MOST_SECONDS = 30 * 86400
_HOURS_BELOW_720 = "(?:0{0,3}[0-9]|0{0,2}[0-9]{2}|0?[0-6][0-9]{2}|0?7[01][0-9])"


def beginnings(words: Iterable[str]) -> str:
    """Return a pattern for every beginning of these words, the words themselves included."""
    tree: dict[str, Any] = {}
    for word in words:
        node = tree
        for char in word:
            node = node.setdefault(char, {})
    return _pattern_of(tree)


def _pattern_of(tree: Mapping[str, Any]) -> str:
    return "|".join(re.escape(char) + (f"(?:{_pattern_of(below)})?" if below else "") for char, below in sorted(tree.items())).replace("\\-", "-")


_SBATCH = {"pattern": f"^(?!(?:{beginnings(OWNED_BY_TOOL)})$){_OPTION}$"}
_SECONDS = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": _MOST_SECONDS},
        {"type": "string", "pattern": f"^(?!0{{1,4}}:00:00$)(?:{_HOURS_BELOW_720}:[0-5][0-9]:[0-5][0-9]|0?720:00:00)$"},
    ]
}

LIMITS: Mapping[str, Mapping[str, Any]] = {
    "_printable": {"pattern": f"^{_VISIBLE}*$"},
    "_name": _NAME,
    "_slurm_word": {"pattern": "^[A-Za-z0-9_][A-Za-z0-9_.,:@/+-]*$"},
    "_absolute": {"pattern": f"^{_ABSOLUTE}/{_VISIBLE}*$"},
    "check_run_root": {"pattern": rf"^{_ABSOLUTE}(?!/*$)/[^:,\\{INVISIBLE}{_BLANKS}]*$"},
    "_settled": {"pattern": f"^{_SETTLED}{_VISIBLE}*$"},
    "_mount": {"pattern": f"^{_SETTLED}/[^:,{INVISIBLE}]*:/[^:,{INVISIBLE}]*(?::[A-Za-z0-9+_-]+)?$"},
    "_port_offset": {"minimum": 0, "maximum": 20000},
    "_sbatch_name": _SBATCH,
    "_required_option": {
        "anyOf": [{"enum": sorted(name for name in ("account", "partition", "qos", "reservation") if name in OWNED_BY_TOOL)}, _SBATCH]
    },
    "_srun_option": {"pattern": rf"^(?!--(?:{beginnings(OWNED_BY_JOB)})(?:=|$))--{_OPTION}(?:=[^\s*?\[\]{INVISIBLE}]+)?$"},
    "_environment_name": {"pattern": f"^(?!(?:{'|'.join(sorted(SITE_VARIABLES))})$)[A-Za-z_][A-Za-z0-9_]*$"},
    "_seconds": _SECONDS,
    "_local_has_no_container": {
        "if": {"properties": {"scheduler": {"const": "local"}}},
        "then": {"properties": {"container": {"properties": {"runtime": {"const": "none"}}}}},
    },
}
"""By the name of a function in `cluster_schema`, what the values that it lets pass have in common; patterns are whole."""

FLAG_VALUE: Mapping[str, Any] = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": ["number", "boolean", "null"]},
        {"type": "array", "minItems": 1, "items": {"type": ["string", "number"]}},
        {"type": "object"},
    ]
}
"""What an engine flag can hold; `matrix` refuses the rest when it gives flags their meaning."""


def portable(pattern: str) -> str:
    r"""Return a pattern as ECMA 262 takes it: an escaped quote is an error there."""
    return pattern.replace(json.dumps('"')[1:-1], '"')
