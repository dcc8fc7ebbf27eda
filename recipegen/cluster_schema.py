"""The shape of a cluster profile, for validation and the JSON schema."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

from recipegen.job_variables import SITE_VARIABLES, why_reserved

_MATRIX_TIME = "the point's time_limit, or submit --time"
_TOPOLOGY = "it follows from the topologies of the matrix"
_SITE_GPUS = "slurm.gpus says in which form GPUs are asked for"
_RUN_FOLDER = "the run folder decides it"
_OWN_KEY = "the profile has a key of its own for it"
_MECHANICS = "the tool needs it as it is"
OWNED_BY_TOOL = {
    **dict.fromkeys(("nodes", "ntasks", "ntasks-per-node", "tasks-per-node"), _TOPOLOGY),
    **dict.fromkeys(("time", "time-min"), _MATRIX_TIME),
    **dict.fromkeys(("output", "error", "chdir", "open-mode"), _RUN_FOLDER),
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "gres", "ntasks-per-gpu"), _SITE_GPUS),
    **dict.fromkeys(("account", "partition", "qos", "reservation"), _OWN_KEY),
    **dict.fromkeys(("export", "export-file", "get-user-env", "parsable", "array", "wrap", "wait", "test-only", "requeue", "no-requeue"), _MECHANICS),
    **dict.fromkeys(("help", "usage", "version", "quiet", "verbose", "ignore-pbs", "uid", "gid"), _MECHANICS),
    "job-name": "the name of the matrix, and the point",
    "comment": "it holds the run's id, by which a run is found again",
    "segment": "slurm.segment, and the topologies of the matrix",
    "clusters": "a profile is for one cluster: SLURM_CONF says which",
}
"""sbatch options that `sbatch:` may not hold, and what decides them instead."""

OWNED_BY_JOB = (
    *("nodes", "ntasks", "ntasks-per-node", "nodelist", "overlap", "exact", "kill-on-bad-exit", "wait", "output", "error", "export"),
    *("input", "job-name", "label", "container-image", "container-name", "container-mounts", "jobid", "het-group", "help", "usage", "version"),
)
"""srun options that `srun:` may not hold: job.sbatch gives them to each step."""

_INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
_OPTION = r"[a-z][a-z0-9-]*"


class ProfileError(ValueError):
    """A value that a profile must not hold; `rule` says which rule it breaks."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule


def _printable(text: str) -> str:
    if bad := next((c for c in text if unicodedata.category(c) in _INVISIBLE), None):
        raise ProfileError("profile-text", f"{text!r} holds a control character, U+{ord(bad):04X}; expected one line of text")
    return text


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text):
        raise ProfileError("profile-name", f"{text!r} is not a name; expected letters, digits, '.', '_' and '-'")
    return text


def _slurm_word(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][\w.,:@/+-]*", text, re.ASCII):
        raise ProfileError("profile-name", f"{text!r} is no name that Slurm knows; expected letters, digits and any of . _ - , : @ / +")
    return text


def _absolute(text: str) -> str:
    if not text.startswith("/") or "/../" in f"{text}/":
        raise ProfileError("profile-path", f"{text!r} is not an absolute path without '..'")
    return text


def _settled(text: str) -> str:
    if ".." in re.split("[/:#]", text):
        raise ProfileError("profile-path", f"{text!r} climbs out of its folder by '..'; expected the path that it leads to")
    return text


def check_run_root(text: str) -> str:
    """Return a run root without its last slash; ProfileError, a ValueError, for one that PATH, mounts or sbatch would misread."""
    if any(c in text for c in ":,\\") or not text.isprintable() or not text.strip("/"):
        raise ProfileError("profile-path", f"{text!r} cannot hold runs; expected a folder whose path has no ':', ',', '\\' or unprintable character")
    return text.rstrip("/")


def _mount(text: str) -> str:
    if not re.fullmatch(r"/[^:,]*:/[^:,]*(:[A-Za-z0-9+_-]+)?", text):
        raise ProfileError("profile-path", f"{text!r} is not a mount; expected SRC:DST or SRC:DST:FLAGS, with absolute paths and no ','")
    return _settled(text)


def _port_offset(value: int | None) -> int | None:
    if value is not None and not 0 <= value <= 20000:
        raise ProfileError("schema-value", f"{value} is out of range; expected 0 to 20000")
    return value


def _sbatch_name(name: str) -> str:
    if not re.fullmatch(_OPTION, name):
        raise ProfileError("profile-sbatch", f"{name!r} is not an sbatch option; expected its long name in lower case, without '--'")
    # sbatch takes any unambiguous beginning of an option for the option
    if owned := next((o for o in sorted(OWNED_BY_TOOL) if o == name), next((o for o in sorted(OWNED_BY_TOOL) if o.startswith(name)), None)):
        short = "" if owned == name else f" (sbatch may read it as '{owned}')"
        raise ProfileError("profile-sbatch", f"{name!r}{short} is not to be set here: {OWNED_BY_TOOL[owned]}")
    return name


def _required_option(name: str) -> str:
    return name if OWNED_BY_TOOL.get(name) == _OWN_KEY else _sbatch_name(name)


