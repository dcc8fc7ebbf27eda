"""Reads files of a revision straight from git's objects: nothing is checked out, and no hook, filter or textconv runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from recipegen.errors import InputError, near_match

_TIMEOUT_S = 60
_LINK = "120000"
_FILES = frozenset({"100644", "100755", "100664", _LINK})
_NEVER = ("GIT_EXTERNAL_DIFF", "GIT_DIFF_OPTS", "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS")
_PATHS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")
_QUIET = ("--no-pager", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")


@dataclass(frozen=True)
class TreeFile:
    """A file of a revision: its path from the top of the repository, its object, and whether it is a symbolic link."""

    path: str
    oid: str
    link: bool = False


class Repository:
    """The git repository that a path lies in, seen from a folder: `path` is where the path leads to from the repository's top."""

    def __init__(self, folder: Path, environ: Mapping[str, str], *, path: str = "", top: str = "") -> None:
        self.folder, self.environ, self.path, self._top = folder, environ, path, folder / top

    @classmethod
    def around(cls, path: Path, environ: Mapping[str, str]) -> Repository:
        """Find the repository of a path, which need not exist in the working tree. InputError when there is none, or no git.

        With GIT_DIR set, the current folder is the place to ask from, as git does; else the nearest folder that there is.
        """
        whole = Path(os.path.abspath(path))
        folder = Path.cwd() if environ.get("GIT_DIR") else next(one for one in (whole, *whole.parents) if one.is_dir())
        seen = cls(folder, _environment(environ))
        shown = os.fsdecode(seen._run("rev-parse", "--show-prefix", "--show-cdup").removesuffix(b"\n"))
        prefix, _, top = shown.rpartition("\n")  # `../..` has no line break; a folder's name may
        within = os.path.normpath(os.path.join(prefix, os.path.relpath(whole, folder)))
        if within.split(os.sep)[0] == os.pardir:
            raise InputError(f"{path}: not in the git repository of {folder}")
        return cls(folder, seen.environ, path="" if within == os.curdir else within, top=top)

    def resolve(self, revision: str) -> str:
        """Return the id of the commit that a revision names; InputError with a near match, or what else may help."""
        if not revision.startswith("-") and "\0" not in revision:
            done = self._start("rev-parse", "--verify", "--quiet", revision)
            if done.returncode == 0:
                return self._commit(revision, done.stdout.decode().strip())
        raise InputError(f"{revision}: neither a revision of {self.folder} nor a folder", hint=self._hint(revision))

    def _commit(self, revision: str, oid: str) -> str:
        done = self._start("rev-parse", "--verify", "--quiet", f"{oid}^{{commit}}")
        if done.returncode == 0:
            return done.stdout.decode().strip()
        kind = self._run("cat-file", "-t", oid).decode().strip()
        before, colon, _ = revision.partition(":")
        hint = f"PATH says what is compared in it: {before}" if colon and before else "`git log --oneline --all` lists commits"
        raise InputError(f"{revision}: a {kind}; a commit is expected", hint=hint)

    def knows(self, revision: str) -> bool:
        """Whether the repository has a revision of this name."""
        return "\0" not in revision and not revision.startswith("-") and not self._start("rev-parse", "--verify", "--quiet", revision).returncode

    def files(self, oid: str) -> list[TreeFile]:
        """Every file at or below `path` in a revision, submodules left out."""
        return list(_tree_files(self._run("ls-tree", "-r", "-z", "--full-tree", oid, *self._below())))

    def working_files(self) -> dict[str, Path]:
        """Files at or below `path` that git tracks, or does not ignore: where each lies, by its path from the repository's top."""
        listed = self._run(
            "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--full-name", *self._below(), hint="--to REV compares two revisions"
        )
        names = sorted({os.fsdecode(name) for name in listed.split(b"\0") if name})
        return {name: path for name in names if os.path.lexists(path := self._top / name)}

    def read(self, oid: str, files: Sequence[TreeFile], *, most: int) -> dict[str, bytes | None]:
        """Return what files of a revision hold, by path and at most `most` bytes of each, through one process.

        Symbolic links are followed within the revision; None stands for one that leads nowhere there, or an object that is missing.
        """
        if not files:
            return {}
        argv = ["git", *_QUIET, "cat-file", "--batch", "--follow-symlinks"]
        with (
            _explained(self.folder),
            subprocess.Popen(
                argv, cwd=self.folder, env=dict(self.environ), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            ) as process,
        ):
            asked, answers = process.stdin, process.stdout
            if asked is None or answers is None:
                raise RuntimeError("a process with pipes has both")
            return {file.path: _read_one(asked, answers, _object_name(oid, file), most) for file in files}

    def _below(self) -> tuple[str, ...]:
        """Arguments that narrow a listing down to `path`, whatever characters it has."""
        return ("--", f":(top,literal){self.path}") if self.path else ("--", ":(top)")

    def _hint(self, revision: str) -> str:
        whole = next((name for name in (f"refs/heads/{revision}", f"refs/tags/{revision}") if revision.startswith("-") and self.knows(name)), "")
        if whole:
            return f"{whole} is what has this name: with the '-' alone git takes it for an option"
        if ".." in revision:
            return "one revision, not a range: --from and --to take one each"
        if revision == "HEAD":
            return "nothing is committed yet: compare folders, --from DIR"
        if self._start("rev-parse", "--is-shallow-repository").stdout.strip() == b"true":
            return "this clone is shallow: fetch the revision first (actions/checkout has `fetch-depth: 0`)"
        names = self._start("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", "refs/remotes").stdout
        return near_match(revision, os.fsdecode(names).split()) or "`git log --oneline --all` lists revisions"

    def _run(self, *args: str, hint: str = "--from DIR and --to DIR compare two folders without git") -> bytes:
        done = self._start(*args)
        if done.returncode:
            said = os.fsdecode(done.stderr).strip().splitlines()
            message = (said[0] if said else f"git {args[0]} ended with {done.returncode}").removeprefix("fatal: ")
            raise InputError(f"{self.folder}: {message}", hint=hint)
        return done.stdout

    def _start(self, *args: str) -> subprocess.CompletedProcess[bytes]:
        with _explained(self.folder):
            return subprocess.run(
                ["git", *_QUIET, *args],
                cwd=self.folder,
                env=dict(self.environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's, so that GIT_DIR and the like hold, its paths whole; without what names programs, or fights with our options."""
    found = {name: value for name, value in environ.items() if name not in _NEVER}
    whole = {name: os.path.abspath(found[name]) for name in _PATHS if found.get(name)}
    return found | whole | {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}


def _tree_files(listed: bytes) -> Iterator[TreeFile]:
    """Files of `ls-tree -z`: `MODE TYPE OID<tab>PATH`."""
    for entry in listed.split(b"\0"):
        head, _, path = entry.partition(b"\t")
        mode, _, rest = head.decode().partition(" ")
        if mode in _FILES:
            yield TreeFile(os.fsdecode(path), rest.rpartition(" ")[2], link=mode == _LINK)


def _object_name(oid: str, file: TreeFile) -> bytes:
    """What cat-file is asked for: an object, or a path in a tree, which it follows links from. One request is one line."""
    named = b"%s:%s" % (oid.encode(), os.fsencode(file.path))
    return named if file.link and b"\n" not in named else file.oid.encode()


def _read_one(asked: IO[bytes], answers: IO[bytes], name: bytes, most: int) -> bytes | None:
    """One request, one answer: `OID blob SIZE`, the bytes and a line break; other answers say what there is not."""
    asked.write(name + b"\n")
    asked.flush()
    words = answers.readline().split()
    if len(words) == 2 and words[0] in {b"dangling", b"loop", b"notdir", b"symlink"} and words[1].isdigit():
        answers.read(int(words[1]) + 1)
        return None
    if len(words) != 3 or not words[2].isdigit():
        return None
    size = int(words[2])
    data = answers.read(min(size, most))
    for part in _parts(size + 1 - len(data)):
        answers.read(part)
    return data if words[1] == b"blob" else None


def _parts(rest: int, whole: int = 1 << 20) -> Iterable[int]:
    while rest > 0:
        yield min(rest, whole)
        rest -= whole


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise InputError("git is not installed, or not on PATH", hint="--from DIR and --to DIR compare two folders without git") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"git cannot be asked about {folder}: {error}") from error
