"""Engine flags and environment of one role: what follows from other inputs is taken out, the rest kept as written."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from recipegen.engines import REAL
from recipegen.errors import Source, near_match
from recipegen.job_variables import why_reserved
from recipegen.matrix import canonical_flag
from recipegen.model import Topology
from recipegen.settings import Value
from recipegen.srtslurm.reading import UNSUPPORTED, WRONG_TYPE, Findings, read_whole
from recipegen.srtslurm.recipe import Comment, Entry, SrtRole
from recipegen.srtslurm.tree import Tree, plain

CONNECTORS = {
    "nixl": '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}',
    "lmcache": '{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}',
    "null": "",
    "none": "",
}
"""What srtctl makes of a connector's name, for the workers of every role: aggregated ones behind Dynamo get it, too."""
_OTHER_CONNECTORS = ("kvbm", "lmcache-mp", "moriio")
"""Names that srtctl knows, and whose settings are not known here."""
TRANSFER = "kv-transfer-config"
SIZES = {"tensor-parallel-size": "tp", "pipeline-parallel-size": "pp", "data-parallel-size": "dp"}
EXPERTS = "enable-expert-parallel"
SERVED, LENGTH = "served-model-name", "max-model-len"
METHOD, TOKENS = "speculative-config.method", "speculative-config.num_speculative_tokens"
MOST_MTP = 64
_DASHED_TOKENS = "speculative-config.num-speculative-tokens"
PLANES = {"DYN_REQUEST_PLANE": "tcp", "DYN_EVENT_PLANE": "zmq"}
"""What every job sets for all its processes, unless requests go over NATS."""
OF_WHEEL = Comment(behind="srtctl's, for setup scripts")
"""At the variables that srtctl derives from a wheel of Dynamo."""
PER_NODE = ("{node}", "{node_id}")
"""What srtctl fills in where a variable's value holds it."""


@dataclass(frozen=True, kw_only=True)
class RoleFlags:
    """A role's flags; sizes are in the topology, the served name and the longest sequence apart."""

    flags: tuple[Entry, ...]
    topology: Topology
    served_name: Entry | None
    max_model_len: Entry | None


def read_flags(findings: Findings, tree: Tree | None, connector: Tree | None, *, by_default: bool, where: Source) -> RoleFlags:
    """Read the flags of a role. As srtctl does, leave out those that are false or null; drop what belongs to the launcher, with a note.

    `connector` is the back end's, `by_default` tells that it is not given, which is `nixl`.
    """
    if tree is not None and tree.entries is None:
        findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected a mapping of flags")
    given = dict(_by_name(findings, tree.entries or {} if tree is not None else {}))
    own = given.pop("connector", None)
    if own is not None and not own.is_null:
        connector, by_default = own, False
    sizes = {axis: _size(findings, given.pop(name, None)) for name, axis in SIZES.items()}
    ep = _experts(findings, given.pop(EXPERTS, None), given.pop(f"no-{EXPERTS}", None))
    served, length = _served_name(findings, given.pop(SERVED, None)), _entry_of(findings, given.pop(LENGTH, None), LENGTH)
    flags = tuple(_kept(findings, given))
    if not (written := [flag.value for flag in flags if flag.name.partition(".")[0] == TRANSFER]):
        flags = (*flags, *_connector(findings, connector, by_default=by_default, where=where))
    elif connector is not None:
        _note_connector(findings, connector, written)
    return RoleFlags(flags=flags, topology=Topology(**sizes, ep=ep), served_name=served, max_model_len=length)


def read_env(findings: Findings, tree: Tree | None) -> tuple[Entry, ...]:
    """Read variables: texts on one line, with names that a process can have and that are not the job's own."""
    if tree is None:
        return ()
    if tree.entries is None:
        findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected a mapping of variables")
        return ()
    return tuple(entry for name, one in tree.entries.items() if (entry := _variable(findings, name, one)) is not None)


