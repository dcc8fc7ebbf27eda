"""Name, model, identity and software of a v1 document."""

from __future__ import annotations

import re
from dataclasses import dataclass

from recipegen.srtslurm import keys
from recipegen.srtslurm.reading import MISSING, UNSUPPORTED, WRONG_TYPE, Findings, Section
from recipegen.srtslurm.recipe import Entry, SrtModel, SrtRuntime
from recipegen.srtslurm.tree import Tree, plain
from recipegen.srtslurm.v1_flags import OF_WHEEL

DEFAULT_DYNAMO = "0.8.0"
"""What srtctl installs where a recipe names no Dynamo."""
DYNAMO_GIT = "https://github.com/ai-dynamo/dynamo.git"
WHEEL = "dynamo.wheel"
"""Where a wheel that is given by its version is carried, so that an export gives it back."""
HUB = "hf:"
DEVELOPMENT = ".dev"
"""In the version of a development build, which the public index does not have."""
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+!-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SIDECAR_KEYS = ("sidecar_args", "sidecar_binary", "sidecar_context_length", "sidecar_port", "sidecar_startup_timeout")
_RUNTIME_IMAGE = re.compile(r"ai-dynamo/[a-z-]*runtime:v?(\d+\.\d+\.\d+)")
_WHEEL = re.compile(r"ai[_-]dynamo-([0-9][0-9A-Za-z.+!]*)-")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]*")


@dataclass(frozen=True)
class Identity:
    """The pins that a recipe states to be checked: model, image, frameworks; what is not given is None."""

    repo: Tree | None = None
    revision: Tree | None = None
    image: Tree | None = None
    dynamo: Tree | None = None
    vllm: Tree | None = None


@dataclass(frozen=True)
class ModelPart:
    """The model, and the image that the recipe names beside it."""

    model: SrtModel
    image: str


def read_name(findings: Findings, top: Section) -> str:
    """Return the name as a matrix takes one: lower case, blanks as '-'."""
    tree = top.take("name")
    if tree is None:
        top.missing("name")
        return ""
    text = tree.text or ""
    if not _NAME.fullmatch(text):
        wanted = "letters, digits and any of . _ - or blanks, a letter or digit first"
        findings.problem("srt-name", tree.source, f"'{tree.path}' is {tree.kind}; expected {wanted}: it becomes a job's and a folder's name")
        return ""
    name = re.sub(r"[ ]+", "-", text.strip()).lower()
    if name != text:
        findings.note(tree.source, f"the name is written as '{name}'")
    return name


def read_identity(section: Section) -> Identity:
    """Read the pins; frameworks other than Dynamo and vLLM are carried."""
    model, container, frameworks = section.section("model"), section.section("container"), section.section("frameworks")
    found = Identity(model.take("repo"), model.take("revision"), container.take("image"), frameworks.take("dynamo"), frameworks.take("vllm"))
    for part in (model, container):
        part.finish()
    frameworks.finish(dict.fromkeys(frameworks.rest, "recipegen compares the builds of vLLM and Dynamo only"))
    section.finish()
    return found


def read_model(findings: Findings, section: Section, identity: Identity, served_name: str) -> ModelPart:
    """Read the model. A revision is that of the path: the hub's, or what the nodes compare an alias's or a path's own with."""
    path = section.text("path", required=True)
    image = _image(section)
    section.finish(keys.MODEL)
    repo = path.removeprefix(HUB)
    if identity.image is not None and identity.image.scalar != image:
        findings.carry(identity.image, "it is not the image that the recipe runs")
    pinned = _text(findings, identity.repo)
    revision = _text(findings, identity.revision)
    if pinned not in ("", repo) and identity.repo is not None:
        of_hub = path.startswith(HUB) or ("/" in repo and not repo.startswith("/"))
        findings.carry(identity.repo, f"'{repo}' is what is served" if of_hub else f"'{repo}' is resolved by the cluster")
        if of_hub and identity.revision is not None:
            findings.carry(identity.revision, f"it is of another model than '{repo}'")
            revision = ""
    if revision and identity.revision is not None and not _COMMIT.fullmatch(revision):
        findings.carry(identity.revision, "it is no commit of 40 hex digits, so that nothing is pinned by it")
        revision = ""
    return ModelPart(SrtModel(repo=repo, revision=revision, served_name=served_name or repo.rstrip("/").rpartition("/")[2]), image)


