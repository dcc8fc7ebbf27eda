"""Bundles: the same bytes everywhere, clean shell, manifests that hold, nothing of the world in them."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from recipegen.leaf import leaf_files, write
from recipegen.model import Placeholder
from recipegen.pipeline import plan_matrix, render_plans
from recipegen.render import format_duration, sbatch_option
from recipegen.shell import quote_word
from tests.support import LEAF, MINIMAL, ROOT, agg_point, matrix_of, plan_one, published_plans

EXTENDED = """\
setup_script: deps.sh
slurm: {sbatch: {cpus-per-task: 72, spread-job: true, extra: 'a "b" # c\\'}, srun: [--mem=0, "--extra=x'y"]}
infra: {dedicated_node: true}
deadlines: {ready: 10800}
frontend: {args: {router-mode: kv, model-name: "a 'b'"}, env: {A: "x 'b'"}, replicas: 3, session_header: X-A}
carried: {a: [1]}
"""
UNPINNED = MINIMAL.replace("model: qwen3.8-2.4t-nvfp4", "model: {repo: Org/Name}").replace("1.2.1}", "1.2.1, request_plane: nats}")
SHAPES = ("4xTP1", "3xTP2DP2", "1xTP1PP6", "1xTP1PP8", "1xTP8DP2", "1xDP16", "1xTP2DP8", "1xTEP16")


def every_bundle() -> dict[str, bytes]:
    plans = [*published_plans(), *(plan_one(matrix_of(agg_point(shape))) for shape in SHAPES)]
    return leaf_files(render_plans(plans))


def extended_files() -> dict[str, bytes]:
    """Leaves that ask for all that a matrix may ask of the job, real and simulated."""
    text = matrix_of(agg_point("4xTP1"), agg_point("1xTP8"), head=UNPINNED) + EXTENDED
    plans = {"ext": plan_matrix(text.encode(), "m"), "ext-sim": plan_matrix(text.encode(), "m", simulate=True)}
    return {f"{folder}/{name}": data for folder, own in plans.items() for name, data in leaf_files(render_plans(own)).items()}


def test_the_committed_bundles_are_what_the_matrix_renders() -> None:
    for name, data in leaf_files(render_plans(published_plans())).items():
        assert (LEAF / name).read_bytes() == data, f"{name} is stale: make render"


def test_shellcheck_and_bash_find_nothing_in_any_script(tmp_path: Path) -> None:
    files = (
        every_bundle() | extended_files() | {f"sim/{name}": data for name, data in leaf_files(render_plans(published_plans(simulate=True))).items()}
    )
    write(tmp_path, files)
    scripts = [str(tmp_path / name) for name in files if name.endswith((".sh", ".sbatch"))]
    assert len(scripts) > 60
    shellcheck = Path(sys.executable).parent / "shellcheck"
    found = subprocess.run([shellcheck, "-x", "-S", "style", *scripts], capture_output=True, text=True, check=False)
    assert found.stdout == ""
    assert found.returncode == 0
    for script in scripts:
        subprocess.run(["bash", "-n", script], check=True)


def test_rendering_is_the_same_in_another_process_whatever_its_surroundings(tmp_path: Path) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); from tests.unit.test_render import digest_of_all; print(digest_of_all())"
    env = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C", "USER": "somebody", "SLURM_JOB_ID": "5"}
    other = subprocess.run([sys.executable, "-c", code, str(ROOT)], env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == digest_of_all()


def digest_of_all() -> str:
    files = leaf_files(render_plans(published_plans()))
    return hashlib.sha256(b"".join(name.encode() + data for name, data in sorted(files.items()))).hexdigest()


def test_where_the_matrix_lies_does_not_show() -> None:
    text = matrix_of(agg_point("1xTP1PP6")).encode()
    here, there = (render_plans(plan_matrix(text, file)) for file in ("matrix.yaml", "/far/away/matrix.yaml"))
    assert here[0].files == there[0].files


def test_a_hostile_file_name_does_not_leave_its_comment() -> None:
    (bundle,) = render_plans(plan_matrix(matrix_of(agg_point("1xTP4")).encode(), "x\nrm -rf $HOME\n.yaml"))
    assert not [name for name, data in bundle.files.items() if b"rm -rf" in data]


def test_a_manifest_names_every_file_and_sha256sum_agrees(tmp_path: Path) -> None:
    (bundle,) = render_plans(published_plans()[:1])
    write(tmp_path, leaf_files([bundle]))
    folder = tmp_path / bundle.point
    lines = (folder / "MANIFEST").read_text().splitlines()
    assert lines[0] == "recipegen-bundle 1"
    assert re.fullmatch(r"recipe [0-9a-f]{64}", lines[1])
    named = {line.split("  ")[1] for line in lines[2:]}
    assert named == {name for name in bundle.files if name != "MANIFEST"} | {f"../{name}" for name in bundle.shared}
    sums = "\n".join(lines[2:]) + "\n"
    subprocess.run(["sha256sum", "--check", "--quiet", "--strict"], input=sums, text=True, cwd=folder, check=True)


def test_a_simulated_bundle_differs_in_its_engines_and_plan_only() -> None:
    real = leaf_files(render_plans(published_plans()))
    simulated = leaf_files(render_plans(published_plans(simulate=True)))
    assert {name for name in simulated if name not in real} == {name for name in simulated if name.startswith("simulation/")}
    changed = {name.split("/")[1] for name in real if simulated[name] != real[name]}
    assert changed == {"prefill.sh", "decode.sh", "plan.json", "MANIFEST"}


def test_nothing_of_a_machine_is_in_a_bundle() -> None:
    for name, data in leaf_files(render_plans(published_plans())).items():
        text = data.decode()
        assert str(ROOT) not in text, name
        assert not re.search(r"\b\d{1,3}(\.\d{1,3}){3}\b", text.replace("0.0.0.0", "")), name
        assert not re.search(r"^#SBATCH --(account|partition|qos|reservation)", text, re.MULTILINE), name


def test_derived_values_carry_their_derivation() -> None:
    decode = (LEAF / "2xtp2dep4-1xtp4dep4-mtp-cc512/decode.sh").read_text()
    assert "  --max-num-seqs 272 # 1024/4 + 16\n" in decode
    assert "  --max-cudagraph-capture-size 1088 # 272 * (1 + 3)\n" in decode
    assert "  --max-num-batched-tokens 1104 # 1088 + 16\n" in decode


@pytest.mark.parametrize("text", ["a b", "$(id)", "`id`", "'", '"', "a\\b", "*", "~", "", "-x", "a=b;c", "{a,b}", "!!", "#x", "é"])
def test_a_quoted_word_reaches_the_program_unchanged(text: str) -> None:
    seen = subprocess.run(["bash", "-c", f"printf '%s' {quote_word(text)}"], capture_output=True, check=True)
    assert seen.stdout.decode() == text


def test_a_placeholder_becomes_its_variable() -> None:
    assert quote_word(Placeholder("NODE_ADDRESS")) == '"$NODE_ADDRESS"'


@pytest.mark.parametrize(("before", "after"), [("", ""), ('{"a":"tcp://*:', '"}'), ("$x '", ""), ("", "}`id`")])
def test_the_text_around_a_placeholder_reaches_the_program_unchanged(before: str, after: str) -> None:
    word = Placeholder("PORT", before, after)
    seen = subprocess.run(["bash", "-c", f"PORT='2 0'; printf '%s' {quote_word(word)}"], capture_output=True, check=True)
    assert seen.stdout.decode() == word.filled("2 0") == f"{before}2 0{after}"
    assert str(word) == before + "${PORT}" + after


@pytest.mark.parametrize(("seconds", "text"), [(3600, "1:00:00"), (5400, "1:30:00"), (59, "0:00:59"), (86400, "1-00:00:00"), (180_061, "2-02:01:01")])
def test_durations_as_slurm_reads_them(seconds: int, text: str) -> None:
    assert format_duration(seconds) == text


# -- what a matrix asks of the job around the engines --------------------------------------------------------------------


def job_sbatch(more: str, head: str = MINIMAL) -> str:
    (bundle,) = render_plans([plan_one(matrix_of(agg_point("1xTP8"), head=head) + more)])
    return bundle.files["job.sbatch"].decode()


def added(more: str, head: str = MINIMAL) -> list[str]:
    """Lines of job.sbatch that are there for what was asked."""
    plain = job_sbatch("").splitlines()
    return [line for line in job_sbatch(more, head).splitlines() if line not in plain]


def test_sbatch_options_are_directives_in_the_script_s_head() -> None:
    options = 'slurm: {sbatch: {mem: "0", cpus-per-task: 72, spread-job: true, extra: "a b", constraint: "a&b|c"}}\n'
    lines = job_sbatch(options).splitlines()
    head = [line for line in lines[: lines.index("#")] if line.startswith("#SBATCH")]
    own = ["--constraint=a&b|c", "--cpus-per-task=72", '--extra="a b"', "--mem=0", "--spread-job"]
    assert head[-5:] == [f"#SBATCH {option}" for option in own]
    assert head[:-5] == [line for line in job_sbatch("").splitlines() if line.startswith("#SBATCH")]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "--extra"),
        (72, "--extra=72"),
        ("a=b,c:d", "--extra=a=b,c:d"),
        ("a b", '--extra="a b"'),
        ("a#b", '--extra="a\\#b"'),
        ("it's", '--extra="it\'s"'),
        ('say "x"\\', '--extra="say \\"x\\"\\\\"'),
    ],
)
def test_a_directive_s_value_is_quoted_as_sbatch_reads_it(value: str | int | bool, text: str) -> None:
    assert sbatch_option("extra", value) == text


def test_srun_options_are_quoted() -> None:
    assert added('slurm: {srun: [--mem=0, "--extra=$x\'y"]}\n') == ["""own_srun --mem=0 '--extra=$x'"'"'y' # for workers"""]


