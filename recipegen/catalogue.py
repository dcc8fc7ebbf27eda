"""The shipped data: models and hardware, each one YAML file whose name is its key."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from recipegen.architecture import Architecture, Attention, LinearAttention, Mla, Moe
from recipegen.errors import InputError, near_match
from recipegen.model import HardwareSpec, ModelSpec
from recipegen.yamlsource import parse_yaml, validate

if TYPE_CHECKING:
    from recipegen.matrix_schema import ArchitectureSchema


def model_keys() -> tuple[str, ...]:
    """Keys of all models."""
    return _keys("models")


def hardware_keys() -> tuple[str, ...]:
    """Keys of all hardware types."""
    return _keys("hardware")


@cache
def load_model(key: str) -> ModelSpec:
    """Return a model by key; InputError names a near match."""
    from recipegen.matrix_schema import ModelSchema

    data = validate(parse_yaml(_read("models", key, model_keys()), f"data/models/{key}.yaml"), ModelSchema)
    architecture = make_architecture(data.architecture) if data.architecture else None
    return ModelSpec(key=key, **{**dict(data), "architecture": architecture})


def make_architecture(data: ArchitectureSchema) -> Architecture:
    """Return a validated architecture as the domain has it."""
    attention, linear, moe = data.attention, data.linear, data.moe
    mla = Mla(**dict(attention.mla)) if attention.mla else None
    parts = {
        "attention": Attention(**{**dict(attention), "mla": mla}),
        "linear": LinearAttention(**dict(linear)) if linear else None,
        "moe": Moe(**dict(moe)) if moe else None,
    }
    return Architecture(**{**dict(data), **parts})


@cache
def load_hardware(key: str) -> HardwareSpec:
    """Return a hardware type by key; InputError names a near match."""
    from recipegen.matrix_schema import HardwareSchema

    data = validate(parse_yaml(_read("hardware", key, hardware_keys()), f"data/hardware/{key}.yaml"), HardwareSchema)
    return HardwareSpec(key=key, **dict(data))


@cache
def _keys(kind: str) -> tuple[str, ...]:
    folder = files("recipegen") / "data" / kind
    return tuple(sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")))


def _read(kind: str, key: str, known: Iterable[str]) -> bytes:
    if key not in known:
        raise InputError(f"unknown {kind} entry '{key}' (known: {', '.join(known)})", hint=near_match(key, known))
    return (files("recipegen") / "data" / kind / f"{key}.yaml").read_bytes()
