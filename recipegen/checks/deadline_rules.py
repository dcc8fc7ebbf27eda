"""Rules over time: does the checkpoint load before the deadlines, and the engine wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import ClusterView, PointView
from recipegen.errors import Source
from recipegen.model import Recipe

STUDY_BYTES = 1_447_265_951_488
STUDY_LOAD_S = (306, 545)
"""Seconds that the published study's checkpoint took from a warm shared file system, fastest and slowest."""
MARGIN = 2
"""Times the load time that a deadline should leave: a cold file system, or neighbours, easily double it (our margin)."""
READY = ("deadlines", "ready")
"""The readiness deadline's key in the profile."""
ENGINE_TIMEOUT = "VLLM_ENGINE_READY_TIMEOUT_S"
ENGINE_DEFAULT_S = 600
"""vLLM 0.28 `envs.py`."""


@rule("deadline-study", Severity.WARNING)
def study(view: PointView) -> Iterator[Fault]:
    """The time limit is shorter than loading alone took in the published study.

    Its checkpoint took 306 to 545 s from a warm shared file system, which is scaled here by the checkpoint's size; compiling, graph
    capture and the measurement come on top. The job ends before the first request. How fast this cluster's storage is, only its
    profile can say (`deadline-load`).

    Mend: raise the point's `time_limit`.
    Source: the published study's own logs.
    """
    recipe = view.recipe
    fastest, slowest = (seconds * recipe.model.checkpoint_bytes / STUDY_BYTES for seconds in STUDY_LOAD_S)
    if recipe.time_limit_s < slowest:
        size = f"{recipe.model.checkpoint_bytes / 2**30:.0f} GiB"
        took = f"as fast as the published study saw it, loading {size} alone takes {fastest:.0f} s; as slowly, {slowest:.0f} s"
        yield Fault(_limit_source(recipe), f"the time limit is {recipe.time_limit_s} s; {took}", "raise time_limit of the point")


@rule("deadline-load", Severity.ERROR, covers=(29,))
def load(view: ClusterView) -> Iterator[Fault]:
    """The checkpoint cannot be read before the deadline.

    At the bandwidth that the profile says was measured, reading it alone takes longer than the readiness deadline, or than the
    time limit less the reserve: the job ends before the first request, after its whole time.

    Mend: raise the point's `time_limit` or the profile's `deadlines.ready`, as the message says; or measure `storage.read_gib_s` again.
    """
    recipe = view.point.recipe
    rate = view.profile.read_gib_s
    available, source = _available(view)
    if rate and recipe.model.checkpoint_bytes and (needed := _measured_s(recipe, rate)) > available > 0:
        size = recipe.model.checkpoint_bytes / 2**30
        message = f"reading {size:.0f} GiB at {rate:g} GiB/s takes {needed:.0f} s, but the endpoint must be READY within {available} s"
        yield Fault(source, message, _raise(view, needed))


@rule("deadline-load-margin", Severity.WARNING)
def load_margin(view: ClusterView) -> Iterator[Fault]:
    """The deadline leaves less than twice the time that loading takes.

    Load times differ by two between a quiet and a busy file system, and engines still compile and capture graphs afterwards. Where
    the profile has no measured bandwidth, the slowest load of the published study counts, scaled by the checkpoint's size.

    Mend: raise the point's `time_limit` or the profile's `deadlines.ready`, as the message says; set `storage.read_gib_s` to what was
    measured.
    """
    recipe = view.point.recipe
    available, source = _available(view)
    needed = _slowest_s(view)
    surely = view.profile.read_gib_s and needed > available
    if not surely and 0 < available < MARGIN * needed:
        origin = "at the measured bandwidth" if view.profile.read_gib_s else "as slowly as the published study saw it"
        message = f"loading {recipe.model.checkpoint_bytes / 2**30:.0f} GiB {origin} takes {needed:.0f} s of the {available} s until READY is due"
        yield Fault(source, message, f"{_raise(view, MARGIN * needed)}: {MARGIN} times the load is a fair margin")


@rule("deadline-reserve", Severity.ERROR)
def reserve(view: ClusterView) -> Iterator[Fault]:
    """The time limit is no longer than the reserve for the tear-down.

    Nothing is left to start in: the job ends as soon as it begins.

    Mend: raise the point's `time_limit`, or lower the profile's `deadlines.reserve`.
    """
    recipe = view.point.recipe
    if recipe.time_limit_s <= view.profile.reserve_s:
        message = f"the time limit of {recipe.time_limit_s} s leaves nothing beside the reserve of {view.profile.reserve_s} s for the tear-down"
        yield Fault(_limit_source(recipe), message, "raise time_limit of the point, or lower deadlines.reserve of the profile")