def test_a_setup_script_is_run_by_the_check_as_the_container_s_root() -> None:
    assert added("setup_script: deps.sh\n") == [
        "be_root # in the container, if there is one: the setup script may install packages",
        "check_nodes /configs/deps.sh # creates the container everywhere, and runs the script there; later steps only name it",
    ]


@pytest.mark.parametrize(
    ("repo", "comment"),
    [
        ("Org/Name", "the site's snapshot, else the hub id"),
        ("an-alias", "the snapshot that the site maps this alias to"),
        ("/models/x", "the site's snapshot, else the recipe's path"),
    ],
)
def test_where_a_worker_has_its_model_from_is_said(repo: str, comment: str) -> None:
    head = MINIMAL.replace("model: qwen3.8-2.4t-nvfp4", f"model: {{repo: {repo}}}")
    (bundle,) = render_plans([plan_one(matrix_of(agg_point("1xTP8"), head=head))])
    assert f"MODEL=${{MODEL:-{repo}}} # {comment}\n" in bundle.files["agg.sh"].decode()


def test_the_later_deadline_is_taken_before_the_run_is_opened() -> None:
    assert added("deadlines: {ready: 10800}\n") == [
        "((${READY_TIMEOUT_S:-7200} >= 10800)) || READY_TIMEOUT_S=10800 # this recipe's start may take as long"
    ]


