"""Forms of recipes beside the documented one: early documents of the second layout, other benchmarks, commits in the place of versions."""

from __future__ import annotations

import pytest
import yaml

from recipegen.engines import REAL
from recipegen.matrix import parse_matrix
from recipegen.pipeline import plan_matrix
from recipegen.recipe import make_recipe
from recipegen.srtslurm.export import export_point
from recipegen.srtslurm.report import Outcome
from recipegen.srtslurm.source_text import parse_recipe
from recipegen.srtslurm.tree import plant
from tests.unit.srtslurm.recipes import V1, V2, changed, import_one, import_texts, reasons

DYNAMO_V1, DYNAMO_V2 = "version: 1.2.1, install: false", "source: {pypi: 1.2.1}, install: false"
STATED = "frameworks: {dynamo: 1.2.1, vllm: 0.28.0}"


def body(text: str) -> list[str]:
    """A matrix without the comments that tell where it came from."""
    return [line for line in text.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("nodes", ["among the resources", "among the roles"])
def test_an_early_document_has_sections_of_the_first_layout(nodes: str) -> None:
    early = f"schema: 2\n{V1}"
    if nodes == "among the roles":
        early = changed(
            early,
            ("  prefill_nodes: 1\n  prefill_workers: 1\n  gpus_per_prefill: 4\n", ""),
            ("  decode_nodes: 1\n  decode_workers: 1\n  gpus_per_decode: 4\n", ""),
            ("frontend:", "roles: {prefill: {nodes: 1, workers: 1, gpus: 4}, decode: {nodes: 1, workers: 1, gpus: 4}}\nfrontend:"),
        )
    report, text = import_one(early)
    assert report.outcome is Outcome.IMPORTED, reasons(report)
    assert body(text) == body(import_one(V1)[1])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([("engine: {", "infra: {etcd_nats_dedicated_node: true}\nengine: {")], "infra: {dedicated_node: true}"),
        ([("engine: {type", "engine: {set_cuda_visible_devices: true, type")], "engine.set_visible_devices: true"),
        ([("name: tiny", "job_scoped_ports: true\nname: tiny")], "job_scoped_ports: true"),
        ([("    gpus: 4\n", "    gpus: 4\n    kv_events: false\n")], "{prefill: 1xTP4, decode: 1xTP4,"),
        ([("    gpus: 4\n", "    gpus: 4\n    kv_events: true\n")], "kv_events: true\n"),
        ([("    workers: 1\n    gpus: 4\n    env: {DYN_LOG: error}\n    args:\n      served-model-name: org/model\n      tensor-parallel-size: 4\n      max-model-len: 10240\n      max-num-seqs: 32",
           "    kv_events: {topic: kv-events, publisher: zmq}\n    workers: 1\n    gpus: 4\n    env: {DYN_LOG: error}\n    args:\n      served-model-name: org/model\n      tensor-parallel-size: 4\n      max-model-len: 10240\n      max-num-seqs: 32")],
         "kv_events: true\n"),
        ([("resources:", "services: [{name: node-exporter, enabled: false}]\nresources:")], '"services[0]": {name: node-exporter, enabled: false}'),
        ([("resources:", "services: [{name: cache, type: lmcache-server, enabled: false}]\nresources:")], '"services[0]": {name: cache,'),
        ([(DYNAMO_V2, "source: {rev: abc123}")], "install: git, source: https://github.com/ai-dynamo/dynamo.git@abc123}"),
        ([(DYNAMO_V2, "source: {git: https://example.org/d.git, rev: main, sha: fe12}")], "source: https://example.org/d.git@fe12}"),
        ([(DYNAMO_V2, "source: {git: https://example.org/d.git}")], "install: git, source: https://example.org/d.git}"),
        ([(DYNAMO_V2, "source: {pypi: 1.2.1, top_of_tree: false}")], "dynamo: {version: 1.2.1, install: pip}"),
        ([(DYNAMO_V2, "version: 1.2.1, source: {pypi: 1.2.1}")], "dynamo: {version: 1.2.1, install: pip}"),
        ([("gpus_per_node: 4}", "gpus_per_node: 4, agg_nodes: null, decode_nodes: null}")], "{prefill: 1xTP4, decode: 1xTP4,"),
        ([(DYNAMO_V2, "source: {pypi: 1.2.1}, sidecar: false, sidecar_port: 50051")], "dynamo.sidecar_port: 50051"),
    ],
)  # fmt: skip
def test_the_second_layout_takes_what_srtctl_takes(changes: list[tuple[str, str]], expected: str) -> None:
    report, text = import_one(changed(V2, *changes))
    assert expected in text, (reasons(report), text)
    assert parse_matrix(text, "matrix.yaml")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([("gpus_per_node: 4}", "gpus_per_node: 4, decode_nodes: 2}")],
         "'resources.decode_nodes' is said in both layouts, also as 'roles.decode.nodes'; expected one of them [srt-unsupported]"),
        ([("engine: {", "backend: {type: sglang}\nengine: {")], "'backend.type' is said in both layouts, also as 'engine.type'"),
        ([("engine: {", "backend: {vllm_config: {decode: {max-num-seqs: 8}}}\nengine: {")], "'backend.vllm_config' is said in both layouts, also as 'roles'"),
        ([("engine: {type", "engine: {set_visible_devices: true, set_cuda_visible_devices: false, type")], "'engine.set_cuda_visible_devices' is the older name of 'set_visible_devices'"),
        ([("    gpus: 4\n", "    gpus: 4\n    kv_events: {topic: events}\n")], "'roles.prefill.kv_events.topic' is not supported: events are published as by `true`"),
        ([("    gpus: 4\n", "    gpus: 4\n    kv_events: on-demand\n")], "'roles.prefill.kv_events' is the text 'on-demand'; expected true, or a mapping of settings"),
        ([("    gpus: 4\n", "    gpus: 4\n    kv_event: true\n")], "'roles.prefill.kv_event' is no key of an srt-slurm recipe; did you mean 'kv_events'?"),
        ([("type: dynamo,", "type: dynamo, placement: {note: head},")], "'frontend.placement.note' is no key of an srt-slurm recipe; did you mean 'node'?"),
        ([(DYNAMO_V2, "source: {pypi: 1.2.1, rev: abc}")], "'dynamo.source' names several sources: pypi"),
        ([(DYNAMO_V2, "version: 1.2.0, source: {pypi: 1.2.1}")], "'dynamo.version' is said in both layouts, also as 'dynamo.source.pypi'"),
        ([(DYNAMO_V2, "source: {pypi: 1.2.1}, sidecar: true")], "'dynamo.sidecar' is not supported: engines run within Dynamo's worker"),
        ([("resources:", "services: [{name: cache, type: lmcache-server}]\nresources:")], "a service of type 'lmcache-server'"),
    ],
)  # fmt: skip
def test_what_the_second_layout_cannot_mean_here_is_refused_at_its_key(changes: list[tuple[str, str]], reason: str) -> None:
    report, text = import_one(changed(V2, *changes))
    assert (report.outcome, text) == (Outcome.REFUSED, "")
    assert any(reason in one for one in reasons(report)), reasons(report)