@rule("deadline-limit", Severity.NOTE)
def limit(view: ClusterView) -> Iterator[Fault]:
    """The readiness deadline lies beyond the end of the job.

    The job shortens it to its time limit less the reserve: an endpoint that becomes READY late leaves no time to measure. Said of a
    deadline that the profile or the matrix states, not of the default.

    Mend: a shorter `deadlines.ready`, or a `time_limit` that holds the readiness deadline and the measurement.
    """
    recipe, profile = view.point.recipe, view.profile
    ready, source = _ready(view)
    stated = READY in profile.places or ready == recipe.job.ready_s
    if stated and profile.reserve_s < recipe.time_limit_s <= ready + profile.reserve_s:
        message = f"the readiness deadline of {ready} s lies beyond the end of jobs: one that is READY so late is not measured"
        yield Fault(source, message, "shorten deadlines.ready, or raise time_limit of the points")


@rule("deadline-engine-timeout", Severity.WARNING, covers=(29,))
def engine_timeout(view: ClusterView) -> Iterator[Fault]:
    """The engine gives up before the checkpoint is loaded, or before the job does.

    vLLM's front end waits VLLM_ENGINE_READY_TIMEOUT_S for its engine cores, 600 s by default. The launcher sets it to the readiness
    deadline; a recipe's own value, or null, takes that back. Too short a one ends the worker in the midst of loading.

    Mend: leave the variable to the launcher.
    """
    needed, ready = _slowest_s(view), _available(view)[0]
    for role in view.point.roles:
        text = role.env(ENGINE_TIMEOUT)
        if text is None and ENGINE_TIMEOUT not in role.role.unset_env:
            continue
        seconds = ENGINE_DEFAULT_S if text is None else int(text) if text.isascii() and text.isdigit() else 0
        if seconds < needed:
            what = f"loading takes {needed:.0f} s"
        elif seconds < ready:
            what = f"the job waits {ready} s"
        else:
            continue
        shown = f"vLLM's own {ENGINE_DEFAULT_S} s" if text is None else f"{ENGINE_TIMEOUT}={text}"
        yield Fault(role.at_env(ENGINE_TIMEOUT), f"{shown} lets the engine give up too early: {what}", "leave the variable to the launcher")


@rule("deadline-engine-owned", Severity.NOTE)
def engine_owned(view: PointView) -> Iterator[Fault]:
    """A recipe sets the engine's own timeout.

    The launcher derives VLLM_ENGINE_READY_TIMEOUT_S from the readiness deadline of the cluster. A value in the recipe wins, and does
    not follow when the deadline or the cluster changes.

    Mend: remove the variable.
    """
    for role in view.roles:
        if role.env(ENGINE_TIMEOUT) is not None:
            yield Fault(role.at_env(ENGINE_TIMEOUT), f"{ENGINE_TIMEOUT} is set by the launcher from the readiness deadline", "remove it")


POINT_RULES: tuple[Rule[PointView], ...] = (study, engine_owned)
CLUSTER_RULES: tuple[Rule[ClusterView], ...] = (load, load_margin, reserve, limit, engine_timeout)


def _measured_s(recipe: Recipe, read_gib_s: float) -> float:
    return recipe.model.checkpoint_bytes / 2**30 / read_gib_s


def _slowest_s(view: ClusterView) -> float:
    """Seconds that loading takes: at the measured bandwidth, or as slowly as the study saw it; 0 for a checkpoint of unknown size."""
    recipe = view.point.recipe
    if view.profile.read_gib_s:
        return _measured_s(recipe, view.profile.read_gib_s)
    return STUDY_LOAD_S[1] * recipe.model.checkpoint_bytes / STUDY_BYTES


def _available(view: ClusterView) -> tuple[int, Source]:
    """Seconds until READY is due, and where what bounds them is written."""
    recipe = view.point.recipe
    left, (ready, source) = recipe.time_limit_s - view.profile.reserve_s, _ready(view)
    return (left, _limit_source(recipe)) if left <= ready else (ready, source)


def _ready(view: ClusterView) -> tuple[int, Source]:
    """The readiness deadline in seconds, of the profile or of the matrix where that is later; and where it is written."""
    job, of_profile = view.point.recipe.job, view.profile.ready_timeout_s
    return (job.ready_s, job.ready_source) if job.ready_s >= of_profile else (of_profile, view.at(*READY))


def _raise(view: ClusterView, seconds: float) -> str:
    """What has to be raised for READY to be due after so many seconds: of the two bounds those that are lower."""
    recipe, profile = view.point.recipe, view.profile
    whose = "matrix" if recipe.job.ready_s >= profile.ready_timeout_s else "profile"
    bounds = ((_ready(view)[0], f"deadlines.ready of the {whose}"), (recipe.time_limit_s - profile.reserve_s, "time_limit of the point"))
    return "raise " + " and ".join(name for bound, name in bounds if bound < seconds)


def _limit_source(recipe: Recipe) -> Source:
    return recipe.time_limit_source if recipe.time_limit_source.file else recipe.source
