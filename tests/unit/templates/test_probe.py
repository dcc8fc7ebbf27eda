"""probe.py against a front end that answers as Dynamo does in each state, byte for byte."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

from recipegen.plan_json import plan_document
from tests.support import ROOT, published_plans

SCRIPT = ROOT / "templates/lib/probe.py"


def chunk(content: str | None = None, finish: str | None = None) -> str:
    delta = {"role": "assistant"} | ({} if content is None else {"content": content})
    return "data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "object": "chat.completion.chunk"}) + "\n\n"


DONE = "data: [DONE]\n\n"
GOOD = chunk(" gosa") + chunk(" fosi") + chunk(None, "length") + DONE
CUT = chunk(" gosa") + 'data: {"error":{"message":"Stream ended before generation completed","type":"internal_server_error","code":500}}\n\n' + DONE


class FrontEnd(ThreadingHTTPServer):
    """Answers of /health, of chat completions in turn (the last repeats), and of every worker's /metrics."""

    def __init__(self, instances: list[dict[str, str]], answers: list[tuple[int, str]], address: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__((address, port), Handler)
        self.instances, self.answers, self.asked = instances, answers, 0
        self.idle: set[str] = set()
        self.answered_by: list[str] = []  # as nginx, in turn

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: FrontEnd

    def do_GET(self) -> None:
        if self.path == "/health":
            self.answer(200, json.dumps({"status": "healthy", "instances": self.server.instances}))
        else:
            served = 0 if self.path in self.server.idle else self.server.asked
            labels = 'dynamo_component="prefill",dynamo_endpoint="generate",dynamo_namespace="dynamo",worker_id="e1"'
            self.answer(200, f"dynamo_component_request_duration_seconds_count{{{labels}}} {served}\n")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1
        answers = self.server.answers
        self.answer(*(answers.pop(0) if len(answers) > 1 else answers[0]))

    def answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/event-stream")
        if self.server.answered_by:
            self.send_header("X-Recipegen-Front-End", self.server.answered_by[self.server.asked % len(self.server.answered_by)])
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args: object) -> None:
        pass


def instance(component: str, endpoint: str = "generate") -> dict[str, str]:
    return {"component": component, "endpoint": endpoint}


EXPECTED = [instance("prefill"), instance("prefill"), instance("backend"), instance("prefill", "worker_kv_indexer_query_dp0")]


@pytest.fixture
def front_end() -> Iterator[FrontEnd]:
    with served(FrontEnd(list(EXPECTED), [(200, GOOD)])) as server:
        yield server


@pytest.fixture
def behind(front_end: FrontEnd) -> Iterator[list[FrontEnd]]:
    """Two front ends on nodes of their own, on one port; `front_end` then stands for nginx."""
    one = FrontEnd(list(EXPECTED), [(200, GOOD)], "127.0.0.2")
    other = FrontEnd(list(EXPECTED), [(200, GOOD)], "127.0.0.3", one.server_port)
    with served(one), served(other):
        yield [one, other]


