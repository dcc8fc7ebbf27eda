"""probe.py against a front end that answers as Dynamo does in each state, byte for byte."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
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

    def __init__(self, instances: list[dict[str, str]], answers: list[tuple[int, str]]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.instances, self.answers, self.asked = instances, answers, 0
        self.idle: set[str] = set()

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
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args: object) -> None:
        pass


def instance(component: str, endpoint: str = "generate") -> dict[str, str]:
    return {"component": component, "endpoint": endpoint}


EXPECTED = [instance("prefill"), instance("prefill"), instance("backend"), instance("prefill", "worker_kv_indexer_query_dp0")]


@pytest.fixture
def front_end() -> Iterator[FrontEnd]:
    server = FrontEnd(list(EXPECTED), [(200, GOOD)])
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


def run(server: FrontEnd, folder: Path, *, seconds: float = 20) -> tuple[int, list[dict[str, object]]]:
    """Run the probe as the job does; front end and workers share the server's one port."""
    plan = plan_document(published_plans()[2])
    plan["services"]["FRONTEND_PORT"]["base"] = server.server_port
    for process in plan["processes"]:
        process["ports"]["SYSTEM_PORT"]["base"] = server.server_port
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "nodes.txt").write_text("".join(f"{i} n{i} 127.0.0.1 lo\n" for i in range(4)))
    env = {"RUN_DIR": str(folder), "SLURM_JOB_ID": "7", "RESTART": "2", "PORT_OFFSET": "0", "READY_BY": str(time.time() + seconds)}
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
