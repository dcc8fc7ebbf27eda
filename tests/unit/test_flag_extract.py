"""The extractor on a small package tree that is written here, with the constructs that vLLM's argument code uses."""

from __future__ import annotations

import importlib.util
import os
import zipfile
from importlib.resources import files
from pathlib import Path

import pytest

from recipegen.engine.flag_format import FlagTable, dump_flags
from recipegen.engine.flag_spec import FlagKind, FlagSpec
from recipegen.errors import InputError
from recipegen.flag_extract.extract import extract_flags

TREE = {
    "vllm/config/__init__.py": "from vllm.config.cache import CacheConfig\nfrom .model import ModelConfig, OtherConfig\n",
    "vllm/config/utils.py": "def config(cls=None, **kwargs): ...\n",
    "vllm/config/enums.py": """\
import enum
class Mode(enum.IntEnum):
    NONE = 0
    FULL = 2
class Backend(enum.Enum):
    FLASH = "vllm.flash.Backend"
    TRITON = "vllm.triton.Backend"
class Shape(str, enum.Enum):
    BACKED = "backed"
""",
    "vllm/config/cache.py": """\
from typing import ClassVar, Literal, Optional, Union
from dataclasses import field
from pydantic import Field
from vllm.config.utils import config
Kinds = Literal["auto", "fp8"]
More = Literal[Kinds, "nvfp4", None]
MIB = 1024 * 1024
@config
class CacheConfig:
    DEFAULT: ClassVar[int] = 16
    block_size: int = Field(default=None, gt=0)
    fraction: float = Field(default=0.92, gt=0, le=1)
    dtype: Kinds = "auto"
    other_dtype: Optional[More] = None
    open_dtype: Union[Literal["b", "a"], str] = "a"
    rank: Literal[16, 1, 8] = 16
    skip: list[str] = field(default_factory=list)
    sizes: "list[int] | None" = None
    mixed: list[int | str] | None = None
    traces: list[Literal["model", "worker"]] | None = None
    prefix_caching: bool = True
    maybe: bool | None = None
    token: bool | str | None = None
    budget: int | None = None
    buffer: int = MIB * 16
    extra: dict[str, str] = field(default_factory=dict)
    extra_or_name: dict[str, str] | str = field(default_factory=dict)
    derived: int = field(default=0, init=False)
""",
    "vllm/config/model.py": """\
from __future__ import annotations
from dataclasses import InitVar, field
from typing import TYPE_CHECKING, Annotated, Any
from pydantic import Field, BeforeValidator, SkipValidation, field_validator
from vllm.config.enums import Backend, Mode, Shape
from vllm.config.utils import config
if TYPE_CHECKING:
    from elsewhere import Methods
else:
    Methods = Any
@config
class Base:
    inherited: int = 1
@config(config=dict(arbitrary_types_allowed=True))
class Inner(Base):
    level: int = Field(default=1, ge=0)
    backend: Backend | None = None
    lower: Annotated[str, BeforeValidator(str)] = ""
    @field_validator("backend", mode="before")
    @classmethod
    def _look_up(cls, value: Any) -> Any:
        if isinstance(value, str):
            if value.lower() == "auto":
                return None
            if value.upper() == "GONE":
                raise ValueError("gone")
            return Backend[value.upper()]
        return value
class Plain:
    x: int
@config
class OtherConfig:
    mode: Mode = Mode.NONE
    shape: Shape = Shape.BACKED
    inner: Inner = field(default_factory=Inner)
    skipped: SkipValidation[Inner] = None
    plain: Plain | None = None
    union: int | list[int] = 0
    only_at_start: InitVar[int] = 0
    _hidden: int = 0
@config
class ModelConfig:
    max_model_len: int = Field(default=None, ge=-1)
    method: Methods | str | None = None
    other: OtherConfig | None = None
""",
    "vllm/engine/arg_utils.py": """\
import argparse
from vllm.config import CacheConfig, ModelConfig, OtherConfig
def _compute_kwargs(cls):
    human_readable_int_args = {
        "budget",
    }
class EngineArgs:
    @staticmethod
    def add_cli_args(parser):
        model_kwargs = get_kwargs(ModelConfig)
        group = parser.add_argument_group(title="ModelConfig")
        if not ("serve" in sys.argv[1:]):
            group.add_argument("--max-model-len", **model_kwargs["max_model_len"])
        group.add_argument("--method", "-m", **model_kwargs["method"])
        group.add_argument("--other-config", "-oc", **model_kwargs["other"])
        cache_kwargs = get_kwargs(CacheConfig)
        for_dtype = cache_kwargs["dtype"]
        for_dtype["type"] = lambda s: s.lower().replace("-", "_")
        group.add_argument("--cache-dtype", **for_dtype)
        group.add_argument("--other-dtype", **cache_kwargs["other_dtype"])
        group.add_argument("--open-dtype", **cache_kwargs["open_dtype"])
        group.add_argument("--rank", **cache_kwargs["rank"])
        group.add_argument("--block-size", **{**cache_kwargs["block_size"], "default": 32})
        group.add_argument("--fraction", **cache_kwargs["fraction"])
        group.add_argument("--skip", **cache_kwargs["skip"])
        group.add_argument("--sizes", **cache_kwargs["sizes"])
        group.add_argument("--mixed", **cache_kwargs["mixed"])
        cache_kwargs["traces"]["choices"] += [f(x) for x in y]
        group.add_argument("--traces", **cache_kwargs["traces"])
        group.add_argument("--enable-prefix-caching", **cache_kwargs["prefix_caching"])
        group.add_argument("--maybe", **cache_kwargs["maybe"])
        group.add_argument("--token", **cache_kwargs["token"])
        group.add_argument("--budget", **cache_kwargs["budget"])
        group.add_argument("--buffer", **cache_kwargs["buffer"])
        cache_kwargs["extra"]["type"] = optional_type(json.loads)
        group.add_argument("--extra", **cache_kwargs["extra"])
        group.add_argument("--extra-or-name", **cache_kwargs["extra_or_name"])
        other_kwargs = get_kwargs(OtherConfig)
        group.add_argument("--mode", **other_kwargs["mode"])
        group.add_argument("--local-size", "-ls", type=int, help="of this node")
        group.add_argument("--ids", type=lambda s: s.split(","), default=None)
        group.add_argument("--log", action=argparse.BooleanOptionalAction, default=False)
        group.add_argument("--quiet", action="store_true")
        group.add_argument("--prefill-backend", choices=["flashinfer", "triton"], default=None)
        return parser
class AsyncEngineArgs(EngineArgs):
    @staticmethod
    def add_cli_args(parser, async_args_only=False):
        if not async_args_only:
            parser = EngineArgs.add_cli_args(parser)
        parser.add_argument("--log-requests", action=argparse.BooleanOptionalAction)
        return parser
""",
    "vllm/entrypoints/cli/serve.py": "from vllm.entrypoints.args import make_arg_parser\n",
    "vllm/entrypoints/args.py": """\
from typing import Literal
from vllm.config.utils import config
from vllm.engine.arg_utils import AsyncEngineArgs
@config
class BaseFrontendArgs:
    chat_template: str | None = None
    kwargs: dict[str, str] | None = None
    @classmethod
    def _customize(cls, frontend_kwargs):
        frontend_kwargs["kwargs"]["type"] = json.loads
        return frontend_kwargs
    @classmethod
    def add_cli_args(cls, parser):
        frontend_kwargs = get_kwargs(cls)
        frontend_kwargs = cls._customize(frontend_kwargs)
        group = parser.add_argument_group(title="Frontend")
        for key, value in frontend_kwargs.items():
            group.add_argument(f"--{key.replace('_', '-')}", **value)
        return parser
@config
class FrontendArgs(BaseFrontendArgs):
    port: int = 8000
    level: Literal["info", "debug"] = "info"
    origins: list[str] = field(default_factory=list)
    middleware: list[str] = field(default_factory=list)
    @classmethod
    def _customize(cls, frontend_kwargs):
        frontend_kwargs = super()._customize(frontend_kwargs)
        frontend_kwargs["origins"]["type"] = json.loads
        del frontend_kwargs["origins"]["nargs"]
        frontend_kwargs["middleware"]["action"] = "append"
        return frontend_kwargs
def make_arg_parser(parser):
    parser.add_argument("model_tag", type=str, nargs="?")
    parser.add_argument("--headless", action="store_true", default=False)
    parser.add_argument("--api-server-count", "-asc", type=int, default=None)
    parser = FrontendArgs.add_cli_args(parser)
    parser = AsyncEngineArgs.add_cli_args(parser)
    return parser
""",
}


