"""Front ends as plain commands: one on the first node, or several behind nginx, whose file the functions of a job write."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.launch import LaunchPlan
from recipegen.shell import quote_word

_NGINX_CONF = "nginx_conf() {"


def nginx_functions(plan: LaunchPlan) -> Iterator[str]:
    """The functions of lib/nginx.sh that print nginx.conf, lines at the script's margin; nothing where one front end is the endpoint."""
    from recipegen.render import lib_text  # Jinja is slow to import, and few points have several

    if plan.several_front_ends:
        text = lib_text("nginx.sh")
        yield from ("", *text[text.index(_NGINX_CONF) :].splitlines())


def _nginx(plan: LaunchPlan) -> Iterator[str]:
    """nginx, in a folder that is for its functions what a job's run folder is."""
    ports, header = {port.name: port.base for port in plan.services}, plan.recipe.job.session_header
    words = [plan.front_ends[0], len(plan.front_ends), ports["FRONTEND_PORT"], ports["FRONTEND_REPLICA_PORT"]]
    addresses = " ".join(f'{node} "$NODE_{node}"' for node in plan.front_ends)
    yield from ("", "# nginx, before the front ends", "nginx=$(mktemp -d)")
    yield f"""printf '%d - %s\\n' {addresses} >"$nginx/nodes.txt\""""
    yield f'RUN_DIR=$nginx FRONTEND_HOST=0.0.0.0 nginx_conf {" ".join(map(str, words))}{header and f" {quote_word(header)}"} >"$nginx/nginx.conf"'
    yield 'nginx -p "$nginx/" -c nginx.conf &'


def front_end_lines(plan: LaunchPlan, node: int) -> Iterator[str]:
    """What a node runs of front ends: the endpoint, nginx or a front end behind it; nothing where it has none."""
    ports = {port.name: port.base for port in plan.services}
    if plan.several_front_ends and node == 0:
        yield from _nginx(plan)
    elif plan.several_front_ends and node in plan.front_ends:
        yield from ("", "# a front end behind nginx")
        yield from _front_end(plan, f'--http-host "$NODE_ADDRESS" --http-port {ports["FRONTEND_REPLICA_PORT"]}')
    elif node in plan.front_ends:
        yield from ("", "# front end")
        yield from _front_end(plan, f"--http-port {ports['FRONTEND_PORT']}")


def _front_end(plan: LaunchPlan, place: str) -> Iterator[str]:
    """In a shell of its own where it has variables of its own."""
    job = plan.recipe.job
    parts = ["python3 -m dynamo.frontend", place, *(["--enforce-disagg"] if len(plan.roles) > 1 else [])]
    parts += [" ".join(map(quote_word, flag.words)) for flag in job.frontend_args]
    inner, own = ("  ", "exec ") if job.frontend_env else ("", "")
    if job.frontend_env:
        yield "("
        yield from (f"  export {var.name}={quote_word(var.value)}" for var in job.frontend_env)
    last = len(parts) - 1
    for number, part in enumerate(parts):
        ending = " \\" if number < last else "" if own else " &"
        yield f"{inner}{own if number == 0 else '  '}{part}{ending}"
    if job.frontend_env:
        yield ") &"
