from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipegen.errors import InputError
from recipegen.runs import RunPaths, RunRecord, format_run, new_run_id, parse_run, read_run, write_run
from recipegen.transport.scripted import ScriptedTransport
from tests.scripted_run import make_record

DOC = Path(__file__).parents[2] / "docs" / "reference" / "run-folder.md"


def test_a_run_is_named_after_its_point_the_time_and_a_token() -> None:
    assert new_run_id("1xtp8-1xtp8-cc1", 1_795_966_119.9, "0f3a") == "1xtp8-1xtp8-cc1-20261129-152839-0f3a"


@pytest.mark.parametrize("token", ["", "xyz1", "ABCD", "12345", "1 23"])
def test_a_token_is_four_hex_digits(token: str) -> None:
    with pytest.raises(ValueError, match="four hex digits"):
        new_run_id("p", 0, token)


@pytest.mark.parametrize("job", [None, "42"])
def test_what_is_written_is_read_back(job: str | None) -> None:
    transport, record = ScriptedTransport(), make_record(job=job)
    write_run(transport, record)
    assert read_run(transport, record.run_dir) == record


def test_a_moved_folder_is_where_it_was_found() -> None:
    transport, record = ScriptedTransport(), make_record()
    transport.put("/elsewhere/x/run.json", format_run(record))
    assert read_run(transport, "/elsewhere/x").run_dir == "/elsewhere/x"


def test_the_job_is_entered_later() -> None:
    record = make_record(job=None).with_job("7", 12.5)
    assert (record.job, record.submitted) == ("7", 12.5)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is not JSON"),
        (b'{"format": 1, "id": "x', "torn"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "format is missing"),
        (b'{"format": 2}', "this recipegen knows 1"),
        (b'{"format": true}', "format is True"),
        (b'{"format": 1}', "expected is missing"),
    ],
)
def test_a_torn_or_foreign_record_is_explained(data: bytes, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        parse_run(data, "/runs/x/run.json")
    assert str(caught.value).startswith("/runs/x/run.json: ")


@pytest.mark.parametrize("key", [field.name for field in fields(RunRecord)])
@pytest.mark.parametrize(
    "value",
    [[], {"prefill": "x"}, {"prefill": 10**400}, -1.5, "word", True, None, float("nan"), float("inf"), 10**400, "a\0b", "\ud800", "\x1b[2J", "../x"],
)
def test_a_damaged_value_never_gives_a_traceback(key: str, value: object) -> None:
    values = json.loads(format_run(make_record())) | {key: value}
    with suppress(InputError):
        record = parse_run(json.dumps(values).encode(), "run.json")
        assert str(replace(record, cluster={})).isprintable()
        assert "/" not in record.id
        assert all(abs(number) < 10**13 for number in (record.created, record.submitted or 0, record.time_limit_s, record.ready_timeout_s))


@given(st.binary())
def test_any_bytes(data: bytes) -> None:
    with pytest.raises(InputError):
        parse_run(data, "run.json")


def test_a_folder_without_a_record_is_no_run_folder() -> None:
    with pytest.raises(InputError, match="is no run folder"):
        read_run(ScriptedTransport(), "/tmp")


def test_paths() -> None:
    paths = RunPaths("/runs/x/")
    assert paths.log("prefill-0", 1) == "/runs/x/logs/prefill-0.1.log"
    assert paths.events("prefill-0-1") == "/runs/x/events.prefill-0-1.jsonl"
    assert paths.batch_output("42") == "/runs/x/slurm-42.out"
    assert paths.bundle("p") == "/runs/x/bundle/p"
    assert [
        RunPaths.event_writer(name) for name in ("events.job.jsonl", "events.prefill-0-1.jsonl", "events..jsonl", ".events.job.jsonl.tmp", "run.json")
    ] == [
        "job",
        "prefill-0-1",
        "",
        "",
        "",
    ]
    with pytest.raises(InputError, match="absolute"):
        RunPaths("runs/x")


def test_the_reference_lists_every_key_and_every_file() -> None:
    text = DOC.read_text(encoding="utf-8")
    section = text[text.index("## run.json") :]
    assert [field.name for field in fields(RunRecord) if f'"{field.name}"' not in section] == []
    paths = RunPaths("/x")
    names = [paths.record, paths.site_env, paths.nodes, paths.ran, paths.endpoint, paths.exit, paths.discovery, paths.shared("lib/")]
    assert [name for name in names if f"`{name[3:]}" not in text] == []
