"""Name, model, identity and software of a v1 document."""

from __future__ import annotations

import re
from dataclasses import dataclass

from recipegen.srtslurm import keys
from recipegen.srtslurm.reading import MISSING, UNSUPPORTED, WRONG_TYPE, Findings, Section
from recipegen.srtslurm.recipe import SrtModel, SrtRuntime
from recipegen.srtslurm.tree import Tree, plain

DEFAULT_DYNAMO = "0.8.0"
"""What srtctl installs where a recipe names no Dynamo."""
DYNAMO_GIT = "https://github.com/ai-dynamo/dynamo.git"
HUB = "hf:"
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+!-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
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
    text = tree.scalar if isinstance(tree.scalar, str) else ""
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
    """Read the model. A revision pins a hub id only; what an alias or a path holds, the cluster knows."""
    path = section.text("path", required=True)
    image = section.text("container", required=True)
    section.finish(keys.MODEL)
    repo = path.removeprefix(HUB)
    if identity.image is not None and identity.image.scalar != image:
        findings.carry(identity.image, "it is not the image that the recipe runs")
    pinned = _text(findings, identity.repo)
    revision = _text(findings, identity.revision)
    if pinned not in ("", repo) or (revision and not path.startswith(HUB)):
        for tree in filter(None, (identity.repo, identity.revision)):
            findings.carry(tree, f"'{repo}' is resolved by the cluster")
        revision = ""
    if revision and identity.revision is not None and not _COMMIT.fullmatch(revision):
        findings.carry(identity.revision, "it is no commit of 40 hex digits, so that nothing is pinned by it")
        revision = ""
    return ModelPart(SrtModel(repo=repo, revision=revision, served_name=served_name or repo.rstrip("/").rpartition("/")[2]), image)


def read_runtime(findings: Findings, section: Section, identity: Identity, image: str) -> SrtRuntime:
    """Read where Dynamo comes from, and which builds are stated."""
    stated = _text(findings, identity.dynamo)
    given = {key: tree for key in ("version", "hash", "wheel") if (tree := section.take(key)) is not None}
    repository = _text(findings, section.take("git")) or DYNAMO_GIT
    newest = section.switch("top_of_tree") or False
    install = section.switch("install")
    plane = _read_plane(findings, section)
    section.finish(keys.DYNAMO)
    if len(given) + newest > 1:
        findings.problem(UNSUPPORTED, section.where, f"'dynamo' names several sources: {', '.join([*given, *(['top_of_tree'] if newest else [])])}")
    key, tree = next(iter(given.items()), ("", None))
    text = _text(findings, tree)
    if newest or key == "hash":
        how, source, version = "git", repository + ("" if newest else f"@{text}"), stated
    elif key == "wheel" and not _VERSION.fullmatch(text):
        how, source, version = "wheel", text, stated or (found[1] if (found := _WHEEL.search(text)) else "")
    else:
        how, source, version = "pip", "", text
    if install is False:
        how, source = "present", ""
    version = version or _dynamo_version(findings, section, stated, image, installs=how == "pip")
    if key == "wheel" and how == "pip":
        findings.note(section.where, f"the wheel of Dynamo {text} is installed by pip, from an index that has it")
    return SrtRuntime(image=image, vllm=_vllm(findings, identity), dynamo=version, install=how, install_source=source, request_plane=plane)


def _dynamo_version(findings: Findings, section: Section, stated: str, image: str, *, installs: bool) -> str:
    if stated:
        return stated
    if installs:
        findings.note(section.where, f"no Dynamo is named: {DEFAULT_DYNAMO}, srtctl's default")
        return DEFAULT_DYNAMO
    if found := _RUNTIME_IMAGE.search(image):
        findings.note(section.where, f"no Dynamo is named: {found[1]} is what the image's tag says")
        return found[1]
    findings.problem(MISSING, section.where, "no Dynamo is named, so that nothing could be compared: 'identity.frameworks.dynamo' is missing")
    return ""


def _read_plane(findings: Findings, section: Section) -> str:
    tree = section.take("request_plane")
    if tree is None or tree.scalar == "tcp":
        return ""
    if tree.scalar != "nats":
        findings.problem(UNSUPPORTED, tree.source, f"'{tree.path}' is {tree.kind}; expected tcp or nats")
    return str(tree.scalar)


def _vllm(findings: Findings, identity: Identity) -> str:
    text = _text(findings, identity.vllm)
    if text and identity.vllm is not None and not _VERSION.fullmatch(text):
        findings.carry(identity.vllm, "it is no version that could be compared")
        return ""
    return text


def _text(findings: Findings, tree: Tree | None) -> str:
    if tree is None:
        return ""
    if isinstance(tree.scalar, str):
        return tree.scalar
    findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected text" + ("" if plain(tree) is None else ", in quotes"))
    return ""
