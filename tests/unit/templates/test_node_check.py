"""node_check.py, run as the job runs it: what it finds on this machine, and what it says."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from recipegen.launch import LaunchPlan
from recipegen.pipeline import render_plans
from recipegen.plan_json import plan_text
from tests.support import ROOT, agg_point, matrix_of, plan_one, published_plans

REVISION = "a6abb8bfb82b6965166d4129275f012d8809bc40"
SCRIPT = ROOT / "templates/lib/node_check.py"


class Job:
    """A run folder for one node; `facts` is what the check wrote."""

    def __init__(self, folder: Path, plan: LaunchPlan, script: Path = SCRIPT) -> None:
        self.folder, self.script = folder, script
        (folder / "nodes.d").mkdir()
        (folder / "logs").mkdir()
        (folder / "plan.json").write_text(plan_text(plan))

    def run(self, verb: str = "check", **env: str) -> tuple[int, list[str]]:
        surroundings = {
            "PATH": "/usr/bin:/bin",
            "RUN_DIR": str(self.folder),
            "SLURM_PROCID": "0",
            "SLURM_JOB_ID": "7",
            "RESTART": "0",
            "DIGEST": "d",
            "PORT_OFFSET": "512",
            "RECIPEGEN_NODE_ADDRESS": "127.0.7.1",
            "RECIPEGEN_NODE_INTERFACE": "lo",
            "SLURMD_NODENAME": "n0",
            "READY_BY": str(time.time() + 60),
        }
        command = [sys.executable, self.script, verb, self.folder / "plan.json"]
        done = subprocess.run(command, env=surroundings | env, capture_output=True, text=True, check=False, timeout=60)
        assert done.stderr == ""
        return done.returncode, [line for line in done.stdout.splitlines() if line.startswith(("problem", "warning"))]

    @property
    def facts(self) -> dict[str, object]:
        return json.loads((self.folder / "nodes.d/0000.json").read_text())  # type: ignore[no-any-return]


@pytest.fixture
def simulated(tmp_path: Path) -> Job:
    pytest.importorskip("dynamo", reason="Dynamo's mocker is not installed: pip install -e '.[sim]'")
    return Job(tmp_path, published_plans(simulate=True)[2])


@pytest.fixture
def real(tmp_path: Path) -> Job:
    return Job(tmp_path, published_plans()[2])


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.7.1", 20_512))
        taken.listen()
        yield 20_512


def test_a_node_in_order_passes_and_tells_its_facts(simulated: Job) -> None:
    assert simulated.run() == (0, [])
    assert simulated.facts["address"] == "127.0.7.1"
    assert simulated.facts["dynamo"] == "1.2.1"
    assert simulated.facts["nofile"] == min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 131_072)


def test_a_port_in_use_is_named_with_its_purpose(simulated: Job, listener: int) -> None:
    code, said = simulated.run()
    assert code == 1
    assert said == [f"problem: n0: ports in use on 127.0.7.1: {listener} (FRONTEND_PORT); set PORT_OFFSET, or end what listens there"]


@pytest.mark.parametrize(
    ("port", "node", "taken"), [(20_516, 0, False), (20_516, 1, True), (20_512, 0, True), (20_512, 1, False), (20_516, 3, False)]
)
def test_the_port_of_a_front_end_is_one_of_its_own_node(tmp_path: Path, port: int, node: int, taken: bool) -> None:
    """FRONTEND_PORT is nginx's, on the first node."""
    pytest.importorskip("dynamo", reason="Dynamo's mocker is not installed: pip install -e '.[sim]'")
    plan = plan_one(matrix_of(agg_point("1xDP16")) + "frontend: {replicas: 2}\n", simulate=True)
    assert plan.front_ends == (1, 2)
    with socket.socket() as listener:
        listener.bind(("127.0.7.1", port))
        listener.listen()
        code, said = Job(tmp_path, plan).run(SLURM_PROCID=str(node))
    assert (code, len(said)) == ((1, 1) if taken else (0, 0)), said


# -- a setup script ------------------------------------------------------------------------------------------------------


