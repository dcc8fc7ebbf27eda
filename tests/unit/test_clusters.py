"""Cluster profiles: what they may hold, and what follows from them."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from recipegen.clusters import (
    ClusterProfile,
    local_profile,
    parse_profile,
    profile_from_json,
    profile_to_json,
    sbatch_options,
    site_env,
    slurm_time,
)
from recipegen.errors import InputError, Source
from recipegen.launch import Directives
from recipegen.profile_files import load_profile, profile_folders, resolve_profile

HEAD = "schema: recipegen-cluster/v1\nname: oslo\nscheduler: slurm\nrun_root: /lustre/team/runs\n"
DIRECTIVES = Directives(nodes=4, tasks_per_node=1, time_limit_s=3600, gpus_per_node=4, segment=4)
LOCAL = local_profile(run_root="/state/runs", path_prefix="/venv/bin")
DOCUMENTED = (Path(__file__).parents[2] / "docs/reference/cluster-profile.md").read_text().split("```yaml\n")[1].split("```")[0]


def profile(extra: str = "") -> ClusterProfile:
    return parse_profile(HEAD + extra, "oslo.yaml")


def source_of(env: bytes, *names: str) -> list[str]:
    """What bash makes of a site.env."""
    quoted = " ".join(f'"${{{name}-unset}}"' for name in names)
    script = f"set -eu; . /dev/stdin; printf '%s\\0' {quoted}"
    done = subprocess.run(["bash", "-c", script], input=env, capture_output=True, check=True)
    assert done.stderr == b""
    return done.stdout.decode().split("\0")[:-1]


def test_the_documented_profile_is_read_as_documented() -> None:
    oslo = parse_profile(DOCUMENTED, "oslo.yaml")
    assert (oslo.account, oslo.partition, oslo.qos, oslo.container) == ("team", "gb300", None, "pyxis")
    assert oslo.sbatch == {"cpus-per-task": "72"}
    assert oslo.model("Inferact/Qwen3.8-2.4T-A95B-NVFP4") == "/models/qwen3.8-nvfp4"
    assert oslo.model("Qwen/Qwen3-0.6B") == "Qwen/Qwen3-0.6B"
    assert (oslo.ready_timeout_s, oslo.reserve_s, oslo.etcd) == (7200, 60, "/opt/etcd/bin/etcd")
    assert (oslo.require, oslo.read_gib_s, oslo.machine) == (("cpus-per-task",), 6.5, "aarch64")


def test_a_profile_survives_json() -> None:
    for one in (parse_profile(DOCUMENTED, "oslo.yaml"), profile(), LOCAL):
        assert profile_from_json(json.loads(json.dumps(profile_to_json(one)))) == one


def test_a_profile_knows_where_it_says_what() -> None:
    text = (
        HEAD
        + """deadlines:
  ready: "2:00:00"
slurm: {require: [mem, account]}
container:
  runtime: pyxis
  images:
    a/b:v1: /images/b.sqsh
