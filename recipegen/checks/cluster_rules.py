"""Rules over images, and over a point on a cluster: model, Slurm options that the site needs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import ClusterView, PointView
from recipegen.engine.flag_versions import version_key
from recipegen.errors import Source
from recipegen.layout import span
from recipegen.model import Recipe

_MACHINES = {"x86_64": "x86_64", "x86-64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
_MACHINE = re.compile(rf"(?<![a-z0-9])({'|'.join(_MACHINES)})(?![a-z0-9])")
_RELEASE = re.compile(r"(?:^|/)vllm-openai[\w.-]*:v?(\d+\.\d+[\w.]*)")
"""A tag of vLLM's own images that is a release; what follows a '-' (`-cu130`, `-aarch64`) is no part of it."""
_OWN_KEYS = ("account", "partition", "qos", "reservation")
_CACHES = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


@rule("image-machine", Severity.ERROR)
def image_machine(view: PointView) -> Iterator[Fault]:
    """The image is for another architecture than the hardware.

    An x86_64 image does not start on aarch64 nodes such as those of GB200 and GB300 ("exec format error"). It shows once the job has
    its nodes.

    Mend: take the image for the hardware's architecture.
    """
    recipe = view.recipe
    said, nodes = _said(recipe.runtime.image), recipe.hardware.machine
    if nodes and said and nodes not in said:
        message = f"the image {recipe.runtime.image} is for {', '.join(sorted(said))}, but {recipe.hardware.key} is {nodes}: it cannot start there"
        yield Fault(_image_place(recipe), message, f"take the image for {nodes}")


@rule("image-version", Severity.WARNING)
def image_version(view: PointView) -> Iterator[Fault]:
    """The image's tag names another release of vLLM than `runtime.vllm`.

    The flags are checked, and the sizes computed, for one build, and another would run: the job compares the two and stops before an
    engine starts, after its nodes were allocated. Tags without a release (`nightly-...`), digests and files are not judged.

    Mend: make the two agree.
    Source: the tags of vllm/vllm-openai on Docker Hub.
    """
    recipe = view.recipe
    found = _RELEASE.search(recipe.runtime.image)
    if found and (tag := version_key(found[1])) and (build := version_key(recipe.runtime.vllm)) and tag != build:
        message = f"the image's tag names vLLM {found[1]}, but runtime.vllm is {recipe.runtime.vllm}: the job stops before an engine starts"
        yield Fault(_image_place(recipe), message, "make the two agree")


@rule("cluster-machine", Severity.ERROR, covers=(36,))
def machine(view: ClusterView) -> Iterator[Fault]:
    """Image, hardware and nodes are of different architectures.

    An x86_64 image does not start on aarch64 nodes such as those of GB200 and GB300 ("exec format error"), whatever the login node
    is. It shows once the job has its nodes. What the recipe's own image and hardware say of each other is `image-machine`.

    Mend: take the image for the nodes' architecture, or correct `nodes.machine` of the profile.
    """
    recipe, profile = view.point.recipe, view.profile
    nodes = profile.machine or recipe.hardware.machine
    if nodes and recipe.hardware.machine and nodes != recipe.hardware.machine:
        message = f"the profile's nodes are {nodes}, but {recipe.hardware.key} is {recipe.hardware.machine}"
        yield Fault(view.at("nodes", "machine"), message, "this cluster has other nodes than the matrix is for")
    mapped = recipe.runtime.image in profile.images
    image = profile.image(recipe.runtime.image)
    said = _said(image)
    if profile.container != "none" and nodes and said and nodes not in said and (mapped or nodes != recipe.hardware.machine):
        source = view.at("container", "images", recipe.runtime.image) if mapped else _image_place(recipe)
        message = f"the image {image} is for {', '.join(sorted(said))}, but the nodes are {nodes}: it cannot start there"
        yield Fault(source, message, f"take the image for {nodes}")


@rule("cluster-container", Severity.WARNING, covers=(9,))
def container(view: ClusterView) -> Iterator[Fault]:
    """The profile maps images, but not this one.

    It is used as written: pyxis then pulls it from the registry on every node at the job's start, if it can reach one.

    Mend: import the image once, and map it in `container.images`.
    """
    recipe, profile = view.point.recipe, view.profile
    nginx = [recipe.job.nginx_image] if view.point.front_ends > 1 and not profile.nginx else []
    for image in (recipe.runtime.image, *nginx):
        if profile.container != "none" and profile.images and image not in profile.images:
            message = f"no entry of `container.images` is for {image}: it is used as written, and pulled at the start of the job"
            yield Fault(_image_place(recipe), message, "map it in the profile")