@pytest.mark.parametrize(
    ("changes", "dynamo", "note"),
    [
        ([(DYNAMO_V1, "version: 1.2.1, hash: abc123"), (STATED, "frameworks: {}")],
         "dynamo: {install: git, source: https://github.com/ai-dynamo/dynamo.git@abc123}", "srtctl heeds no version beside 'dynamo.hash'"),
        ([(DYNAMO_V1, "version: 1.2.1, top_of_tree: true"), (STATED, "frameworks: {}")],
         "dynamo: {install: git, source: https://github.com/ai-dynamo/dynamo.git}", "srtctl heeds no version beside 'dynamo.top_of_tree'"),
        ([(DYNAMO_V1, "version: 1.2.1, wheel: 1.3.0")], "dynamo: {version: 1.3.0, install: pip}", "srtctl heeds no version beside 'dynamo.wheel'"),
        ([(DYNAMO_V1, "hash: abc123"), (STATED, "frameworks: {}"), ("vllm/vllm-openai:v0.28.0", "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.8.0")],
         "dynamo: {install: git, source:", "no Dynamo is named: whichever is built is taken, and not compared"),
        ([(DYNAMO_V1, "install: false"), (STATED, "frameworks: {dynamo: 2ea21c22a1aaef70607977b8fff40de917d6f704}")],
         "dynamo: {install: present}", "'identity.frameworks.dynamo' is carried without effect: it is no version that could be compared"),
        ([(STATED, "frameworks: {dynamo: 1.2.1, vllm: 2ea21c22a1aaef70607977b8fff40de917d6f704}")],
         "dynamo: {version: 1.2.1, install: present}", "'identity.frameworks.vllm' is carried without effect: it is no version"),
    ],
)  # fmt: skip
def test_dynamo_comes_from_where_srtctl_gets_it(changes: list[tuple[str, str]], dynamo: str, note: str) -> None:
    report, text = import_one(changed(V1, *changes))
    assert f"  {dynamo}" in text, (reasons(report), text)
    assert any(note in str(one) for one in report.notes), report.notes
    assert parse_matrix(text, "matrix.yaml")