models: {}
account: null
"""
    )
    found = parse_profile(text, "oslo.yaml")
    places = {
        ("deadlines", "ready"): (6, 10),
        ("deadlines", "reserve"): (5, 1),  # not written: what is around it
        ("slurm", "require"): (7, 9),
        ("slurm", "require", 1): (7, 24),
        ("container", "images", "a/b:v1"): (11, 13),
        ("container", "images", "other"): (10, 3),
        ("models", "a/b"): (12, 9),
        ("account",): (13, 10),
        ("name",): (2, 7),
    }
    for path, (line, column) in places.items():
        assert found.place(*path) == Source("oslo.yaml", line, column), path
    assert found.place("storage", "read_gib_s") is None
    assert LOCAL.place("name") is None


def test_places_stay_with_the_file() -> None:
    found = parse_profile(DOCUMENTED, "oslo.yaml")
    assert found.places
    assert "places" not in profile_to_json(found)
    assert profile_from_json({**profile_to_json(found), "places": {"name": "x"}}).places == {}
    assert parse_profile("# a line more\n" + DOCUMENTED, "other.yaml") == found


def test_what_is_not_measured_is_not_known() -> None:
    assert (profile().require, profile().read_gib_s, profile().machine) == ((), None, None)
    assert profile("storage: {read_gib_s: null}\nnodes: {machine: null}\nslurm: {require: [account]}\n").require == ("account",)


def test_a_profile_of_a_later_version_stays_readable_but_not_a_broken_one() -> None:
    data = profile_to_json(LOCAL)
    assert profile_from_json({**data, "news": 1}) == LOCAL
    for broken in ({}, {**data, "run_root": None}, {**data, "mounts": "x"}, {**data, "models": []}, {**data, "require": "x"}):
        with pytest.raises(InputError, match="not a profile"):
            profile_from_json(broken)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("colour: red\n", r"oslo.yaml:5:1: .*colour"),
        ('account: "a\\nb"\n', r"oslo.yaml:5:10: .*U\+000A"),
        ('environment: {X: "a\\u202eb"}\n', r"U\+202E"),
        ('environment: {"$(id)": a}\n', "not the name of an environment variable"),
        ('environment: {"A;B": a}\n', "not the name of an environment variable"),
        ("environment: {MODEL: a}\n", "profile's key 'models'"),
        ("environment: {PATH: a}\n", "path_prefix"),
        ("environment: {SLURM_CONF: a}\n", "belongs to"),
        ("environment: {A: true}\n", "environment"),
        ("account: '$(id)'\n", "no name that Slurm knows"),
        ("account: --help\n", "no name that Slurm knows"),
        ("sbatch: {time: '1:00:00'}\n", "submit --time"),
        ("sbatch: {nodes: 3}\n", "topologies of the matrix"),
        ("sbatch: {tim: '1:00:00'}\n", "may read it as 'time'"),
        ("sbatch: {segment: 4}\n", "slurm.segment"),
        ("sbatch: {gres: 'gpu:4'}\n", "slurm.gpus"),
        ("sbatch: {account: x}\n", "key of its own"),
        ("sbatch: {array: 0-3}\n", "needs it as it is"),
        ("sbatch: {'N': 3}\n", "long name in lower case"),
        ("sbatch: {'mem=0 --wrap': x}\n", "long name in lower case"),
        ("sbatch: {exclusive: false}\n", "sbatch"),
        ("srun: ['--mpi=pmix --nodes=1']\n", "without blanks"),
        ("srun: ['-N1']\n", "--key=value"),
        ("srun: ['--nodelist=a']\n", "gives '--nodelist'"),
        ("srun: ['--out=x']\n", "gives '--output'"),
        ("container: {runtime: docker}\n", "docker"),
        ("container: {mounts: ['/a,/b:/c']}\n", "not a mount"),
        ("deadlines: {ready: 2h}\n", "seconds or H:MM:SS"),
        ("deadlines: {ready: 0}\n", "out of range"),
        ("port_offset: 99999\n", "0 to 20000"),
        ("path_prefix: bin\n", "not an absolute path"),
        ("network_interface: 'eth0; id'\n", "not a name"),
        ("transport: {type: ssh}\n", "ssh"),
        ("container: {mounts: ['/a/../b:/c']}\n", r"climbs out of its folder by '\.\.'"),
        ("container: {images: {x: ../y.sqsh}}\n", "climbs out"),
        ("models: {org/name: /models/../x}\n", "climbs out"),
        ("discovery: {etcd: ../etcd}\n", "climbs out"),
        ('sbatch: {mem: "0\\n--wrap=x"}\n', r"oslo.yaml:5:15: .*U\+000A"),
        ("slurm: {require: [nodes]}\n", "topologies of the matrix"),
        ("slurm: {require: ['cpus per task']}\n", "long name in lower case"),
        ("storage: {read_gib_s: fast}\n", "expected a number"),
        ("storage: {read_gib_s: 0}\n", "expected more than 0"),
        ("nodes: {machine: arm64}\n", "did you mean 'aarch64'|expected 'aarch64' or 'x86_64'"),
    ],
)
def test_what_a_profile_may_not_hold(extra: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        profile(extra)


@pytest.mark.parametrize("run_root", ["runs", "/a/../b", "/a:b", "/a,b", "/", "'/a\\b'"])
def test_a_run_root_that_cannot_work(run_root: str) -> None:
    with pytest.raises(InputError):
        parse_profile(HEAD.replace("/lustre/team/runs", run_root), "oslo.yaml")


def test_all_problems_come_at_once_with_their_places() -> None:
    with pytest.raises(InputError) as caught:
        profile("sbatch: {time: 1, mem: '0'}\ncontainer: {runtime: docker}\ncolour: red\n")
    assert [problem.source.line for problem in caught.value.problems] == [5, 6, 7]


def test_local_takes_no_container() -> None:
    with pytest.raises(InputError, match="runs no containers"):
        parse_profile(HEAD.replace("slurm", "local", 1) + "container: {runtime: pyxis}\n", "oslo.yaml")


def test_site_env_is_sorted_and_complete() -> None:
    text = site_env(parse_profile(DOCUMENTED, "o"), image="vllm/vllm-openai:nightly-a9a1...", repo="Inferact/Qwen3.8-2.4T-A95B-NVFP4").decode()
    assert text == (
        "# What cluster oslo adds to the bundle; written by recipegen submit.\n"
        "CONTAINER_IMAGE=/lustre/images/vllm.sqsh\n"
        "CONTAINER_MOUNTS=/lustre/models:/models:ro,/lustre/cache:/cache\n"
        "CONTAINER_RUNTIME=pyxis\n"
        "DISCOVERY=etcd\n"
        "ETCD=/opt/etcd/bin/etcd\n"
        "FRONTEND_HOST=0.0.0.0\n"
        "HF_HOME=/cache/hf\n"
        "MODEL=/models/qwen3.8-nvfp4\n"
        "READY_TIMEOUT_S=7200\n"
        "RESERVE_S=60\n"
        "RUN_ROOT=/lustre/team/runs\n"
        "TRITON_CACHE_DIR=/cache/triton\n"
        "VLLM_CACHE_ROOT=/cache/vllm\n"
    )


def test_a_hub_id_without_a_path_keeps_its_pin() -> None:
    assert b"MODEL" not in site_env(profile(), image="i", repo="Qwen/Qwen3-0.6B")


@pytest.mark.parametrize(
    ("more", "image", "values"),
    [
        ("", "", ["unset", "unset"]),
        ("", "nginx:1.27.4", ["unset", "unset"]),
        ("nginx: /opt/nginx\n", "", ["unset", "unset"]),
        ("nginx: /opt/nginx\n", "nginx:1.27.4", ["/opt/nginx", "unset"]),
        ("container: {runtime: pyxis}\n", "", ["unset", "unset"]),
        ("container: {runtime: pyxis}\n", "nginx:1.27.4", ["unset", "nginx:1.27.4"]),
        ("container: {runtime: pyxis, images: {'nginx:1.27.4': /n.sqsh}}\n", "nginx:1.27.4", ["unset", "/n.sqsh"]),
        ("container: {runtime: pyxis}\nnginx: /opt/nginx\n", "nginx:1.27.4", ["/opt/nginx", "unset"]),
    ],
)
def test_nginx_is_the_profile_s_own_or_an_image_where_one_is_needed(more: str, image: str, values: list[str]) -> None:
    assert source_of(site_env(profile(more), image="i", repo="r", nginx_image=image), "NGINX_BIN", "NGINX_IMAGE") == values


def test_values_reach_the_shell_unharmed() -> None:
    hostile = "a'b\"c $(id) `id` \\ $HOME ; # ~ *"
    one = replace(LOCAL, run_root="/a b'c", environment={"X": hostile, "EMPTY": ""}, srun=("--mpi=pmix", "--propagate=NONE"), port_offset=0)
    names = ("X", "EMPTY", "RUN_ROOT", "SRUN_OPTIONS", "PORT_OFFSET", "NETWORK_INTERFACE", "PATH_PREFIX", "ETCD", "CONTAINER_IMAGE")
    values = [hostile, "", "/a b'c", "--mpi=pmix --propagate=NONE", "0", "lo", "/venv/bin", "unset", "unset"]
    assert source_of(site_env(one, image="i", repo="r"), *names) == values


def test_sbatch_options_of_a_new_and_an_old_site() -> None:
    new = profile("account: team\npartition: gb300\nsbatch: {mem: '0', contiguous: true}\n")
    assert sbatch_options(new, DIRECTIVES, run_dir="/runs/a%b", run_id="a%b") == (
        "--account=team",
        "--partition=gb300",
        "--gpus-per-node=4",
        "--segment=4",
        "--chdir=/runs/a%b",
        "--output=/runs/a%%b/slurm-%j.out",
        "--comment=a%b",
        "--contiguous",
        "--mem=0",
    )
    old = profile("slurm: {segment: false, gpus: gres}\nsbatch: {nice: 100}\nqos: high\nreservation: r1\n")
    options = sbatch_options(old, DIRECTIVES, run_dir="/r", run_id="r", time_limit_s=5400)
    assert options == (
        "--qos=high",
        "--reservation=r1",
        "--gres=gpu:4",
        "--time=01:30:00",
        "--chdir=/r",
        "--output=/r/slurm-%j.out",
        "--comment=r",
        "--nice=100",
    )
    assert sbatch_options(LOCAL, DIRECTIVES, run_dir="/r", run_id="r") == ("--chdir=/r", "--output=/r/slurm-%j.out", "--comment=r")


@pytest.mark.parametrize(("seconds", "text"), [(1, "00:01:00"), (60, "00:01:00"), (61, "00:02:00"), (86400, "1-00:00:00"), (90061, "1-01:02:00")])
def test_time_limits(seconds: int, text: str) -> None:
    assert slurm_time(seconds) == text


def test_profiles_are_found_by_name_in_order(tmp_path: Path) -> None:
    folders = profile_folders({"RECIPEGEN_CLUSTERS": f"{tmp_path}/own", "HOME": f"{tmp_path}/home"}, str(tmp_path))
    assert folders == (f"{tmp_path}/clusters", f"{tmp_path}/own", f"{tmp_path}/home/.config/recipegen/clusters")
    assert profile_folders({"XDG_CONFIG_HOME": "/x"}, "/w") == ("/w/clusters", "/x/recipegen/clusters")
    for number, folder in enumerate(folders[1:]):
        Path(folder).mkdir(parents=True)
        Path(folder, "oslo.yaml").write_text(HEAD + f"account: a{number}\n")
    assert resolve_profile("oslo", folders=folders, local=lambda: LOCAL).profile.account == "a0"
    assert resolve_profile(f"{folders[2]}/oslo.yaml", folders=(), local=lambda: LOCAL).profile.account == "a1"
    assert resolve_profile("local", folders=folders, local=lambda: LOCAL).profile is LOCAL
    with pytest.raises(InputError, match="no cluster profile 'osol'") as caught:
        resolve_profile("osol", folders=folders, local=lambda: LOCAL)
    assert "did you mean 'oslo'?" in caught.value.hint


def test_a_profile_is_called_as_its_file(tmp_path: Path) -> None:
    (tmp_path / "bergen.yaml").write_text(HEAD)
    with pytest.raises(InputError, match="calls itself 'oslo'; expected 'bergen'") as caught:
        resolve_profile("bergen", folders=[str(tmp_path)], local=lambda: LOCAL)
    assert [problem.source for problem in caught.value.problems] == [Source(str(tmp_path / "bergen.yaml"), 2, 7)]
    with pytest.raises(InputError, match="cannot be read: no such file"):
        load_profile(str(tmp_path / "none.yaml"))
