"""The shape of what a matrix may say of its model, its machine and the job around the engines."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictInt

from recipegen.cluster_schema import SbatchName, SbatchValue, Seconds, SrunOption
from recipegen.schema_types import Count, EnvName, FlagName, Matching, Strict

_NAME = "[A-Za-z0-9][A-Za-z0-9._-]*"
Repo = Annotated[
    str,
    Matching(rf"^({_NAME}(/[A-Za-z0-9._-]+)?|/[A-Za-z0-9._/+@=-]+)$", "ORG/NAME on the hub, a name without '/', or an absolute path", most=300),
]
ServedName = Annotated[
    str, Matching(r"^[A-Za-z0-9/][A-Za-z0-9._/:@+=-]*$", "a name that clients ask for: letters, digits and . _ / : @ + = -", most=300)
]
ImageName = Annotated[str, Matching(r"^[A-Za-z0-9./][A-Za-z0-9._/:@#+=-]*$", "an image: a name with tag or digest, or a path", most=300)]
HeaderName = Annotated[str, Matching(r"^[A-Za-z][A-Za-z0-9-]*$", "the name of a request header: letters, digits and -", most=100)]
ArgumentText = Annotated[str, Matching(r"^[ -~]*[!-~][ -~]*$", "one line of plain text", most=1000)]


class ModelPinSchema(Strict):
    """A model that is no file of data/models/, or another pin of one: `architecture` names the file whose numbers it has."""

    repo: Repo
    revision: Annotated[str, Matching(r"^[0-9a-f]{40}$", "40 hex digits: the commit")] | None = None
    served_name: ServedName | None = None
    architecture: str | None = None


class HardwareSplitSchema(Strict):
    """A machine type of data/hardware/ whose nodes have another number of GPUs here."""

    type: str
    gpus_per_node: Count


class SlurmOptionsSchema(Strict):
    """Further Slurm options that the recipe asks for: of the job, and of its workers' steps."""

    sbatch: dict[SbatchName, SbatchValue] = {}
    srun: list[SrunOption] = []


class InfraSchema(Strict):
    """Where discovery and the front end stand."""

    dedicated_node: bool = False


class ReadySchema(Strict):
    """How long this recipe's start may take."""

    ready: Seconds | None = None


class FrontendSchema(Strict):
    """The Dynamo front end: further arguments, variables, and how many of it stand behind nginx."""

    args: dict[FlagName, Literal[True] | StrictInt | float | ArgumentText] = {}
    env: dict[EnvName, str] = {}
    replicas: Annotated[int, Field(ge=1, le=64)] = 1
    nginx_image: ImageName | None = None
    session_header: HeaderName | None = None