def merge_env(findings: Findings, own: tuple[Entry, ...], shared: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Return a role's variables with those of `environment`, which srtctl sets after the role's."""
    over = {entry.name: entry for entry in shared}
    for entry in own:
        if entry.name in over and over[entry.name].value != entry.value:
            whose = "that srtctl sets beside a wheel" if over[entry.name].comment == OF_WHEEL else "of `environment`"
            findings.note(entry.source, f"'{entry.name}' {whose} takes the place of the role's, as srtctl sets it later")
    return (*(entry for entry in own if entry.name not in over), *shared)


def shared_mtp(roles: Iterable[SrtRole]) -> int:
    """Return the depth of multi-token prediction when every role says it alike, and nothing else of speculation; else 0.

    Only dotted keys count: they are what a matrix's `mtp` gives to engines, letter for letter.
    """
    depths = {_mtp(role) for role in roles}
    return depths.pop() if len(depths) == 1 else 0


def without_mtp(roles: Iterable[SrtRole]) -> Iterator[SrtRole]:
    """Yield the roles without the flags of multi-token prediction."""
    for role in roles:
        yield replace(role, flags=tuple(flag for flag in role.flags if flag.name not in {METHOD, TOKENS}))


def _mtp(role: SrtRole) -> int:
    own = {flag.name: flag.value for flag in role.flags if flag.name.startswith(("speculative-config", "spec-"))}
    depth = own.get(TOKENS)
    if own.keys() != {METHOD, TOKENS} or own[METHOD] != "mtp" or isinstance(depth, bool) or not isinstance(depth, int):
        return 0
    return depth if 1 <= depth <= MOST_MTP else 0


def _by_name(findings: Findings, entries: dict[str, Tree]) -> Iterator[tuple[str, Tree]]:
    seen: dict[str, Tree] = {}
    for key, tree in entries.items():
        name = canonical_flag(key)
        name = TOKENS if name == _DASHED_TOKENS else name
        if name in seen:
            findings.problem("srt-flag-twice", tree.key, f"'{key}' and '{seen[name].path.rpartition('.')[2]}' are the same flag '{name}'")
            continue
        seen[name] = tree
        yield name, tree


def _size(findings: Findings, tree: Tree | None) -> int:
    if tree is None or tree.is_null:
        return 1
    return read_whole(findings, tree, least=1) or 1


def _is_on(findings: Findings, tree: Tree | None) -> bool:
    if tree is None or tree.is_null:
        return False
    if not isinstance(tree.scalar, bool):
        findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected true or false")
    return tree.scalar is True


def _experts(findings: Findings, tree: Tree | None, negative: Tree | None) -> bool:
    """Whether expert parallelism is on; said both ways, the negative flag holds: srtctl sorts flags, and vLLM heeds the last."""
    on, off = _is_on(findings, tree), _is_on(findings, negative)
    if on and off and tree is not None and negative is not None:
        findings.note(tree.key, f"'{tree.path}' is left out: '{negative.path}' comes behind it among srtctl's flags, which are sorted, and holds")
    return on and not off


def _served_name(findings: Findings, tree: Tree | None) -> Entry | None:
    """The one name that clients ask for: vLLM takes several, a matrix does not."""
    if tree is None or tree.is_null:
        return None
    if tree.text is None and (isinstance(tree.scalar, bool) or tree.scalar is None):
        findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected one name: it is what clients ask for")
        return None
    entry = _entry_of(findings, tree, SERVED)
    return None if entry is None else replace(entry, value=str(tree.scalar) if tree.text is None else tree.text)


def _kept(findings: Findings, given: dict[str, Tree]) -> Iterator[Entry]:
    owned = REAL.owned_flags()
    for name, tree in given.items():
        why = owned.get(name.partition(".")[0])
        if why is not None and name in {"model", "revision"}:
            findings.unsupported(tree, "the model and its revision are `model.path` and `identity.model.revision`")
        elif why is not None and name in {"tp", "pp", "dp", "ep"}:
            findings.unsupported(tree, "write the long name, by which srtctl knows it, too")
        elif why is not None:
            findings.note(tree.key, f"'{name}' is left out: it belongs to the launcher, which sets it where a worker needs it")
        elif tree.is_null or tree.scalar is False:
            findings.note(tree.key, f"'{name}' is left out: srtctl passes no flag that is false or null")
        elif (entry := _entry_of(findings, tree, name)) is not None:
            yield entry


def _entry_of(findings: Findings, tree: Tree | None, name: str) -> Entry | None:
    if tree is None or tree.is_null:
        return None
    value = _flag_value(findings, tree)
    return None if value is None else Entry(name=name, value=value, source=tree.key, comment=Comment(tree.above, tree.behind))


def _flag_value(findings: Findings, tree: Tree) -> Value | None:
    if tree.entries is not None:
        return json.dumps(plain(tree), ensure_ascii=False)
    if tree.items is not None:
        values = [item.scalar for item in tree.items]
        if values and all(isinstance(value, str | int | float) and not isinstance(value, bool) for value in values):
            return tuple(value for value in values if value is not None)
        findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is a list of something else than texts and numbers, or of nothing")
        return None
    if tree.scalar == "" or (isinstance(tree.scalar, str) and any(unicodedata.category(c) == "Cc" and c not in "\n\t" for c in tree.scalar)):
        findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected a value")
        return None
    return tree.scalar


def _connector(findings: Findings, tree: Tree | None, *, by_default: bool, where: Source) -> Iterator[Entry]:
    if tree is None and not by_default:
        return
    text = "nixl" if tree is None else tree.text
    if isinstance(text, str) and text.lstrip().startswith("{"):
        yield Entry(name=TRANSFER, value=text, source=tree.source if tree else where)
    elif not isinstance(text, str) or text not in CONNECTORS:
        if tree is not None:
            known = "known are nixl, lmcache, null and JSON; write `kv-transfer-config` out"
            findings.problem(UNSUPPORTED, tree.source, f"'{tree.path}' is {tree.kind}; {known}")
    elif CONNECTORS[text]:
        source = tree.source if tree is not None else where
        yield Entry(name=TRANSFER, value=CONNECTORS[text], source=source, comment=Comment(behind=f"srtctl's connector `{text}`"))


def _note_connector(findings: Findings, tree: Tree, written: list[Value]) -> None:
    """Note a connector beside transfer settings that say something else; refuse what is none."""
    text = tree.text or ""
    if text not in {*CONNECTORS, *_OTHER_CONNECTORS} and not text.lstrip().startswith("{"):
        near = near_match(text, {*CONNECTORS, *_OTHER_CONNECTORS})
        findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected the name of a connector, JSON or null", near)
    elif (meant := CONNECTORS.get(text, text)) and written != [meant]:
        findings.note(tree.key, f"'{tree.path}' is left out: the role's own `{TRANSFER}` holds, as srtctl adds a connector's to roles without one")


def _variable(findings: Findings, name: str, tree: Tree) -> Entry | None:
    value = tree.text
    if name in PLANES and value == PLANES[name]:
        findings.note(tree.key, f"'{name}' is left out: the job sets it so for all processes")
    elif why := why_reserved(name):
        findings.problem("srt-env", tree.key, f"'{tree.path}': {name!r} {why}")
    elif not isinstance(value, str):
        findings.problem("srt-env", tree.source, f"'{tree.path}' is {tree.kind}; expected text, in quotes")
    elif any(unicodedata.category(c) == "Cc" for c in value):
        findings.problem("srt-env", tree.source, f"'{tree.path}' holds a control character; expected one line of text")
    elif filled := next((word for word in PER_NODE if word in value), ""):
        findings.problem(UNSUPPORTED, tree.source, f"'{tree.path}' holds {filled}, which srtctl fills in on each node; variables are the same on all")
    else:
        return Entry(name=name, value=value, source=tree.key, comment=Comment(tree.above, tree.behind))
    return None