def _image(section: Section) -> str:
    """The image; a recipe may leave it empty, for whoever runs it to fill in."""
    tree = section.rest.get("container")
    if tree is not None and tree.scalar == "":
        section.findings.problem(MISSING, tree.source, f"'{tree.path}' is empty: no image is named to run the workers in; write its name")
    return section.text("container", required=True)


def wheel_variables(version: str) -> dict[str, str]:
    """Return what srtctl sets for all processes beside a wheel given by its version, for setup scripts (`DynamoConfig.get_wheel_environment`)."""
    return {"DYNAMO_WHEEL_NAME": f"ai_dynamo-{version}-py3-none-any.whl", "DYNAMO_VERSION": version}


def with_wheel(shared: tuple[Entry, ...], dynamo: Tree | None) -> tuple[Entry, ...]:
    """Return the variables of all processes with those of the wheel below them. A file's name sets none: srtctl refuses it."""
    tree = (dynamo.entries or {}).get("wheel") if dynamo is not None else None
    if tree is None or not isinstance(tree.scalar, str) or not _VERSION.fullmatch(tree.scalar):
        return shared
    own = {entry.name for entry in shared}
    found = (Entry(name=name, value=value, source=tree.key, comment=OF_WHEEL) for name, value in wheel_variables(tree.scalar).items())
    return (*(entry for entry in found if entry.name not in own), *shared)


def read_runtime(findings: Findings, section: Section, identity: Identity, image: str) -> SrtRuntime:
    """Read where Dynamo comes from, and which builds are stated."""
    stated = _version(findings, identity.dynamo)
    given = {key: tree for key in ("version", "hash", "wheel") if (tree := section.take(key)) is not None}
    repository = section.take("git")
    newest = section.switch("top_of_tree") or False
    install = section.switch("install")
    plane = _read_plane(findings, section)
    _refuse_sidecars(findings, section)
    section.finish({**keys.DYNAMO, **dict.fromkeys(_SIDECAR_KEYS, "there are no sidecars")})
    key, text = _source(findings, section, given, newest=newest)
    how, source, version = _install(key, text, _text(findings, repository) or DYNAMO_GIT, stated, newest=newest)
    if repository is not None and how != "git":
        findings.note(repository.key, f"'{repository.path}' is left out: srtctl builds Dynamo by 'hash' or 'top_of_tree', and neither stands there")
    if key == "wheel" and how == "pip":
        findings.carried[WHEEL] = text
        findings.note(section.where, f"the wheel of Dynamo {text} {_whence(text, install=install is not False)}")
    _compare_versions(findings, identity.dynamo, stated, _named_in(text) if how == "wheel" else version, how)
    if install is False and source:
        message = f"'dynamo.{key or 'top_of_tree'}' is left out: with `install: false` nothing is installed, and the image's own Dynamo runs"
        findings.note(given[key].key if key else section.where, message)
    if install is False:
        how, source = "present", ""
    version = version or stated or _dynamo_version(findings, section, image, how)
    return SrtRuntime(image=image, vllm=_version(findings, identity.vllm), dynamo=version, install=how, install_source=source, request_plane=plane)


def _install(key: str, text: str, repository: str, stated: str, *, newest: bool) -> tuple[str, str, str]:
    """How Dynamo is installed, from what, and its version as far as that says it."""
    if newest or key == "hash":
        return "git", repository + (f"@{text}" if text else ""), stated
    if key == "wheel" and not _VERSION.fullmatch(text):
        return "wheel", text, stated or _named_in(text)
    return "pip", "", text


