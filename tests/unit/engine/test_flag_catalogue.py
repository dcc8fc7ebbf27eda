"""The shipped flags: which file a build gets, how names are understood, and what the files hold."""

from __future__ import annotations

import json
import time
from importlib.resources import files

import pytest

from recipegen.engine.flag_catalogue import FlagCatalogue, FlagKind, flag_versions, load_flags, load_table
from recipegen.engine.flag_format import dump_flags, parse_flags
from recipegen.engine.flag_history import Sighting, look_around
from recipegen.engine.flag_notes import flag_notes
from recipegen.engine.flag_versions import nearest as nearest_version
from recipegen.engine.vllm import VllmEngine

FOLDER = files("recipegen") / "data" / "engine_flags"
FILES = sorted(entry.name for entry in FOLDER.iterdir() if entry.name.endswith(".json"))


@pytest.mark.parametrize(
    ("build", "version", "exact", "close"),
    [
        ("0.28.0", "0.28.0", True, False),
        ("0.28", "0.28.0", True, False),
        ("v0.27.0", "0.27.0", True, False),
        ("0.28.0+cu130", "0.28.0", True, False),
        ("0.26.1rc1.dev1177+ga9a17e709", "0.28.0", True, False),
        ("0.28.1", "0.28.0", False, True),
        ("0.29.0rc1", "0.29.0", False, True),
        ("0.28.1rc1.dev7+g0123456", "0.28.0", False, False),
        ("0.20.0", "0.26.0", False, False),
        ("0.31.0", "0.29.0", False, False),
        ("nightly", "0.29.0", False, False),
    ],
)
def test_which_flags_a_build_gets(build: str, version: str, exact: bool, close: bool) -> None:
    found = load_flags(build)
    assert (found.asked, found.version, found.exact, found.close, found.sure) == (build, version, exact, close, exact or close)


@pytest.mark.parametrize("dynamo", ["", "1.2.1", "1.1.0", "1.2.1.post1", "2.0.0.dev20260901", "main"])
def test_dynamo_s_own_flags_are_those_of_the_nearest_release(dynamo: str) -> None:
    found = load_flags("0.28.0", dynamo)
    nearest = nearest_version(dynamo, flag_versions("dynamo"))
    assert found.dynamo == dynamo
    assert set(load_table("dynamo", nearest).flags) <= set(found.flags)
    assert (found.version, found.exact) == ("0.28.0", True)


@pytest.mark.parametrize(
    ("name", "flag", "negative", "keys"),
    [
        ("max-num-seqs", "max-num-seqs", False, ()),
        ("max_num_seqs", "max-num-seqs", False, ()),
        ("tp", "tensor-parallel-size", False, ()),
        ("no-enable-prefix-caching", "enable-prefix-caching", True, ()),
        ("no_enable_prefix_caching", "enable-prefix-caching", True, ()),
        ("speculative_config.num_speculative_tokens", "speculative-config", False, ("num_speculative_tokens",)),
        ("cc.pass_config.enable_sp", "compilation-config", False, ("pass_config", "enable_sp")),
        ("dyn-endpoint-types", "endpoint-types", False, ()),
    ],
)
def test_names_are_understood_as_the_parser_does(name: str, flag: str, negative: bool, keys: tuple[str, ...]) -> None:
    use = load_flags("0.28.0").find(name)
    assert use is not None
    assert (use.spec.name, use.negative, use.keys) == (flag, negative, keys)
    assert use.target is not None


@pytest.mark.parametrize("name", ["max-num-se", "no-max-num-seqs", "no-no-enable-prefix-caching", "disable-log-requests", "", "-", "."])
def test_what_is_no_flag_is_not_found(name: str) -> None:
    assert load_flags("0.28.0").find(name) is None


def test_an_unknown_key_has_no_target_and_keys_that_are_not_listed_take_anything() -> None:
    flags = load_flags("0.28.0")
    wrong = flags.find("speculative-config.num-speculative-tokens")
    free = flags.find("hf-overrides.rope_scaling.factor")
    assert wrong is not None
    assert wrong.target is None
    assert free is not None
    assert free.target is not None
    assert free.target.kind is FlagKind.ANY


