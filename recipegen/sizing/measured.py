"""The measured rows of a model on a hardware type beside what sizing makes of their settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from recipegen.model import HardwareSpec, ModelSpec
from recipegen.sizing.calibration import Calibration, MeasuredRow, load_calibration
from recipegen.sizing.role_sizes import room_for
from recipegen.sizing.sizes import RoleSizes, Room
from recipegen.sizing.what_if import Assumptions, size_topology


@dataclass(frozen=True, kw_only=True)
class MeasuredSizes:
    """A measured row and its derived sizes. Of GiB, `sizes` has the weights as derived, and the room of the measured KV cache.

    `kv_gib` is what the measured parts leave by the budget's rule. `paired_block` is the block size that this role has to take
    when it is paired with the row of the same speculation whose own block is largest, `paired_room` its room then; both None
    where that is its own.
    """

    row: MeasuredRow
    sizes: RoleSizes
    kv_gib: float
    room: Room
    paired_block: int | None
    paired_room: Room | None


def measured_rows(model: ModelSpec, hardware: HardwareSpec) -> tuple[MeasuredRow, ...]:
    """Return the measured rows of a model on a hardware type; empty where there are none."""
    calibration = load_calibration(model.key, hardware.key)
    return calibration.rows if calibration else ()


def size_measured(model: ModelSpec, hardware: HardwareSpec, row: MeasuredRow) -> MeasuredSizes:
    """Return a row's derived sizes. ValueError for a model or hardware type without measured rows."""
    calibration = load_calibration(model.key, hardware.key)
    if calibration is None or model.architecture is None:
        raise ValueError(f"no measured rows of {model.key} on {hardware.key}")
    sizes = _sizes(model, hardware, calibration, row)
    kin = [r for r in calibration.rows if r.mtp == row.mtp]
    block = max(_sizes(model, hardware, calibration, r).blocks.natural for r in kin)
    parts = row.weights + row.non_torch + row.activation + row.graphs_estimate
    room = sizes.room
    if room is None:
        raise ValueError(f"the rows of {model.key} on {hardware.key} were measured with cache types of unknown size")
    paired = block != sizes.blocks.natural
    return MeasuredSizes(
        row=row,
        sizes=sizes,
        kv_gib=hardware.gpu_memory_gib * calibration.gpu_memory_utilization - parts,
        room=room,
        paired_block=block if paired else None,
        paired_room=_sizes(model, hardware, calibration, row, block=block).room if paired else None,
    )


def _sizes(model: ModelSpec, hardware: HardwareSpec, calibration: Calibration, row: MeasuredRow, *, block: int | None = None) -> RoleSizes:
    """Sizes of a row's settings, with the KV cache that was measured."""
    assume = Assumptions(
        vllm=calibration.vllm,
        kv_cache_dtype=calibration.kv_cache_dtype,
        mamba_ssm_cache_dtype=calibration.mamba_ssm_cache_dtype,
        all2all_backend=calibration.all2all_backend,
        cudagraph_mode=calibration.cudagraph_mode,
        gpu_memory_utilization=calibration.gpu_memory_utilization,
        block_size=block,
        max_model_len=calibration.max_model_len,
        max_num_seqs=row.max_num_seqs,
        max_num_batched_tokens=row.max_num_batched_tokens,
        capture_size=row.capture_size,
    )
    recipe, sizes = size_topology(model, hardware, row.topology, mtp=row.mtp, isl=0, osl=0, assume=assume)
    if sizes is None:
        raise ValueError(f"{model.key} has no architecture")
    return replace(sizes, room=room_for(recipe, sizes.role, row.kv))
