"""Points as plain commands and as InferenceX entries."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from recipegen.errors import InputError
from recipegen.launch import LaunchPlan
from recipegen.model import Placeholder
from recipegen.srtslurm.export import export_point
from tests.support import agg_point, matrix_of, plan_one, published_plans

NASTY = """{args: {x: "a'b $(touch /tmp/x) `id` \\\\", compilation-config: {mode: "q\\"uote"}}, env: {A: "$HOME 'x' #", B: ""}}"""
PLANS = {
    **{plan.recipe.point: plan for plan in published_plans()},
    "workers of both roles on one node": plan_one(
        matrix_of('{prefill: 1xTP2, decode: 3xTP1, colocate: true, concurrency: [64], time_limit: "1:00:00"}')
    ),
    "workers of one node": plan_one(matrix_of(agg_point("3xTP2"))),
    "KV events": plan_one(matrix_of(agg_point("1xTP2DP4")) + "kv_events: true\n"),
    "quotes": plan_one(
        matrix_of(agg_point("1xTP4")) + f"agg: {NASTY}\nsetup_script: x.sh\ninfra: {{dedicated_node: true}}\nfrontend: {{args: {{a: b c}}}}\n"
    ),
    "front ends": plan_one(
        matrix_of(agg_point("1xDP16")) + "frontend: {replicas: 2, session_header: X-A-B, args: {a: b c}, env: {A: \"b 'c' $x\", E: ''}}\n"
    ),
    "nats": plan_one(matrix_of(agg_point("1xTP4")).replace("{version: 1.2.1}", "{version: 1.2.1, request_plane: nats, install: pip}")),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_bash_reads_the_commands(plan: LaunchPlan) -> None:
    text = export_point(plan, "commands")
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    shellcheck = shutil.which("shellcheck")
    if shellcheck:
        done = subprocess.run([shellcheck, "-"], input=text, text=True, capture_output=True, check=False)
        assert done.stdout == ""


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_nodes_run_what_the_plan_says(plan: LaunchPlan, tmp_path: Path) -> None:
    """Every node's script with stand-ins for the programs, which write down their words and variables."""
    calls = tmp_path / "calls"
    for name in ("python3", "etcd", "nats-server", "nginx"):
        stand_in = f'#!/bin/bash\nif [[ $0 == */python3 && $2 == dynamo.vllm ]]; then printf "%s\\0" "$@" >"{calls}.$NODE.$CUDA_VISIBLE_DEVICES"; env -0 >"{calls}.$NODE.$CUDA_VISIBLE_DEVICES.env"; else echo "$0 $*" >>"{calls}.services"; fi\n'
        (tmp_path / name).write_text(stand_in)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "bash").write_text(f'#!/bin/sh\necho "$* ${{CUDA_VISIBLE_DEVICES:-any}}" >>"{calls}.setup"\n')  # the setup script is not here
    (tmp_path / "bash").chmod(0o755)
    text, nodes = export_point(plan, "commands"), plan.directives.nodes
    own = {"PATH": f"{tmp_path}:/usr/bin:/bin", **{f"NODE_{n}": f"10.0.0.{n}" for n in range(nodes)}}
    for node in range(nodes):
        done = subprocess.run(
            ["/bin/bash", "-s", str(node)], input=text, text=True, env={**own, "NODE": str(node)}, capture_output=True, timeout=20, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
    for process in plan.processes:
        file = f"{calls}.{process.node_index}.{','.join(map(str, process.device_ids))}"
        places = {"NODE_ADDRESS": f"10.0.0.{process.node_index}", "LEADER_ADDRESS": f"10.0.0.{process.node_index - process.node_rank}"}
        known = {"MODEL": plan.recipe.model.repo, "READY_TIMEOUT_S": "7200", **places, **{port.name: str(port.base) for port in process.ports}}
        assert Path(file).read_text().split("\0")[:-1] == [w.filled(known[w.name]) if isinstance(w, Placeholder) else w for w in process.argv[1:]]
        found = dict(line.split("=", 1) for line in Path(file + ".env").read_text().split("\0")[:-1])
        assert all(
            found[var.name] == (var.value.filled(known[var.value.name]) if isinstance(var.value, Placeholder) else var.value) for var in process.env
        )
    services = Path(f"{calls}.services").read_text()
    assert ("nats-server" in services) is (plan.recipe.runtime.dynamo.request_plane == "nats")
    assert "/etcd --data-dir" in services
    lone = f"dynamo.frontend --http-port {plan.services[0].base}"
    behind = [f"dynamo.frontend --http-host 10.0.0.{node} --http-port 20004" for node in plan.front_ends if plan.several_front_ends]
    assert (lone in services) is not plan.several_front_ends
    assert services.count("dynamo.frontend") == len(plan.front_ends)
    assert all(words in services for words in behind)
    assert ("/nginx -p " in services) is plan.several_front_ends
    if plan.recipe.job.setup_script:
        assert Path(f"{calls}.setup").read_text() == f"{plan.recipe.job.setup_path} any\n" * nodes


def test_a_wrong_node_or_a_missing_address_ends_it() -> None:
    text = export_point(published_plans()[0], "commands")
    for args, own, message in (("9", 4, "no node has the number 9"), ("0", 2, "NODE_2: the address of node 2"), ("", 4, "the number of this node")):
        env = {"PATH": "/usr/bin:/bin", **{f"NODE_{n}": "x" for n in range(own)}}
        done = subprocess.run(["bash", "-s", *shlex.split(args)], input=text, text=True, env=env, capture_output=True, check=False)
        assert done.returncode
        assert message in done.stderr


def test_an_entry_says_what_the_sweep_generator_needs() -> None:
    for plan in published_plans():
        ((name, entry),) = yaml.safe_load(export_point(plan, "inferencex")).items()
        assert re.fullmatch(rf"qwen3.8-fp4-gb300-dynamo-vllm-{plan.recipe.point}", name)
        assert (entry["multinode"], entry["disagg"], entry["precision"], entry["framework"]) == (True, True, "fp4", "dynamo-vllm")
        ((lengths,),) = (entry["scenarios"]["fixed-seq-len"],)
        (search,) = lengths["search-space"]
        assert (lengths["isl"], lengths["osl"], tuple(search["conc-list"])) == (8192, 1024, plan.recipe.concurrency)
        assert search["spec-decoding"] == ("mtp" if plan.recipe.mtp else "none")
        for role in plan.roles:
            side, topology = search[role.layout.role.value], role.recipe.topology
            assert (side["num-worker"], side["tp"], side["ep"], side["dp-attn"]) == (
                role.layout.workers,
                topology.gpus,
                topology.gpus,
                topology.dp > 1,
            )
        assert search["prefill"]["additional-settings"] == [f"CONFIG_FILE=recipes/{plan.recipe.point}.yaml"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (matrix_of(agg_point("1xTP4")), "is aggregated"),
        (
            matrix_of('{prefill: 1xTP4, decode: 1xTP4, concurrency: [4], time_limit: "1:00:00"}') + "benchmark: {type: gsm8k}\n",
            "'gsm8k' has no fixed lengths",
        ),
    ],
)
def test_what_has_no_entry_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        export_point(plan_one(text), "inferencex")