def write_tree(root: Path, tree: dict[str, str] | None = None) -> Path:
    for name, text in (tree or TREE).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def write_wheel(folder: Path, name: str = "vllm-0.99.0-cp38-abi3-manylinux_2_28_x86_64.whl") -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in TREE.items():
            archive.writestr(member, text)
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> FlagTable:
    return extract_flags(write_wheel(tmp_path_factory.mktemp("wheel")))


def spec(name: str, kind: FlagKind, **more: object) -> FlagSpec:
    return FlagSpec(name=name, kind=kind, **more)  # type: ignore[arg-type]


EXPECTED = [
    spec("max-model-len", FlagKind.INT_OR_AUTO, bounds={"ge": -1}),
    spec("method", FlagKind.STR, optional=True, aliases=("-m",)),
    spec("cache-dtype", FlagKind.ENUM, choices=("auto", "fp8"), default="auto", loose=True, hyphens=True),
    spec("other-dtype", FlagKind.ENUM, choices=("auto", "fp8", "nvfp4"), optional=True),
    spec("open-dtype", FlagKind.STR, default="a"),
    spec("rank", FlagKind.INT, choices=("1", "8", "16"), default=16),
    spec("block-size", FlagKind.INT, default=32, bounds={"gt": 0}),
    spec("fraction", FlagKind.FLOAT, default=0.92, bounds={"gt": 0, "le": 1}),
    spec("skip", FlagKind.LIST, item=FlagKind.STR),
    spec("sizes", FlagKind.LIST, item=FlagKind.INT, optional=True),
    spec("mixed", FlagKind.LIST, optional=True),
    spec("traces", FlagKind.LIST, item=FlagKind.STR, optional=True),
    spec("enable-prefix-caching", FlagKind.BOOL, default=True, negatable=True),
    spec("maybe", FlagKind.BOOL, negatable=True),
    spec("token", FlagKind.BOOL_OR_STR, optional=True),
    spec("budget", FlagKind.HUMAN_INT, optional=True),
    spec("buffer", FlagKind.INT, default=16 * 1024 * 1024),
    spec("extra", FlagKind.JSON),
    spec("extra-or-name", FlagKind.JSON_OR_STR),
    spec("mode", FlagKind.ENUM, choices=("0", "2")),
    spec("local-size", FlagKind.INT, aliases=("-ls",)),
    spec("ids", FlagKind.STR),
    spec("log", FlagKind.BOOL, default=False, negatable=True),
    spec("quiet", FlagKind.SWITCH, default=False),
    spec("prefill-backend", FlagKind.ENUM, choices=("flashinfer", "triton")),
    spec("log-requests", FlagKind.BOOL, negatable=True),
    spec("headless", FlagKind.SWITCH, default=False, engine=False),
    spec("api-server-count", FlagKind.INT, aliases=("-asc",), engine=False),
    spec("chat-template", FlagKind.STR, optional=True, engine=False),
    spec("kwargs", FlagKind.JSON, optional=True, engine=False),
    spec("port", FlagKind.INT, default=8000, engine=False),
    spec("level", FlagKind.ENUM, choices=("debug", "info"), default="info", engine=False),
    spec("origins", FlagKind.JSON, engine=False),
    spec("middleware", FlagKind.STR, engine=False),
]


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda flag: flag.name)
def test_a_flag_is_read_as_vllm_would_build_it(table: FlagTable, expected: FlagSpec) -> None:
    assert table.flags[expected.name] == expected