def _named_in(wheel: str) -> str:
    """The version in the name of a wheel's file; empty where there is none."""
    return found[1] if (found := _WHEEL.search(wheel)) else ""


def _compare_versions(findings: Findings, tree: Tree | None, stated: str, named: str, how: str) -> None:
    """Tell which of two versions holds: `dynamo` says what is installed, but of a wheel's file only the pin is read for sure."""
    if tree is None or not stated or not named or stated == named:
        return
    if how == "wheel":
        findings.note(tree.source, f"'{tree.path}' is {stated}, but the wheel's name says {named}; nodes are compared with {stated}")
    else:
        findings.carry(tree, f"'dynamo' says {named}, which holds")


def _whence(version: str, *, install: bool) -> str:
    if not install:
        return "is not installed by the job: a setup script finds its name in DYNAMO_VERSION and DYNAMO_WHEEL_NAME"
    where = " (`environment: {PIP_EXTRA_INDEX_URL: ...}` of the cluster's profile)" if DEVELOPMENT in version else ""
    return f"is installed by pip, from an index that has it{where}"


def _source(findings: Findings, section: Section, given: dict[str, Tree], *, newest: bool) -> tuple[str, str]:
    """The key that says where Dynamo comes from, and its value; as for srtctl, a version counts where it stands alone."""
    version = given.pop("version", None) if newest or len(given) > 1 else None
    if version is not None:
        other = next(iter(given), "top_of_tree")
        findings.note(version.key, f"'{version.path}' is left out: srtctl heeds no version beside 'dynamo.{other}'")
    if len(given) + newest > 1:
        findings.problem(UNSUPPORTED, section.where, f"'dynamo' names several sources: {', '.join([*given, *(['top_of_tree'] if newest else [])])}")
    key, tree = next(iter(given.items()), ("", None))
    return key, _text(findings, tree)


def _dynamo_version(findings: Findings, section: Section, image: str, how: str) -> str:
    """Return the version where none is written."""
    if how == "pip":
        findings.note(section.where, f"no Dynamo is named: {DEFAULT_DYNAMO}, srtctl's default")
        return DEFAULT_DYNAMO
    if how == "present" and (found := _RUNTIME_IMAGE.search(image)):
        findings.note(section.where, f"no Dynamo is named: {found[1]} is what the image's tag says")
        return found[1]
    taken = "whichever the image has is taken" if how == "present" else "whichever is built is taken"
    findings.note(section.where, f"no Dynamo is named: {taken}, and not compared")
    return ""


def _refuse_sidecars(findings: Findings, section: Section) -> None:
    for key, harmless in (("sidecar", False), ("engine_mode", "in_process")):
        tree = section.take(key)
        if tree is not None and tree.scalar != harmless:
            findings.unsupported(tree, "engines run within Dynamo's worker, without a sidecar")


def _read_plane(findings: Findings, section: Section) -> str:
    tree = section.take("request_plane")
    if tree is None or tree.scalar == "tcp":
        return ""
    if tree.scalar != "nats":
        findings.problem(UNSUPPORTED, tree.source, f"'{tree.path}' is {tree.kind}; expected tcp or nats")
    return str(tree.scalar)


def _version(findings: Findings, tree: Tree | None) -> str:
    """A version that an installed package can have; a commit, or a word, is none."""
    text = _text(findings, tree)
    if text and tree is not None and (not _VERSION.fullmatch(text) or _COMMIT.fullmatch(text)):
        findings.carry(tree, "it is no version that could be compared")
        return ""
    return text


def _text(findings: Findings, tree: Tree | None) -> str:
    if tree is None:
        return ""
    if tree.text is not None:
        return tree.text
    findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected text" + ("" if plain(tree) is None else ", in quotes"))
    return ""