def prepared(folder: Path, text: str, *, more: str = "", env: str = "") -> Job:
    """A node of a recipe whose setup script is this text, or is not there; real, so that what the script installs is looked for."""
    script = folder / "configs/deps.sh"
    script.parent.mkdir()
    if text:
        script.write_text(text)
    return Job(folder, plan_one(f"{matrix_of(agg_point('1xTP4'))}setup_script: {script}\nagg: {{env: {{{env}OWN: a b}}}}\n{more}"))


def test_a_setup_script_runs_before_what_it_may_have_installed_is_looked_at(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install = f'mkdir -p {site}/ai_dynamo-1.2.1.dist-info && printf "Metadata-Version: 2.1\\nName: ai-dynamo\\nVersion: 1.2.1\\n" >{site}/ai_dynamo-1.2.1.dist-info/METADATA'
    site.mkdir()
    job = prepared(tmp_path, f'echo "$OWN|${{DYN_SYSTEM_PORT:-none}}|${{CUDA_VISIBLE_DEVICES:-none}}" >>"$RUN_DIR/said"; {install}')
    _, problems = job.run(PYTHONPATH=str(site))
    assert not any("Dynamo" in one or "setup script" in one for one in problems)
    assert job.facts["dynamo"] == "1.2.1"
    assert (tmp_path / "said").read_text() == "a b|none|none\n"


@pytest.mark.parametrize(("text", "problem"), [("exit 7", "ended with code 7"), ("", "is not there (is it mounted?)")])
def test_a_setup_script_that_fails_ends_the_job_and_is_named(tmp_path: Path, text: str, problem: str) -> None:
    code, problems = prepared(tmp_path, text).run()
    assert code == 1
    assert problems[0].startswith(f"problem: n0: the recipe's setup script {tmp_path}/configs/deps.sh {problem}")


def test_what_a_setup_script_says_has_a_file_of_its_own(tmp_path: Path) -> None:
    """What it calls a problem is none of the check's."""
    _, problems = prepared(tmp_path, "echo problem: mine; echo more >&2; exit 7").run()
    assert (tmp_path / "logs/setup.n0.log").read_text() == "problem: mine\nmore\n"
    assert not any("mine" in line for line in problems)
    assert problems[0].endswith("ended with code 7; see logs/setup.*.log")


def test_a_setup_script_that_does_not_end_is_ended(tmp_path: Path) -> None:
    code, problems = prepared(tmp_path, "sleep 30").run(READY_BY=str(time.time() + 0.2))
    assert (code, "did not end before READY had to be" in problems[0]) == (1, True)


def test_what_a_setup_script_started_ends_with_it(tmp_path: Path) -> None:
    script = 'sleep 300 & echo $! >"$RUN_DIR/child"; wait'
    prepared(tmp_path, script).run(READY_BY=str(time.time() + 1))
    child = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    assert not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_value_that_only_looks_like_a_place_of_a_process_reaches_the_script(tmp_path: Path) -> None:
    job = prepared(tmp_path, 'echo "$CACHE|${VLLM_NIXL_SIDE_CHANNEL_HOST:-none}" >"$RUN_DIR/said"', env="CACHE: '${HOME}/cache', ")
    job.run()
    assert (tmp_path / "said").read_text() == "${HOME}/cache|none\n"


def test_a_node_without_workers_gets_the_environment_of_the_front_end(tmp_path: Path) -> None:
    more = "infra: {dedicated_node: true}\nfrontend: {env: {OWN: of the front end}}\n"
    prepared(tmp_path, 'echo "$OWN" >"$RUN_DIR/said"', more=more).run()
    assert (tmp_path / "said").read_text() == "of the front end\n"


def test_a_simulation_goes_on_without_a_setup_script_that_is_not_there_and_heeds_one_that_fails(simulated: Job, tmp_path: Path) -> None:
    plan = json.loads((tmp_path / "plan.json").read_text()) | {"setup_script": "/configs/deps.sh"}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    assert simulated.run(CONTAINER_RUNTIME="pyxis") == (0, [])
    (tmp_path / "deps.sh").write_text("exit 7")
    (tmp_path / "plan.json").write_text(json.dumps(plan | {"setup_script": str(tmp_path / "deps.sh")}))
    assert simulated.run(CONTAINER_RUNTIME="pyxis")[0] == 1


@pytest.mark.parametrize("site", [{}, {"CONTAINER_RUNTIME": "none"}])
def test_a_simulation_outside_a_container_leaves_the_setup_script_alone(simulated: Job, tmp_path: Path, site: dict[str, str]) -> None:
    (tmp_path / "deps.sh").write_text(f"touch {tmp_path}/harm")
    plan = json.loads((tmp_path / "plan.json").read_text()) | {"setup_script": str(tmp_path / "deps.sh")}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    assert simulated.run(**site) == (0, [])
    assert not (tmp_path / "harm").exists()


def test_ports_in_the_ephemeral_range_are_a_warning(simulated: Job) -> None:
    code, said = simulated.run(PORT_OFFSET="20000")
    assert code == 0
    assert "lies in this node's ephemeral range" in said[0]


def test_software_that_is_not_the_recipe_s_stops_the_job_with_the_mend(real: Job) -> None:
    """This environment has no vLLM, and the simulation's Dynamo or none: both are not what the recipe pins."""
    code, said = real.run()
    assert code == 1
    assert any("Dynamo" in line and ("1.2.0.dev20260526" in line or "install: pip" in line) for line in said)
    assert any("vLLM is not installed" in line for line in said)


@pytest.mark.parametrize(
    ("layout", "problem"),
    [
        ({}, "no config.json in the model's folder"),
        ({"config.json": "{}"}, "does not tell its revision"),
        ({"config.json": "{}", ".cache/huggingface/download/config.json.metadata": f"{REVISION}\netag\n1.0\n"}, ""),
        (
            {"config.json": "{}", ".cache/huggingface/download/config.json.metadata": f"{'0' * 40}\netag\n"},
            f"is revision {'0' * 40}, the recipe is for",
        ),
    ],
)
def test_a_local_snapshot_is_compared_with_the_pin(real: Job, tmp_path: Path, layout: dict[str, str], problem: str) -> None:
    model = tmp_path / "model"
    for name, text in layout.items():
        (model / name).parent.mkdir(parents=True, exist_ok=True)
        (model / name).write_text(text)
    _, said = real.run(MODEL=str(model))
    about = [line for line in said if str(model) in line]
    assert (problem in about[0]) if problem else about == []


@pytest.mark.parametrize(("revision", "fits"), [(REVISION, True), ("1" * 40, False)])
def test_a_folder_of_the_hub_s_cache_tells_its_revision(real: Job, tmp_path: Path, revision: str, *, fits: bool) -> None:
    model = tmp_path / "models--Inferact--Qwen" / "snapshots" / revision
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (tmp_path / "link").symlink_to(model)
    _, said = real.run(MODEL=str(tmp_path / "link"))
    assert any("revision" in line for line in said) != fits


def test_an_interface_that_is_not_there_is_named_with_those_that_are(simulated: Job) -> None:
    code, said = simulated.run(RECIPEGEN_NODE_ADDRESS="", NETWORK_INTERFACE="ib7")
    assert code == 1
    assert "interface ib7 has no IPv4 address here (interfaces: lo" in said[0]


def test_an_interface_gives_its_address(simulated: Job) -> None:
    simulated.run(RECIPEGEN_NODE_ADDRESS="", NETWORK_INTERFACE="lo")
    assert (simulated.facts["address"], simulated.facts["interface"]) == ("127.0.0.1", "lo")


def test_collect_puts_the_nodes_together(simulated: Job) -> None:
    simulated.run()
    for index in (1, 2, 3):
        facts = simulated.facts | {"index": index, "host": f"n{index}", "address": f"127.0.7.{index + 1}"}
        (simulated.folder / f"nodes.d/{index:04d}.json").write_text(json.dumps(facts))
    assert simulated.run("collect") == (0, [])
    lines = (simulated.folder / "nodes.txt").read_text().splitlines()
    assert lines == [f"{i} n{i} 127.0.7.{i + 1} lo" for i in range(4)]
    ran = json.loads((simulated.folder / "ran.json").read_text())
    assert (ran["engine"], ran["dynamo"], ran["port_offset"], len(ran["nodes"])) == ("mocker", "1.2.1", 512, 4)
    assert ran["nofile"] == simulated.facts["nofile"]
    assert ran["digest"] == "d"


def test_collect_misses_a_silent_node(simulated: Job) -> None:
    simulated.run()
    assert simulated.run("collect") == (1, ["problem: 3 nodes said nothing"])


# -- recipes without a pin ----------------------------------------------------------------------------------------------

PINS = {"model: qwen3.8-2.4t-nvfp4": "model: {repo: Org/Name}", "  vllm: 0.28.0\n": ""}


def unpinned(folder: Path, *left_out: str, fake_vllm: str = "") -> Job:
    """A job whose recipe leaves pins out, with lib/ as its leaf has it; `fake_vllm` is the build that Python's path holds."""
    text = matrix_of(agg_point("TP4"))
    for pin in left_out:
        text = text.replace(pin, PINS[pin])
    plan = plan_one(text)
    (bundle,) = render_plans([plan])
    for name, data in bundle.shared.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    if fake_vllm:
        (folder / f"site/vllm-{fake_vllm}.dist-info").mkdir(parents=True)
        (folder / f"site/vllm-{fake_vllm}.dist-info/METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {fake_vllm}\n")
    return Job(folder, plan, folder / "lib/node_check.py")


@pytest.mark.parametrize(
    ("left_out", "installed", "problems"),
    [
        (("  vllm: 0.28.0\n",), "0.31.0", []),
        (("  vllm: 0.28.0\n",), "", ["vLLM is not installed"]),
        (("model: qwen3.8-2.4t-nvfp4",), "0.28.0+local", []),
        (("model: qwen3.8-2.4t-nvfp4",), "0.31.0", ["vLLM 0.31.0 is installed, the recipe is for 0.28.0"]),
    ],
)
def test_a_build_that_is_not_pinned_is_noted(tmp_path: Path, left_out: tuple[str, ...], installed: str, problems: list[str]) -> None:
    job = unpinned(tmp_path, *left_out, fake_vllm=installed)
    _, said = job.run(PYTHONPATH=str(tmp_path / "site"))
    about = [line.removeprefix("problem: n0: ") for line in said if "vLLM" in line]
    assert [line[: len(problem)] for line, problem in zip(about, problems, strict=True)] == problems
    assert job.facts["vllm"] == (installed or None)


@pytest.mark.parametrize("revision", [REVISION, "1" * 40])
def test_a_snapshot_that_is_not_pinned_is_noted(tmp_path: Path, revision: str) -> None:
    model = tmp_path / "snapshots" / revision
    model.mkdir(parents=True)
    job = unpinned(tmp_path, "model: qwen3.8-2.4t-nvfp4")
    _, said = job.run(MODEL=str(model))
    assert any("no config.json in the model's folder" in line for line in said)
    (model / "config.json").write_text("{}")
    _, said = job.run(MODEL=str(model))
    assert not any("revision" in line or "config.json" in line for line in said)
    assert (job.facts["model"], job.facts["revision"]) == (str(model), revision)
    job.run()
    assert (job.facts["model"], job.facts["revision"]) == ("Org/Name", None)


def test_a_revision_is_still_compared_where_only_vllm_is_not_pinned(tmp_path: Path) -> None:
    model = tmp_path / "snapshots" / ("1" * 40)
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    _, said = unpinned(tmp_path, "  vllm: 0.28.0\n").run(MODEL=str(model))
    assert any(f"is revision {'1' * 40}, the recipe is for" in line for line in said)


def test_the_check_leaves_nothing_in_lib(tmp_path: Path) -> None:
    job = unpinned(tmp_path, *PINS)
    before = sorted((tmp_path / "lib").iterdir())
    job.run()
    assert sorted((tmp_path / "lib").iterdir()) == before
