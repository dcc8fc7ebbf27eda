"""The front ends of a v1 document: how many, what each is told, and nginx before several."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.srtslurm import keys
from recipegen.srtslurm.reading import UNSUPPORTED, Findings, Section, read_text
from recipegen.srtslurm.recipe import Entry, SrtFrontend
from recipegen.srtslurm.v1_flags import read_env
from recipegen.srtslurm.v1_options import read_options

SEVERAL, MORE = "enable_multiple_frontends", "num_additional_frontends"
IMAGE, AFFINITY, HEADER = "nginx_container", "nginx_session_affinity", "nginx_session_affinity_header"
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
    settings = () if frontend.switch(SEVERAL) is False else tuple(_several(findings, frontend))
    alone = frontend.switch("dedicated_node") or False
    args, env = frontend.take("args"), frontend.take("env")
    if (placement := frontend.rest.get("orchestrator_placement")) is not None and placement.scalar == "head":
        frontend.take("orchestrator_placement")
    frontend.finish({**keys.FRONTEND, **(keys.NGINX if settings else {})})
    own = read_env(findings, env)
    names = {entry.name for entry in own}
    variables = (*own, *(entry for entry in shared if entry.name not in names))
    return SrtFrontend(args=read_options(findings, args), env=variables, settings=settings, stated=stated or len(settings) > 1), alone


def _several(findings: Findings, frontend: Section) -> Iterator[Entry]:
    """What the matrix says of several front ends; nothing where there are none beside the first."""
    tree = frontend.rest.get(MORE)
    more = frontend.whole(MORE, least=0)
    if more == 0:
        if tree is not None:
            findings.note(tree.key, f"'{tree.path}' is 0: srtctl starts one front end behind nginx; here it is the endpoint itself")
        return
    yield Entry(name="replicas", value=1 + (ADDITIONAL if more is None else more), source=tree.source if tree is not None else frontend.where)
    image = frontend.take(IMAGE)
    if image is not None:
        yield Entry(name="nginx_image", value=read_text(findings, image), source=image.source)
    if (affinity := frontend.rest.get(AFFINITY)) is not None and frontend.switch(AFFINITY):
        header = frontend.take(HEADER)
        yield Entry(
            name="session_header",
            value=SESSION_HEADER if header is None else read_text(findings, header),
            source=(affinity if header is None else header).source,
        )
