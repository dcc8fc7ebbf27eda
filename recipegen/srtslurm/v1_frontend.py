"""The front ends of a v1 document: how many, what each is told, and nginx before several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from recipegen.errors import Source
from recipegen.plan import place_front_ends
from recipegen.srtslurm import keys
from recipegen.srtslurm.reading import UNSUPPORTED, Findings, Section, read_text
from recipegen.srtslurm.recipe import Entry, SrtFrontend
from recipegen.srtslurm.v1_flags import read_env
from recipegen.srtslurm.v1_options import read_arguments

SEVERAL, MORE = "enable_multiple_frontends", "num_additional_frontends"
IMAGE, AFFINITY, HEADER = "nginx_container", "nginx_session_affinity", "nginx_session_affinity_header"
MOST = 64
"""Front ends that a matrix may ask for."""
ADDITIONAL = 9
"""Front ends beside the first where a recipe does not count them: srtctl 1.0, `frontend.num_additional_frontends`."""
SESSION_HEADER = "X-Dynamo-Session-ID"
"""The header of a session where a recipe names none: srtctl 1.0, `frontend.nginx_session_affinity_header`."""


def read_frontend(findings: Findings, frontend: Section, shared: tuple[Entry, ...]) -> tuple[SrtFrontend, bool]:
    """Return the front ends, and whether they ask for a node of their own. A recipe that does not say has several, as for srtctl.

    `shared` is `environment`, which front ends get below their own.
    """
    kind = frontend.take("type")
    if kind is not None and kind.scalar != "dynamo":
        findings.problem(UNSUPPORTED, kind.source, f"'{kind.path}' is {kind.kind}; the front end is Dynamo's, 'dynamo'")
    several = frontend.rest.get(SEVERAL)
    stated = (several is not None and not several.is_null) or frontend.says(MORE)
    found = SrtFrontend() if frontend.switch(SEVERAL) is False else _read_several(findings, frontend)
    alone = frontend.switch("dedicated_node") or False
    args, env = frontend.take("args"), frontend.take("env")
    if (placement := frontend.rest.get("orchestrator_placement")) is not None and placement.scalar == "head":
        frontend.take("orchestrator_placement")
    frontend.finish({**keys.FRONTEND, **(keys.NGINX if found.replicas > 1 else {})})
    own = read_env(findings, env)
    names = {entry.name for entry in own}
    variables = (*own, *(entry for entry in shared if entry.name not in names))
    stated = stated or bool(found.nginx_image or found.session_header)
    return replace(found, args=read_arguments(findings, args), env=variables, stated=stated), alone


def _read_several(findings: Findings, frontend: Section) -> SrtFrontend:
    """What the recipe says of several front ends; a single one where there are none beside the first."""
    tree = frontend.rest.get(MORE)
    more = frontend.whole(MORE, least=0)
    if more == 0:
        if tree is not None:
            findings.note(tree.key, f"'{tree.path}' is 0: srtctl starts one front end behind nginx; here it is the endpoint itself")
        return SrtFrontend()
    places: dict[str, Source] = {"replicas": tree.source if tree is not None else frontend.where}
    image = header = ""
    if (tree := frontend.take(IMAGE)) is not None:
        image, places["nginx_image"] = read_text(findings, tree), tree.source
    if (affinity := frontend.rest.get(AFFINITY)) is not None and frontend.switch(AFFINITY):
        tree = frontend.take(HEADER)
        header = SESSION_HEADER if tree is None else read_text(findings, tree)
        places["session_header"] = (affinity if tree is None else tree).source
    return SrtFrontend(replicas=1 + (ADDITIONAL if more is None else more), nginx_image=image, session_header=header, places=places)


def note_places(findings: Findings, frontend: SrtFrontend, workers: int, where: Source, *, alone: bool, infra_alone: bool) -> None:
    """Note where front ends are fewer or more than srtctl 1.0 has, or stand elsewhere, on so many nodes of workers."""
    if not workers:
        return  # complained of already
    if told := other_places(frontend.replicas, workers, alone=alone, infra_alone=infra_alone):
        findings.note(frontend.places.get("replicas", where) if frontend.replicas > 1 else where, told)


def other_places(wanted: int, workers: int, *, alone: bool, infra_alone: bool) -> str:
    """Return what to say of so many front ends that srtctl 1.0 places otherwise; empty where it does not.

    Its head is the node of the front end alone, else the first worker's, also beside a node for etcd alone. Of several, nginx stands there,
    and a front end on each node of workers behind it, as far as the recipe wants so many.
    """
    head, nodes = int(infra_alone and not alone), workers + (alone or infra_alone)
    behind = min(wanted, nodes - head - 1) if wanted > 1 else 0
    theirs = range(head + 1, head + 1 + behind) if behind else range(head, head + 1)
    ours = place_front_ends(min(wanted, MOST), nodes)
    if head and len(ours) == 1 and not behind:
        return "beside a node for etcd alone, srtctl has the front end on the first worker's node; here that node has both"
    if ours == tuple(theirs):
        return ""
    verb = "are" if len(ours) > 1 else "is"
    return f"on {nodes} nodes, counted from 0, srtctl has {_stand(theirs, head)}; here there {verb} {_stand(ours, 0)}"


def cap_front_ends(findings: Findings, frontend: SrtFrontend, where: Source) -> SrtFrontend:
    """Return no more front ends than a matrix may ask for; srtctl starts no more than there are nodes for, either."""
    if frontend.replicas <= MOST:
        return frontend
    message = f"the recipe asks for {frontend.replicas} front ends, of which a node has one at most: {MOST} are written, the most of a matrix"
    findings.note(frontend.places.get("replicas", where), message)
    return replace(frontend, replicas=MOST)


def _stand(nodes: Sequence[int], head: int) -> str:
    count = "one front end on node" if len(nodes) == 1 else f"{len(nodes)} front ends on nodes"
    place = f"{nodes[0]}" if len(nodes) == 1 else f"{nodes[0]}-{nodes[-1]}"
    return f"{count} {place}" + ("" if nodes[0] == head else f", behind nginx on node {head}")
