"""From a Point to its Recipe: every engine flag and variable resolved, derived ones with their derivation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from recipegen.engine import Engine
from recipegen.engine.flag_catalogue import FlagCatalogue
from recipegen.errors import InputError, Problem
from recipegen.formula import FormulaError, parse_formula
from recipegen.model import EnvVar, Flag, Matrix, Point, Recipe, RoleRecipe, RoleShape
from recipegen.settings import Setting, merge_settings
from recipegen.sizing.role_sizes import block_inputs, own_block_size, shared_block_size, unknown_dtype


def make_recipe(matrix: Matrix, point: Point, engine: Engine) -> Recipe:
    """Resolve one point; raise InputError with every problem of its settings."""
    problems: list[Problem] = []
    roles = tuple(_make_role(matrix, point, shape, engine, problems) for shape in point.shapes)
    roles = _with_block_size(matrix, point, roles, engine, problems)
    if problems:
        raise InputError(problems)
    return Recipe(
        name=f"{matrix.name}-{point.name}",
        point=point.name,
        model=matrix.model,
        hardware=matrix.hardware,
        workload=matrix.workload,
        runtime=matrix.runtime,
        mtp=point.mtp,
        concurrency=point.concurrency,
        time_limit_s=point.time_limit_s,
        roles=roles,
        benchmark=matrix.benchmark,
        variants=matrix.variants,
        source=point.source,
        time_limit_source=point.time_limit_source,
        job=matrix.job,
        model_source=matrix.model_source,
        colocate=point.colocate,
    )


def _make_role(matrix: Matrix, point: Point, shape: RoleShape, engine: Engine, problems: list[Problem]) -> RoleRecipe:
    settings = merge_settings(matrix.common, matrix.roles[shape.role], point.overrides[shape.role])
    problems += _refused(settings.args + settings.derive, point, engine)
    events = shape.role in matrix.kv_events
    problems += _published_twice(settings.args, shape) if events else []
    flags = {s.name: Flag(name=s.name, value=s.value, source=s.source) for s in settings.args if s.value is not None}
    if matrix.workload.stated:
        flags["max-model-len"] = Flag(name="max-model-len", value=matrix.workload.max_model_len, source=matrix.workload.source)
    for flag in engine.topology_flags(shape.topology):
        flags[flag.name] = replace(flag, source=shape.source)
    for flag in engine.speculation_flags(point.mtp):
        flags[flag.name] = replace(flag, source=point.source)
    problems += _derive(matrix, point, shape, settings.derive, flags)
    return RoleRecipe(
        role=shape.role,
        workers=shape.workers,
        topology=shape.topology,
        flags=_sorted(flags),
        env=tuple(_variables(settings.env)),
        unset_env=tuple(s.name for s in settings.env if s.value is None),
        kv_events=events,
        source=shape.source,
    )


def _variables(settings: tuple[Setting, ...]) -> Iterator[EnvVar]:
    for setting in sorted(settings, key=lambda s: s.name):
        if setting.value is not None:
            yield EnvVar(name=setting.name, value=str(setting.value), source=setting.source)


def _sorted(flags: Mapping[str, Flag]) -> tuple[Flag, ...]:
    return tuple(flags[name] for name in sorted(flags))


def _refused(settings: tuple[Setting, ...], point: Point, engine: Engine) -> list[Problem]:
    owned = engine.owned_flags()
    problems = []
    for setting in settings:
        head = setting.name.partition(".")[0]
        if head in owned:
            problems.append(Problem(setting.name_place, f"'{setting.name}' cannot be set here: {owned[head]}", rule="flag-owned"))
        elif point.mtp and head == "speculative-config":
            message = f"'{setting.name}' and `mtp: {point.mtp}` of point {point.name} both decide on speculation"
            problems.append(Problem(setting.source, message, rule="speculation-twice"))
    return problems


def _published_twice(args: tuple[Setting, ...], shape: RoleShape) -> list[Problem]:
    """Flags that decide on KV events, beside the matrix's key, which gives them a port of the job."""
    found = [s for s in args if s.name.partition(".")[0] == "kv-events-config" and s.value is not None]
    message = "'{}' of {} and `kv_events` both decide on KV events: vLLM would be given both, and take the last"
    return [Problem(s.name_place, message.format(s.name, shape.role.value), "leave one of the two", "kv-events") for s in found]


