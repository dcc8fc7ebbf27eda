"""Files of a revision, read from git's objects."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from recipegen.errors import InputError
from recipegen.review.git_objects import Repository

QUIET = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "PATH": os.environ["PATH"]}
ODD = [b"plain", b"with space", b"new\nline", b"latin-\xe9", b'quo"te', b":(top)x", b"*star", b"-dash", b"tab\tx"]


def git(folder: Path, *args: str) -> None:
    subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *args], cwd=folder, env=QUIET, check=True, capture_output=True)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    for number, name in enumerate(ODD):
        folder = os.fsencode(tmp_path) + b"/sub/" + name
        os.makedirs(folder)
        Path(os.fsdecode(folder + b"/matrix.yaml")).write_bytes(b"%d" % number)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


def read_all(repository: Repository, most: int = 100) -> dict[str, bytes | None]:
    oid = repository.resolve("HEAD")
    return repository.read(oid, repository.files(oid), most=most)


def test_names_of_every_kind_are_read(repo: Path) -> None:
    found = read_all(Repository.around(repo, QUIET))
    assert found == {os.fsdecode(b"sub/" + name + b"/matrix.yaml"): b"%d" % number for number, name in enumerate(ODD)}


@pytest.mark.parametrize("name", ODD)
def test_a_path_narrows_to_itself_whatever_its_characters(repo: Path, name: bytes) -> None:
    folder = repo / "sub" / os.fsdecode(name)
    for path in (folder, folder / "matrix.yaml"):
        assert list(read_all(Repository.around(path, QUIET)).values()) == [b"%d" % ODD.index(name)]
        assert len(Repository.around(path, QUIET).working_files()) == 1


def test_a_path_that_is_gone_from_the_working_tree_is_read(repo: Path) -> None:
    git(repo, "rm", "-rq", "sub")
    repository = Repository.around(repo / "sub/plain", QUIET)
    assert list(read_all(repository).values()) == [b"0"]
    assert repository.working_files() == {}


def test_ignored_files_are_no_working_files_and_new_ones_are(repo: Path) -> None:
    (repo / ".gitignore").write_text("skip\n")
    for name in ("skip", "new"):
        (repo / name).mkdir()
        (repo / name / "matrix.yaml").write_text("x")
    names = Repository.around(repo, QUIET).working_files()
    assert "new/matrix.yaml" in names
    assert "skip/matrix.yaml" not in names


def test_a_worktree_a_bare_clone_and_a_folder_with_a_line_break(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    git(repo, "worktree", "add", "-q", str(other / "tree"))
    git(repo, "clone", "-q", "--bare", ".", str(other / "bare"))
    for path in (other / "tree", other / "bare", repo / "sub/new\nline"):
        assert read_all(Repository.around(path, QUIET))


def test_a_relative_git_dir_of_a_hook_holds(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo)
    repository = Repository.around(Path("sub/plain"), QUIET | {"GIT_DIR": ".git", "GIT_INDEX_FILE": ".git/index"})
    assert list(read_all(repository).values()) == [b"0"]
    assert len(repository.working_files()) == 1


def test_links_are_followed_within_the_revision(repo: Path) -> None:
    for name, target in (
        ("ok", "sub/plain/matrix.yaml"),
        ("gone", "nowhere"),
        ("out", "/etc/hostname"),
        ("loop", "loop"),
        ("sp ace", "sub/plain/matrix.yaml"),
    ):
        (repo / name).symlink_to(target)
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "links")
    found = read_all(Repository.around(repo, QUIET))
    assert {name: found[name] for name in ("ok", "gone", "out", "loop", "sp ace")} == {
        "ok": b"0",
        "gone": None,
        "out": None,
        "loop": None,
        "sp ace": b"0",
    }
    assert found["sub/tab\tx/matrix.yaml"] == b"8"


def test_a_huge_file_is_read_no_further_than_asked(repo: Path) -> None:
    (repo / "big").write_bytes(b"x" * 5_000_000)
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "big")
    found = read_all(Repository.around(repo, QUIET), most=7)
    assert found["big"] == b"x" * 7
    assert found["sub/plain/matrix.yaml"] == b"0"


def test_no_hook_filter_or_program_of_the_configuration_runs(repo: Path) -> None:
    trap = repo / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {repo}/sprung\n")
    trap.chmod(0o755)
    for key in ("core.fsmonitor", "diff.external", "diff.y.textconv", "filter.y.smudge", "filter.y.clean", "core.pager"):
        git(repo, "config", key, str(trap))
    (repo / ".gitattributes").write_text("*.yaml filter=y diff=y\n")
    repository = Repository.around(repo, QUIET | {"GIT_EXTERNAL_DIFF": str(trap), "GIT_PAGER": str(trap)})
    assert read_all(repository)
    assert repository.working_files()
    assert not (repo / "sprung").exists()


@pytest.mark.parametrize(
    ("revision", "hint"),
    [("mastr", "did you mean 'master'?"), ("a..b", "not a range"), ("-q", "git log"), ("x\0y", "git log"), ("HEAD~9", "git log"), ("", "git log")],
)
def test_a_revision_that_there_is_not(repo: Path, revision: str, hint: str) -> None:
    git(repo, "branch", "-M", "master")
    with pytest.raises(InputError) as raised:
        Repository.around(repo, QUIET).resolve(revision)
    assert hint in raised.value.hint


@pytest.mark.parametrize("place", ["heads", "tags"])
def test_a_name_that_begins_like_an_option(repo: Path, place: str) -> None:
    git(repo, "update-ref", f"refs/{place}/-dash", "HEAD")
    repository = Repository.around(repo, QUIET)
    with pytest.raises(InputError) as raised:
        repository.resolve("-dash")
    assert f"refs/{place}/-dash" in raised.value.hint
    assert repository.resolve(f"refs/{place}/-dash") == repository.resolve("HEAD")


@pytest.mark.parametrize(
    ("revision", "message", "hint"),
    [
        ("HEAD:sub", "HEAD:sub: a tree; a commit is expected", "PATH says what is compared in it: HEAD"),
        ("HEAD^{tree}", "HEAD^{tree}: a tree; a commit is expected", "git log"),
        ("HEAD:sub/plain/matrix.yaml", "a blob; a commit is expected", "HEAD"),
        (":sub/plain/matrix.yaml", "a blob; a commit is expected", "git log"),
    ],
)
def test_what_is_no_commit_is_refused(repo: Path, revision: str, message: str, hint: str) -> None:
    with pytest.raises(InputError) as raised:
        Repository.around(repo, QUIET).resolve(revision)
    assert message in str(raised.value)
    assert hint in raised.value.hint


def test_a_tag_with_words_is_the_commit_that_it_names(repo: Path) -> None:
    git(repo, "tag", "-a", "-m", "words", "v1")
    repository = Repository.around(repo, QUIET)
    assert repository.resolve("v1") == repository.resolve("HEAD") == repository.resolve(":/one")


def test_a_repository_without_commits_and_a_folder_without_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a git repository"):
        Repository.around(tmp_path, QUIET)
    git(tmp_path, "init", "-q")
    with pytest.raises(InputError) as raised:
        Repository.around(tmp_path, QUIET).resolve("HEAD")
    assert "nothing is committed yet" in raised.value.hint


def test_no_git(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="git is not installed"):
        Repository.around(tmp_path, {"PATH": str(tmp_path)})
