from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipegen.lifecycle.events import Event, Stamp, merge_events, parse_events, parse_object
from recipegen.lifecycle.markers import parse_endpoint, parse_exit


def line(time: float = 1.0, event: str = "ready", **keys: object) -> bytes:
    return json.dumps({"time": time, "job": "42", "restart": 0, "event": event} | keys).encode() + b"\n"


def test_whole_lines_only() -> None:
    parsed = parse_events(line(1) + line(2)[:-1])
    assert [event.stamp.time for event in parsed.events] == [1.0]
    assert parsed.used == len(line(1))
    assert parsed.garbage == 0


@given(st.integers(0, 400))
def test_cut_anywhere_nothing_is_lost_and_nothing_comes_twice(cut: int) -> None:
    data = b"".join(line(time, step="prefill-0 é") for time in range(5))
    first = parse_events(data[:cut])
    second = parse_events(data[first.used :])
    assert [event.stamp.time for event in first.events + second.events] == [0, 1, 2, 3, 4]
    assert first.garbage == second.garbage == 0


@pytest.mark.parametrize(
    "garbage",
    [
        b"not json\n",
        b"\xff\xfe\n",
        b"\0\0\0\n",
        b"[1, 2]\n",
        b'"text"\n',
        b"{}\n",
        b"[" * 100_000 + b"\n",
        b'{"time": 1, "job": "42", "restart": 0}\n',
        b'{"time": "1", "job": "42", "restart": 0, "event": "ready"}\n',
        b'{"time": NaN, "job": "42", "restart": 0, "event": "ready"}\n',
        b'{"time": 1' + b"0" * 400 + b', "job": "42", "restart": 0, "event": "ready"}\n',
        b'{"time": true, "job": "42", "restart": 0, "event": "ready"}\n',
        b'{"time": 1, "job": 42, "restart": 0, "event": "ready"}\n',
        b'{"time": 1, "job": "42", "restart": "0", "event": "ready"}\n',
        b'{"time": 1, "job": "42", "restart": false, "event": "ready"}\n',
        b'{"time": 1, "job": "42", "restart": -1, "event": "ready"}\n',
        b'{"time": 1, "job": "42", "event": "ready"}\n',
    ],
)
def test_garbage_is_counted_and_hides_no_neighbour(garbage: bytes) -> None:
    parsed = parse_events(line(1) + garbage + line(2))
    assert [event.stamp.time for event in parsed.events] == [1.0, 2.0]
    assert parsed.garbage == 1


@given(st.binary())
def test_any_bytes(data: bytes) -> None:
    assert 0 <= parse_events(data).used <= len(data)
    assert parse_endpoint(data) is None
    assert parse_exit(data) is None


def test_merge_is_by_time_and_keeps_each_writers_order() -> None:
    def events(*times: float) -> list[Event]:
        return [Event(Stamp(time, "42", 0), f"{place}") for place, time in enumerate(times)]

    merged = merge_events([events(1, 5, 4), events(2, 3)])
    assert [event.stamp.time for event in merged] == [1, 2, 3, 5, 4]


def test_values_of_an_event() -> None:
    (event,) = parse_events(line(step="prefill-0", code=137, flag=True, half=1.5)).events
    assert (event.text("step"), event.text("code"), event.text("nothing")) == ("prefill-0", "", "")
    assert (event.number("code"), event.number("flag"), event.number("half"), event.number("step")) == (137, None, None, None)


def test_markers() -> None:
    stamp = {"job": "42", "restart": 1, "time": 2.5}
    endpoint = parse_endpoint(json.dumps(stamp | {"url": "http://x:1", "model": "m"}).encode())
    assert endpoint is not None
    assert (endpoint.stamp, endpoint.url, endpoint.model) == (Stamp(2.5, "42", 1), "http://x:1", "m")
    end = parse_exit(json.dumps(stamp | {"code": 0, "reason": "served", "step": None, "ready": True}).encode())
    assert end is not None
    assert (end.code, end.reason, end.step, end.ready, end.detail) == (0, "served", "", True, "")


@pytest.mark.parametrize("data", [None, b"", b"{", b"null", b'{"url": "http://x"}', b'{"job": "42", "restart": 0, "time": 1, "url": ""}'])
def test_what_is_no_endpoint(data: bytes | None) -> None:
    assert parse_endpoint(data) is None
    assert parse_exit(data) is None


def test_an_object_is_an_object() -> None:
    assert parse_object(b'{"a": 1}') == {"a": 1}
    assert parse_object(b"[]") is None
