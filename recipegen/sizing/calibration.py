"""Measured memory of one GPU, as data: one file for a model on a hardware type."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

from recipegen.errors import InputError
from recipegen.model import Topology
from recipegen.topology import NotationError, parse_topology
from recipegen.yamlsource import parse_yaml, validate


@dataclass(frozen=True, kw_only=True)
class MeasuredRow:
    """One measured configuration. Sizes are GiB on one GPU, rounded to 0.01 as vLLM logs them.

    kv = total x utilization - weights - non_torch - activation - graphs_estimate; `cuda_context` and `graphs_used` are what else
    was measured and lie outside of that sum.
    """

    run: int
    topology: Topology
    mtp: int
    max_num_seqs: int
    max_num_batched_tokens: int
    capture_size: int
    graphs: int
    cuda_context: float
    non_torch: float
    weights: float
    activation: float
    graphs_estimate: float
    graphs_used: float
    kv: float

    def __str__(self) -> str:
        return self._name

    @cached_property
    def _name(self) -> str:
        """A row is named in every size that it gives or that is estimated by it."""
        speculation = f"MTP {self.mtp}" if self.mtp else "no MTP"
        return f"run {self.run} ({self.topology}, {speculation}, max-num-seqs {self.max_num_seqs})"


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Rows of one model on one hardware type, and the settings that they were measured with."""

    model: str
    hardware: str
    source: str
    vllm: str
    gpu_memory_utilization: float
    max_model_len: int
    kv_cache_dtype: str
    mamba_ssm_cache_dtype: str
    all2all_backend: str
    cudagraph_mode: str
    rows: tuple[MeasuredRow, ...]

    def __hash__(self) -> int:
        """By what tells calibrations apart already: estimates are kept by it, and hashing every figure costs as much as making one."""
        return hash((self.model, self.hardware, self.source))


@cache
def load_calibration(model: str, hardware: str) -> Calibration | None:
    """Return the measured rows of a model on a hardware type, by key; None where there are none. InputError for a faulty file."""
    name = f"{model}-{hardware}.yaml"
    file = files("recipegen") / "data" / "calibration" / name
    if "/" in name or not file.is_file():
        return None
    return parse_calibration(file.read_bytes(), f"data/calibration/{name}")


def parse_calibration(text: bytes, file: str) -> Calibration:
    """Return the calibration that a file states; InputError with every problem."""
    from recipegen.sizing.calibration_schema import CalibrationSchema

    data = validate(parse_yaml(text, file), CalibrationSchema)
    try:
        rows = tuple(MeasuredRow(**{**dict(row), "topology": parse_topology(row.topology)}) for row in data.rows)
    except NotationError as error:
        raise InputError(f"{file}: {error}") from error
    return Calibration(**{**dict(data), "rows": rows})
