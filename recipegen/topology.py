"""The field's notation for parallel sizes, `TP2DP4`, `TEP8`, `DEP16`, `2xTP1PP6`, `TP8+EP`, and the names that points get from them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable

from recipegen.model import Role, RoleShape, Topology

MAX_SIZE = 4096
DEFAULT_MTP = 3
"""The depth of speculation that a point's name does not count."""
_COUNT = re.compile(r"(?P<count>\d+)[x\u00d7]", re.IGNORECASE | re.ASCII)
_EP = re.compile(r"\+EP(?P<size>\d*)$", re.IGNORECASE | re.ASCII)
_TOKEN = re.compile(r"(?P<kind>[A-Z]+)(?P<size>\d+)", re.ASCII)
_AXES = {"TP": "TP", "DP": "DP", "PP": "PP", "TEP": "TP", "DEP": "DP"}
"""Every word of the notation, and the size that it states."""


class NotationError(ValueError):
    """A topology that cannot be read; the message says what was expected."""


def parse_topology(text: str, *, ep: bool = False) -> Topology:
    """Parse one worker's topology; `ep` is what holds when the notation does not say EP itself. Raises NotationError."""
    body, suffix, ep_size = text.strip().upper().replace("\u00b7", ""), False, ""
    if found := _EP.search(body):
        body, suffix, ep_size = body[: found.start()], True, found["size"]
    sizes, explicit = _sizes(body, text)
    topology = Topology(tp=sizes.get("TP", 1), pp=sizes.get("PP", 1), dp=sizes.get("DP", 1), ep=ep or explicit or suffix)
    if ep_size and int(ep_size) != topology.ep_size:
        raise NotationError(f"'{text}' says EP{ep_size}, but EP spans TP x DP = {topology.ep_size}")
    return topology


def parse_shape(text: str, *, ep: bool = False) -> tuple[int, Topology]:
    """Parse `<workers>x<topology>`; a bare topology is one worker. Raises NotationError."""
    found = _COUNT.match(text.strip())
    if not found:
        return 1, parse_topology(text, ep=ep)
    if not 1 <= int(found["count"][:6]) <= MAX_SIZE:
        raise NotationError(f"'{text}': the number of workers must be 1 to {MAX_SIZE}")
    return int(found["count"]), parse_topology(text.strip()[found.end() :], ep=ep)


def slug(topology: Topology, *, mark_ep: bool = False) -> str:
    """Return the topology as it stands in a point's name: `tp2dep4`, `tp8`; `mark_ep` tells TEP8 from TP8."""
    tp = "tep" if mark_ep and topology.ep and topology.dp == 1 else "tp"
    dp = "dep" if topology.ep else "dp"
    parts = [(tp, topology.tp), ("pp", topology.pp), (dp, topology.dp)]
    shown = [f"{name}{size}" for name, size in parts if size > 1 or (name == "tep" and topology.pp == 1)]
    return "".join(shown) or f"tp{topology.tp}"


def mixed_ep(topologies: Iterable[Topology]) -> frozenset[tuple[int, int]]:
    """Sizes (TP, PP) without data parallelism that occur both with and without EP."""
    seen = {(t.tp, t.pp, t.ep) for t in topologies if t.dp == 1}
    return frozenset((tp, pp) for tp, pp, ep in seen if ep and (tp, pp, False) in seen)


def point_name(
    shapes: tuple[RoleShape, ...], mtp: int, concurrency: tuple[int, ...], mixed: frozenset[tuple[int, int]], *, colocate: bool = False
) -> str:
    """Return a point's name, which follows from its content; `mixed` are the sizes whose EP has to be told."""
    parts = [f"{s.workers}x{slug(s.topology, mark_ep=(s.topology.tp, s.topology.pp) in mixed)}" for s in shapes]
    if shapes[0].role is Role.AGG:
        parts.append("agg")
    if colocate:
        parts.append("colocated")
    if mtp:
        parts.append("mtp" if mtp == DEFAULT_MTP else f"mtp{mtp}")
    ends = concurrency if len(concurrency) == 1 else (concurrency[0], concurrency[-1])
    return "-".join([*parts, "cc" + "-".join(map(str, ends))])


def _sizes(body: str, text: str) -> tuple[dict[str, int], bool]:
    sizes: dict[str, int] = {}
    explicit = False
    position = 0
    for match in _TOKEN.finditer(body):
        kind = match["kind"]
        if match.start() != position or kind not in _AXES:
            raise NotationError(_unknown(text, body))
        position = match.end()
        explicit |= kind in {"TEP", "DEP"}
        axis = _AXES[kind]
        if axis in sizes:
            raise NotationError(f"'{text}' gives {axis} twice")
        if not 1 <= int(match["size"][:6]) <= MAX_SIZE:
            raise NotationError(f"'{text}': {axis} must be 1 to {MAX_SIZE}")
        sizes[axis] = int(match["size"])
    if not sizes or position != len(body):
        raise NotationError(_unknown(text, body))
    return sizes, explicit


def _unknown(text: str, body: str) -> str:
    fixed, free = "", list(_AXES)
    sizes, plus, _ = body.partition("+")
    for match in _TOKEN.finditer(sizes):
        word = max(free, key=_likeness(match["kind"]), default="")
        if not word:
            break
        free = [other for other in free if _AXES[other] != _AXES[word]]
        fixed += word + match["size"]
    fixed += "+EP" if fixed and (plus or _EP.search(text.strip())) else ""
    hint = f"; did you mean '{fixed}'?" if fixed and fixed != text.strip().upper() else ""
    return f"'{text}' is not a topology such as TP2DP4, TEP8, DEP16, TP1PP6 or TP8+EP{hint}"


def _likeness(word: str) -> Callable[[str], float]:
    return lambda known: difflib.SequenceMatcher(None, word, known).ratio()