def test_a_benchmark_that_is_not_run_here_is_carried_whole() -> None:
    report, text = import_one(changed(V1, ("type: sa-bench", "type: replay\n  duration: 3600\n  env: {A: b}"), ("  osl: 1024\n", "")))
    assert report.outcome is Outcome.NOTED, reasons(report)
    notes = [str(one) for one in report.notes]
    assert any("replay brings its own requests: 8192 tokens in and 1024 out stand for them" in one for one in notes), notes
    assert any("'benchmark.duration' is carried without effect: it belongs to 'replay', which is not run here" in one for one in notes), notes
    for words in ("benchmark.type: replay", "benchmark.duration: 3600", "benchmark.env: {A: b}", "benchmark.req_rate: inf", "concurrency: [4, 16]"):
        assert words in text
    assert parse_matrix(text, "matrix.yaml")


@pytest.mark.parametrize("key", ["tokenizer_mode: slow", "num_prompts: 256", "num_warmups: 64", "sweep: {mode: zip, parameters: {}}"])
def test_a_setting_of_another_version_of_srtctl_is_carried(key: str) -> None:
    report, text = import_one(changed(V1, ("isl: 8192", f"isl: 8192\n  {key}")))
    assert f"benchmark.{key.partition(':')[0]}: " in text, reasons(report)
    assert any("benchmarks have no such setting here" in str(one) for one in report.notes)


def test_an_image_that_is_left_empty_is_told_at_its_key() -> None:
    report, _ = import_one(changed(V1, ('container: "vllm/vllm-openai:v0.28.0"', 'container: ""')))
    assert any("a.yaml:2:42: 'model.container' is empty: no image is named" in one for one in reasons(report)), reasons(report)


def test_a_number_in_quotes_is_a_number_where_one_belongs() -> None:
    quoted = 'isl: 8192\n  num_prompts_mult: "10"\n  random_range_ratio: "0.5"\n  dataset_name: "2024"'
    report, text = import_one(changed(V1, ("isl: 8192", quoted)))
    for words in ("prompts_per_concurrency: 10\n", "random_range_ratio: 0.5\n", 'dataset: "2024"\n'):
        assert words in text, (reasons(report), text)


