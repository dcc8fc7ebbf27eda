"""The parser of `vllm serve --help=all` on texts that argparse itself prints."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from recipegen.engine.flag_spec import FlagKind
from recipegen.errors import InputError
from recipegen.flag_extract.extract import extract_flags
from recipegen.flag_extract.listing import parse_listing

JSON_TIP = "Should either be a valid JSON string or JSON keys passed individually."
HUMAN = "Parse human-readable integers like '1k', '2M', etc. Including decimal values with decimal multipliers."
AUTO = f"{HUMAN} Also accepts -1 or 'auto' as a special value for auto-detection."


class Formatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Defaults, raw descriptions, and arguments by name: as vLLM formats its help."""

    def add_arguments(self, actions: list[argparse.Action]) -> None:  # type: ignore[override]
        super().add_arguments(sorted(actions, key=lambda action: action.option_strings))


def parser() -> argparse.ArgumentParser:
    """A parser with the shapes of arguments that vLLM's has."""
    own = argparse.ArgumentParser("vllm serve", usage="vllm serve [model_tag] [options]", description="Launch a server.", formatter_class=Formatter)
    own.add_argument("model_tag", nargs="?", help="The model tag to serve")
    own.add_argument("--headless", action="store_true", default=False, help="Run in headless mode.")
    own.add_argument("--api-server-count", "-asc", type=int, help="How many API server processes to run.")
    own.add_argument("--disable-log-stats", action="store_true", help="Disable logging statistics.")
    front = own.add_argument_group("Frontend", "Arguments for the OpenAI-compatible frontend server.")
    front.add_argument("--port", type=int, default=8000, help="Port number.")
    front.add_argument("--allowed-origins", type=str, default=["*"], help="Allowed origins.")
    front.add_argument("--tool-call-parser", metavar="{hermes,qwen} or name registered in --tool-parser-plugin", help="Tool call parser.")
    model = own.add_argument_group("ModelConfig", "Configuration for the model.")
    model.add_argument("--max-model-len", type=str, help=f"Model context length.\n\n{AUTO}")
    model.add_argument(
        "--dtype", choices=["auto", "bfloat16"], default="auto", help="Data type:\n\n- \"auto\" will use BF16\n- 'bfloat16' does so too"
    )
    model.add_argument("--revision", type=str, help="The revision: a tag, or a commit. --revision main is the default.")
    model.add_argument("--hf-token", nargs="?", const=True, help="Token for the hub.")
    model.add_argument("--tokenizer-mode", metavar=["auto", "hf"], default="auto", help="Tokenizer mode.")
    cache = own.add_argument_group("CacheConfig", "Configuration for the KV cache.")
    cache.add_argument("--enable-prefix-caching", action=argparse.BooleanOptionalAction, help="Prefix caching.")
    cache.add_argument("--gpu-memory-utilization", type=float, default=0.92, help="The fraction of GPU memory.")
    cache.add_argument("--kv-cache-memory-bytes", type=str, help=f"Size.\n\n{HUMAN}")
    cache.add_argument("--mode", choices=["align", "none", "None"], help="Optional choice.")
    cache.add_argument("--skip-layers", nargs="+", default=[], help="Layers to skip.")
    cache.add_argument("--traces", nargs="+", choices=["all", "model"], help="Traces.")
    parallel = own.add_argument_group("ParallelConfig", "Configuration for the distributed execution.")
    parallel.add_argument("--tensor-parallel-size", "-tp", type=int, default=1, help="Number of tensor parallel groups.")
    parallel.add_argument("--enable-expert-parallel", "-ep", action=argparse.BooleanOptionalAction, default=False, help="Expert parallel.")
    vllm = own.add_argument_group("VllmConfig", "Everything.")
    vllm.add_argument("--compilation-config", "-cc", type=str, help=f"API docs: https://docs.vllm.ai/en/v0.28.0/api/vllm/config/\n\n{JSON_TIP}")
    own.epilog = "When passing JSON CLI arguments:\n   --json-arg '{\"key1\": 1}'\n   --json-arg.key1 1\n"
    return own