def test_no_other_flag_is_found(table: FlagTable) -> None:
    assert (table.program, table.version) == ("vllm", "0.99.0")
    assert set(table.flags) == {flag.name for flag in EXPECTED} | {"other-config"}


def test_the_keys_of_a_json_argument(table: FlagTable) -> None:
    """Derived and hidden fields are no keys; what validators or unions make of a value is not known, and taken for anything."""
    flag = table.flags["other-config"]
    assert (flag.kind, flag.optional, flag.aliases) == (FlagKind.JSON, True, ("-oc",))
    kinds = {name: (key.kind, key.choices) for name, key in flag.keys.items()}
    assert kinds == {
        "mode": (FlagKind.ENUM, ("0", "2")),
        "shape": (FlagKind.ENUM, ("backed",)),
        "inner": (FlagKind.JSON, ()),
        "skipped": (FlagKind.ANY, ()),
        "plain": (FlagKind.ANY, ()),
        "union": (FlagKind.ANY, ()),
        "only_at_start": (FlagKind.INT, ()),
    }
    assert flag.keys["inner"].keys == {
        "inherited": spec("inherited", FlagKind.INT, default=1),
        "level": spec("level", FlagKind.INT, default=1, bounds={"ge": 0}),
        "backend": spec("backend", FlagKind.ENUM, choices=("FLASH", "TRITON", "auto"), optional=True, loose=True),
        "lower": spec("lower", FlagKind.ANY, default=""),
    }


