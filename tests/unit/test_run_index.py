from __future__ import annotations

import json
import multiprocessing
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from recipegen.errors import InputError, TransportError
from recipegen.run_index import IndexEntry, RunIndex, need_state_folder
from recipegen.runs import RunRecord, format_run
from tests.scripted_run import make_record


@pytest.fixture
def index(tmp_path: Path) -> RunIndex:
    return RunIndex.of_user({"XDG_STATE_HOME": str(tmp_path / "state")})


def fill(index: RunIndex) -> list[RunRecord]:
    records = [
        make_record(job="42", token="aaaa"),
        replace(make_record(job="43", token="bbbb"), created=1_800_000_100.0),
        make_record(job="421", token="42cc", point="2xtp2-1xtp8-cc512"),
    ]
    for record in records:
        index.add(record)
    return records


@pytest.mark.parametrize(
    ("environ", "root"),
    [
        ({"XDG_STATE_HOME": "/s"}, "/s/recipegen/runs"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/recipegen/runs"),
        ({"XDG_STATE_HOME": "", "HOME": "/h"}, "/h/.local/state/recipegen/runs"),
        ({"XDG_STATE_HOME": "relative"}, ""),
        ({"HOME": "relative"}, ""),
        ({}, ""),
    ],
)
def test_where_it_is(environ: dict[str, str], root: str) -> None:
    index = RunIndex.of_user(environ)
    if root:
        assert index.root == Path(root) == need_state_folder(environ) / "runs"
        return
    for use in (
        index.entries,
        lambda: index.add(make_record()),
        lambda: index.remove("x"),
        lambda: index.find("x"),
        lambda: need_state_folder(environ),
    ):
        with pytest.raises(InputError, match="neither XDG_STATE_HOME nor HOME"):
            use()


def test_newest_first_and_damaged_files_hide_nothing(index: RunIndex) -> None:
    records = fill(index)
    for name, data in {"torn.json": b'{"format": 1, "id', "foreign.json": b"[]", "newer.json": b'{"format": 9}', ".x.json.tmp": b"{}"}.items():
        (index.root / name).write_bytes(data)
    (index.root / "folder.json").mkdir()
    os.mkfifo(index.root / "pipe.json")
    (index.root / "zero.json").symlink_to("/dev/zero")
    good = json.loads((index.root / f"{records[0].id}.json").read_text())
    odd = [{"created": float("nan")}, {"created": float("inf")}, {"created": 10**400}, {"run_dir": "/a\0b"}, {"run_dir": "/\ud800"}, {"run_dir": "x"}]
    odd += [{"id": "\x1b[2J"}, {"id": "\udfff"}, {"job": 42}, {"job": "4\n2"}, {"cluster": nested(900)}, {"scheduler": None}]
    for number, change in enumerate(odd):
        (index.root / f"odd-{number}.json").write_text(json.dumps(good | {"id": f"odd-{number}"} | change))
    assert [entry.id for entry in index.entries()] == [records[1].id, records[2].id, records[0].id]


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_index_that_may_not_be_read_is_told(index: RunIndex) -> None:
    fill(index)
    index.root.chmod(0)
    with pytest.raises(TransportError, match="cannot be read: permission denied"):
        index.entries()
    index.root.chmod(0o700)


def test_an_index_that_is_a_file_is_told(index: RunIndex) -> None:
    index.root.parent.mkdir(parents=True)
    index.root.write_text("in the way")
    for use in (index.entries, lambda: index.find("x"), lambda: index.remove("x")):
        with pytest.raises(TransportError, match="not a directory"):
            use()
    with pytest.raises(InputError, match="is no run folder"):
        index.find("/no/such/folder")


def test_a_run_whose_folder_is_gone_is_known_by_it(index: RunIndex) -> None:
    record = fill(index)[1]
    found = index.find(f"{record.run_dir}/../{record.id}/")
    assert (found.id, found.job) == (record.id, "43")
    known = found.as_record()
    assert (known.id, known.point, known.run_dir, known.job, known.is_whole) == (record.id, record.point, record.run_dir, "43", False)


def test_what_has_become_known_is_entered_where_the_run_is_listed(index: RunIndex) -> None:
    record = make_record(job=None)
    index.update(record)
    assert index.entries() == []
    index.add(record)
    index.update(record.with_job("42", 1.0))
    assert index.find("42").id == record.id


def test_no_index_is_an_empty_one(index: RunIndex) -> None:
    assert index.entries() == []
    index.remove("never-there")


@pytest.mark.parametrize(
    ("name", "place"),
    [("42", 0), ("43", 1), ("421", 2), ("bbbb", 1), ("2xtp2", 2), ("-aaaa", 0)],
)
def test_a_job_id_or_a_unique_part_will_do(index: RunIndex, name: str, place: int) -> None:
    records = fill(index)
    assert index.find(name).id == records[place].id


@pytest.mark.parametrize("exactly", [False, True])
@pytest.mark.parametrize("name", ["20", "2027", "20270115", "080000", "512", "1", "4211", "\N{ARABIC-INDIC DIGIT FOUR}", "²"])
def test_a_number_is_a_job_id_or_nothing(index: RunIndex, name: str, exactly: bool) -> None:
    fill(index)
    index.add(make_record(job="44", token="2027"))
    with pytest.raises(InputError, match="no run is called") as caught:
        index.find(name, exactly=exactly)
    assert "a number is a job id" in caught.value.hint


@pytest.mark.parametrize(("name", "place"), [("42", 0), ("bbbb", 1), ("080000-aaaa", 0), ("2xtp2", 2), ("2xtp2-1xtp8-cc512", 2)])
def test_what_cannot_be_undone_takes_an_end_of_an_id(index: RunIndex, name: str, place: int) -> None:
    records = fill(index)
    assert index.find(name, exactly=True).id == records[place].id
    assert index.find(records[place].id, exactly=True).id == records[place].id


@pytest.mark.parametrize("name", ["2xtp", "xtp2", "bbb", "cc512", "-aaaa", "-", "", "tp8-cc512-20270115-080000-42cc"])
def test_what_cannot_be_undone_takes_no_other_part(index: RunIndex, name: str) -> None:
    fill(index)
    with pytest.raises(InputError, match="no run is called"):
        index.find(name, exactly=True)
    with pytest.raises(InputError, match="names 2 runs"):
        index.find("1xtp8", exactly=True)


def test_a_whole_id(index: RunIndex) -> None:
    for record in fill(index):
        assert index.find(record.id) == IndexEntry.of(record)


def test_an_ambiguous_part_lists_what_it_could_be(index: RunIndex) -> None:
    records = fill(index)
    with pytest.raises(InputError) as caught:
        index.find("1xtp8")
    assert "names 3 runs" in str(caught.value)
    assert all(f"{record.id}  (job {record.job})" in str(caught.value) for record in records)


def test_one_job_id_on_two_clusters_is_ambiguous(index: RunIndex) -> None:
    index.add(make_record(job="42", token="aaaa"))
    index.add(make_record(job="42", token="bbbb"))
    with pytest.raises(InputError, match="names 2 runs"):
        index.find("42")


def test_a_typo_gets_a_near_match(index: RunIndex) -> None:
    record = fill(index)[0]
    with pytest.raises(InputError, match="no run is called") as caught:
        index.find(record.id.replace("aaaa", "aaax"))
    assert caught.value.hint == f"did you mean '{record.id}'?"


@pytest.mark.parametrize("name", ["", "zzz", "*", "[", "../x", "~nobody/x", "x" * 5000, "/" + "x" * 5000, "a\0b", "/a\0b", "\ud800", "/\ud800"])
def test_odd_names(index: RunIndex, name: str) -> None:
    with pytest.raises(InputError):
        index.find(name)


def test_a_folder(index: RunIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, folder = make_record(), tmp_path / "moved here"
    folder.mkdir()
    (folder / "run.json").write_bytes(format_run(record))
    monkeypatch.chdir(tmp_path)
    for name in (str(folder), "./moved here", "moved here"):
        found = index.find(name)
        assert (found.id, found.run_dir) == (record.id, str(folder))


@pytest.mark.parametrize("data", [None, b"{"])
def test_a_folder_that_is_none(index: RunIndex, tmp_path: Path, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / "run.json").write_bytes(data)
    with pytest.raises(InputError, match=re.escape(str(tmp_path))):
        index.find(str(tmp_path))
    with pytest.raises(InputError):
        index.find(str(tmp_path / "run.json" / "deeper"))


def test_an_index_that_cannot_be_written_tells_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(TransportError, match=r"could not be entered in .*: not a directory") as caught:
        RunIndex(tmp_path / "file" / "runs").add(make_record())
    assert "XDG_STATE_HOME" in caught.value.hint


def _add_many(root: Path, token: str) -> None:
    for count in range(50):
        RunIndex(root).add(make_record(job=str(count), token=token))
        RunIndex(root).add(make_record(job=str(count), token="ffff"))


def test_two_processes_at_once(index: RunIndex) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_add_many, args=(index.root, token)) for token in ("aaaa", "bbbb")]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert all(entry.job is not None for entry in index.entries())
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert {entry.id[-4:]: entry.job for entry in index.entries()} == {"aaaa": "49", "bbbb": "49", "ffff": "49"}
    assert [path.name for path in index.root.iterdir() if path.suffix != ".json"] == []