def test_nats_is_asked_for_before_anything_starts() -> None:
    lines = added("", MINIMAL.replace("1.2.1}", "1.2.1, request_plane: nats}"))
    assert lines == [
        '[[ -n ${NATS_SERVER_BIN:-}${RECIPEGEN_LOCAL_JOB:-} ]] || refuse_site "site.env names no NATS_SERVER_BIN, and the recipe\'s requests go over NATS"',
        "[[ -z ${NATS_SERVER_BIN:-} ]] || export DYN_REQUEST_PLANE=nats # a simulation on this machine may have none",
    ]


def test_a_dedicated_node_is_said_in_the_head() -> None:
    text = job_sbatch("infra: {dedicated_node: true}\n")
    assert "#SBATCH --nodes=3\n" in text
    assert "#   nodes 1-2   1 agg worker" in text
    assert "#   node 0      discovery, front end, probe, and no worker\n" in text
    assert "\nstart_workers agg 1 1 2 1\n" in text


SEVERAL = "frontend: {replicas: 5}\n"


def test_several_front_ends_stand_behind_nginx() -> None:
    lines = added(SEVERAL + "infra: {dedicated_node: true}\n")
    assert lines == [
        "#SBATCH --nodes=3",
        "#   nodes 1-2   1 agg worker of TP8+EP, 2 nodes, one endpoint on the first",
        "#   nodes 1-2   a front end each, behind nginx",
        "#   node 0      discovery, nginx, probe, and no worker",
        "#   sbatch --account=A --partition=P --gpus-per-node=4 --segment=3 job.sbatch",
        "# shellcheck source-path=SCRIPTDIR source=../lib/nginx.sh",
        '. "$LIB/nginx.sh"',
        "require_nginx",
        "start_workers agg 1 1 2 1",
        "# first node, how many front ends, the endpoint's port, theirs",
        "start_front_ends 1 2 20000 20004",
    ]


def test_where_two_front_ends_have_no_node_the_bundle_is_that_of_one() -> None:
    """A front end on the one node behind the first would stand alone behind nginx."""
    asked, plain = (render_plans([plan_one(matrix_of(agg_point("1xTP8")) + more)])[0] for more in (SEVERAL, ""))
    assert asked.files == plain.files


@pytest.mark.parametrize(("head", "more"), [(MINIMAL, ""), (MINIMAL, EXTENDED), (UNPINNED, "")])
def test_lib_is_the_same_for_all_recipes(head: str, more: str) -> None:
    (bundle,) = render_plans([plan_one(matrix_of(agg_point("TP8"), head=head) + more)])
    assert set(bundle.shared) == {
        f"lib/{name}" for name in ("etcd.sh", "job.sh", "nginx.sh", "node_check.py", "probe.py", "process.sh", "python.sh", "setup_script.py")
    }
    assert bundle.shared["lib/node_check.py"] == (LEAF / "lib/node_check.py").read_bytes()
