"""The review kit as others use it: hooks and CI commands are taken from their files and run in a scratch repository."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from recipegen.review.diff_markdown import MOST_BYTES
from recipegen.srtslurm.export import FORMS
from tests.support import MINIMAL, ROOT, matrix_of

POINT = '{prefill: 1xTP8, decode: 1xTP8, concurrency: [4], sized_for: 8, time_limit: "1:00:00"}'
HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
GITHUB = yaml.safe_load((ROOT / "docs/ci/github-recipegen.yml").read_text())
GITLAB = yaml.safe_load((ROOT / "docs/ci/gitlab-recipegen.yml").read_text())["recipegen"]
MARKER = "<!-- recipegen diff -->"

NOT_RUN = {
    "Install": "recipegen is installed, and what pip would fetch is another one",
    "actions/checkout@v4": "the scratch repository is checked out",
    "actions/setup-python@v5": "the Python of the tests is there",
    "github/codeql-action/upload-sarif@v3": "talks to GitHub",
}
"""Steps of the workflow that are left out here, and why."""

GH = f"""#!{sys.executable}
import os, pathlib, sys
args, store = sys.argv[1:], pathlib.Path(os.environ["GH_STORE"])
with open(store / "log", "a") as log:
    print(*args, file=log)
assert args[0] == "api" and os.environ["GH_TOKEN"] == "token"
if "--paginate" in args:
    print("41\\n42" if (store / "comment").exists() else "", end="")
else:
    (body,) = [a.removeprefix("body=@") for a in args if a.startswith("body=@")]
    (store / "comment").write_text(pathlib.Path(body).read_text())
"""
"""Stands for GitHub's client: keeps one comment, and notes what it was asked."""


