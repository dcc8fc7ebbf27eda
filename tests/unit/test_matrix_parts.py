"""What a matrix may say of its model, its machine and the job around the engines: the plan and the digest that follow, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from recipegen.catalogue import load_hardware, load_model
from recipegen.errors import InputError, Source
from recipegen.launch import LaunchPlan
from recipegen.matrix import parse_matrix
from recipegen.model import JobSettings, ModelSpec
from recipegen.plan_json import plan_document
from tests.support import MINIMAL, agg_point, matrix_of, plan_one

QWEN = "qwen3.8-2.4t-nvfp4"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
PAIR = '{prefill: 2xTP1, decode: 1xTP8, concurrency: [4], time_limit: "1:00:00"}'


def text_with(more: str = "", *changes: tuple[str, str], point: str = agg_point("TP8")) -> str:
    text = matrix_of(point)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return text + more


def model_of(pin: str) -> ModelSpec:
    return parse_matrix(text_with("", (f"model: {QWEN}", f"model: {pin}")), "m").model


def plan_with(more: str = "", *changes: tuple[str, str], point: str = agg_point("TP8")) -> LaunchPlan:
    return plan_one(text_with(more, *changes, point=point))


def document(plan: LaunchPlan) -> dict[str, Any]:
    return plan_document(plan)


# -- model and hardware -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pin", "repo", "revision", "served", "hub", "alias"),
    [
        ("{repo: Org/Name}", "Org/Name", "", "Org/Name", True, False),
        (f"{{repo: Org/Name, revision: {COMMIT}, served_name: me}}", "Org/Name", COMMIT, "me", True, False),
        ("{repo: Org/Name, revision: null, served_name: null, architecture: null}", "Org/Name", "", "Org/Name", True, False),
        ("{repo: qwen3-32b-fp8}", "qwen3-32b-fp8", "", "qwen3-32b-fp8", False, True),
        ("{repo: /models/q, served_name: Org/q}", "/models/q", "", "Org/q", False, False),
    ],
)
def test_a_model_pinned_in_place(pin: str, repo: str, revision: str, served: str, hub: bool, alias: bool) -> None:
    model = model_of(pin)
    assert model == ModelSpec(key=repo, repo=repo, revision=revision, served_name=served)
    assert (model.is_hub_id, model.is_alias) == (hub, alias)


def test_a_pin_takes_the_numbers_of_the_model_that_it_names() -> None:
    model, known = model_of(f"{{repo: Org/Copy, architecture: {QWEN}}}"), load_model(QWEN)
    assert (model.key, model.repo) == (QWEN, "Org/Copy")
    assert (model.architecture, model.checkpoint_bytes) == (known.architecture, known.checkpoint_bytes)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (f"model: {QWEN}", f"model: {{repo: a/b, architecture: {QWEN}x}}", f"no model is called '{QWEN}x'; did you mean '{QWEN}'?"),
        (f"model: {QWEN}", "model: {repo: a/../b}", "expected ORG/NAME on the hub, a name without '/', or an absolute path"),
        (f"model: {QWEN}", "model: {repo: /a/../b}", "climbs out of its folder by '..'"),
        (f"model: {QWEN}", "model: {repo: a/b, revision: main}", "expected 40 hex digits: the commit, found the string 'main'"),
        (f"model: {QWEN}", "model: {repo: a/b, revison: null}", "did you mean 'revision'?"),
        (f"model: {QWEN}", 'model: {repo: a/b, served_name: "a b"}', "expected a name that clients ask for"),
        (f"model: {QWEN}", "model: {revision: null}", "missing key 'repo'"),
        (f"model: {QWEN}", "model: [a]", "expected a string or a mapping"),
        ("hardware: gb300-nvl72", "hardware: {type: gb300-nvl, gpus_per_node: 4}", "no hardware is called 'gb300-nvl'; did you mean 'gb300-nvl72'?"),
        ("hardware: gb300-nvl72", "hardware: {type: gb300-nvl72, gpus_per_node: 0}", "expected 1 or more"),
    ],
)
def test_a_pin_that_cannot_be_used_is_named(old: str, new: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        plan_with("", (old, new))
    (problem,) = map(str, caught.value.problems)
    assert words in problem


def test_without_a_revision_none_is_asked_for() -> None:
    plan = plan_with("", (f"model: {QWEN}", "model: {repo: Org/Name}"))
    words = [word for arg in plan.roles[0].command.args for word in arg.words]
    assert "--revision" not in words
    assert words[words.index("--served-model-name") + 1] == "Org/Name"
    assert document(plan)["model"] == {"repo": "Org/Name", "revision": None, "served_name": "Org/Name"}


def test_another_split_of_the_same_machine() -> None:
    whole, split = plan_with(), plan_with("", ("hardware: gb300-nvl72", "hardware: {type: gb300-nvl72, gpus_per_node: 2}"))
    assert (whole.directives.nodes, split.directives.nodes, split.directives.gpus_per_node) == (2, 4, 2)
    assert split.recipe.hardware.key == "gb300-nvl72"
    assert document(whole)["recipe_digest"] != document(split)["recipe_digest"]


def test_the_type_s_own_split_is_no_other() -> None:
    known = load_hardware("gb300-nvl72")
    same = plan_with("", ("hardware: gb300-nvl72", f"hardware: {{type: gb300-nvl72, gpus_per_node: {known.gpus_per_node}}}"))
    assert document(same) == document(plan_with())


# -- what may be left out -----------------------------------------------------------------------------------------------

UNSTATED = (", max_model_len: 10240", "")


@pytest.mark.parametrize(
    ("pin", "length"),
    [(QWEN, 262_144), ("{repo: Org/Name}", 8192 + 1024 + 64)],
)
def test_without_max_model_len_the_engine_takes_the_model_s(pin: str, length: int) -> None:
    plan = plan_with("", UNSTATED, (f"model: {QWEN}", f"model: {pin}"))
    assert (plan.recipe.workload.max_model_len, plan.recipe.workload.stated) == (length, False)
    assert plan.roles[0].recipe.flag("max-model-len") is None
    assert document(plan)["workload"]["max_model_len"] is None


def test_a_formula_cannot_rest_on_a_length_that_is_not_stated() -> None:
    point = '{agg: {shape: TP8, derive: {max-num-seqs: max_model_len / 8}}, concurrency: [1], time_limit: "1:00:00"}'
    assert plan_with(point=point).roles[0].recipe.flag("max-num-seqs") == 1280
    with pytest.raises(InputError, match="unknown name 'max_model_len'"):
        plan_with("", UNSTATED, point=point)


def test_a_simulation_without_max_model_len_serves_the_workload() -> None:
    argv = plan_one(text_with("", UNSTATED), simulate=True).processes[0].argv
    block = int(str(argv[argv.index("--block-size") + 1]))
    blocks = int(str(argv[argv.index("--num-gpu-blocks-override") + 1]))
    assert blocks * block < 1000 * 262_144


def test_a_build_that_is_not_known() -> None:
    plan = plan_with("", ("  vllm: 0.28.0\n", ""))
    assert plan.recipe.runtime.vllm == ""
    assert document(plan)["runtime"]["vllm"] is None


# -- the job around the engines -----------------------------------------------------------------------------------------

ASKED = """\
setup_script: deps.sh
slurm: {sbatch: {cpus-per-task: 72, mem: "0", spread-job: true}, srun: [--mem=0, --exclusive]}
infra: {dedicated_node: true}
deadlines: {ready: "3:00:00"}
frontend: {args: {router_mode: kv, router-reset-states: true, router-temperature: 0.5}}
carried: {identity: {frameworks: {vllm: nightly}}, list: [1, null, {a: b}]}
"""


def test_what_is_left_out_says_nothing() -> None:
    assert parse_matrix(text_with(), "m").job == JobSettings(setup_source=Source("m", 1, 1), ready_source=Source("m", 1, 1))
    empty = "setup_script: null\nslurm: {sbatch: {}, srun: []}\ninfra: {dedicated_node: false}\ndeadlines: {}\nfrontend: {args: {}}\ncarried: {}\n"
    assert document(plan_with(empty)) == document(plan_with())
    assert document(plan_with("", ("version: 1.2.1", "version: 1.2.1, request_plane: tcp"))) == document(plan_with())


def test_what_is_asked_of_the_job_is_in_the_plan() -> None:
    plan = document(plan_with(ASKED))
    assert "front_ends" not in plan
    assert plan["setup_script"] == "/configs/deps.sh"
    assert plan["slurm"] == {"sbatch": {"cpus-per-task": 72, "mem": "0", "spread-job": True}, "srun": ["--mem=0", "--exclusive"]}
    assert plan["infra"] == {"dedicated_node": True}
    assert plan["deadlines"] == {"ready_s": 10_800}
    assert plan["frontend"] == {"args": [["--router-mode", "kv"], ["--router-reset-states"], ["--router-temperature", "0.5"]]}
    assert plan["carried"] == {"identity": {"frameworks": {"vllm": "nightly"}}, "list": [1, None, {"a": "b"}]}


@pytest.mark.parametrize("line", ASKED.splitlines(keepends=True), ids=lambda line: line.partition(":")[0])
def test_the_digest_follows_what_decides_what_runs(line: str) -> None:
    changed = document(plan_with(line))["recipe_digest"] != document(plan_with())["recipe_digest"]
    assert changed == (not line.startswith("carried"))


def test_the_digest_follows_the_request_plane() -> None:
    nats = document(plan_with("", ("version: 1.2.1", "version: 1.2.1, request_plane: nats")))
    assert nats["request_plane"] == "nats"
    assert nats["recipe_digest"] != document(plan_with())["recipe_digest"]


@pytest.mark.parametrize(("script", "path"), [("a.sh", "/configs/a.sh"), ("a/b.sh", "/configs/a/b.sh"), ("/opt/a.sh", "/opt/a.sh")])
def test_a_relative_setup_script_lies_below_configs(script: str, path: str) -> None:
    assert plan_with(f"setup_script: {script}\n").recipe.job.setup_path == path


def test_a_dedicated_node_is_the_first_and_has_no_worker() -> None:
    shared, own = plan_with(point=PAIR), plan_with("infra: {dedicated_node: true}\n", point=PAIR)
    assert own.directives.nodes == shared.directives.nodes + 1
    assert {p.node_index for p in shared.processes} == {0, 1, 2}
    assert [p.node_index - 1 for p in own.processes] == [p.node_index for p in shared.processes]
    assert own.directives.segment == own.directives.nodes
    assert [r.layout.first_node for r in own.roles] == [1, 2]


@pytest.mark.parametrize(
    ("more", "words", "rule"),
    [
        ("setup_script: ../../etc/passwd\n", "climbs out of its folder by '..'", "path-traversal"),
        ("setup_script: /a/..\n", "climbs out of its folder by '..'", "path-traversal"),
        ("setup_script: 'a; rm -rf /'\n", "expected a path or a hub id", "schema-value"),
        ("setup_script: 3\n", "expected a string", "schema-type"),
        ("slurm: {sbatch: {time: 90}}\n", "'time' is not to be set here: the point's time_limit", "profile-sbatch"),
        ("slurm: {sbatch: {tim: 90}}\n", "sbatch may read it as 'time'", "profile-sbatch"),
        ("slurm: {sbatch: {account: a}}\n", "the profile has a key of its own for it", "profile-sbatch"),
        ("slurm: {sbatch: {mem: false}}\n", "expected", "schema-value"),
        ("slurm: {srun: [--nodelist=a]}\n", "job.sbatch gives '--nodelist' to each step itself", "profile-srun"),
        ("slurm: {srun: [--mem 0]}\n", "is not one srun option", "profile-srun"),
        ("infra: {dedicated: true}\n", "did you mean 'dedicated_node'?", "schema-unknown-key"),
        ("deadlines: {ready: soon}\n", "expected seconds or H:MM:SS", "schema-value"),
        ("deadlines: {reserve: 60}\n", "unknown key 'reserve'", "schema-unknown-key"),
        ("frontend: {args: {http_port: 8000}}\n", "'http_port' cannot be set here: it belongs to the launcher", "flag-owned"),
        ("frontend: {args: {no-enforce-disagg: true}}\n", "it follows from the roles", "flag-owned"),
        ("frontend: {args: {a-b: 1, a_b: 2}}\n", "the same flag 'a-b'", "flag-twice"),
        ("frontend: {args: {a: false}}\n", "expected", "schema-value"),
        ('frontend: {args: {a: "b\\nc"}}\n', "expected one line of plain text", "schema-value"),
        ("frontend: {env: {SLURM_JOB_ID: '1'}}\n", "'SLURM_JOB_ID' belongs to the shell, to Slurm or to the tool", "env-reserved"),
        ("frontend: {env: {FRONTEND_HOST: x}}\n", "'FRONTEND_HOST' is the cluster profile's `frontend_host`", "env-reserved"),
        ("frontend: {env: {DYN_TCP_RPC_HOST: x}}\n", "'DYN_TCP_RPC_HOST' is set by the job itself", "env-reserved"),
        ('frontend: {env: {A: "b\\nc"}}\n', "the value holds a control character, U+000A", "env-value"),
        ("frontend: {env: {A: 1}}\n", "expected a string", "schema-type"),
        ("frontend: {replicas: 0}\n", "expected 1 or more", "schema-value"),
        ("frontend: {replicas: 65}\n", "expected 64 or less", "schema-value"),
        (
            "frontend: {nginx_image: 'nginx:1.27.4'}\n",
            "'nginx_image' is for nginx, and nothing of it starts before a single front end",
            "frontend-single",
        ),
        ("frontend: {replicas: 1, session_header: X-A}\n", "'session_header' is for nginx", "frontend-single"),
        ("frontend: {replicas: 2, nginx_image: ../nginx.sqsh}\n", "climbs out of its folder by '..'", "path-traversal"),
        ("frontend: {replicas: 2, session_header: Host}\n", "'Host' is not a session's", "session-header"),
        ("frontend: {replicas: 2, session_header: content-length}\n", "is not a session's", "session-header"),
        ("frontend: {replicas: 2, session_header: X_A}\n", "expected the name of a request header", "schema-value"),
        ("carried: [a]\n", "expected a mapping", "schema-type"),
    ],
)
def test_what_a_job_cannot_be_asked_for(more: str, words: str, rule: str) -> None:
    with pytest.raises(InputError) as caught:
        plan_with(more)
    (problem,) = caught.value.problems
    assert words in str(problem)
    assert problem.rule == rule
    assert problem.source.line > MINIMAL.count("\n")


@pytest.mark.parametrize(
    ("replicas", "point", "nodes"),
    [
        (1, "{agg: 1xDP16, ", (0,)),
        (3, "{agg: 1xDP16, ", (1, 2, 3)),
        (2, "{agg: 1xDP16, ", (1, 2)),
        (64, "{agg: 1xDP16, ", (1, 2, 3)),
        (64, "{prefill: 1xTP4, decode: 1xTP4, ", (0,)),
        (64, "{prefill: 1xTP4, decode: 2xTP4, ", (1, 2)),
    ],
)
def test_front_ends_stand_one_a_node_behind_the_first(replicas: int, point: str, nodes: tuple[int, ...]) -> None:
    plan = plan_with(f"frontend: {{replicas: {replicas}}}\n", point=point + 'concurrency: [64], time_limit: "1:00:00"}')
    assert plan.front_ends == nodes
    services = document(plan)["services"]
    assert services.get("FRONTEND_REPLICA_PORT") == ({"base": 20004, "count": 1} if len(nodes) > 1 else None)
    assert document(plan).get("front_ends") == (list(nodes) if len(nodes) > 1 else None)


def test_what_is_said_of_several_front_ends_is_in_the_plan_and_its_digest() -> None:
    point = agg_point("1xDP16")
    asked = ["replicas: 3", "replicas: 4", "replicas: 3, nginx_image: x", "replicas: 3, session_header: X-A", "env: {A: b}", "env: {A: c}"]
    plans = [document(plan_with(f"frontend: {{{one}}}\n", point=point)) for one in asked]
    assert plans[0]["frontend"] == {"replicas": 3, "nginx_image": "nginx:1.27.4"}
    assert plans[3]["frontend"] == {"replicas": 3, "nginx_image": "nginx:1.27.4", "session_header": "X-A"}
    assert plans[4]["frontend"] == {"env": {"A": "b"}}
    digests = [plan["recipe_digest"] for plan in plans]
    assert digests[0] == digests[1]  # three nodes behind the first
    assert len(set(digests)) == 5
    assert document(plan_with("frontend: {replicas: 3}\n")) == document(plan_with())  # two nodes


def test_an_unknown_request_plane() -> None:
    with pytest.raises(InputError, match="expected 'tcp' or 'nats'"):
        plan_with("", ("version: 1.2.1", "version: 1.2.1, request_plane: http"))
