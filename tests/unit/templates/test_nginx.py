"""The nginx.conf that nginx.sh writes, in a real nginx before small servers on loopback addresses of their own."""

from __future__ import annotations

import http.client
import os
import re
import shlex
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from recipegen.srtslurm.export import export_point
from tests.nginx import nginx
from tests.support import ROOT, agg_point, matrix_of, plan_one, soon

LIB = ROOT / "templates/lib"
HEADER, SEEN_BY = "X-Dynamo-Session-ID", "X-Recipegen-Front-End"
ENDPOINT, MOST_FILES = "127.0.0.1", 4096


class FrontEnd(ThreadingHTTPServer):
    """Counts what it is asked, and answers with what the test lets through, a chunk at a time."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: str, port: int) -> None:
        super().__init__((address, port), Handler)
        self.asked: list[tuple[str, int, dict[str, str]]] = []
        self.go_on, self.breaks, self.chunks = threading.Semaphore(1000), False, 1


class Handler(BaseHTTPRequestHandler):
    server: FrontEnd
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.request_version, len(body), {name.lower(): value for name, value in self.headers.items()}))
        if self.server.breaks:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(self.server.chunks):
            self.server.go_on.acquire(timeout=20)
            text = f"data: {number}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *args: object) -> None:
        pass


def free_port() -> int:
    """A port that is free on every address."""
    with socket.socket() as one:
        one.bind(("0.0.0.0", 0))
        return int(one.getsockname()[1])


def written(folder: Path, *, count: int, port: int, replica: int, header: str = "", host: str = "node", files: int | str = MOST_FILES) -> str:
    """The file as the job writes it, for front ends on nodes 1 to `count`; here 127.0.0.2 and on."""
    (folder / "nginx").mkdir(exist_ok=True)
    (folder / "nodes.txt").write_text("".join(f"{n} n{n} 127.0.0.{n + 1} lo\n" for n in range(count + 2)))
    call = shlex.join(["nginx_conf", "1", str(count), str(port), str(replica), *([header] if header else [])])
    code = f"ulimit() {{ echo {files}; }}; . {LIB}/nginx.sh; NGINX=(nginx); {call}"
    env = {"PATH": os.environ["PATH"], "RUN_DIR": str(folder), "FRONTEND_HOST": host, "FIRST_ADDRESS": ENDPOINT}
    done = subprocess.run(["bash", "-uc", code], env=env, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    (folder / "nginx/nginx.conf").write_text(done.stdout)
    return done.stdout


@contextmanager
def running(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    log = folder / "nginx.log"
    with log.open("wb") as out, subprocess.Popen([nginx(), "-p", f"{folder}/nginx/", "-c", "nginx.conf"], stderr=out) as process:
        try:
            soon(lambda: process.poll() is not None or listening(port), "nginx listens")
            assert process.poll() is None, log.read_text()
            yield process
        finally:
            process.terminate()
            process.wait(timeout=10)


def listening(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex((ENDPOINT, port)) == 0


@contextmanager
def served(folder: Path, count: int = 3, header: str = "") -> Iterator[tuple[int, list[FrontEnd]]]:
    """nginx before `count` front ends: its port, and they."""
    port, replica = free_port(), free_port()
    written(folder, count=count, port=port, replica=replica, header=header)
    with ExitStack() as stack:
        servers = [stack.enter_context(FrontEnd(f"127.0.0.{n + 2}", replica)) for n in range(count)]
        for server in servers:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
        stack.enter_context(running(folder, port))
        yield port, servers


def ask(port: int, body: bytes = b"{}", **headers: str) -> tuple[int, str, str]:
    """Status, text, and which front end nginx asked."""
    connection = http.client.HTTPConnection(ENDPOINT, port, timeout=20)
    connection.request("POST", "/v1/chat/completions", body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, answer.getheader(SEEN_BY, "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    own = tmp_path / 'a "run"; {x} $y'  # nothing of it stands in the file
    own.mkdir()
    return own


@pytest.mark.parametrize("header", ["", HEADER])
@pytest.mark.parametrize("host", ["node", "0.0.0.0", "127.0.0.1"])
def test_nginx_accepts_the_file_without_a_word_of_warning(folder: Path, header: str, host: str) -> None:
    written(folder, count=64, port=free_port(), replica=20004, header=header, host=host)
    done = subprocess.run([nginx(), "-t", "-p", f"{folder}/nginx/", "-c", "nginx.conf"], capture_output=True, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if "could not open error log file" not in line]  # its own, before it has read ours
    assert done.returncode == 0
    assert len(lines) == 2
    assert all(re.search(r"syntax is ok|test is successful", line) for line in lines), lines


@pytest.mark.parametrize(
    ("files", "limit", "connections"), [(256, 256, 192), (4096, 4096, 4032), (10**6, 131_072, 65_536), ("unlimited", 131_072, 65_536)]
)
def test_as_many_connections_as_files_may_be_open(folder: Path, files: int | str, limit: int, connections: int) -> None:
    text = written(folder, count=2, port=20000, replica=20004, files=files)
    assert f"worker_rlimit_nofile {limit};" in text
    assert f"worker_connections {connections};" in text


def test_a_stream_comes_chunk_by_chunk_over_http_1_1(folder: Path) -> None:
    with served(folder) as (port, servers):
        for server in servers:
            server.go_on, server.chunks = threading.Semaphore(0), 3
        connection = http.client.HTTPConnection(ENDPOINT, port, timeout=20)
        connection.request("POST", "/v1/chat/completions", b"{}", {"my_header": "kept"})
        answer = next_answer(connection, servers)
        for number in range(3):
            assert answer.readline() == f"data: {number}\n".encode()  # the next one waits for us
            assert answer.readline() == b"\n"
            for server in servers:
                server.go_on.release()
        assert answer.read() == b""
        connection.close()
    ((version, _, headers),) = [one for server in servers for one in server.asked]
    assert version == "HTTP/1.1"
    assert "connection" not in headers
    assert headers["my_header"] == "kept"
    assert headers["host"] == f"{ENDPOINT}:{port}"


def next_answer(connection: http.client.HTTPConnection, servers: list[FrontEnd]) -> http.client.HTTPResponse:
    """The head comes before any chunk is let through, then the first chunk."""
    answer = connection.getresponse()
    for server in servers:
        server.go_on.release()
    return answer


def test_a_body_of_20_mb_passes(folder: Path) -> None:
    with served(folder) as (port, servers):
        assert ask(port, b"x" * 20_000_000)[0] == 200
    assert [size for server in servers for _, size, _ in server.asked] == [20_000_000]


def test_requests_are_spread_evenly_and_the_answer_names_its_front_end(folder: Path) -> None:
    with served(folder) as (port, servers):
        answered = Counter(ask(port)[2] for _ in range(30))
        assert set(answered.values()) == {10}
        assert set(answered) == {f"127.0.0.{n}:{servers[0].server_port}" for n in (2, 3, 4)}


def test_a_session_stays_where_it_is_and_others_are_spread(folder: Path) -> None:
    with served(folder, header=HEADER) as (port, servers):
        homes = {f"s{session}": {ask(port, **{HEADER: f"s{session}"})[2] for _ in range(5)} for session in range(20)}
        assert {len(home) for home in homes.values()} == {1}
        assert len(set().union(*homes.values())) == len(servers)
        assert set(Counter(ask(port)[2] for _ in range(30)).values()) == {10}


@pytest.mark.parametrize("header", ["", HEADER])
def test_the_plain_commands_have_the_same_file(folder: Path, header: str) -> None:
    job = written(folder, count=3, port=20000, replica=20004, header=header, host="0.0.0.0")
    asked = f"frontend: {{replicas: 3{', session_header: ' + header if header else ''}}}\n"
    script = export_point(plan_one(matrix_of(agg_point("1xDP16")) + asked), "commands")
    functions = script[script.index("nginx_conf() {") : script.index("\ncase ")]
    start = script[script.index("  nginx=$(mktemp -d)\n") : script.index('  nginx -p "$nginx/"')]
    addresses = "; ".join(f"NODE_{n}=127.0.0.{n + 1}" for n in range(4))
    code = f'ulimit() {{ echo {MOST_FILES}; }}; {addresses}; {functions}\n{start} cat "$nginx/nginx.conf"'
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(folder)}
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", code], env=env, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (job, "")


def broken(server: FrontEnd) -> None:
    server.breaks = True


def gone(server: FrontEnd) -> None:
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(("fails", "lost"), [(broken, 4), (gone, 0)])
def test_a_completion_that_reached_a_front_end_is_not_asked_for_twice(folder: Path, fails: Callable[[FrontEnd], None], lost: int) -> None:
    """One that cannot be reached loses nothing; one that fails keeps its share, and everybody sees that it fails."""
    with served(folder) as (port, servers):
        fails(servers[0])
        codes = Counter(ask(port)[0] for _ in range(12))
        assert codes == Counter({200: 12 - lost, 502: lost})
        assert sum(len(server.asked) for server in servers) == 12
    assert f"127.0.0.2:{servers[0].server_port}" in (folder / "nginx.log").read_text()