@rule("cluster-model-path", Severity.WARNING, covers=(9, 37))
def model_path(view: ClusterView) -> Iterator[Fault]:
    """The model is a hub id that no snapshot of the cluster stands for.

    Without HF_HOME on a shared path every worker downloads the whole checkpoint into its container, where it is lost with the job;
    with it, workers on many nodes wait for each other's lock files.

    Mend: download once, and map the hub id to the snapshot in `models`; or at least set HF_HOME.
    """
    recipe, profile = view.point.recipe, view.profile
    repo = recipe.model.repo
    if repo in profile.models or not recipe.model.is_hub_id:
        return
    if not _has_cache(view):
        size = f" of {recipe.model.checkpoint_bytes / 1e12:.1f} TB" if recipe.model.checkpoint_bytes >= 1e11 else ""
        message = f"{repo} has no path in `models`, and HF_HOME is not set: every worker downloads a checkpoint{size}"
        yield Fault(view.at("models"), message, "map it in the profile's `models`, or set HF_HOME in its environment")
    elif profile.models:
        message = f"no entry of `models` is for {repo}: workers look for it in the cache, and download what is missing"
        yield Fault(view.at("models"), message, "map it in the profile's `models`")


@rule("cluster-hf-offline", Severity.ERROR)
def hf_offline(view: ClusterView) -> Iterator[Fault]:
    """The hub is switched off, and the model is nowhere else.

    HF_HUB_OFFLINE makes a hub id mean a snapshot in the cache. Without HF_HOME the cache is in the container, and empty: workers
    end when they look for the model's configuration.

    Mend: map the hub id in the profile's `models`, or set HF_HOME to a cache that holds it.
    """
    repo = view.point.recipe.model.repo
    if view.point.recipe.model.is_hub_id and repo not in view.profile.models and not _has_cache(view) and _is_on(view, *_OFFLINE):
        message = f"HF_HUB_OFFLINE is set, but {repo} has no path in `models` and there is no HF_HOME: workers cannot find the model"
        yield Fault(_switch_place(view), message, "map it in the profile's `models`, or set HF_HOME")


@rule("cluster-cpus", Severity.ERROR, covers=(44,))
def required_options(view: ClusterView) -> Iterator[Fault]:
    """An sbatch option that this site needs is missing.

    Where a site's Slurm gives one CPU to a task unless `cpus-per-task` says more, engines start and crawl: loading and tokenizing
    share a core. The profile names such options in `slurm.require`, so that they are not forgotten with the next change.

    Mend: set the option in `sbatch`.
    """
    own = {name for name in _OWN_KEYS if getattr(view.profile, name)}
    for number, name in enumerate(view.profile.require):
        if name not in view.profile.sbatch and name not in own:
            message = f"this site needs the sbatch option '{name}' (slurm.require), but it is not set"
            yield Fault(view.at("slurm", "require", number), message, f"set {name if name in _OWN_KEYS else f'sbatch.{name}'}")


@rule("cluster-segment", Severity.WARNING)
def segment(view: ClusterView) -> Iterator[Fault]:
    """Nothing keeps the nodes of a point in one NVLink domain.

    With `slurm.segment: false` Slurm may spread them over domains. Workers across nodes then fall back to the network, or fail when
    they open fabric handles, minutes after the start.

    Mend: Slurm 23.11 or later and `slurm.segment: true`; else a partition or a reservation that is one domain.
    """
    layouts = [role.layout for role in view.point.roles if role.layout]
    nodes = span(layouts) if layouts else 0
    if view.profile.scheduler == "slurm" and not view.profile.segment and nodes > 1 and view.point.recipe.hardware.nodes_per_domain > 1:
        message = "slurm.segment is false: nothing keeps the nodes of a point in one NVLink domain"
        yield Fault(view.at("slurm", "segment"), message, "take a partition or a reservation that is one domain, or switch segments on")


POINT_RULES: tuple[Rule[PointView], ...] = (image_machine, image_version)
CLUSTER_RULES: tuple[Rule[ClusterView], ...] = (machine, container, model_path, hf_offline, required_options, segment)


def _said(image: str) -> set[str]:
    """The architectures that an image's name tells."""
    return {_MACHINES[word] for word in _MACHINE.findall(image.lower())}


def _image_place(recipe: Recipe) -> Source:
    return recipe.runtime.image_source if recipe.runtime.image_source.file else recipe.source


def _switch_place(view: ClusterView) -> Source:
    """Where the hub is switched off: in the profile, or in the recipe."""
    for name in _OFFLINE:
        if name in view.profile.environment:
            return view.at("environment", name)
    return next((role.at_env(name) for role in view.point.roles for name in _OFFLINE if role.env(name)), view.profile_source)


def _has_cache(view: ClusterView) -> bool:
    """Whether every worker has a cache outside of its container, by the profile or by the recipe."""
    if any(view.profile.environment.get(name) for name in _CACHES):
        return True
    return all(any(role.env(name) for name in _CACHES) for role in view.point.roles)


def _is_on(view: ClusterView, *names: str) -> bool:
    values = [view.profile.environment.get(name) for name in names] + [role.env(name) for role in view.point.roles for name in names]
    return any((value or "").lower() in {"1", "on", "yes", "true"} for value in values)