def git(repository: Path, *args: str) -> str:
    who = {f"GIT_{role}_{what}": "test@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(["git", "-C", repository, *args], env=clean | who, capture_output=True, text=True, check=True).stdout.strip()


class Scratch:
    """A repository with one rendered recipe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "repository"
        self.tools = folder / "tools"
        for name in (self.folder / "recipes/small", self.tools):
            name.mkdir(parents=True)
        (self.tools / "gh").write_text(GH)
        (self.tools / "gh").chmod(0o755)
        self.matrix = self.folder / "recipes/small/matrix.yaml"
        self.matrix.write_text(matrix_of(POINT, head=MINIMAL.replace("points:", "decode: {derive: {max-num-seqs: sized_for / dp + 16}}\npoints:")))
        git(self.folder, "init", "-q", "-b", "main")
        self.run("recipegen render recipes")
        self.base = self.commit()

    def commit(self) -> str:
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "-m", "a change")
        return git(self.folder, "rev-parse", "HEAD")

    def change(self, old: str, new: str, *, render: bool = True) -> None:
        assert old in self.matrix.read_text()
        self.matrix.write_text(self.matrix.read_text().replace(old, new))
        if render:
            self.run("recipegen render --clean recipes")

    def run(self, script: str, env: dict[str, str] | None = None, *, code: int = 0) -> str:
        """Run a script as GitHub's `shell: bash` does; return what it printed."""
        path = os.pathsep.join([str(self.tools), str(Path(sys.executable).parent), os.environ["PATH"]])
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        done = subprocess.run(
            command, cwd=self.folder, env=os.environ | {"PATH": path} | (env or {}), capture_output=True, text=True, check=False, timeout=100
        )
        assert done.returncode == code, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch(tmp_path)


# -- hooks of pre-commit ---------------------------------------------------------------------------------------------------


def test_the_hooks_see_the_files_that_concern_them(scratch: Scratch) -> None:
    tracked = git(scratch.folder, "ls-files").split("\n")
    bundle, checked = re.compile(HOOKS["recipegen-render-check"]["files"]), re.compile(HOOKS["recipegen-check"]["files"])
    assert [name for name in tracked if not bundle.search(name)] == []
    assert [name for name in tracked if checked.search(name)] == ["recipes/small/matrix.yaml"]
    assert bundle.search("recipes/README.md")
    exports = [f"recipes/small/{form.folder}/1xtp4-agg-cc4{form.ending}" for form in FORMS.values()]
    assert [name for name in exports if not bundle.search(name)] == []
    assert bundle.search("serving/recipes/README.md")
    assert not bundle.search("README.md")
    assert not bundle.search("docs/plan.json.md")
    assert not bundle.search("src/lib/other.py")


@pytest.mark.parametrize(
    ("old", "new", "render", "codes"),
    [
        ("sized_for: 8", "sized_for: 16", True, (0, 0)),
        ("sized_for: 8", "sized_for: 16", False, (0, 1)),
        ("kv-cache-dtype: fp8", "kv-cache-dtype: fp9", False, (1, 1)),
        ("isl: 8192", "isl: many", False, (2, 2)),
    ],
)
def test_the_entries_of_the_hooks(scratch: Scratch, old: str, new: str, render: bool, codes: tuple[int, int]) -> None:
    scratch.change(old, new, render=render)
    for name, code in zip(("recipegen-check", "recipegen-render-check"), codes, strict=True):
        hook = HOOKS[name]
        assert (hook["language"], hook["pass_filenames"]) == ("python", False)
        scratch.run(shlex.join([*shlex.split(hook["entry"]), *hook["args"]]), code=code)


@pytest.mark.skipif(importlib.util.find_spec("pre_commit") is None, reason="pre-commit is not installed: the hooks' entries are run without it")
def test_pre_commit_runs_the_hooks(scratch: Scratch, tmp_path: Path) -> None:
    """With the recipegen on PATH instead of one that pre-commit would build and install."""
    config = {"repos": [{"repo": "local", "hooks": [{**hook, "language": "system"} for hook in HOOKS.values()]}]}
    (scratch.folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    home = {"PRE_COMMIT_HOME": str(tmp_path / "home"), "PRE_COMMIT_COLOR": "never", "GIT_CONFIG_NOSYSTEM": "1"}
    run = f"{sys.executable} -m pre_commit"
    scratch.run(f"{run} validate-manifest {ROOT}/.pre-commit-hooks.yaml", home)
    git(scratch.folder, "add", "-A")
    skipped = scratch.run(f"{run} run", home)
    assert skipped.count("Skipped") == 2, "no recipe is in this commit"
    passed = scratch.run(f"{run} run --all-files", home)
    assert passed.count("Passed") == 2
    scratch.change("sized_for: 8", "sized_for: 16", render=False)
    git(scratch.folder, "add", "-A")
    failed = scratch.run(f"{run} run", home, code=1)
    assert "stale: recipes/small/1xtp8-1xtp8-cc4/plan.json" in failed
    assert (failed.count("Passed"), failed.count("Failed")) == (1, 1)


# -- the workflow for GitHub -----------------------------------------------------------------------------------------------


class Workflow:
    """Runs the workflow's own commands as a pull request would, with values for what GitHub fills in."""

    def __init__(self, scratch: Scratch, folder: Path) -> None:
        self.scratch, self.store = scratch, folder / "gh"
        self.store.mkdir()
        self.summary = folder / "summary.md"
        self.filled = {"github.event.pull_request.base.sha": scratch.base, "github.token": "token", "github.event.pull_request.number": "7"}
        self.env = {"GITHUB_STEP_SUMMARY": str(self.summary), "GITHUB_REPOSITORY": "team/recipes", "GH_STORE": str(self.store)} | GITHUB["env"]

    def fill(self, text: str) -> str:
        return re.sub(r"\$\{\{ *(.*?) *\}\}", lambda found: self.filled[found[1]], text)

    def steps(self) -> Iterator[dict[str, Any]]:
        (job,) = GITHUB["jobs"].values()
        for step in job["steps"]:
            if step.get("name", step.get("uses")) not in NOT_RUN:
                yield step

    def run(self, **codes: int) -> dict[str, str]:
        """Run every step; codes are by the step's first word, 0 else. Return what each printed."""
        printed = {}
        for step in self.steps():
            env = {name: self.fill(value) for name, value in step.get("env", {}).items()}
            printed[step["name"]] = self.scratch.run(self.fill(step["run"]), self.env | env, code=codes.get(step["name"].split()[0], 0))
        return printed

    @property
    def comment(self) -> str:
        return (self.store / "comment").read_text()


def test_the_workflow_of_a_good_change(scratch: Scratch, tmp_path: Path) -> None:
    scratch.change("sized_for: 8", "sized_for: 16")
    scratch.commit()
    workflow = Workflow(scratch, tmp_path)
    workflow.run()
    assert workflow.comment.startswith(f"{MARKER}\n")
    assert "max-num-seqs" in workflow.comment
    assert workflow.summary.read_text() == (scratch.folder / "recipegen-diff.md").read_text()
    assert json.loads((scratch.folder / "recipegen.sarif").read_text())["version"] == "2.1.0"
    workflow.run()
    changing = [line for line in (workflow.store / "log").read_text().splitlines() if "--method" in line]
    assert [line.split("--method ")[1].split(" --field")[0] for line in changing] == [
        "POST repos/team/recipes/issues/7/comments",
        "PATCH repos/team/recipes/issues/comments/41",
    ]


def test_the_workflow_without_a_change(scratch: Scratch, tmp_path: Path) -> None:
    (scratch.folder / "notes.txt").write_text("nothing that runs")
    scratch.commit()
    Workflow(scratch, tmp_path).run()


def test_the_workflow_of_a_bad_change(scratch: Scratch, tmp_path: Path) -> None:
    scratch.change("kv-cache-dtype: fp8", "kv-cache-dtype: fp9", render=False)
    scratch.commit()
    workflow = Workflow(scratch, tmp_path)
    printed = workflow.run(Check=1, Bundles=1)
    assert printed["Check"].startswith("::error file=recipes/small/matrix.yaml,line=12,")
    assert "fp9" in workflow.comment


def test_a_comment_is_never_cut(scratch: Scratch, tmp_path: Path) -> None:
    for number in range(40):
        copy = scratch.folder / f"recipes/r{number}/matrix.yaml"
        copy.parent.mkdir()
        settings = ", ".join(f"{name}{i}: é{'é|' * 60}" for i, name in enumerate(["VLLM_NOTE"] * 10))
        copy.write_text(scratch.matrix.read_text().replace("name: tiny", f"name: tiny-{number}").replace("env: {", f"env: {{{settings}, "))
    base = scratch.commit()
    for number in range(40):
        copy = scratch.folder / f"recipes/r{number}/matrix.yaml"
        copy.write_text(copy.read_text().replace("é|", "ü|"))
    scratch.commit()
    workflow = Workflow(scratch, tmp_path)
    workflow.filled["github.event.pull_request.base.sha"] = base
    for step in workflow.steps():
        if step["name"].startswith(("What", "Comment")):
            env = {name: workflow.fill(value) for name, value in step["env"].items()}
            scratch.run(workflow.fill(step["run"]), workflow.env | env)
    assert 20_000 < len(workflow.comment.encode()) <= MOST_BYTES
    assert workflow.comment == (scratch.folder / "recipegen-diff.md").read_text()
    assert workflow.comment.count("<details") == workflow.comment.count("</details>")
    assert "Too long for a comment, and left out: " in workflow.comment.splitlines()[-1]


def test_no_ci_file_cuts_a_comment() -> None:
    for path in (ROOT / "docs/ci").iterdir():
        assert not re.search(r"head -c|\[:[0-9_]+\]", path.read_text()), path


def test_only_pull_requests_of_the_repository_are_commented() -> None:
    conditions = {step.get("name", step.get("uses")): step.get("if", "") for job in GITHUB["jobs"].values() for step in job["steps"]}
    assert "head.repo.full_name == github.repository" in conditions["Comment on the pull request"]
    assert set(NOT_RUN) <= set(conditions)
    assert GITHUB["permissions"] == {"contents": "read", "pull-requests": "write"}


# -- the job for GitLab ----------------------------------------------------------------------------------------------------


class Notes(BaseHTTPRequestHandler):
    """The notes of one merge request, two a page."""

    kept: dict[int, str]
    asked: list[str]

    def answer(self, value: object, more: str = "") -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Next-Page", more)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        page = int(self.path.rpartition("page=")[2])
        notes = [{"id": number, "body": body} for number, body in self.kept.items()][2 * page - 2 : 2 * page]
        self.answer(notes, str(page + 1) if len(self.kept) > 2 * page else "")

    def do_POST(self) -> None:
        assert self.headers["PRIVATE-TOKEN"] == "token"
        number = int(self.path.rpartition("/")[2]) if self.command == "PUT" else max(self.kept, default=0) + 1
        self.kept[number] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
        self.asked.append(f"{self.command} {self.path}")
        self.answer({"id": number})

    do_PUT = do_POST  # noqa: N815

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def notes() -> Iterator[tuple[type[Notes], str]]:
    class Own(Notes):
        pass

    Own.kept, Own.asked = {1: "hello", 2: "more", 3: "another"}, []
    with HTTPServer(("127.0.0.1", 0), Own) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Own, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_job_for_gitlab(scratch: Scratch, notes: tuple[type[Notes], str]) -> None:
    kept, url = notes
    script = "\n".join(GITLAB["script"])
    env = {name: value for name, value in GITLAB["variables"].items() if name != "GIT_DEPTH"} | {"CI_MERGE_REQUEST_DIFF_BASE_SHA": scratch.base}
    env |= {"CI_API_V4_URL": url, "CI_PROJECT_ID": "5", "CI_MERGE_REQUEST_IID": "7", "no_proxy": "127.0.0.1"}
    scratch.change("sized_for: 8", "sized_for: 16")
    scratch.change("concurrency: [4]", "concurrency: [8]")
    scratch.commit()
    assert "1xtp8-1xtp8-cc8" in scratch.run(script, env)
    assert kept.asked == [], "without a token there is no note"
    for _ in range(2):
        scratch.run(script, env | {"RECIPEGEN_TOKEN": "token"})
    assert kept.asked == ["POST /projects/5/merge_requests/7/notes", "PUT /projects/5/merge_requests/7/notes/4"]
    assert kept.kept[4].startswith(f"{MARKER}\n")
    scratch.change("kv-cache-dtype: fp8", "kv-cache-dtype: fp9", render=False)
    scratch.commit()
    scratch.run(script, env, code=1)
