"""What a cluster adds to a bundle: its profile, and the site.env and sbatch options that follow from it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from recipegen.errors import InputError, Problem, Source
from recipegen.launch import Directives

if TYPE_CHECKING:
    from recipegen.cluster_schema import ClusterSchema

LOCAL = "local"
"""The name of the built-in profile."""
_LISTS = ("mounts", "srun", "require")
_MAPPINGS = ("sbatch", "images", "models", "environment")


@dataclass(frozen=True, kw_only=True)
class ClusterProfile:
    """A cluster as data; docs/reference/cluster-profile.md explains every value.

    `places` tells where in its file each value stands, by the keys that lead to it there; of a mapping or a list, where its key does.
    """

    name: str
    scheduler: str
    run_root: str
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    reservation: str | None = None
    sbatch: Mapping[str, str | bool] = field(default_factory=dict)
    container: str = "none"
    images: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    network_interface: str | None = None
    path_prefix: str | None = None
    discovery: str = "etcd"
    etcd: str = "etcd"
    nats: str | None = None
    nginx: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    ready_timeout_s: int = 7200
    reserve_s: int = 60
    port_offset: int | None = None
    frontend_host: str = "0.0.0.0"  # noqa: S104 - users come from other machines
    srun: tuple[str, ...] = ()
    segment: bool = True
    gpus: str = "gpus-per-node"
    require: tuple[str, ...] = ()
    read_gib_s: float | None = None
    machine: str | None = None
    places: Mapping[tuple[str | int, ...], Source] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in (*_MAPPINGS, "places"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def place(self, *path: str | int) -> Source | None:
        """Return where the profile's file says something, else where it says what is around it; None where neither stands there."""
        return next((self.places[path[:length]] for length in range(len(path), 0, -1) if path[:length] in self.places), None)

    def image(self, recipe_image: str) -> str:
        """Return what stands for the recipe's image on this cluster."""
        return self.images.get(recipe_image, recipe_image)

    def model(self, repo: str) -> str:
        """Return the path of a hub id's snapshot, or the hub id."""
        return self.models.get(repo, repo)


# -- where profiles come from ------------------------------------------------------------------------------------------


def local_profile(*, run_root: str, path_prefix: str) -> ClusterProfile:
    """Return the built-in profile: this machine, without Slurm and without a container.

    `path_prefix` is the folder of a `python3` that has Dynamo; the CLI gives that of the running one.
    """
    from recipegen.cluster_schema import check_run_root

    try:
        root = check_run_root(run_root)
    except ValueError as error:
        raise InputError(str(error), hint="set XDG_STATE_HOME to another folder, or give a cluster profile") from None
    return ClusterProfile(
        name=LOCAL,
        scheduler="local",
        run_root=root,
        path_prefix=path_prefix,
        network_interface="lo",
        discovery="file",
        frontend_host="node",
        segment=False,
        gpus="none",
    )


def parse_profile(text: str | bytes, file: str) -> ClusterProfile:
    """Return the profile in `text`, or raise InputError with everything that is wrong with it."""
    from recipegen.cluster_schema import ClusterSchema
    from recipegen.schema_errors import validate
    from recipegen.yamlsource import parse_yaml

    document = parse_yaml(text, file)
    data = validate(document, ClusterSchema)
    nested = {path[:length] for path, _, _ in document.places() for length in range(1, len(path))}
    return _profile(data, {path: key if path in nested else value for path, key, value in document.places()})


def _profile(data: ClusterSchema, places: Mapping[tuple[str | int, ...], Source]) -> ClusterProfile:
    return ClusterProfile(
        **data.model_dump(include={"name", "scheduler", "run_root", "account", "partition", "qos", "reservation", "models"}),
        **data.model_dump(include={"network_interface", "path_prefix", "nats", "nginx", "port_offset", "frontend_host"}),
        sbatch={key: value if value is True else str(value) for key, value in data.sbatch.items()},
        container=data.container.runtime,
        images=data.container.images,
        mounts=tuple(data.container.mounts),
        discovery=data.discovery.backend,
        etcd=data.discovery.etcd,
        environment={key: str(value) for key, value in data.environment.items()},
        ready_timeout_s=int(data.deadlines.ready),
        reserve_s=int(data.deadlines.reserve),
        srun=tuple(data.srun),
        segment=data.slurm.segment,
        gpus=data.slurm.gpus,
        require=tuple(data.slurm.require),
        read_gib_s=data.storage.read_gib_s,
        machine=data.nodes.machine,
        places=places,
    )


# -- what follows from it ----------------------------------------------------------------------------------------------