def test_wheel_folder_and_package_give_the_same(tmp_path: Path, table: FlagTable) -> None:
    root = write_tree(tmp_path / "unpacked")
    (root / "vllm-0.99.0.dist-info").mkdir()
    for path in (root, root / "vllm"):
        assert dump_flags(extract_flags(path)) == dump_flags(table)


def test_the_version_that_is_given_wins(tmp_path: Path) -> None:
    local = "vllm-0.26.1rc1.dev1177+ga9a17e709.cu129-cp38-abi3-manylinux_2_28_x86_64.whl"
    assert extract_flags(write_wheel(tmp_path, local)).version == "0.26.1rc1.dev1177+ga9a17e709.cu129"
    assert extract_flags(write_wheel(tmp_path), "0.26.1rc1.dev1177").version == "0.26.1rc1.dev1177"


DYNAMO = {
    "dynamo/vllm/args.py": """\
from dynamo.vllm.backend_args import Group
def parse_args(argv=None):
    group = Group()
    group.add_arguments(parser)
""",
    "dynamo/vllm/constants.py": "from dynamo.common.constants import Mode\n",
    "dynamo/common/constants.py": "from enum import Enum\nclass Mode(str, Enum):\n    AGG = 'agg'\n    PREFILL = 'prefill'\n",
    "dynamo/common/shared.py": """\
def add_decoding(g, *, env_prefix):
    add_negatable_bool_argument(g, flag_name="--decoding", env_var=f"DYN_{env_prefix}", default=False)
""",
    "dynamo/vllm/backend_args.py": """\
from dynamo.common.shared import add_decoding
from .constants import Mode
class Group:
    def add_arguments(self, parser):
        parser.add_argument("--version", action="version")
        add_argument(g, flag_name="--disaggregation-mode", default=None, choices=[m.value for m in Mode])
        add_argument(g, flag_name="--plane", default="tcp", choices=["tcp", "nats"], obsolete_flag="--old-plane")
        add_argument(g, flag_name="--parser", default=None, choices=names())
        add_argument(g, flag_name="--capacity", default=0, arg_type=float)
        add_argument(g, flag_name="--timeout", default=300, type=int)
        add_argument(g, flag_name="--connector", default=[], nargs="*")
        add_decoding(g, env_prefix="VLLM")
""",
}


def test_dynamos_own_flags(tmp_path: Path) -> None:
    """`type` of a call is overwritten by `arg_type`, whose default is text: the helper does so."""
    table = extract_flags(write_tree(tmp_path, DYNAMO), "1.2.1")
    assert (table.program, table.version) == ("dynamo", "1.2.1")
    assert list(table.flags.values()) == [
        spec("capacity", FlagKind.FLOAT, default=0),
        spec("connector", FlagKind.LIST, item=FlagKind.STR),
        spec("decoding", FlagKind.BOOL, default=False, negatable=True),
        spec("disaggregation-mode", FlagKind.ENUM, choices=("agg", "prefill")),
        spec("parser", FlagKind.STR),
        spec("plane", FlagKind.ENUM, choices=("tcp", "nats"), default="tcp", aliases=("--old-plane",)),
        spec("timeout", FlagKind.STR, default=300),
    ]


