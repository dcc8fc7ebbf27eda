"""`recipegen model` as a terminal sees it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from recipegen.catalogue import make_architecture, model_keys
from recipegen.cli import main
from recipegen.matrix_schema import ModelSchema
from recipegen.yamlsource import parse_yaml, validate
from tests.unit.test_hf_config import GPT_OSS, KNOWN, LLAMA

ROOT = Path(__file__).resolve().parents[2]
REPO = "meta-llama/Llama-3.3-70B-Instruct"
REVISION = "0123456789abcdef0123456789abcdef01234567"
PIN = ("--repo", REPO, "--revision", REVISION)


def recipegen(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA, indent=2))
    return path


def load(data: bytes) -> ModelSchema:
    return validate(parse_yaml(data, "written"), ModelSchema)


def test_the_known_models_are_listed() -> None:
    result = recipegen("model", "list")
    assert (result.exit_code, result.stdout.split()) == (0, list(model_keys()))
    assert "qwen3.8-2.4t-nvfp4" in model_keys()
    assert json.loads(recipegen("model", "list", "--format", "json").stdout) == list(model_keys())


def test_a_model_is_written_and_says_where(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "llama.yaml"
    result = recipegen("model", "add", config, *PIN, "--out", out, "--checkpoint-bytes", "141107412480")
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"written: {out}\n", "")
    data = load(out.read_bytes())
    assert (data.repo, data.revision, data.served_name, data.checkpoint_bytes) == (REPO, REVISION, "Llama-3.3-70B-Instruct", 141107412480)
    assert data.architecture is not None
    assert make_architecture(data.architecture) == KNOWN["Llama-3.3-70B"][1]
    assert out.stat().st_mode & 0o777 == 0o644


def test_the_index_says_the_bytes(config: Path, tmp_path: Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text('{"metadata": {"total_size": 141107412480}, "weight_map": {}}')
    result = recipegen("model", "add", config, *PIN, "--index", index, "--served-name", "llama", "--out", "-")
    assert result.exit_code == 0
    data = load(result.stdout.encode())
    assert (data.checkpoint_bytes, data.served_name) == (141107412480, "llama")


def test_notes_go_to_standard_error_and_into_the_file(config: Path) -> None:
    config.write_text(json.dumps(GPT_OSS))
    result = recipegen("model", "add", config, "--repo", "openai/gpt-oss-120b", "--revision", REVISION, "--out", "-")
    assert "note: 18 of 36 attention layers have a sliding window" in result.stderr
    assert "# 18 of 36 attention layers have a sliding window" in result.stdout


def test_a_file_that_is_there_stays_without_force(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "llama.yaml"
    out.write_text("mine")
    result = recipegen("model", "add", config, *PIN, "--out", out)
    assert (result.exit_code, result.stdout, out.read_text()) == (2, "", "mine")
    assert result.stderr == f"error: {out} is there already\nhint: --force overwrites it, --key and --out choose another place\n"
    assert recipegen("model", "add", config, *PIN, "--out", out, "--force").exit_code == 0
    assert load(out.read_bytes()).repo == REPO


def test_a_dangling_link_is_not_written_through(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "llama.yaml"
    out.symlink_to(tmp_path / "elsewhere")
    for options in ((), ("--force",)):
        assert recipegen("model", "add", config, *PIN, "--out", out, *options).exit_code == 2
    assert out.is_symlink()
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--repo", REPO, "--revision", "main"), "error: --revision: expected 40 hex digits: the commit, found the string 'main'\n"),
        (("--repo", "Llama", "--revision", REVISION), "error: --repo: expected a repository of the hub, ORG/NAME, found the string 'Llama'\n"),
        (("--repo", "a/b\nserved_name: x", "--revision", REVISION), "is no key of a model"),
        (("--repo", "a/b\nserved_name: x", "--revision", REVISION, "--key", "b"), "error: "),
        ((*PIN, "--key", "../x"), "'../x' is no key of a model"),
        ((*PIN, "--key", "x" * 101), "is no key of a model"),
        ((*PIN, "--served-name", "a b"), "error: --served-name: expected a name that clients ask for: "),
        ((*PIN, "--checkpoint-bytes", "9" * 30), "error: "),
        ((*PIN, "--checkpoint-bytes", "0"), "--checkpoint-bytes"),
        ((*PIN, "--checkpoint-bytes", "5", "--index", "x.json"), "give one"),
        ((*PIN, "--index", "/nonexistent/x.json"), "/nonexistent/x.json: cannot be read: no such file or directory"),
        (("--repo", REPO), "Missing option '--revision'"),
    ],
)
def test_arguments_that_no_data_file_takes_are_refused(config: Path, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    out = tmp_path / "out.yaml"
    result = recipegen("model", "add", config, *options, "--out", out)
    assert (result.exit_code, result.stdout, out.exists()) == (2, "", False)
    assert message in result.stderr


def test_a_config_that_cannot_be_read_is_refused_at_its_place(config: Path, tmp_path: Path) -> None:
    config.write_text(json.dumps(LLAMA | {"num_attention_heads": 0}, indent=1))
    result = recipegen("model", "add", config, *PIN, "--out", tmp_path / "out.yaml")
    assert result.exit_code == 2
    assert f"error: {config}:7:25: num_attention_heads: expected 1 to 10000000, found 0\n" in result.stderr
    assert not (tmp_path / "out.yaml").exists()


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe"])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "config.json"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    result = recipegen("model", "add", path, *PIN, "--out", "-")
    assert result.exit_code == 2
    assert f"error: {path}: cannot be read: " in result.stderr


def test_a_folder_that_is_not_there_is_told(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "none" / "out.yaml"
    result = recipegen("model", "add", config, *PIN, "--out", out)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {out} cannot be written: no such file or directory\nhint: --out")


def test_without_a_command_the_two_are_named() -> None:
    result = recipegen("model")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: no command; expected add or list\n")


def test_an_added_model_is_found_where_models_are_looked_up(config: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "recipegen", tmp_path / "recipegen", ignore=shutil.ignore_patterns("__pycache__"))
    code = "import sys; sys.path.insert(0, '.'); from recipegen.cli import main; main(sys.argv[1:])"

    def run(*args: str) -> list[str]:
        done = subprocess.run([sys.executable, "-c", code, "model", *args], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60)
        return done.stdout.splitlines()

    target = tmp_path / "recipegen/data/models/llama-3.3-70b-instruct.yaml"
    assert run("add", str(config), *PIN) == [f"written: {target}"]
    assert "llama-3.3-70b-instruct" in run("list")


def test_nothing_is_written_into_an_installed_copy_unless_it_is_named(config: Path, tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    shutil.copytree(ROOT / "recipegen", site / "recipegen", ignore=shutil.ignore_patterns("__pycache__"))
    code = "import sys; sys.path.insert(0, '.'); from recipegen.cli import main; main(sys.argv[1:])"
    target = site / "recipegen/data/models/llama-3.3-70b-instruct.yaml"

    def add(*options: str) -> tuple[int, str]:
        command = [sys.executable, "-c", code, "model", "add", str(config), *PIN, *options]
        done = subprocess.run(command, cwd=site, check=False, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    status, said = add()
    assert (status, target.exists()) == (2, False)
    assert "is an installed copy" in said
    assert "hint: --out" in said
    assert add("--out", str(target)) == (0, "")
    assert target.exists()