def site_env(profile: ClusterProfile, *, image: str, repo: str, nginx_image: str = "") -> bytes:
    """Return site.env as docs/reference/site-env.md has it: one quoted assignment a line, sorted by name.

    `image`, `repo` and `nginx_image` are the recipe's; MODEL is left out for a hub id that has no path here, and so keeps its pin. Of
    nginx it names nothing where none is needed (no image), and the profile's own rather than an image.
    """
    values: dict[str, str | int | None] = {
        "RUN_ROOT": profile.run_root,
        "CONTAINER_RUNTIME": profile.container,
        "CONTAINER_IMAGE": profile.image(image) if profile.container != "none" else None,
        "CONTAINER_MOUNTS": ",".join(profile.mounts) or None,
        "MODEL": profile.models.get(repo),
        "NETWORK_INTERFACE": profile.network_interface,
        "PATH_PREFIX": profile.path_prefix,
        "DISCOVERY": profile.discovery,
        "ETCD": profile.etcd if profile.discovery == "etcd" else None,
        "NATS_SERVER_BIN": profile.nats,
        "NGINX_BIN": profile.nginx if nginx_image else None,
        "NGINX_IMAGE": profile.image(nginx_image) if nginx_image and profile.container != "none" and not profile.nginx else None,
        "READY_TIMEOUT_S": profile.ready_timeout_s,
        "RESERVE_S": profile.reserve_s,
        "PORT_OFFSET": profile.port_offset,
        "FRONTEND_HOST": profile.frontend_host,
        "SRUN_OPTIONS": " ".join(profile.srun) or None,
        **profile.environment,
    }
    lines = [f"{name}={shlex.quote(str(value))}" for name, value in sorted(values.items()) if value is not None]
    return "\n".join([f"# What cluster {profile.name} adds to the bundle; written by recipegen submit.", *lines, ""]).encode()


def sbatch_options(profile: ClusterProfile, directives: Directives, *, run_dir: str, run_id: str, time_limit_s: int | None = None) -> tuple[str, ...]:
    """Return what goes on the sbatch command line before the script; always `--key=value`, which every version reads alike.

    `time_limit_s` is given when a submission asks for another limit than the script's.
    """
    named = {name: getattr(profile, name) for name in ("account", "partition", "qos", "reservation")}
    options = [f"--{name}={value}" for name, value in named.items() if value is not None]
    options += _gpu_options(profile, directives)
    if profile.segment and directives.segment:
        options.append(f"--segment={directives.segment}")
    if time_limit_s is not None:
        options.append(f"--time={slurm_time(time_limit_s)}")
    folder = run_dir.replace("%", "%%")  # sbatch expands % in --output, and only there
    options += [f"--chdir={run_dir}", f"--output={folder}/slurm-%j.out"]
    options.append(f"--comment={run_id}")
    return (*options, *(f"--{name}" if value is True else f"--{name}={value}" for name, value in sorted(profile.sbatch.items())))


def slurm_time(seconds: int) -> str:
    """Return a time limit as Slurm writes it; Slurm counts in minutes, so a part of one is rounded up."""
    minutes = max(1, -(-seconds // 60))
    days, rest = divmod(minutes, 24 * 60)
    return (f"{days}-" if days else "") + f"{rest // 60:02d}:{rest % 60:02d}:00"


def _gpu_options(profile: ClusterProfile, directives: Directives) -> list[str]:
    if not directives.gpus_per_node or profile.gpus == "none":
        return []
    return [f"--gres=gpu:{directives.gpus_per_node}" if profile.gpus == "gres" else f"--gpus-per-node={directives.gpus_per_node}"]


# -- the profile as it was, in run.json --------------------------------------------------------------------------------


def profile_to_json(profile: ClusterProfile) -> dict[str, Any]:
    """Return the profile as a JSON object, without the places in its file."""
    values = {item.name: getattr(profile, item.name) for item in fields(profile) if item.name != "places"}
    return {name: dict(v) if isinstance(v, Mapping) else list(v) if isinstance(v, tuple) else v for name, v in values.items()}


def profile_from_json(data: Mapping[str, Any], *, file: str = "run.json") -> ClusterProfile:
    """Return the profile that `profile_to_json` wrote; keys of a later version are ignored, so that a run stays readable."""
    known = {item.name: data[item.name] for item in fields(ClusterProfile) if item.name in data and item.name != "places"}
    texts = all(isinstance(known.get(name), str) for name in ("name", "scheduler", "run_root"))
    maps = all(isinstance(known.get(name, {}), Mapping) for name in _MAPPINGS)
    lists = all(isinstance(known.get(name, []), (list, tuple)) for name in _LISTS)
    if not (texts and maps and lists):
        raise InputError([Problem(Source(file), "'cluster' is not a profile as recipegen writes it", rule="profile-record")])
    profile = ClusterProfile(**known)
    return replace(profile, mounts=tuple(profile.mounts), srun=tuple(profile.srun), require=tuple(profile.require))
