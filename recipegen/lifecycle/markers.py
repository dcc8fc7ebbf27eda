"""The two files that say where an endpoint answers and how a job ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recipegen.lifecycle.events import Stamp, as_count, parse_object, parse_stamp


@dataclass(frozen=True)
class Endpoint:
    """`endpoint.json`: the URL is the base, the chat API is at `<url>/v1/chat/completions`."""

    stamp: Stamp
    url: str
    model: str


@dataclass(frozen=True)
class Exit:
    """`exit.json`: the batch script's exit code, its reason in one word, and whether the endpoint had been READY."""

    stamp: Stamp
    code: int
    reason: str
    step: str
    ready: bool
    detail: str


def parse_endpoint(data: bytes | None) -> Endpoint | None:
    """Read `endpoint.json`; one that is missing, torn, or without a URL is None."""
    record = parse_object(data)
    stamp = parse_stamp(record) if record is not None else None
    if record is None or stamp is None or not _text(record, "url"):
        return None
    return Endpoint(stamp, _text(record, "url"), _text(record, "model"))


def parse_exit(data: bytes | None) -> Exit | None:
    """Read `exit.json`; one that is missing, torn, or without a reason is None."""
    record = parse_object(data)
    stamp = parse_stamp(record) if record is not None else None
    if record is None or stamp is None or not _text(record, "reason"):
        return None
    code = as_count(record.get("code"), lowest=None)
    return Exit(
        stamp,
        code=1 if code is None else code,
        reason=_text(record, "reason"),
        step=_text(record, "step"),
        ready=record.get("ready") is True,
        detail=_text(record, "detail"),
    )


def _text(record: Mapping[str, object], key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""