def test_variants_of_the_second_layout_share_what_stands_beside_the_base() -> None:
    head, rest = V2.split("\n", 1)
    base = "".join(f"  {line}\n" for line in rest.splitlines())
    variants = "override_more:\n  benchmark: {concurrencies: 64}\nzip_override_load:\n  benchmark: {concurrencies: [8, 32]}\n"
    report, text = import_one(f"{head}\nbase:\n{base}{variants}")
    assert (report.jobs, len(report.refused)) == (3, 0), reasons(report)
    for load in ("[64]", "[8]", "[32]"):
        assert f"concurrency: {load}" in text


def test_merge_keys_are_followed_as_srtctl_s_reader_does() -> None:
    """A mapping's own keys win over what is merged, and of several merged mappings the first."""
    apart = "  prefill_environment:\n    DYN_LOG: error\n  decode_environment:\n    DYN_LOG: error\n"
    merged = "  prefill_environment: &one {A: a, B: b}\n  decode_environment:\n    B: own\n    <<: [*one, {A: later, C: c}]\n"
    report, text = import_one(changed(V1, (apart, merged)))
    assert report.outcome is Outcome.IMPORTED, reasons(report)
    (point,) = parse_matrix(text, "matrix.yaml").points
    recipe = make_recipe(parse_matrix(text, "matrix.yaml"), point, REAL)
    assert [{one.name: one.value for one in role.env} for role in recipe.roles] == [{"A": "a", "B": "b"}, {"A": "a", "B": "own", "C": "c"}]


def test_a_quoted_merge_key_is_a_key_like_any_other() -> None:
    (name,) = plant(parse_recipe("a: {'<<': {b: 1}}\n", "r.yaml")[0]).entries["a"].entries or {}
    assert name == "<<"


def test_two_merge_keys_are_one_too_many() -> None:
    report, _ = import_one(changed(V1, ("resources:", "output: {<<: {a: 1}, <<: {b: 1}}\nresources:")))
    assert any("duplicate key '<<'" in one for one in reasons(report))


@pytest.mark.parametrize("value", ["5", "[*one, 5]", "text"])
def test_a_merge_key_of_something_else_is_told(value: str) -> None:
    own = ("  prefill_environment:\n    DYN_LOG: error\n", f"  prefill_environment: {{<<: {value}}}\n")
    report, _ = import_one(changed(V1, ("name: tiny", "output: &one {A: a}\nname: tiny"), own))
    assert any("<<" in one for one in reasons(report))


def test_front_ends_get_the_environment_of_all_below_their_own() -> None:
    _, text = import_one(changed(V1, ("frontend: {", "environment: {A: all, B: all}\nfrontend: {env: {B: own}, ")))
    assert {one.name: one.value for one in parse_matrix(text, "matrix.yaml").job.frontend_env} == {"A": "all", "B": "own"}


@pytest.mark.parametrize(
    ("value", "refused"), [("DYN_REQUEST_PLANE: tcp", False), ("DYN_EVENT_PLANE: zmq", False), ("DYN_REQUEST_PLANE: nats", True)]
)
def test_what_the_job_gives_to_all_processes_is_not_a_role_s(value: str, refused: bool) -> None:
    report, text = import_one(changed(V1, ("DYN_LOG: error", value)))
    assert (report.outcome is Outcome.REFUSED) == refused
    assert value.partition(":")[0] not in text


DEV = "1.2.0.dev20260426"
NAMED = f"ai_dynamo-{DEV}-py3-none-any.whl"
BY_PIP = (
    f"the wheel of Dynamo {DEV} is installed by pip, from an index that has it (`environment: {{PIP_EXTRA_INDEX_URL: ...}}` of the cluster's profile)"
)
BY_SCRIPT = f"the wheel of Dynamo {DEV} is not installed by the job: a setup script finds its name in DYNAMO_VERSION and DYNAMO_WHEEL_NAME"


