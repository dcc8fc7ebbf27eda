"""Rules over engine flags, as tables of what is refused and what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipegen.checks.finding import Finding
from recipegen.checks.flag_rules import ROLE_RULES, RULES, SETTING_RULES
from recipegen.checks.views import RoleView, SettingView
from recipegen.engine.flag_catalogue import load_flags
from recipegen.engine.flag_spec import FlagKind, FlagSpec
from recipegen.errors import Source
from recipegen.matrix import parse_matrix
from recipegen.model import EnvVar, Flag
from recipegen.settings import Setting, Value
from tests.support import LEAF
from tests.unit.checks.views_for_tests import found, point_of

PLACE = Source("matrix.yaml", 12, 7)


def judge(name: str, value: Value | None, build: str = "0.28.0", *, derived: bool = False) -> list[Finding]:
    view = SettingView(setting=Setting(name=name, value=value, source=PLACE), catalogue=load_flags(build), derived=derived)
    return [finding for rule in SETTING_RULES for finding in rule.findings(view)]


REFUSED = [
    # names
    ("max-num-seq", 32, "flag-unknown", "did you mean 'max-num-seqs'?"),
    ("max-num-se", 32, "flag-unknown", "did you mean 'max-num-seqs'?"),
    ("enable-expert-paralel", True, "flag-unknown", "did you mean 'enable-expert-parallel'?"),
    ("no-enable-prefix-cachin", True, "flag-unknown", "did you mean 'no-enable-prefix-caching'?"),
    ("no-max-num-seqs", True, "flag-unknown", "did you mean 'max-num-seqs'?"),
    ("no-disable-log-stats", True, "flag-unknown", "did you mean 'disable-log-stats'?"),
    ("cc.mode", 0, "flag-unknown", "write 'compilation-config'"),
    ("disable-log-requests", True, "flag-unknown", "write 'no-enable-log-requests'"),
    ("qqqqqqqq", 1, "flag-unknown", ""),
    ("calculate-kv-scales", True, "flag-removed", "leave it out"),
    ("max-num-partial-prefills", 2, "flag-removed", "leave it out"),
    ("connector", "nixl", "flag-removed", "write 'kv-transfer-config'"),
    ("max-num-queued-reqs", 4, "flag-too-new", "leave it out, or take vLLM 0.29.0"),
    ("chat-template", "chat.jinja", "flag-serve-only", "write 'custom-jinja-template'"),
    ("tool-call-parser", "hermes", "flag-serve-only", "write 'dyn-tool-call-parser'"),
    ("uvicorn-log-level", "loud", "flag-serve-only", "leave it out"),
    # kinds
    ("max-num-seqs", "many", "flag-type", ""),
    ("max-num-seqs", 1.5, "flag-type", ""),
    ("max-num-seqs", True, "flag-type", ""),
    ("max-num-seqs", (1, 2), "flag-type", ""),
    ("max-num-batched-tokens", "1.5K", "flag-type", ""),
    ("gpu-memory-utilization", "most", "flag-type", ""),
    ("kv-cache-dtype", True, "flag-type", ""),
    ("kv-transfer-config", True, "flag-type", ""),
    ("enable-prefix-caching", "false", "flag-type", "write true or false, without quotes"),
    ("async-scheduling", 1, "flag-type", "write true or false, without quotes"),
    ("no-enable-prefix-caching", False, "flag-type", "write `enable-prefix-caching: true` or `enable-prefix-caching: false`"),
    ("disable-log-stats", False, "flag-type", "leave it out, or write null to take an inherited one back"),
    ("hf-token", False, "flag-type", "leave it out, or write null to take an inherited one back"),
    ("cudagraph-capture-sizes", "1 2 4", "flag-type", "write a list"),
    ("cudagraph-capture-sizes", (1, "two"), "flag-type", ""),
    ("block-size.x", 1, "flag-type", ""),
    ("compilation-config.compile_mm_encoder", True, "flag-type", 'write "true" in quotes, or the flag as a YAML mapping'),
    ("compilation-config.compile_mm_encoder", False, "flag-type", 'write "false" in quotes, or the flag as a YAML mapping'),
    ("compilation-config.cudagraph_capture_sizes", (1, 2), "flag-type", "write the flag as a YAML mapping"),
    # choices and bounds
    ("kv-cache-dtype", "fp9", "flag-choice", "did you mean 'fp8'?"),
    ("attention-backend", "flashinfer-mla", "flag-choice", "did you mean 'FLASHINFER_MLA'?"),
    ("moe-backend", "flashinfer_trtlm", "flag-choice", "did you mean 'flashinfer_trtllm'?"),
    ("optimization-level", "O2", "flag-choice", "did you mean '2'?"),
    ("max-lora-rank", 17, "flag-choice", "did you mean '1'?"),
    ("request-plane", "udp", "flag-choice", ""),
    ("max-num-seqs", 0, "flag-range", ""),
    ("gpu-memory-utilization", 0, "flag-range", ""),
    ("gpu-memory-utilization", 1.01, "flag-range", ""),
    # JSON
    ("compilation-config", "{cudagraph_mode: FULL}", "flag-json", "write it as a YAML mapping"),
    ("compilation-config", 3, "flag-json", "write it as a YAML mapping"),
    ("speculative-config", '["mtp"]', "flag-json", "write it as a YAML mapping"),
    ("hf-overrides", '{"a":}', "flag-json", "write it as a YAML mapping"),
    ("compilation-config", '{"cudagraph_mod": "FULL"}', "flag-json-key", "did you mean 'cudagraph_mode'?"),
    ("compilation-config", '{"cudagraph_mode": "FULL_DECODE"}', "flag-json-key", "did you mean 'FULL_DECODE_ONLY'?"),
    ("compilation-config", '{"pass_config": {"enable_sq": true}}', "flag-json-key", "did you mean 'enable_sp'?"),
    ("compilation-config", '{"cudagraph_capture_sizes": 8}', "flag-json-key", ""),
    ("compilation-config", '{"cudagraph_capture_sizes": ["many"]}', "flag-json-key", ""),
    ("compilation-config", '{"compile_mm_encoder": "maybe"}', "flag-json-key", ""),
    ("compilation-config", '{"pass_config": {"enable_noop": true}}', "flag-json-key", "write 'compilation-config.pass_config.eliminate_noops'"),
    ("kv-transfer-config", '{"kv_connector": 1}', "flag-json-key", ""),
    ("kv-transfer-config", '{"kv_role": "kv_bth"}', "flag-json-key", "did you mean 'kv_both'?"),
    ("kv-transfer-config", '{"kv_connector_extra_config": "none"}', "flag-json-key", ""),
    ("speculative-config.num-speculative-tokens", 3, "flag-json-key", "did you mean 'num_speculative_tokens'?"),
    ("speculative-config.num_speculative_tokens", 0, "flag-json-key", ""),
    ("speculative-config.method", "mpt", "flag-json-key", "did you mean 'mtp'?"),
    ("eplb-config.step_interval", "0", "flag-json-key", ""),
]


@pytest.mark.parametrize(("name", "value", "rule", "mend"), REFUSED)
def test_what_the_engine_refuses_is_an_error_with_its_mend(name: str, value: Value, rule: str, mend: str) -> None:
    (finding,) = judge(name, value)
    assert (finding.rule, finding.severity.value, finding.source, finding.mend) == (rule, "error", PLACE, mend)


ACCEPTED: list[tuple[str, Value]] = [
    ("max-num-seqs", 80),
    ("max-num-seqs", "80"),
    ("max_num_seqs", 80),
    ("max-num-batched-tokens", "16k"),
    ("max-num-batched-tokens", "25.6k"),
    ("max-model-len", "auto"),
    ("max-model-len", -1),
    ("gpu-memory-utilization", 1),
    ("gpu-memory-utilization", 0.92),
    ("gpu-memory-utilization", "9e-1"),
    ("enable-prefix-caching", True),
    ("enable-prefix-caching", False),
    ("no-enable-prefix-caching", True),
    ("disable-log-stats", True),
    ("hf-token", True),
    ("hf-token", "hf_example"),
    ("attention-backend", "flashinfer_mla"),
    ("attention-backend", "AUTO"),
    ("moe-backend", "FLASHINFER-TRTLLM"),
    ("mamba-backend", "triton"),
    ("optimization-level", 2),
    ("tokenizer-mode", "deepseek_v4"),
    ("quantization", "of_a_plugin"),
    ("load-format", "of_a_plugin"),
    ("cudagraph-capture-sizes", (1, 2, 4)),
    ("cudagraph-capture-sizes", 8),
    ("collect-detailed-traces", "worker,model"),
    ("additional-config", "any text"),
    ("hf-overrides", "a.module.function"),
    ("hf-overrides", '{"rope_scaling": {"factor": 4.0}}'),
    ("hf-overrides.rope_scaling.factor", 4.0),
    ("compilation-config", '{"cudagraph_mode": "full_decode_only", "mode": 0}'),
    ("compilation-config", '{"cudagraph_mode": null, "custom_ops": ["+rms_norm"], "compile_sizes": [1, "cudagraph_capture_sizes"]}'),
    ("compilation-config", '{"dynamic_shapes_config": {"type": "backed"}}'),
    ("compilation-config.cudagraph_mode", "PIECEWISE"),
    ("compilation-config.compile_mm_encoder", "true"),
    ("compilation-config.custom_ops+", "+rms_norm,+quant_fp8"),
    ("compilation-config.pass_config.enable_sp", "false"),
    ("speculative-config", '{"method": "eagle3", "model": "a/b", "num_speculative_tokens": 3, "attention_backend": "FLASH_ATTN"}'),
    ("speculative_config.num_speculative_tokens", 3),
    ("kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_producer", "kv_buffer_size": 80m}'),
    ("kv-transfer-config", '{"kv_connector": "MyConnector", "kv_role": "kv_both", "kv_connector_extra_config": {"any": 1}}'),
    ("eplb-config", '{"window_size": "1000", "log_balancedness": "False", "step_interval": 3000.0}'),
    ("kernel-config", '{"moe_backend": "FLASHINFER-TRTLLM"}'),
    ("quantization-config", '{"linear": {"weight": "fp8_per_block"}}'),
    ("kv-events-config", '{"enable_kv_cache_events": true, "publisher": null}'),
    ("dyn-tool-call-parser", "qwen"),
    ("endpoint-types", "chat"),
    ("dyn-endpoint-types", "chat"),
]


@pytest.mark.parametrize(("name", "value"), ACCEPTED)
def test_what_the_engine_takes_is_no_finding(name: str, value: Value) -> None:
    assert judge(name, value) == []


@pytest.mark.parametrize("name", ["max-num-seqs", "kv-cache-dtype", "no-enable-prefix-caching", "compilation-config.cudagraph_mode"])
def test_a_flag_that_is_taken_back_is_checked_by_name_only(name: str) -> None:
    assert judge(name, None) == []


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("max-num-seqs", None),
        ("max-cudagraph-capture-size", None),
        ("max-num-batched-tokens", None),
        ("cpu-offload-gb", None),
        ("speculative-config.num_speculative_tokens", None),
        ("hf-overrides.max_position_embeddings", None),
        ("max-num-seq", "flag-unknown"),
        ("kv-cache-dtype", "flag-type"),
        ("enable-prefix-caching", "flag-type"),
        ("no-enable-prefix-caching", "flag-type"),
        ("compilation-config.cudagraph_mode", "flag-type"),
        ("speculative-config.num_spec", "flag-json-key"),
        ("uvicorn-log-level", "flag-serve-only"),
    ],
)
def test_a_formula_gives_a_whole_number(name: str, rule: str | None) -> None:
    assert [finding.rule for finding in judge(name, "sized_for / dp + 16", derived=True)] == ([rule] if rule else [])


@pytest.mark.parametrize(
    ("name", "value", "severity"),
    [
        ("all2all-backend", "naive", "warning"),
        ("all2all-backend", "pplx", "warning"),
        ("all2all-backend", "flashinfer_all2allv", "note"),
        ("dcp-kv-cache-interleave-size", 4, "warning"),
        ("kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}', "note"),
        ("speculative-config", '{"method": "qwen3_5_mtp", "num_speculative_tokens": 3}', "note"),
        ("speculative-config.method", "deepseek_mtp", "note"),
        ("spec-method", "nemotron_h_mtp", "note"),
        ("attention-config", '{"use_fp4_indexer_cache": true}', "note"),
    ],
)
def test_what_the_engine_replaces_is_said(name: str, value: Value, severity: str) -> None:
    assert [(finding.rule, finding.severity.value) for finding in judge(name, value)] == [("flag-replaced", severity)]


@pytest.mark.parametrize(
    ("build", "name", "value", "text"),
    [
        ("0.27.0", "kv-cache-dtype", "nvfp4_4over6", "(new in vLLM 0.28.0)"),
        ("0.29.0", "attention-config", '{"use_prefill_decode_attention": true}', "(removed in vLLM 0.29.0)"),
        ("0.28.0", "calculate-kv-scales", True, "was removed in vLLM 0.28.0"),
        ("0.29.0", "calculate-kv-scales", True, "was removed in vLLM 0.28.0"),
        ("0.26.0", "video-pruning-method", "evs", "is new in vLLM 0.27.0"),
    ],
)
def test_the_release_is_named_in_which_something_came_or_went(build: str, name: str, value: Value, text: str) -> None:
    (finding,) = judge(name, value, build)
    assert text in finding.message


@pytest.mark.parametrize(
    ("build", "name", "value", "rule", "severity"),
    [
        ("0.28.1", "no-such-flag-at-all", 1, "flag-unknown", "error"),
        ("0.20.0", "no-such-flag-at-all", 1, "flag-unknown", "warning"),
        ("0.31.0", "max-num-seq", 1, "flag-unknown", "error"),
        ("0.31.0", "max-num-se", 1, "flag-unknown", "error"),
        ("nightly", "kv-cache-dtype", "fp9", "flag-choice", "warning"),
        ("0.20.0", "chat-template", "x", "flag-serve-only", "warning"),
        ("0.20.0", "calculate-kv-scales", True, None, ""),
        ("nightly", "calculate-kv-scales", True, "flag-removed", "warning"),
        ("0.20.0", "attention-config", '{"use_trtllm_ragged_deepseek_prefill": true}', "flag-json-key", "warning"),
        ("0.20.0", "kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}', None, ""),
    ],
)
def test_what_another_build_tells_is_a_warning(build: str, name: str, value: Value, rule: str | None, severity: str) -> None:
    assert [(finding.rule, finding.severity.value) for finding in judge(name, value, build)] == ([(rule, severity)] if rule else [])


def role_with(*flags: tuple[str, Value], build: str = "0.28.0") -> RoleView:
    view = point_of().roles[0]
    own = tuple(Flag(name=name, value=value, source=Source("matrix.yaml", line)) for line, (name, value) in enumerate(flags, 1))
    return replace(view, role=replace(view.role, flags=own), catalogue=load_flags(build))


@pytest.mark.parametrize(
    ("flags", "rule", "lines"),
    [
        ([("compilation-config", "{}"), ("compilation-config.mode", 0)], "flag-mixed-json", [2]),
        ([("compilation-config.mode", 0), ("compilation-config.cudagraph_mode", "NONE")], "flag-mixed-json", []),
        ([("compilation-config", "{}"), ("kernel-config.moe_backend", "auto")], "flag-mixed-json", []),
        ([("enable-prefix-caching", True), ("no-enable-prefix-caching", True)], "flag-two-spellings", [2]),
        ([("endpoint-types", "chat"), ("dyn-endpoint-types", "chat")], "flag-two-spellings", [2]),
        ([("speculative-config.method", "mtp"), ("speculative-config.model", "a/b")], "flag-two-spellings", []),
        ([("max-num-seqs", 1), ("max-num-batched-tokens", 1)], "flag-two-spellings", []),
    ],
)
def test_flags_of_a_role_together(flags: list[tuple[str, Value]], rule: str, lines: list[int]) -> None:
    view = role_with(*flags)
    findings = [f for own in ROLE_RULES if own.id == rule for f in own.findings(view)]
    assert [(f.source.line, f.severity.value) for f in findings] == [(line, "error") for line in lines]


@pytest.mark.parametrize(("build", "said"), [("0.28.0", False), ("0.26.1rc1.dev1177+ga9a17e709", False), ("0.28.1", True), ("nightly", True)])
def test_a_build_without_flags_of_its_own_is_said_once_for_all_points(build: str, said: bool) -> None:
    (rule,) = (rule for rule in ROLE_RULES if rule.id == "flag-build")
    one, other = (replace(role_with(build=build), role=role.role) for role in point_of().roles)
    findings = {*rule.findings(one), *rule.findings(other)}
    assert len(findings) == said
    assert all(finding.severity.value == "note" and build in finding.message for finding in findings)


def test_the_published_points_have_no_finding_but_notes() -> None:
    matrix = parse_matrix((LEAF / "matrix.yaml").read_bytes(), "matrix.yaml")
    catalogue = load_flags(matrix.runtime.vllm)
    layers = [matrix.common, *matrix.roles.values()]
    views = [SettingView(setting=s, catalogue=catalogue) for layer in layers for s in layer.args]
    views += [SettingView(setting=s, catalogue=catalogue, derived=True) for layer in layers for s in layer.derive]
    assert len(views) > 10
    findings = [finding for rule in SETTING_RULES for view in views for finding in rule.findings(view)]
    assert {finding.severity.value for finding in findings} <= {"note"}


def test_a_role_of_the_published_kind_has_no_finding() -> None:
    assert [finding for rule in ROLE_RULES for finding in found(rule, point_of()) if finding.rule != "flag-build"] == []


def test_a_flag_of_which_the_kind_is_not_known_takes_anything() -> None:
    spec = FlagSpec(name="of-a-listing", kind=FlagKind.ANY)
    catalogue = replace(load_flags("0.28.0"), flags={"of-a-listing": spec})
    for value in (1, "x", True, False, (1, "x"), '{"a": 1}'):
        view = SettingView(setting=Setting(name="of-a-listing", value=value, source=PLACE), catalogue=catalogue)
        assert [finding for rule in SETTING_RULES for finding in rule.findings(view)] == []


def test_every_rule_is_documented() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES) == 15
    for rule in RULES:
        assert rule.title.endswith("."), rule.id
        assert "\n\nMend: " in rule.text or "\nMend: " in rule.text, rule.id
        assert "\nSource: " in rule.text, rule.id


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([("enforce-eager", True), ("compilation-config", '{"cudagraph_mode": "FULL_DECODE_ONLY"}')], True),
        ([("enforce-eager", True), ("compilation-config.cudagraph_mode", "piecewise")], True),
        ([("enforce-eager", True), ("compilation-config", '{"cudagraph_mode": "none"}')], False),
        ([("enforce-eager", True), ("compilation-config.cudagraph_mode", 0)], False),
        ([("enforce-eager", True), ("compilation-config", '{"mode": 3}')], False),
        ([("enforce-eager", False), ("compilation-config.cudagraph_mode", "FULL")], False),
        ([("no-enforce-eager", True), ("compilation-config.cudagraph_mode", "FULL")], False),
        ([("compilation-config.cudagraph_mode", "FULL")], False),
    ],
)
def test_eager_execution_beside_graphs(flags: list[tuple[str, Value]], said: bool) -> None:
    view = role_with(*flags)
    findings = [f for own in ROLE_RULES if own.id == "flag-eager-graphs" for f in own.findings(view)]
    assert [(f.source.line, f.severity.value) for f in findings] == [(1, "warning")] * said


@pytest.mark.parametrize(
    ("variable", "near"),
    [
        ("VLLM_SSM_CONV_STATE_LAYOT", "VLLM_SSM_CONV_STATE_LAYOUT"),
        ("VLLM_SSM_CONVSTATE_LAYOUT", "VLLM_SSM_CONV_STATE_LAYOUT"),
        ("vllm_ssm_conv_state_layout", "VLLM_SSM_CONV_STATE_LAYOUT"),
        ("VLLM_ENGINE_READY_TIMEOUT", "VLLM_ENGINE_READY_TIMEOUT_S"),
        ("VLLM_NIXL_SIDE_CHANEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_HOST"),
        ("VLLM_SSM_CONV_STATE_LAYOUT", ""),
        ("VLLM_NIXL_SIDE_CHANNEL_PORT", ""),
        ("VLLM_ENGINE_ITERATION_TIMEOUT_S", ""),
        ("VLLM_MORIIO_SIDE_CHANNEL_PORT", ""),
        ("VLLM_KV_CACHE_LAYOUT", ""),
        ("VLLM_PORT", ""),
        ("NCCL_DEBUG", ""),
    ],
)
def test_a_variable_that_is_all_but_one_of_the_engine_s(variable: str, near: str) -> None:
    place_of = Source("matrix.yaml", 3, 4)
    view = role_with()
    view = replace(view, role=replace(view.role, env=(EnvVar(name=variable, value="x", source=place_of),)))
    findings = [f for own in ROLE_RULES if own.id == "env-misspelt" for f in own.findings(view)]
    assert [(f.source, f.severity.value, f.mend) for f in findings] == ([(place_of, "warning", f"did you mean '{near}'?")] if near else [])


NAMES = sorted(load_flags("0.28.0").flags)
WORDS = st.one_of(
    st.text(max_size=20), st.integers(), st.floats(), st.sampled_from(["9" * 400 + "k", '{"a": ' + "9" * 400 + "k}", "[" * 100_000, "nan", "1e999"])
)
KEYS = st.text(alphabet="ab_-.+", max_size=6)


@given(st.sampled_from(NAMES), KEYS, st.one_of(WORDS, st.booleans(), st.none(), st.lists(WORDS, min_size=1, max_size=3).map(tuple)), st.booleans())
@settings(max_examples=400, deadline=None)
def test_no_value_makes_a_rule_fail(name: str, keys: str, value: Value | None, derived: bool) -> None:
    for finding in judge(f"{name}.{keys}" if keys else name, value, derived=derived):
        assert finding.source == PLACE