def test_the_installed_dynamo_has_the_shipped_flags() -> None:
    found = importlib.util.find_spec("dynamo")
    if found is None or not found.submodule_search_locations:
        pytest.skip("Dynamo (the extra [sim]) is not installed")
    shipped = (files("recipegen") / "data/engine_flags/dynamo-1.2.1.json").read_text()
    assert dump_flags(extract_flags(Path(next(iter(found.submodule_search_locations))).parent)) == shipped


ARGS = "vllm/engine/arg_utils.py"
TREES: dict[str, dict[str, bytes]] = {
    "empty folder": {},
    "no Python": {ARGS: b"class EngineArgs(:\n"},
    "not UTF-8": {ARGS: b"# caf\xe9\n"},
    "NUL": {ARGS: b"x = 1\0\n"},
    "no flags": {ARGS: b"x = 1\n"},
    "endless": {ARGS: b"class AsyncEngineArgs(AsyncEngineArgs):\n    pass\n"},
    "other package": {"flask/__init__.py": b""},
    "huge": {ARGS: b"#" * (9 * 1024 * 1024)},
}


def broken(tmp_path: Path, kind: str) -> Path:
    """What is called so: a folder for a tree of files, else a wheel."""
    path = tmp_path / "vllm-1.0.0-py3-none-any.whl"
    if kind == "missing":
        return path
    if kind not in TREES:
        path.write_bytes({"no zip": b"PK but no", "empty": b"", "cut": write_wheel(tmp_path).read_bytes()[:-400]}[kind])
        return path
    (tmp_path / "tree").mkdir()
    for name, data in TREES[kind].items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True)
        (tmp_path / "tree" / name).write_bytes(data)
    return tmp_path / "tree"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("missing", "there is no such file or folder"),
        ("no zip", "is no wheel"),
        ("cut", "is no wheel"),
        ("empty", "is no wheel"),
        ("other package", "holds neither vllm/engine/arg_utils.py nor dynamo/vllm/args.py"),
        ("empty folder", "holds neither vllm/engine/arg_utils.py nor dynamo/vllm/args.py"),
        ("no Python", "is no Python that can be read"),
        ("not UTF-8", "is not UTF-8 at byte 5"),
        ("NUL", "is no Python that can be read"),
        ("no flags", "no flag was found"),
        ("endless", "refer to one another without end"),
        ("huge", "more than 8388608 bytes"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(tmp_path: Path, kind: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        extract_flags(broken(tmp_path, kind), "1.0.0")


@pytest.mark.parametrize("kind", ["pipe", "endless device", "pipe for a wheel"])
def test_what_never_ends_is_not_read(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "vllm/engine"
    folder.mkdir(parents=True)
    target = tmp_path / "vllm-1.0.0-py3-none-any.whl" if kind == "pipe for a wheel" else folder / "arg_utils.py"
    if kind == "endless device":
        target.symlink_to("/dev/zero")
    else:
        os.mkfifo(target)
    with pytest.raises(InputError, match="not a regular file"):
        extract_flags(target if kind == "pipe for a wheel" else tmp_path, "1.0.0")


@pytest.mark.parametrize("damage", ["version", "lzma", "deep"])
def test_a_wheel_that_zipfile_or_the_parser_cannot_take_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "vllm-1.0.0-py3-none-any.whl"
    text = "x = " + "-" * 100_000 + "1\n" if damage == "deep" else "x = 1\n" * 1000
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA if damage == "lzma" else zipfile.ZIP_STORED) as archive:
        archive.writestr("vllm/engine/arg_utils.py", text)
    data = bytearray(path.read_bytes())
    if damage == "version":
        central = data.rindex(b"PK\x01\x02")
        data[central + 6 : central + 8] = (90).to_bytes(2, "little")
    elif damage == "lzma":
        data[70:120] = b"\xff" * 50
    path.write_bytes(data)
    with pytest.raises(InputError):
        extract_flags(path, "1.0.0")


def test_a_folder_without_a_version_needs_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not tell the version") as error:
        extract_flags(write_tree(tmp_path))
    assert "--vllm-version" in error.value.hint


def test_a_wheel_whose_member_is_damaged_is_refused(tmp_path: Path) -> None:
    path = write_wheel(tmp_path)
    data = bytearray(path.read_bytes())
    at = data.index(b"class EngineArgs")
    data[at : at + 5] = b"klass"
    path.write_bytes(data)
    with pytest.raises(InputError, match="cannot be unpacked"):
        extract_flags(path)