EXPECTED = {
    "headless": (FlagKind.SWITCH, (), False, (), False),
    "api-server-count": (FlagKind.ANY, (), False, ("-asc",), False),
    "disable-log-stats": (FlagKind.SWITCH, (), False, (), True),
    "port": (FlagKind.ANY, (), False, (), False),
    "allowed-origins": (FlagKind.ANY, (), False, (), False),
    "tool-call-parser": (FlagKind.ANY, (), False, (), False),
    "max-model-len": (FlagKind.INT_OR_AUTO, (), False, (), True),
    "dtype": (FlagKind.ENUM, ("auto", "bfloat16"), False, (), True),
    "revision": (FlagKind.ANY, (), False, (), True),
    "hf-token": (FlagKind.BOOL_OR_STR, (), False, (), True),
    "tokenizer-mode": (FlagKind.ANY, (), False, (), True),
    "enable-prefix-caching": (FlagKind.BOOL, (), True, (), True),
    "gpu-memory-utilization": (FlagKind.FLOAT, (), False, (), True),
    "kv-cache-memory-bytes": (FlagKind.HUMAN_INT, (), False, (), True),
    "mode": (FlagKind.ENUM, ("align", "none"), False, (), True),
    "skip-layers": (FlagKind.LIST, (), False, (), True),
    "traces": (FlagKind.LIST, ("all", "model"), False, (), True),
    "tensor-parallel-size": (FlagKind.ANY, (), False, ("-tp",), True),
    "enable-expert-parallel": (FlagKind.BOOL, (), True, ("-ep",), True),
    "compilation-config": (FlagKind.JSON, (), False, ("-cc",), True),
}


@pytest.mark.parametrize("columns", ["80", "132", "40"])
@pytest.mark.parametrize("newer", [False, True], ids=["--x X, -y X", "--x, -y X"])
def test_a_help_text_tells_names_choices_and_some_kinds(monkeypatch: pytest.MonkeyPatch, columns: str, newer: bool) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = parser().format_help()
    if newer:
        text = text.replace("SIZE, -tp", "SIZE@, -tp").replace("--tensor-parallel-size TENSOR_PARALLEL_SIZE@", "--tensor-parallel-size")
        text = text.replace("--compilation-config COMPILATION_CONFIG, -cc", "--compilation-config, -cc")
    found = {spec.name: (spec.kind, spec.choices, spec.negatable, spec.aliases, spec.engine) for spec in parse_listing(text)}
    assert found == EXPECTED


def test_what_a_terminal_adds_is_left_out() -> None:
    text = (
        "INFO 11-29 [cuda.py:1] Automatically detected platform cuda.\n\x1b[1moptions:\x1b[0m\n  \x1b[32m--seed\x1b[0m SEED           Random seed\r\n"
    )
    (spec,) = parse_listing(text.replace("\r\n", "\n"))
    assert (spec.name, spec.kind) == ("seed", FlagKind.ANY)


def test_a_listing_says_its_build_or_is_told(tmp_path: Path) -> None:
    path = tmp_path / "help.txt"
    path.write_text(parser().format_help())
    assert extract_flags(path).version == "0.28.0"
    assert extract_flags(path, "0.28.1.dev3").version == "0.28.1.dev3"
    path.write_text("options:\n  --seed SEED  Random seed\n")
    with pytest.raises(InputError, match="does not say which build") as error:
        extract_flags(path)
    assert "--vllm-version" in error.value.hint


@pytest.mark.parametrize(
    "text", ["", "vllm: command not found\n", "usage: vllm serve [model_tag] [options]\n\nConfig Groups:\n  ModelConfig   ...\n"]
)
def test_a_text_without_flags_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "help.txt"
    path.write_text(text)
    with pytest.raises(InputError, match="no flag was found"):
        extract_flags(path, "0.28.0")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "help.txt"
    path.write_bytes(b"\xff\xfe  --seed")
    with pytest.raises(InputError, match="is not UTF-8 at byte 0"):
        extract_flags(path)