def test_dynamos_own_flags_win_over_those_that_only_vllm_serve_takes() -> None:
    flags = load_flags("0.28.0").flags
    assert flags["headless"].engine
    assert flags["headless"].kind is FlagKind.BOOL
    assert not flags["chat-template"].engine
    assert not flags["port"].engine
    assert flags["disaggregation-mode"].choices == ("agg", "prefill", "decode", "encode")


@pytest.mark.parametrize("version", flag_versions())
def test_every_flag_that_the_launcher_writes_is_there(version: str) -> None:
    """Owned flags are what the launcher itself sets, or refuses; those of the HTTP server are not a worker's."""
    catalogue = load_flags(version)
    unknown = {name for name in VllmEngine().owned_flags() if not name.startswith("no-") and catalogue.find(name) is None}
    assert unknown == set()


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_what_its_flags_are_written_as(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    table = parse_flags(text)
    assert dump_flags(table) == text
    assert f"{table.program}-{table.version}.json" == name
    assert list(table.flags) == sorted(table.flags)
    assert len(text.splitlines()) == len(table.flags) + 2


def test_the_counts_of_option_strings_are_those_of_the_real_parsers() -> None:
    """Counted on vLLM's own parser: options and option strings, without --help."""
    counts = {}
    for version in flag_versions():
        flags = parse_flags((FOLDER / f"vllm-{version}.json").read_text(encoding="utf-8")).flags.values()
        counts[version] = (len(flags), sum(1 + spec.negatable + len(spec.aliases) for spec in flags))
    assert counts == {"0.26.0": (274, 370), "0.27.0": (282, 381), "0.28.0": (284, 384), "0.29.0": (292, 395)}


def test_one_file_is_read_in_milliseconds() -> None:
    text = (FOLDER / "vllm-0.29.0.json").read_text(encoding="utf-8")
    taken = []
    for _ in range(20):
        start = time.perf_counter()
        parse_flags(text)
        taken.append(time.perf_counter() - start)
    assert min(taken) < 0.005


@pytest.mark.parametrize(
    ("build", "name", "sighting"),
    [
        ("0.28.0", "calculate-kv-scales", Sighting(removed="0.28.0")),
        ("0.29.0", "calculate-kv-scales", Sighting(removed="0.28.0")),
        ("0.29.0", "max-num-partial-prefills", Sighting(removed="0.27.0")),
        ("0.26.0", "max-num-queued-reqs", Sighting(added="0.29.0")),
        ("0.26.0", "video-pruning-method", Sighting(added="0.27.0")),
        ("0.28.0", "no-such-flag", Sighting()),
    ],
)
def test_when_a_flag_was_there(build: str, name: str, sighting: Sighting) -> None:
    def has_it(catalogue: FlagCatalogue) -> bool:
        return catalogue.find(name) is not None

    assert look_around(load_flags(build), has_it) == sighting


def test_the_notes_speak_of_flags_that_are_there() -> None:
    notes, newest = flag_notes(), load_flags(flag_versions()[-1])
    for successor in notes.instead.values():
        use = newest.find(successor)
        assert use is not None, successor
        assert use.target is not None, successor
        assert use.spec.engine, successor
    for known in notes.replaced:
        use = newest.find(known.flag)
        assert use is not None, known.flag
        assert use.target is not None, known.flag
        assert all(value in use.target.choices for value in known.values), known.flag


def test_an_old_name_is_no_flag_of_a_worker() -> None:
    notes = flag_notes()
    for version in flag_versions():
        for name in notes.instead:
            use = load_flags(version).find(name)
            assert use is None or use.target is None or not use.spec.engine or name in notes.refused, (version, name)


def test_the_text_of_a_file_is_ascii_json() -> None:
    for name in FILES:
        json.loads((FOLDER / name).read_bytes().decode("ascii"))
