"""Front ends as plain commands: one on the first node, or several behind nginx, whose file is that of templates/lib/nginx.sh."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.launch import LaunchPlan
from recipegen.shell import quote_word

_HEAD = r"""
nginx_conf() {
  cat <<CONF
$([[ $EUID != 0 ]] || echo "user root root;")
daemon off;
pid nginx.pid;
error_log stderr warn;
worker_processes 8;
worker_rlimit_nofile 65536; # or the most that this node allows
events {
  worker_connections 32768; # a request in flight has two
}
http {
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;

  # a request passes as it came, however long its prompt
  client_max_body_size 0;
  client_body_buffer_size 1m;
  underscores_in_headers on;
  ignore_invalid_headers off;
  keepalive_timeout 600s;
  keepalive_requests 1000000;
"""
_TAIL = r"""
  server {
    listen 0.0.0.0:%d backlog=16384;
    location / {
      proxy_pass http://%s;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host \$http_host;
      proxy_set_header X-Forwarded-For \$proxy_add_x_forwarded_for;

      # tokens leave as they come; a stream may be silent for as long as a request waits
      proxy_buffering off;
      proxy_read_timeout 24h;
      proxy_send_timeout 24h;
      send_timeout 24h;

      # to the next front end goes only what has not reached one: a completion is never asked for twice
      proxy_connect_timeout 5s;
      proxy_next_upstream error timeout;
      add_header X-Recipegen-Front-End \$upstream_addr always;
    }
  }
}
CONF
}"""


def nginx_function(plan: LaunchPlan) -> Iterator[str]:
    """A function that prints nginx.conf, lines at the script's margin; nothing where one front end is the endpoint."""
    if not plan.several_front_ends:
        return
    ports, header = {port.name: port.base for port in plan.services}, plan.recipe.job.session_header.lower().replace("-", "_")
    yield from _HEAD.splitlines()
    yield ""
    yield from _upstream(plan, "front_ends", ())
    if header:
        yield from _upstream(plan, "sessions", (f"    hash \\$http_{header} consistent;",))
        yield f'  map \\$http_{header} \\$group {{ default sessions; "" front_ends; }}'
    yield from (_TAIL % (ports["FRONTEND_PORT"], "\\$group" if header else "front_ends")).splitlines()


def _upstream(plan: LaunchPlan, name: str, balance: tuple[str, ...]) -> Iterator[str]:
    port = next(port.base for port in plan.services if port.name == "FRONTEND_REPLICA_PORT")
    yield f"  upstream {name} {{"
    yield f"    zone {name} 1m;"
    yield from balance
    yield from (f"    server $NODE_{node}:{port} max_fails=0;" for node in plan.front_ends)
    yield "    keepalive 512;"
    yield "    keepalive_timeout 15s;"
    yield "  }"


def front_end_lines(plan: LaunchPlan, node: int) -> Iterator[str]:
    """What a node runs of front ends: the endpoint, nginx or a front end behind it; nothing where it has none."""
    ports = {port.name: port.base for port in plan.services}
    if plan.several_front_ends and node == 0:
        yield from ("", "# nginx, before the front ends", "nginx=$(mktemp -d)")
        yield from ('nginx_conf >"$nginx/nginx.conf"', 'nginx -p "$nginx/" -c nginx.conf &')
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