def _srun_option(text: str) -> str:
    found = re.fullmatch(r"--([a-z][a-z0-9-]*)(=[^\s*?\[\]]+)?", text)
    if not found:
        raise ProfileError("profile-srun", f"{text!r} is not one srun option; expected --key=value or --key, without blanks, '*', '?' and brackets")
    if owned := next((o for o in sorted(OWNED_BY_JOB) if o.startswith(found[1])), None):
        raise ProfileError("profile-srun", f"{text!r}: job.sbatch gives '--{owned}' to each step itself")
    return text


def _environment_name(name: str) -> str:
    if name in SITE_VARIABLES:
        raise ProfileError("profile-environment", f"{name!r} is set through the profile's key '{SITE_VARIABLES[name]}'")
    if why := why_reserved(name):
        hint = "; 'path_prefix' is put before PATH" if name == "PATH" else ""
        raise ProfileError("profile-environment", f"{name!r} {why}{hint}")
    return name


def _seconds(value: int | str) -> int:
    if isinstance(value, str):
        found = re.fullmatch(r"(\d{1,4}):([0-5]\d):([0-5]\d)", value)
        if not found:
            raise ProfileError("schema-value", f"{value!r} is no duration; expected seconds or H:MM:SS")
        value = int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])
    if not 0 < value <= 30 * 86400:
        raise ProfileError("schema-value", f"{value} s is out of range; expected 1 second to 30 days")
    return value


Text = Annotated[StrictStr, Field(min_length=1, max_length=4096), AfterValidator(_printable)]
Path = Annotated[Text, AfterValidator(_absolute)]
Settled = Annotated[Text, AfterValidator(_settled)]
Word = Annotated[Text, AfterValidator(_slurm_word)]
Seconds = Annotated[StrictInt | StrictStr, AfterValidator(_seconds)]
SbatchName = Annotated[StrictStr, AfterValidator(_sbatch_name)]
SbatchValue = Literal[True] | StrictInt | Text
SrunOption = Annotated[Text, AfterValidator(_srun_option)]


class Strict(BaseModel):
    """Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class TransportSchema(Strict):
    """How commands and files reach the cluster."""

    type: Literal["local"] = "local"


class ContainerSchema(Strict):
    """What runs containers, and which."""

    runtime: Literal["pyxis", "none"] = "none"
    images: dict[Text, Settled] = {}
    mounts: list[Annotated[Text, AfterValidator(_mount)]] = []


class DiscoverySchema(Strict):
    """Where Dynamo's instances find each other."""

    backend: Literal["etcd", "file"] = "etcd"
    etcd: Settled = "etcd"


class DeadlinesSchema(Strict):
    """Seconds, or H:MM:SS."""

    ready: Seconds = 7200
    reserve: Seconds = 60


class SlurmSchema(Strict):
    """What this site's Slurm can do."""

    segment: StrictBool = True
    gpus: Literal["gpus-per-node", "gres", "none"] = "gpus-per-node"
    require: list[Annotated[StrictStr, AfterValidator(_required_option)]] = []


class StorageSchema(Strict):
    """What was measured of the file system that checkpoints are read from."""

    read_gib_s: Annotated[float, Field(gt=0, le=100_000, strict=True)] | None = None


class NodesSchema(Strict):
    """What the compute nodes are; login nodes often differ."""

    machine: Literal["aarch64", "x86_64"] | None = None


class ClusterSchema(Strict):
    """The whole file."""

    schema_: Literal["recipegen-cluster/v1"] = Field(alias="schema")
    name: Annotated[Text, AfterValidator(_name)]
    scheduler: Literal["slurm", "local"]
    transport: TransportSchema = Field(default_factory=TransportSchema)
    run_root: Annotated[Path, AfterValidator(check_run_root)]
    account: Word | None = None
    partition: Word | None = None
    qos: Word | None = None
    reservation: Word | None = None
    sbatch: dict[SbatchName, SbatchValue] = {}
    container: ContainerSchema = Field(default_factory=ContainerSchema)
    models: dict[Text, Settled] = {}
    network_interface: Annotated[Text, AfterValidator(_name)] | None = None
    path_prefix: Path | None = None
    discovery: DiscoverySchema = Field(default_factory=DiscoverySchema)
    nats: Path | None = None
    nginx: Path | None = None
    environment: dict[Annotated[StrictStr, AfterValidator(_environment_name)], StrictInt | Annotated[StrictStr, AfterValidator(_printable)]] = {}
    deadlines: DeadlinesSchema = Field(default_factory=DeadlinesSchema)
    port_offset: Annotated[StrictInt | None, AfterValidator(_port_offset)] = None
    frontend_host: Annotated[Text, AfterValidator(_name)] = "0.0.0.0"  # noqa: S104 - users come from other machines
    srun: list[SrunOption] = []
    slurm: SlurmSchema = Field(default_factory=SlurmSchema)
    storage: StorageSchema = Field(default_factory=StorageSchema)
    nodes: NodesSchema = Field(default_factory=NodesSchema)

    @model_validator(mode="after")
    def _local_has_no_container(self) -> ClusterSchema:
        if self.scheduler == "local" and self.container.runtime != "none":
            raise ProfileError("profile-container", "scheduler 'local' runs no containers; expected container.runtime 'none'")
        return self
