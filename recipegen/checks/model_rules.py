"""Rules over what a matrix pins and asks for itself: a model, Dynamo and where it comes from, a setup script, NATS, nginx."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import ClusterView, PointView
from recipegen.errors import Source
from recipegen.model import Recipe

_INDEXES = frozenset({"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CONFIG_FILE"})
"""Variables by which pip finds packages elsewhere (pip's documentation, configuration by environment variables)."""


@rule("model-unpinned", Severity.WARNING)
def unpinned(view: PointView) -> Iterator[Fault]:
    """A model of the hub is not pinned to a revision.

    Whatever its main branch holds when the engine starts is served: weights, tokenizer and chat template may change between two runs
    of one recipe, and nothing in the results tells. Aliases and paths are not judged: what they lead to is the cluster's.

    Mend: add the commit as `model.revision`.
    """
    model = view.recipe.model
    if model.is_hub_id and not model.revision:
        message = f"{model.repo} has no revision: whatever is newest when the engine starts is served"
        yield Fault(_model_place(view.recipe), message, "add `revision`, 40 hex digits, to `model`")


@rule("dynamo-unpinned", Severity.NOTE)
def dynamo_unpinned(view: PointView) -> Iterator[Fault]:
    """No version of Dynamo is named, or it is installed from a branch.

    Before an engine starts, every node compares the installed Dynamo with `runtime.dynamo.version`. Without one, whichever the
    image has is taken: front end and workers agree, as they share the image, but another image may behave otherwise. From git
    without a commit, whatever the branch holds when the job starts is built: a warning.

    Mend: name `runtime.dynamo.version`; end a git `source` in `@COMMIT`.
    """
    dynamo, place = view.recipe.runtime.dynamo, view.recipe.runtime.image_source
    if dynamo.install == "git" and not re.search(r"@[0-9a-f]{7,40}$", dynamo.source):
        message = f"Dynamo is built from {dynamo.source} as it is when the job starts: no commit is named"
        yield Fault(place, message, "end `runtime.dynamo.source` in @COMMIT", severity=Severity.WARNING)
    elif not dynamo.version:
        yield Fault(place, "no version of Dynamo is named: whichever the image has is taken, and not compared", "add `runtime.dynamo.version`")


@rule("cluster-model-alias", Severity.ERROR)
def alias(view: ClusterView) -> Iterator[Fault]:
    """The model is a name that the cluster does not know.

    A name without '/' stands for a path that the cluster's profile gives. Without one the engine takes the name for a model of the
    hub, and ends when it finds none, after the job's start.

    Mend: map the name in the profile's `models`, or name the hub id or the path in the matrix.
    """
    recipe = view.point.recipe
    if recipe.model.is_alias and recipe.model.repo not in view.profile.models:
        message = f"'{recipe.model.repo}' is no hub id, and has no path in `models` of the profile: the engine would not find the model"
        yield Fault(_model_place(recipe), message, "map it in the profile's `models`")


@rule("cluster-setup-script", Severity.WARNING)
def setup_script(view: ClusterView) -> Iterator[Fault]:
    """No mount of the profile holds the setup script.

    Every node runs it inside the container before anything else. Where neither the image nor a mount has it, the job ends there.
    Whether the image has it cannot be seen from here.

    Mend: mount its folder in `container.mounts`, most often as `.../configs:/configs`.
    """
    path, profile = view.point.recipe.job.setup_path, view.profile
    targets = [mount.split(":")[1].rstrip("/") for mount in profile.mounts]
    if path and profile.container != "none" and not any(path == target or path.startswith(f"{target}/") for target in targets):
        message = f"no mount of the profile holds the setup script {path}: unless the image has it, the job ends before an engine starts"
        yield Fault(view.point.recipe.job.setup_source, message, f"mount {path.rpartition('/')[0] or '/'} in `container.mounts`")


@rule("cluster-dynamo-index", Severity.WARNING)
def dynamo_index(view: ClusterView) -> Iterator[Fault]:
    """A development version of Dynamo is installed by pip, and the profile names no index that has it.

    The public index has releases only. Unless the image brings an index of its own, which cannot be seen from here, every node fails
    to install Dynamo, and the job ends there.

    Mend: name an index in the profile, `environment: {PIP_EXTRA_INDEX_URL: ...}`; or give a wheel by `install: wheel`, or take a release.
    """
    dynamo = view.point.recipe.runtime.dynamo
    if dynamo.install == "pip" and ".dev" in dynamo.version and not _INDEXES & view.profile.environment.keys():
        message = f"pip is to install Dynamo {dynamo.version}, which the public index does not have, and the profile names no other index"
        yield Fault(view.at("environment"), message, "set `environment: {PIP_EXTRA_INDEX_URL: ...}` of the profile")


@rule("cluster-nats", Severity.ERROR)
def nats(view: ClusterView) -> Iterator[Fault]:
    """Requests go over NATS, which this cluster does not have.

    The job starts nats-server on its first node only where the profile says where that is, and ends at once where it does not.

    Mend: set `nats` of the profile, or leave `request_plane` out.
    """
    plane = view.point.recipe.runtime.dynamo.request_plane
    if plane == "nats" and not view.profile.nats:
        message = "`request_plane: nats` needs a NATS server, but the profile has no `nats`: the job ends before anything is started"
        yield Fault(view.at("nats"), message, "set `nats` of the profile, or leave `request_plane` out")


@rule("cluster-nginx", Severity.ERROR)
def nginx(view: ClusterView) -> Iterator[Fault]:
    """Several front ends stand behind nginx, which this cluster does not have.

    nginx runs as a container of the recipe's `frontend.nginx_image`, or as a program of the nodes where the profile says where that is.
    Where there is neither, the job ends at once. A simulation on the built-in cluster takes the nginx of this machine, or one front end.

    Mend: set `nginx` of the profile, or leave `frontend.replicas` out.
    """
    profile, wanted = view.profile, view.point.front_ends
    if wanted > 1 and profile.scheduler != "local" and profile.container == "none" and not profile.nginx:
        message = f"{wanted} front ends need nginx, but the profile has no `nginx` and runs no containers: the job ends before anything is started"
        yield Fault(view.at("nginx"), message, "set `nginx` of the profile, or leave `frontend.replicas` out")


POINT_RULES: tuple[Rule[PointView], ...] = (unpinned, dynamo_unpinned)
CLUSTER_RULES: tuple[Rule[ClusterView], ...] = (alias, setup_script, dynamo_index, nats, nginx)


def _model_place(recipe: Recipe) -> Source:
    return recipe.model_source if recipe.model_source.file else recipe.source
