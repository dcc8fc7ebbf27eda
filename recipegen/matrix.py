"""From the text of a matrix to Matrix and its Points."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from recipegen.benchmarks import make_benchmark
from recipegen.catalogue import hardware_keys, load_hardware, load_model, model_keys
from recipegen.errors import NOWHERE, InputError, Problem, near_match
from recipegen.job_variables import why_reserved
from recipegen.matrix_parts import canonical_flag, control_character, event_roles, job_settings, pinned_model, split_hardware, workload_of
from recipegen.model import Allowance, Benchmark, Dynamo, HardwareSpec, Matrix, ModelSpec, Point, Role, RoleShape, Runtime, Variant
from recipegen.settings import KeyPlace, RoleSettings, Setting, Value, merge_settings
from recipegen.topology import NotationError, mixed_ep, parse_shape, point_name
from recipegen.yamlsource import Document, parse_yaml, validate

if TYPE_CHECKING:
    from recipegen.matrix_schema import BenchmarkSchema, MatrixSchema, PointSchema, SettingsSchema, ShapeSchema

__all__ = ["canonical_flag", "parse_duration", "parse_matrix"]

LAST_HOUR = 23
"""Of a day, beside a number of days."""
MIN_TIME_LIMIT_S = 120

_T = TypeVar("_T")
_Path = tuple[str | int, ...]


def parse_matrix(text: str | bytes, file: str) -> Matrix:
    """Parse a matrix; raise InputError with every problem and its place.

    `file` is the name that messages carry. Models and hardware come from the shipped data.
    """
    from recipegen.matrix_schema import MatrixSchema

    document = parse_yaml(text, file)
    return _Builder(document, validate(document, MatrixSchema)).build()


class _Builder:
    """Collects problems while it turns the validated file into the domain."""

    def __init__(self, document: Document, raw: MatrixSchema) -> None:
        self.document, self.raw = document, raw
        self.problems: list[Problem] = []

    def build(self) -> Matrix:
        raw = self.raw
        model, hardware = self._model(), self._hardware()
        common = self._settings(raw.common, ("common",))
        roles = {role: self._settings(getattr(raw, role.value), (role.value,)) for role in Role}
        shapes = [self._shapes(index, point) for index, point in enumerate(raw.points)]
        points = self._named_points(shapes)
        runtime = self._runtime()
        benchmark = self._benchmark(raw.benchmark, ("benchmark",))
        variants = [Variant(name=n, benchmark=self._benchmark(v.benchmark, ("variants", n, "benchmark"))) for n, v in raw.variants.items()]
        allow = self._allow(points)
        self._check_path(("setup_script",), raw.setup_script)
        job = job_settings(raw, self.document, self.problems)
        kv_events = event_roles(raw.kv_events, self.document, self.problems)
        if self.problems or model is None or hardware is None:
            raise InputError(self.problems)
        return Matrix(
            file=self.document.file,
            name=raw.name,
            model=model,
            hardware=hardware,
            workload=workload_of(raw.workload, model, self.document),
            runtime=runtime,
            common=common,
            roles=roles,
            points=points,
            benchmark=benchmark,
            variants=tuple(variants),
            allow=allow,
            job=job,
            kv_events=kv_events,
            model_source=self.document.source("model"),
        )

    def _problem(self, rule: str, path: _Path, message: str, hint: str = "") -> None:
        self.problems.append(Problem(self.document.source(*path), message, hint, rule))

    def _key_problem(self, rule: str, path: _Path, message: str) -> None:
        self.problems.append(Problem(self.document.key_source(*path), message, rule=rule))

    def _model(self) -> ModelSpec | None:
        raw = self.raw.model
        if isinstance(raw, str):
            return self._load(load_model, raw, ("model",), model_keys)
        self._check_path(("model", "repo"), raw.repo)
        if raw.architecture is None:
            return pinned_model(raw, None)
        known = self._load(load_model, raw.architecture, ("model", "architecture"), model_keys)
        return pinned_model(raw, known) if known else None

    def _hardware(self) -> HardwareSpec | None:
        raw = self.raw.hardware
        if isinstance(raw, str):
            return self._load(load_hardware, raw, ("hardware",), hardware_keys)
        known = self._load(load_hardware, raw.type, ("hardware", "type"), hardware_keys)
        return split_hardware(known, raw.gpus_per_node) if known else None

    def _load(self, load: Callable[[str], _T], key: str, path: tuple[str, ...], known: Callable[[], Iterable[str]]) -> _T | None:
        try:
            return load(key)
        except InputError as error:
            if error.problems:
                self.problems.extend(error.problems)
            else:
                message = f"no {path[0]} is called '{key}'"
                self._problem(f"{path[0]}-unknown", path, message, error.hint or f"known: {', '.join(known())}")
            return None

    def _runtime(self) -> Runtime:
        dynamo = self.raw.runtime.dynamo
        needs_source = dynamo.install in {"wheel", "git"}
        if needs_source != (dynamo.source is not None):
            wanted = "needs a `source`" if needs_source else "takes no `source`"
            self._problem("dynamo-source", ("runtime", "dynamo"), f"install: {dynamo.install} {wanted}")
        if dynamo.install == "pip" and dynamo.version is None:
            self._problem("dynamo-source", ("runtime", "dynamo"), "install: pip needs a `version`")
        self._check_path(("runtime", "image"), self.raw.runtime.image)
        self._check_path(("runtime", "dynamo", "source"), dynamo.source)
        return Runtime(
            image=self.raw.runtime.image,
            vllm=self.raw.runtime.vllm or "",
            dynamo=Dynamo(version=dynamo.version or "", install=dynamo.install, source=dynamo.source or "", request_plane=dynamo.request_plane),
            image_source=self.document.source("runtime", "image"),
            vllm_source=self.document.source("runtime", "vllm"),
        )

    def _check_path(self, path: _Path, text: str | None) -> None:
        if ".." in re.split("[/:]", text or ""):
            self._problem("path-traversal", path, f"'{text}' climbs out of its folder by '..'", "write the path that it leads to")

    def _benchmark(self, raw: BenchmarkSchema, path: _Path) -> Benchmark:
        given = raw.model_dump(exclude_none=True, exclude={"type"})
        for name in ("tokenizer", "dataset_path", "trace_file"):
            self._check_path((*path, name), given.get(name))
        settings = {name: tuple(v) if isinstance(v, list) else float(v) if v == "inf" else v for name, v in given.items()}
        places = {name: self.document.key_source(*path, name) for name in given}
        written = path[0] in self.raw.model_fields_set
        return make_benchmark(raw.type, settings, places=places, source=self.document.source(*path, "type") if written else NOWHERE)

    def _allow(self, points: tuple[Point, ...]) -> tuple[Allowance, ...]:
        known = {point.name for point in points}
        whole = len(points) == len(self.raw.points)  # else a name may be that of a point which cannot be read
        for index, raw in enumerate(self.raw.allow):
            for number, name in enumerate(raw.points or ()):
                if whole and name not in known:
                    self._problem("allow-point", ("allow", index, "points", number), f"no point is called '{name}'", near_match(name, known))
        return tuple(
            Allowance(rule=raw.rule, reason=raw.reason, points=tuple(raw.points or ()), source=self.document.source("allow", index))
            for index, raw in enumerate(self.raw.allow)
        )

    def _settings(self, raw: SettingsSchema, path: _Path) -> RoleSettings:
        args = self._section(raw.args, (*path, "args"), self._value, canonical_flag)
        derive = self._section(raw.derive, (*path, "derive"), lambda _, text: text, canonical_flag)
        for setting in derive:
            if any(setting.name == other.name for other in args):
                self.problems.append(Problem(setting.name_place, f"'{setting.name}' stands in args and in derive", rule="flag-twice"))
        for name, value in raw.env.items():
            if why := why_reserved(name):
                self._key_problem("env-reserved", (*path, "env", name), f"'{name}' {why}")
            if bad := control_character(value or ""):
                self._problem("env-value", (*path, "env", name), f"the value holds a control character, {bad}; expected one line of text")
        env = self._section(raw.env, (*path, "env"), lambda _, text: text, str)
        return RoleSettings(args=args, derive=derive, env=env, source=self.document.key_source(*path))

    def _section(
        self,
        raw: Mapping[str, Any],
        path: _Path,
        read: Callable[[_Path, Any], Value | None],
        canonical: Callable[[str], str],
    ) -> tuple[Setting, ...]:
        found: dict[str, Setting] = {}
        for key, value in raw.items():
            name = canonical(key)
            if name in found:
                self._key_problem("flag-twice", (*path, key), f"'{key}' and an earlier key are the same flag '{name}'")
            found[name] = Setting(
                name=name,
                value=read((*path, key), value),
                source=self.document.source(*path, key),
                key_source=self.document.key_source(*path, key),
                places=tuple(KeyPlace(*place) for place in self.document.places(*path, key)),
            )
        return tuple(found.values())

    def _value(self, path: _Path, value: Any) -> Value | None:  # noqa: ANN401 - whatever YAML holds
        if isinstance(value, dict):
            return json.dumps(value, ensure_ascii=False)
        if isinstance(value, list):
            if value and all(isinstance(v, str | int | float) and not isinstance(v, bool) for v in value):
                return tuple(value)
            self._problem("flag-value", path, "a list must hold at least one string or number, and nothing else")
            return None
        if isinstance(value, str) and not value:
            self._problem("flag-value", path, "the value is empty", "leave the flag out, or write null to take back an inherited one")
        return value if value is None or isinstance(value, str | int | float) else None

    def _shapes(self, index: int, raw: PointSchema) -> tuple[RoleShape, ...]:
        given = [role for role in Role if getattr(raw, role.value) is not None]
        if given not in ([Role.PREFILL, Role.DECODE], [Role.AGG]):
            self._problem("roles", ("points", index), "a point has `prefill` and `decode`, or `agg` alone")
            return ()
        found = [self._shape(index, role, getattr(raw, role.value)) for role in given]
        return tuple(shape for shape in found if shape is not None)

    def _shape(self, index: int, role: Role, raw: str | ShapeSchema) -> RoleShape | None:
        text = raw if isinstance(raw, str) else raw.shape
        path = ("points", index, role.value, *(() if isinstance(raw, str) else ("shape",)))
        try:
            workers, topology = parse_shape(text, ep=self._ep(role))
        except NotationError as error:
            self._problem("topology-notation", path, str(error))
            return None
        if not isinstance(raw, str) and raw.gpus is not None and raw.gpus != topology.gpus:
            sizes = f"TP{topology.tp} x PP{topology.pp} x DP{topology.dp} = {topology.gpus}"
            self._problem("worker-gpus", (*path[:-1], "gpus"), f"a worker has {raw.gpus} GPUs, but {sizes} does not fill them")
        return RoleShape(role=role, workers=workers, topology=topology, source=self.document.source(*path))

    def _ep(self, role: Role) -> bool:
        switch = self.raw.expert_parallel
        return switch if isinstance(switch, bool) else bool(getattr(switch, role.value))

    def _named_points(self, shapes: list[tuple[RoleShape, ...]]) -> tuple[Point, ...]:
        both = mixed_ep(topology for point in shapes for topology in (s.topology for s in point))
        points: dict[str, Point] = {}
        for index, (raw, point_shapes) in enumerate(zip(self.raw.points, shapes, strict=True)):
            concurrency = self._concurrency(index, raw)
            overrides = self._overrides(index, raw)
            if not point_shapes:
                continue
            point = Point(
                name=point_name(point_shapes, raw.mtp, concurrency, both, colocate=raw.colocate),
                shapes=point_shapes,
                mtp=raw.mtp,
                concurrency=concurrency,
                sized_for=raw.sized_for or concurrency[-1],
                time_limit_s=parse_duration(raw.time_limit),
                overrides=overrides,
                source=self.document.source("points", index),
                time_limit_source=self.document.source("points", index, "time_limit"),
                colocate=raw.colocate,
            )
            self._check_point(index, point)
            if point.name in points:
                self._problem("point-twice", ("points", index), f"the point '{point.name}' stands twice, first at {points[point.name].source}")
            points.setdefault(point.name, point)
        return tuple(points.values())

    def _concurrency(self, index: int, raw: PointSchema) -> tuple[int, ...]:
        if sorted(set(raw.concurrency)) != raw.concurrency:
            self._problem("concurrency-order", ("points", index, "concurrency"), "concurrencies must rise and not repeat")
        return tuple(sorted(set(raw.concurrency)))

    def _overrides(self, index: int, raw: PointSchema) -> Mapping[Role, RoleSettings]:
        common = self._settings(raw.common, ("points", index, "common"))
        found = {}
        for role in Role:
            own = getattr(raw, role.value)
            settings = RoleSettings() if own is None or isinstance(own, str) else self._settings(own, ("points", index, role.value))
            found[role] = merge_settings(common, settings)
        return found

    def _check_point(self, index: int, point: Point) -> None:
        if point.time_limit_s < MIN_TIME_LIMIT_S:
            message = (
                f"a time limit below {MIN_TIME_LIMIT_S // 60} minutes leaves nothing beside start and tear-down (and zero is no limit for Slurm)"
            )
            self._problem("time-limit", ("points", index, "time_limit"), message)
        if point.colocate and len(point.shapes) == 1:
            message = "`colocate` is for prefill and decode workers, and this point has one role"
            self._problem("colocate", ("points", index, "colocate"), message, "leave it out")


def parse_duration(text: str) -> int:
    """Return the seconds of H:MM:SS or D-HH:MM:SS; ValueError for anything else, as Slurm reads a bare number as minutes."""
    found = re.fullmatch(r"(?:(\d{1,3})-)?(\d{1,3}):([0-5]\d):([0-5]\d)", text, re.ASCII)
    if not found or (found[1] and int(found[2]) > LAST_HOUR):
        raise ValueError(f"'{text}' is no duration; expected H:MM:SS or D-HH:MM:SS")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds
