"""A whole run on one machine without Slurm: submitted, READY, asked, ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.local.conftest import Terminal
from tests.support import LEAF, ROOT, as_on_a_terminal, soon

pytestmark = [pytest.mark.sim, pytest.mark.timeout(180)]

POINT = "1xtp2dep4-1xtp8-mtp-cc32-64"
SMALLEST = "1xtp8-1xtp8-mtp-cc1-4"


def chat(url: str, text: str, *, tokens: int = 4) -> dict[str, Any]:
    body = {"model": "Qwen3.8-2.4T-A95B-NVFP4", "messages": [{"role": "user", "content": text}], "max_tokens": tokens}
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)  # type: ignore[no-any-return]


def test_from_submit_to_an_answer_through_prefill_and_decode(recipegen: Terminal) -> None:
    done = recipegen("submit", "recipes", "--point", POINT, "--simulate", "--watch")
    assert "READY" in done.stdout.splitlines()[-1]
    (run,) = recipegen.runs()
    status = recipegen.status(run["id"])
    assert status["phase"] == "READY"
    assert status["instances"] == {"prefill": {"registered": 2, "expected": 2}, "decode": {"registered": 1, "expected": 1}}
    asked = subprocess.run([sys.executable, ROOT / "docs/ask.py", json.dumps(status)], check=True, capture_output=True, text=True)
    assert "served by:  1 prefill worker, 1 decode worker" in asked.stdout
    assert recipegen("wait", run["id"], "--for", "ready", "--timeout", "5").stdout.strip() == status["url"]
    recipegen("cancel", run["id"])
    assert recipegen.status(run["id"])["phase"] == "CANCELLED"
    assert json.loads(Path(status["run_dir"], "exit.json").read_text())["reason"] == "cancelled"
    assert recipegen("wait", run["id"], "--for", "done", "--timeout", "5", check=False).returncode == 4


def test_what_the_submitter_s_shell_holds_does_not_decide_how_engines_run(recipegen: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Dynamo 1.2 process that finds NATS_SERVER set exits when nobody answers there."""
    monkeypatch.setenv("NATS_SERVER", "nats://127.0.0.1:9")
    monkeypatch.setenv("DYN_NAMESPACE", "somebody-else-s")
    run = recipegen.submit(SMALLEST)
    recipegen("wait", run, "--for", "ready", "--timeout", "60")
    (pid,) = processes_of(Path(recipegen.status(run)["run_dir"]), "--disaggregation-mode\0decode")
    names = {entry.partition(b"=")[0] for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")}
    assert not names & {b"NATS_SERVER", b"DYN_NAMESPACE"}


def test_a_prompt_that_no_cache_holds_is_refused_and_harms_nobody(recipegen: Terminal) -> None:
    run = recipegen.submit(SMALLEST)
    url = recipegen("wait", run, "--for", "ready", "--timeout", "60").stdout.strip()
    with pytest.raises(urllib.error.HTTPError) as refused:
        chat(url, " gosa" * 10_300)
    assert refused.value.code == 400
    assert "maximum context length is 10240" in refused.value.read().decode()
    assert chat(url, " gosa" * 10_000)["usage"]["completion_tokens"] == 4


def test_a_worker_that_dies_ends_the_run_at_once(recipegen: Terminal) -> None:
    run = recipegen.submit(SMALLEST)
    recipegen("wait", run, "--for", "ready", "--timeout", "60")
    run_dir = Path(recipegen.status(run)["run_dir"])
    for pid in processes_of(run_dir, "--disaggregation-mode\0prefill"):
        os.kill(pid, signal.SIGKILL)
    ended = recipegen("wait", run, "--for", "done", "--timeout", "30", check=False)
    assert ended.returncode == 4
    assert "FAILED" in ended.stderr
    assert "prefill-0" in ended.stderr
    assert ending_of(run_dir)["reason"] == "step_ended"


def ending_of(run_dir: Path) -> dict[str, Any]:
    """exit.json, which comes after the tear-down: a run is known to have failed before."""
    marker = run_dir / "exit.json"
    soon(marker.is_file, "exit.json")
    return json.loads(marker.read_text())  # type: ignore[no-any-return]


def processes_of(run_dir: Path, words: str) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().decode()
        except OSError:
            continue
        if str(run_dir) in line and words in line:
            found.append(int(process.name))
    assert found
    return found


def test_two_submissions_at_once_are_two_runs(recipegen: Terminal) -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(recipegen.submit, [SMALLEST, SMALLEST])
    assert first != second
    urls = {recipegen("wait", run, "--for", "ready", "--timeout", "90").stdout.strip() for run in (first, second)}
    assert len(urls) == 2
    assert all(chat(url, "hello")["usage"]["completion_tokens"] == 4 for url in urls)
    recipegen("cancel", first)
    assert recipegen.status(second)["phase"] == "READY"


def test_a_run_serves_until_its_time_limit_and_is_done(recipegen: Terminal, tmp_path: Path) -> None:
    """Slurm counts limits in minutes, and so does `local`: a long reserve makes the time to serve short."""
    profile = tmp_path / "short.yaml"
    profile.write_text(
        "schema: recipegen-cluster/v1\nname: short\nscheduler: local\n"
        f"run_root: {tmp_path / 'runs'}\npath_prefix: {Path(sys.executable).parent}\nfrontend_host: node\n"
        "discovery: {backend: file}\ndeadlines: {reserve: 45}\nslurm: {gpus: none, segment: false}\n"
    )
    run = recipegen("submit", LEAF, "--point", SMALLEST, "--simulate", "--cluster", profile, "--time", "0:01:00").stdout.strip()
    recipegen("wait", run, "--for", "ready", "--timeout", "14")
    assert recipegen("wait", run, "--for", "done", "--timeout", "40").returncode == 0
    status = recipegen.status(run)
    assert status["phase"] == "DONE"
    assert ending_of(Path(status["run_dir"]))["reason"] == "served"


def test_a_job_with_a_changed_file_starts_nothing(recipegen: Terminal, tmp_path: Path) -> None:
    """The batch script itself, called as a scheduler would; the change happens after staging."""
    run = recipegen.submit(SMALLEST)
    run_dir = Path(shutil.copytree(recipegen.status(run)["run_dir"], tmp_path / "copy", ignore=shutil.ignore_patterns("events.*", "local")))
    recipegen("cancel", run)
    bundle = run_dir / "bundle" / SMALLEST
    digest = json.loads((run_dir / "run.json").read_text())["digest"]
    for name in ("decode.sh", "plan.json", "MANIFEST", "../lib/job.sh", "job.sbatch", "../lib/json.py", "added.sh"):
        original = (bundle / name).read_bytes() if (bundle / name).exists() else None
        (bundle / name).write_bytes((original or b"") + b"\n")
        env = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "9"}
        ended = subprocess.run(["bash", bundle / "job.sbatch", run_dir, digest], env=env, capture_output=True, text=True, check=False)
        assert ended.returncode == 1
        assert "nothing was started" in ended.stdout
        assert ending_of(run_dir)["reason"] == "manifest"
        assert name.rpartition("/")[2] in ending_of(run_dir)["detail"]
        assert list(run_dir.glob("events.*")) == []
        (run_dir / "exit.json").unlink()
        if original is None:
            (bundle / name).unlink()
        else:
            (bundle / name).write_bytes(original)


def test_detaching_does_not_cancel_and_another_process_takes_up(recipegen: Terminal, tmp_path: Path) -> None:
    run = recipegen.submit(SMALLEST)
    recipegen("wait", run, "--for", "ready", "--timeout", "60")
    for how in (signal.SIGINT, signal.SIGKILL):
        with watching(recipegen, run) as watch:
            assert watch.stdout is not None
            assert "READY" in watch.stdout.readline()
            watch.send_signal(how)
            _, talk = watch.communicate(timeout=20)
        assert ("the run goes on" in talk) == (how is signal.SIGINT)
    run_dir = recipegen.status(run)["run_dir"]
    elsewhere = Terminal(tmp_path / "elsewhere")
    assert elsewhere.status(run_dir)["phase"] == "READY"
    elsewhere("cancel", run_dir)
    assert recipegen.status(run)["phase"] == "CANCELLED"


def watching(recipegen: Terminal, run: str) -> subprocess.Popen[str]:
    """`recipegen watch`, which Ctrl-C reaches."""
    return subprocess.Popen(
        [sys.executable, "-m", "recipegen", "watch", run],
        env=recipegen.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=as_on_a_terminal,  # noqa: PLW1509
    )