@pytest.mark.parametrize(
    ("dynamo", "install", "note"),
    [
        (f"wheel: {DEV}", "pip", BY_PIP),
        (f"wheel: {DEV}, install: true", "pip", BY_PIP),
        (f"wheel: {DEV}, install: false", "present", BY_SCRIPT),
    ],
)
@pytest.mark.parametrize("layout", [V1, V2])
def test_a_wheel_sets_the_variables_of_srtctl_for_all_processes(layout: str, dynamo: str, install: str, note: str) -> None:
    """Below those of `environment`, above a role's own, as srtctl has them; and it comes back as a wheel."""
    second = layout is V2
    said = dynamo.replace(f"wheel: {DEV}", f"source: {{wheel: {DEV}}}") if second else dynamo
    text = changed(
        layout, (DYNAMO_V2 if second else DYNAMO_V1, said), ("slurm:", "setup_script: deps.sh\nenvironment: {DYNAMO_VERSION: mine}\nslurm:")
    )
    text = text.replace("DYN_LOG: error", "DYNAMO_WHEEL_NAME: roles")
    report, matrix = import_one(text)
    (plan,) = plan_matrix(matrix.encode(), "matrix.yaml")
    wanted = {"DYNAMO_VERSION": "mine", "DYNAMO_WHEEL_NAME": NAMED}
    for variables in (*(role.recipe.env for role in plan.roles), plan.recipe.job.frontend_env):
        assert {one.name: one.value for one in variables} == wanted, reasons(report)
    assert (plan.recipe.runtime.dynamo.version, plan.recipe.runtime.dynamo.install) == (DEV, install)
    assert note in [one.message for one in report.notes]
    again = yaml.safe_load(export_point(plan, "srt-slurm-v2" if second else "srt-slurm"))
    assert again["dynamo"] == {"install": install == "pip", **yaml.safe_load(f"{{{said}}}")}
    assert again["frontend"]["env"] == {"DYNAMO_VERSION": "mine"}


def test_what_a_wheel_sets_is_told_apart_from_the_environment_of_all() -> None:
    text = changed(V1, (DYNAMO_V1, f"wheel: {DEV}"), ("slurm:", "environment: {A: all}\nslurm:")).replace(
        "DYN_LOG: error", "DYNAMO_VERSION: own\n    A: own"
    )
    notes = [one.message for one in import_one(text)[0].notes]
    assert "'A' of `environment` takes the place of the role's, as srtctl sets it later" in notes
    assert "'DYNAMO_VERSION' that srtctl sets beside a wheel takes the place of the role's, as srtctl sets it later" in notes


def test_a_wheel_by_its_file_sets_no_variables() -> None:
    _, matrix = import_one(changed(V1, (DYNAMO_V1, f"wheel: /wheels/{NAMED}")))
    assert "DYNAMO_" not in matrix
    assert "carried" not in matrix.replace("carried:\n  model.precision: fp8\n", "")


def test_a_letter_is_a_text_also_as_a_key() -> None:
    _, text = import_one(changed(V1, ("DYN_LOG: error", "Y: n")))
    assert [(one.name, one.value) for one in parse_matrix(text, "matrix.yaml").common.env] == [("Y", "n")]
    swept = changed(V1, ("name: tiny", "sweep: {y: [64, 128]}\nname: tiny"), ("4x16", "'{y}'"))
    (report,) = import_texts(swept).reports
    assert (report.jobs, report.kept) == (2, 2)


def test_arguments_of_the_front_end_are_passed_as_srtctl_passes_them() -> None:
    args = "{router-mode: kv, router_temperature: 0.5, router-reset-states: true, no-kv-events: false, busy-threshold: null}"
    _, text = import_one(changed(V1, ("frontend: {type: dynamo,", f"frontend: {{args: {args}, type: dynamo,")))
    given = {flag.name: flag.value for flag in parse_matrix(text, "matrix.yaml").job.frontend_args}
    assert given == {"router-mode": "kv", "router-temperature": 0.5, "router-reset-states": True}
    report, _ = import_one(changed(V1, ("frontend: {type: dynamo,", "frontend: {args: {a: ''}, type: dynamo,")))
    assert any("'frontend.args.a' is the text ''" in one for one in reasons(report))
