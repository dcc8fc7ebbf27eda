"""`recipegen diff` in a repository, in folders, and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from recipegen.cli import main
from tests.support import LEAF

PUBLISHED = (LEAF / "matrix.yaml").read_text()
EDITED = PUBLISHED.replace("sized_for: 256", "sized_for: 128")
CC128 = "1xtp2dep4-1xtp4dep4-mtp-cc128"
LEAF_PATH = Path("recipes/a/disagg")
MATRIX = LEAF_PATH / "matrix.yaml"


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["diff", *map(str, args)])


def git(*args: str) -> None:
    subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *args], check=True, capture_output=True)


def commit() -> None:
    git("add", "-A")
    git("commit", "-qm", "more")


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the published leaf, and the current folder in it."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    folder = tmp_path / "repo"
    (folder / LEAF_PATH).mkdir(parents=True)
    monkeypatch.chdir(folder)
    MATRIX.write_text(PUBLISHED)
    git("init", "-q")
    commit()
    return folder


def test_nothing_changed_is_exit_0(repo: Path) -> None:
    done = run()
    assert (done.exit_code, done.stderr) == (0, "")
    assert "1 matrix runs the same" in done.stdout


def test_a_comment_is_no_difference(repo: Path) -> None:
    MATRIX.write_text("# more\n" + PUBLISHED)
    done = run()
    assert done.exit_code == 0
    assert "in other words" in done.stdout


def test_one_input_shows_flags_and_head_room_of_its_point(repo: Path) -> None:
    MATRIX.write_text(EDITED)
    for args in ((), (LEAF_PATH,), (MATRIX,), ("--to", "."), ("--from", "HEAD")):
        done = run(*args)
        assert (done.exit_code, done.stderr) == (1, "")
        assert "1 of 8 points changed" in done.stdout
        for expected in (CC128, "sized_for", "256 -> 128", "80 -> 48   (128/4 + 16; was 256/4 + 16)", "KV head room +884% -> ~+912%"):
            assert expected in done.stdout
        assert "cc256" not in done.stdout


def test_between_revisions_and_back(repo: Path) -> None:
    MATRIX.write_text(EDITED)
    commit()
    assert "256 -> 128" in run("--from", "HEAD~1", "--to", "HEAD").stdout
    assert "128 -> 256" in run("--from", "HEAD", "--to", "HEAD~1").stdout
    assert run("--from", "HEAD~1").exit_code == 1
    assert run().exit_code == 0


def test_in_a_subfolder_paths_are_as_given(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MATRIX.write_text(EDITED)
    monkeypatch.chdir(repo / "recipes")
    assert "\na/disagg/matrix.yaml: " in run().stdout
    assert "\n../recipes/a/disagg/matrix.yaml: " in run("../recipes").stdout


def test_a_leaf_that_moved_is_renamed(repo: Path) -> None:
    git("mv", "recipes/a", "recipes/b")
    done = run()
    assert done.exit_code == 1
    assert "1 matrix only moved" in done.stdout.splitlines()[0]
    assert "recipes/a/disagg/matrix.yaml -> recipes/b/disagg/matrix.yaml: matrix renamed; the same content" in done.stdout
    Path("recipes/b/disagg/matrix.yaml").write_text(EDITED)
    assert "matrix renamed; 1 of 8 points changed" in run().stdout


def test_leaves_that_come_and_go(repo: Path) -> None:
    MATRIX.unlink()
    gone = run(LEAF_PATH)
    assert gone.exit_code == 1
    assert "matrix removed, 8 points" in gone.stdout
    MATRIX.write_text(PUBLISHED)
    git("rm", "-q", "--cached", str(MATRIX))
    git("commit", "-qm", "gone")
    come = run()
    assert "matrix added, 8 points" in come.stdout
    assert f"added {CC128}: 6 nodes, 24 GPUs; prefill 1 x TP2DP4+EP, decode 1 x TP4DP4+EP; KV head room prefill ~+25%, decode +884%" in come.stdout


def test_two_folders_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("one", PUBLISHED), ("two", EDITED)):
        (tmp_path / name / "leaf").mkdir(parents=True)
        (tmp_path / name / "leaf/matrix.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    for args in (("--from", "one", "--to", "two"), ("leaf", "--from", tmp_path / "one", "--to", "./two")):
        done = run(*args)
        assert done.exit_code == 1, done.stderr
        assert "\nleaf/matrix.yaml: 1 of 8 points changed" in done.stdout
    assert run("--from", "one", "--to", "one/").exit_code == 0


def test_a_name_of_both_a_folder_and_a_revision_has_to_be_told_apart(repo: Path) -> None:
    git("branch", "recipes")
    done = run("--from", "recipes")
    assert done.exit_code == 2
    assert "a revision and a folder" in done.stderr
    assert run("--from", "refs/heads/recipes").exit_code == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--from", "nope"), "nope: neither a revision"),
        (("--to", "HEAD~7"), "HEAD~7: neither a revision"),
        (("--from", ""), "the name of a side is empty"),
        (("--to", ""), "the name of a side is empty"),
        (("nowhere",), "no matrix.yaml in it or below it, neither in HEAD"),
        (("--point", "cc128"), "no point is called 'cc128' on either side"),
        (("..", "--from", "."), "not below the current folder"),
    ],
)
def test_what_cannot_be_compared_is_exit_2(repo: Path, args: tuple[str, ...], words: str) -> None:
    done = run(*args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr


def test_a_matrix_that_cannot_be_used_is_told_with_its_side_and_exit_2(repo: Path) -> None:
    MATRIX.write_text(PUBLISHED.replace("isl: 8192", "isl: many"))
    for output in ("text", "markdown", "json"):
        done = run("--format", output)
        assert done.exit_code == 2
        assert "schema-type" in done.stdout
        assert CC128 in done.stdout
    commit()
    MATRIX.write_text(PUBLISHED)
    done = run()
    assert done.exit_code == 2
    assert "cannot be used:\n    error: recipes/a/disagg/matrix.yaml:" in done.stdout
    assert done.stdout.index("HEAD (") < done.stdout.index("cannot be used:")


def test_one_point(repo: Path) -> None:
    MATRIX.write_text(EDITED.replace('"2:00:00"', '"2:30:00"'))
    done = run("--point", CC128)
    assert done.exit_code == 1
    assert "2:30:00" not in done.stdout
    assert run("--point", "1xtp8-1xtp8-mtp-cc1-4").exit_code == 0


def test_one_point_of_what_is_the_same(repo: Path) -> None:
    assert run("--point", CC128).exit_code == 0
    assert run("--point", CC128 + "0").exit_code == 2


def test_json_has_it_all(repo: Path) -> None:
    MATRIX.write_text(EDITED)
    document = json.loads(run("--format", "json").stdout)
    (matrix,) = document["matrices"]
    (point,) = matrix["points"]
    assert (document["differs"], matrix["kind"], point["kind"], point["to"]) == (True, "changed", "changed", CC128)
    changes = {(c["section"], c["role"], c["name"]): (c["from"]["value"], c["to"]["value"]) for c in point["changes"]}
    assert changes["input", None, "sized_for"] == (256, 128)
    assert changes["flag", "decode", "max-num-seqs"] == (80, 48)
    assert changes["size", "decode", "KV head room"][0] == 8.84
    assert [group["points"] for group in matrix["groups"]] == [[CC128], [CC128]]


def test_markdown_is_a_comment(repo: Path) -> None:
    MATRIX.write_text(EDITED)
    done = run("--format", "markdown")
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "<!-- recipegen diff -->"
    assert "| decode flag | `max-num-seqs` | `80` = `256/4 + 16` | `48` = `128/4 + 16` |" in lines


def test_hostile_names_and_values_are_inert(repo: Path) -> None:
    folder = Path(os.fsdecode(b"recipes/a\n::error::x\x1b[31m\xe9`|@all"))
    folder.mkdir()
    (folder / "matrix.yaml").write_text(PUBLISHED.replace("DYN_LOG: error", 'DYN_LOG: "`|</code><b>@all"'))
    for output in ("text", "markdown", "json"):
        done = run("--format", output)
        assert done.exit_code == 1
        assert "\x1b" not in done.stdout
        assert not any(line.startswith("::") for line in done.stdout.splitlines())
    assert "@all" not in run("--format", "markdown").stdout


def test_a_matrix_that_git_ignores_takes_no_place_of_one_that_is_gone(repo: Path) -> None:
    other = Path("recipes/tmp/matrix.yaml")
    Path(".gitignore").write_text("tmp/\n")
    other.parent.mkdir()
    other.write_text(PUBLISHED)
    MATRIX.unlink()
    done = run("recipes")
    assert (done.exit_code, "tmp" in done.stdout, "matrix removed" in done.stdout) == (1, False, True)


@pytest.mark.parametrize("kind", ["pipe", "dangling link"])
def test_what_stands_in_the_place_of_a_matrix_is_not_its_removal(repo: Path, kind: str) -> None:
    MATRIX.unlink()
    if kind == "pipe":
        os.mkfifo(MATRIX)
    else:
        MATRIX.symlink_to("nowhere")
    done = run()
    assert (done.exit_code, "cannot be used" in done.stdout) == (2, True)