@contextmanager
def served(server: FrontEnd) -> Iterator[FrontEnd]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def probe() -> ModuleType:
    spec = importlib.util.spec_from_file_location("probe", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(
    server: FrontEnd, folder: Path, *, seconds: float = 20, behind: list[FrontEnd] | None = None, **more: str
) -> tuple[int, list[dict[str, object]]]:
    """Run the probe as the job does; front end and workers share the server's one port."""
    plan = plan_document(published_plans()[2])
    plan["services"]["FRONTEND_PORT"]["base"] = server.server_port
    for process in plan["processes"]:
        process["ports"]["SYSTEM_PORT"]["base"] = server.server_port
    addresses = ["127.0.0.1"] * 4
    if behind:
        plan["services"]["FRONTEND_REPLICA_PORT"] = {"base": behind[0].server_port, "count": 1}
        plan["front_ends"] = [1, 2]
        addresses[1:3] = [str(one.server_address[0]) for one in behind]
        for process in plan["processes"]:
            process["node_index"] = 0  # all metrics are the one server's
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "nodes.txt").write_text("".join(f"{i} n{i} {address} lo\n" for i, address in enumerate(addresses)))
    env = {"RUN_DIR": str(folder), "SLURM_JOB_ID": "7", "RESTART": "2", "PORT_OFFSET": "0", "READY_BY": str(time.time() + seconds), **more}
    done = subprocess.run([sys.executable, SCRIPT, folder / "plan.json"], env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    return done.returncode, [json.loads(line) for line in (folder / "events.probe.jsonl").read_text().splitlines()]


def test_ready_needs_every_instance_and_completions_in_a_row(front_end: FrontEnd, tmp_path: Path) -> None:
    front_end.answers = [(404, ""), (200, GOOD), (503, '{"message":"Model temporarily unavailable"}'), (200, GOOD)]
    code, events = run(front_end, tmp_path)
    assert code == 0
    kinds = [event["event"] for event in events]
    assert kinds == ["instances", "completion_failed", "completion", "completion_failed", *["completion"] * 3, "serving", "ready"]
    assert [event["ok"] for event in events if event["event"] == "completion"] == [1, 1, 2, 3]
    assert all((event["job"], event["restart"]) == ("7", 2) for event in events)
    endpoint = json.loads((tmp_path / "endpoint.json").read_text())
    assert (endpoint["url"], endpoint["model"]) == (front_end.url, "Qwen3.8-2.4T-A95B-NVFP4")
    assert endpoint["instances"] == {"prefill": 2, "decode": 1}


def test_a_missing_prefill_instance_is_never_ready(front_end: FrontEnd, tmp_path: Path) -> None:
    front_end.instances = [instance("prefill"), instance("prefill", "worker_kv_indexer_query_dp0"), instance("backend")]
    code, events = run(front_end, tmp_path, seconds=1.5)
    assert code == 5
    assert front_end.asked == 0
    assert [(event["prefill"], event["decode"]) for event in events] == [(1, 1)]
    assert not (tmp_path / "endpoint.json").exists()


def test_registered_with_every_request_failing_is_never_ready(front_end: FrontEnd, tmp_path: Path) -> None:
    """A refused transfer between prefill and decode leaves all engines healthy."""
    front_end.answers = [(500, '{"message":"Prefill execution failed"}')]
    code, events = run(front_end, tmp_path, seconds=2)
    assert code == 5
    failures = [event for event in events if event["event"] == "completion_failed"]
    assert len(failures) == 1
    assert "Prefill execution failed" in str(failures[0]["message"])


def test_an_instance_that_has_not_served_is_waited_for(front_end: FrontEnd, tmp_path: Path) -> None:
    plan = plan_document(published_plans()[2])
    assert plan["expected_instances"] == {"prefill": 2, "decode": 1}
    front_end.idle = {"/metrics"}
    code, events = run(front_end, tmp_path, seconds=2)
    assert code == 5
    assert {"event": "serving", "served": 0, "instances": 3}.items() <= next(e for e in events if e["event"] == "serving").items()


# -- several front ends ------------------------------------------------------------------------------------------------


def addresses(front_ends: list[FrontEnd]) -> list[str]:
    return [f"{one.server_address[0]}:{one.server_port}" for one in front_ends]


@pytest.mark.parametrize(
    ("named", "asked"),
    [
        ([0, 1], [0, 0]),  # nginx has asked both
        ([0], [0, 1]),
        ([], [1, 1]),
    ],
)
def test_every_front_end_has_to_answer(front_end: FrontEnd, behind: list[FrontEnd], tmp_path: Path, named: list[int], asked: list[int]) -> None:
    front_end.answered_by = [addresses(behind)[one] for one in named]
    code, events = run(front_end, tmp_path, behind=behind)
    assert code == 0
    assert [one.asked for one in behind] == asked
    assert {"event": "front_ends", "answered": 2}.items() <= events[-3].items()
    assert json.loads((tmp_path / "endpoint.json").read_text())["url"] == front_end.url


def test_after_a_retry_the_last_front_end_has_answered(front_end: FrontEnd, behind: list[FrontEnd], tmp_path: Path) -> None:
    front_end.answered_by = [", ".join(addresses(behind))]
    assert run(front_end, tmp_path, behind=behind)[0] == 0
    assert [one.asked for one in behind] == [1, 0]


def test_a_front_end_that_fails_is_never_ready(front_end: FrontEnd, behind: list[FrontEnd], tmp_path: Path) -> None:
    front_end.answered_by = addresses(behind)[:1]
    behind[1].answers = [(503, "nobody is here")]
    code, events = run(front_end, tmp_path, behind=behind, seconds=3)
    assert code == 5
    assert any(event["event"] == "completion_failed" and event["status"] == 503 for event in events)
    assert not (tmp_path / "endpoint.json").exists()


def test_after_a_completion_that_failed_every_front_end_has_to_answer_anew(front_end: FrontEnd, behind: list[FrontEnd], tmp_path: Path) -> None:
    """The first answers a completion, another completion fails, and from then on nginx asks the second only: the first is asked itself."""
    first, second = addresses(behind)
    front_end.answered_by = [second, first, *[second] * 998]
    front_end.answers = [(200, GOOD), (503, "gone"), (200, GOOD)]
    behind[0].answers = [(503, "nobody is here")]
    code, events = run(front_end, tmp_path, behind=behind, seconds=4)
    assert code == 5
    assert behind[0].asked > 0
    assert not any(event["event"] == "front_ends" for event in events)


def test_the_front_end_that_knows_fewest_instances_counts(front_end: FrontEnd, behind: list[FrontEnd], tmp_path: Path) -> None:
    behind[1].instances = [instance("prefill"), instance("backend")]
    code, events = run(front_end, tmp_path, behind=behind, seconds=2)
    assert code == 5
    assert front_end.asked == 0
    assert [(event["prefill"], event["decode"]) for event in events] == [(1, 1)]


def test_a_simulation_with_one_front_end_for_several_asks_that_one(front_end: FrontEnd, behind: list[FrontEnd], tmp_path: Path) -> None:
    for one in behind:
        one.instances = []
    code, events = run(front_end, tmp_path, behind=behind, FRONT_ENDS="1")
    assert code == 0
    assert "front_ends" not in [event["event"] for event in events]


@pytest.mark.parametrize(
    ("status", "stream", "tokens", "words"),
    [
        (200, GOOD, 2, ""),
        (200, CUT, 0, "Stream ended before generation completed"),
        (200, chunk(" gosa") + DONE, 0, "before its completion was finished, after 1 tokens"),
        (200, chunk(None, "length") + DONE, 0, "has no token"),
        (200, "", 0, "before its completion was finished"),
        (0, "data: {not json\n\n", 0, "JSONDecodeError"),
        (200, "event: error\ndata: x\n\n", 0, "reports an error"),
        (400, '{"message":"maximum context length"}', 0, "maximum context length"),
        (404, "", 0, "Not Found"),
    ],
)
def test_what_counts_as_a_completion(front_end: FrontEnd, probe: ModuleType, status: int, stream: str, tokens: int, words: str) -> None:
    front_end.answers = [(status or 200, stream)]
    found = probe.stream_chat(front_end.url, {"stream": True}, 5)
    assert found[0] == status
    assert found[1] == tokens
    assert words in found[2]


def test_nobody_listening_is_a_failed_completion(probe: ModuleType) -> None:
    assert probe.stream_chat("http://127.0.0.1:9", {}, 2)[:2] == (0, 0)
