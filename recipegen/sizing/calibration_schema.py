"""The shape of `data/calibration/*.yaml`, for validation."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from recipegen.matrix_schema import Count, Size, Strict

Gib = Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1)]


class RowSchema(Strict):
    """One measured configuration; sizes in GiB on one GPU."""

    run: Count
    topology: str
    mtp: Size
    max_num_seqs: Count
    max_num_batched_tokens: Count
    capture_size: Count
    graphs: Size
    cuda_context: Gib
    non_torch: Gib
    weights: Gib
    activation: Gib
    graphs_estimate: Gib
    graphs_used: Gib
    kv: Gib


class CalibrationSchema(Strict):
    """What holds for all rows of one model on one hardware type, and the rows."""

    model: str
    hardware: str
    source: str
    vllm: str
    gpu_memory_utilization: Share
    max_model_len: Count
    kv_cache_dtype: str
    mamba_ssm_cache_dtype: str
    all2all_backend: str
    cudagraph_mode: Literal["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"]
    rows: Annotated[list[RowSchema], Field(min_length=1, max_length=1000)]
