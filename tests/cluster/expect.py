"""What the tests of jobs expect of a run: that its endpoint serves, how it ends, what its markers say."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping

import pytest

from tests.cluster.jobs import Run
from tests.support import ROOT

TOO_LONG = "word " * 20_000  # the workload's max_model_len is 10240


def assert_serves(status: Mapping[str, object]) -> None:
    """A plain completion, counted by the metrics of a worker of each role, and a streamed one."""
    asked = subprocess.run([sys.executable, ROOT / "docs/ask.py", json.dumps(status)], capture_output=True, text=True, timeout=60, check=False)
    assert asked.returncode == 0, asked.stdout + asked.stderr
    assert "prompt tokens, 16 generated" in asked.stdout
    assert_streams(status)


def assert_streams(status: Mapping[str, object]) -> None:
    """A streamed completion, told by endpoint.json or by `status`, returns tokens and its end."""
    lines = chat(status, "What is streamed?").splitlines()
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    assert any(choice["delta"].get("content") for chunk in chunks for choice in chunk["choices"]), lines
    assert lines[-1] == "data: [DONE]"


def assert_refuses_what_is_too_long(status: Mapping[str, object]) -> None:
    with pytest.raises(urllib.error.HTTPError, match="400") as refused:
        chat(status, TOO_LONG)
    refused.value.close()


def assert_cancels(run: Run) -> None:
    """`recipegen cancel` ends a READY run, and nothing of it is left."""
    cancelled = run.site.recipegen("cancel", run.folder)
    assert cancelled.stdout.endswith(": CANCELLED\n")
    assert_marker(run, reason="cancelled", code=130, ready=True)
    assert run.status()["phase"] == "CANCELLED"
    run.gone()


def assert_marker(run: Run, **expected: object) -> None:
    """What exit.json says, once it is there."""
    marker = run.ended()
    assert {key: marker[key] for key in expected} == expected, marker
    assert marker["job"] == run.job


def chat(status: Mapping[str, object], text: str) -> str:
    """The body of a streamed chat completion."""
    body = {"model": status["model"], "messages": [{"role": "user", "content": text}], "max_tokens": 8, "stream": True}
    request = urllib.request.Request(f"{status['url']}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode()).rstrip()