def _derive(matrix: Matrix, point: Point, shape: RoleShape, derive: tuple[Setting, ...], flags: dict[str, Flag]) -> list[Problem]:
    """Add the derived flags, in the order written: a formula may use names derived before it. Return what is wrong with them."""
    values = _names(matrix, point, shape)
    own = (*(s.name for s in derive), *(f.name for f in flags.values() if f.source.file and "." not in f.name))
    told = sorted({*values, *map(_variable, own)})
    failed: set[str] = set()
    values |= {_variable(f.name): f.value for f in flags.values() if isinstance(f.value, int) and not isinstance(f.value, bool)}
    problems = []
    for setting in derive:
        try:
            formula = parse_formula(str(setting.value))
            if failed & formula.names.keys():
                failed.add(_variable(setting.name))
                continue  # it rests on one that is complained of already
            value = formula.evaluate(values)
            if value < 0:
                raise FormulaError(f"'{formula.show(values)}' gives {value}; a size cannot be negative")
        except FormulaError as error:
            known = f"; known here: {', '.join(name for name in told if name in values)}" if "unknown name" in str(error) else ""
            failed.add(_variable(setting.name))
            problems.append(Problem(setting.source, f"'{setting.name}' of point {point.name}: {error}{known}", rule="formula"))
            continue
        values[_variable(setting.name)] = value
        flags[setting.name] = Flag(name=setting.name, value=value, derivation=formula.show(values), source=setting.source)
    return problems


def _names(matrix: Matrix, point: Point, shape: RoleShape) -> dict[str, int]:
    topology, workload = shape.topology, matrix.workload
    return {
        "sized_for": point.sized_for,
        "tp": topology.tp,
        "pp": topology.pp,
        "dp": topology.dp,
        "ep": topology.ep_size,
        "mtp": point.mtp,
        "isl": workload.isl,
        "osl": workload.osl,
        **({"max_model_len": workload.max_model_len} if workload.stated else {}),
    }


def _variable(flag: str) -> str:
    return flag.replace("-", "_")


def _with_block_size(matrix: Matrix, point: Point, roles: tuple[RoleRecipe, ...], engine: Engine, problems: list[Problem]) -> tuple[RoleRecipe, ...]:
    """Set `block-size` on both sides of a hybrid model when their natural sizes differ.

    NIXL compares kernel blocks at the handshake and refuses what does not divide; equal blocks are always safe, and the larger of
    the two is the smallest that both can take.
    """
    architecture = matrix.model.architecture
    if architecture is None or architecture.linear is None or len(roles) == 1 or any(role.flag("block-size") is not None for role in roles):
        return roles
    if len({block_inputs(architecture, role, mtp=point.mtp) for role in roles}) == 1:
        return roles  # whatever it is, it is the same on both sides
    if unknown := next((found for role in roles if (found := unknown_dtype(role))), ""):
        if _is_cache_dtype(unknown, engine.catalogue(matrix.runtime)):
            message = f"point {point.name}: no block size is known for a cache of type '{unknown}'"
            problems.append(Problem(point.source, message, "set block-size on both sides", "block-size-unknown"))
        return roles
    sizes = {role.role: own_block_size(architecture, role, mtp=point.mtp) for role in roles}
    if len(set(sizes.values())) == 1:
        return roles
    note = ", ".join(f"{role.value} alone: {size}" for role, size in sizes.items()) + "; NIXL needs one for both"
    block = shared_block_size(architecture, roles, mtp=point.mtp)
    flag = Flag(name="block-size", value=block, derivation=note, source=point.source)
    return tuple(replace(role, flags=_sorted({f.name: f for f in (*role.flags, flag)})) for role in roles)


def _is_cache_dtype(name: str, catalogue: FlagCatalogue) -> bool:
    """Whether the engine takes it; of what it does not, the rules on flags speak."""
    uses = (catalogue.find(flag) for flag in ("kv-cache-dtype", "mamba-cache-dtype", "mamba-ssm-cache-dtype"))
    return any(use is not None and name in use.spec.choices for use in uses)
