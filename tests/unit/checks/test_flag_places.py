"""Where the rules over engine flags say that a fault stands, and which of two speaks at one place."""

from __future__ import annotations

import pytest

from recipegen.engine.flag_catalogue import flag_versions, load_flags
from recipegen.engines import REAL
from recipegen.errors import Source
from recipegen.pipeline import check_matrix
from tests.support import matrix_of
from tests.unit.checks.test_flag_rules import judge


def place(text: str, marker: str) -> Source:
    before = text[: text.index(marker)]
    return Source("matrix.yaml", before.count("\n") + 1, len(before) - before.rfind("\n"))


def errors_of(text: str) -> list[tuple[str, Source]]:
    """Rule and place of every error in a matrix that is no problem of its shape."""
    return [(f.rule, f.source) for f in check_matrix(text.encode(), "matrix.yaml").findings if f.severity.value == "error"]


AGG = '{agg: TP8, concurrency: [4], time_limit: "1:00:00"}'
MANY_LINES = """common:
  args:
    kv-transfer-config:
      kv_connector: NixlConnector
      kv_role: kv_both
      kv_bufer_size: 8
    compilation-config:
      pass_config:
        enable_sp: true
        enable_sq: true
      cudagraph_mode: FULL_DECODE
    eplb-config: {step_interval:
      0}
"""


@pytest.mark.parametrize(
    ("args", "rule", "marker"),
    [
        ("max-num-seq:\n      8", "flag-unknown", "max-num-seq"),
        ("calculate-kv-scales:\n      true", "flag-removed", "calculate"),
        ("max-num-queued-reqs:\n      8", "flag-too-new", "max-num-q"),
        ("chat-template:\n      a.jinja", "flag-serve-only", "chat-t"),
        ("kv-cache-dtype:\n      fp9", "flag-choice", "fp9"),
        ("eplb-config.step_intervall:\n      1", "flag-json-key", "eplb-config.s"),
        ("eplb-config.step_interval:\n      0", "flag-json-key", "0\nexpert"),
        ("compilation-config.pass_config:\n      {enable_sq: true}", "flag-json-key", "enable_sq"),
    ],
)
def test_a_name_that_is_wrong_is_the_place_and_not_its_value(args: str, rule: str, marker: str) -> None:
    text = matrix_of(AGG)
    text = text[: text.index("expert_parallel")] + "expert_parallel: true\npoints:\n  - " + AGG + "\n"
    text = text.replace("expert_parallel", f"common:\n  args:\n    {args}\nexpert_parallel", 1)
    assert (rule, place(text, marker)) in errors_of(text)


@pytest.mark.parametrize("marker", ["kv_bufer_size", "enable_sq", "FULL_DECODE", "0}\npoints"])
def test_a_key_of_a_mapping_over_several_lines_has_its_own_place(marker: str) -> None:
    text = matrix_of(AGG)
    text = text[: text.index("common:")] + MANY_LINES + text[text.index("points:") :]
    found_keys = [source for rule, source in errors_of(text) if rule == "flag-json-key"]
    assert place(text, marker) in found_keys
    assert len(found_keys) == 4


def test_a_value_that_is_replaced_has_its_own_place() -> None:
    text = matrix_of(AGG)
    text = text[: text.index("common:")] + MANY_LINES + text[text.index("points:") :]
    (note,) = [f for f in check_matrix(text.encode(), "matrix.yaml").findings if f.rule == "flag-replaced"]
    assert note.source == place(text, "kv_both")


def owned_names() -> list[str]:
    """Flags that are decided elsewhere, in every form that a release knows."""
    owned = REAL.owned_flags()
    specs = [spec for version in flag_versions() for spec in load_flags(version).flags.values() if spec.name in owned]
    forms = [(spec.name, *(alias.lstrip("-") for alias in spec.aliases), *([f"no-{spec.name}"] if spec.negatable else [])) for spec in specs]
    return sorted({*owned, *(name for names in forms for name in names)})


def test_of_a_flag_that_is_decided_elsewhere_only_flag_owned_speaks() -> None:
    assert {"tp", "dpr", "n", "no-enable-expert-parallel", "host"} <= set(owned_names())
    for name in owned_names():
        assert judge(name, "x") == judge(name, 8) == judge(name, "8", derived=True) == [], name
        text = matrix_of(AGG).replace("{kv-cache-dtype: fp8", f"{{kv-cache-dtype: fp8, '{name}': 8")
        assert [rule for rule, _ in errors_of(text)] == ["flag-owned"], name
