"""The blob store that fails on demand."""

from __future__ import annotations

import pytest

from lamina.blobs import MemoryBlobs
from lamina.errors import Conflict, Denied, Unavailable
from lamina.testing import FakeClock, Fault, FaultyBlobs


def test_a_put_refused_before_its_effect_can_simply_be_repeated() -> None:
    blobs = FaultyBlobs(MemoryBlobs(), [Fault(operation="put_new")])
    with pytest.raises(Unavailable, match="nothing was done"):
        blobs.put_new("a", b"content")
    blobs.put_new("a", b"content")
    assert blobs.get("a") == b"content"
    assert blobs.calls["put_new"] == 2


def test_a_put_whose_answer_is_lost_conflicts_with_itself_when_repeated() -> None:
    blobs = FaultyBlobs(MemoryBlobs(), [Fault(operation="put_new", when="after")])
    with pytest.raises(Unavailable, match="the outcome is unknown"):
        blobs.put_new("a", b"content")
    with pytest.raises(Conflict):
        blobs.put_new("a", b"content")
    assert blobs.get("a") == b"content"


def test_every_operation_can_fail_by_name_until_healed() -> None:
    blobs = FaultyBlobs(MemoryBlobs())
    blobs.put_new("x/1", b"content")
    blobs.put_new("y/1", b"content")
    for operation in ("get", "stat", "delete"):
        blobs.add(Fault(operation=operation, path="x/*", times=None))
        with pytest.raises(Unavailable):
            getattr(blobs, operation)("x/1")
    assert blobs.stat("y/1").bytes == 7
    blobs.delete("y/1")
    blobs.heal()
    assert blobs.get("x/1") == b"content"


def test_a_listing_fails_before_its_first_or_after_its_last_object() -> None:
    blobs = FaultyBlobs(MemoryBlobs(), [Fault(operation="list"), Fault(operation="list", when="after", after=1)])
    blobs.put_new("a", b"content")
    with pytest.raises(Unavailable):
        next(blobs.list())
    listing = blobs.list()
    assert next(listing).name == "a"
    with pytest.raises(Unavailable):
        next(listing)


def test_permission_can_be_denied() -> None:
    blobs = FaultyBlobs(MemoryBlobs(), [Fault(operation="get", error="EACCES")])
    with pytest.raises(Denied):
        blobs.get("a")


def test_slow_operations_wait_on_the_clock() -> None:
    clock = FakeClock()
    blobs = FaultyBlobs(MemoryBlobs(), slow_seconds={"put_new": 30.0}, clock=clock)
    blobs.put_new("a", b"content")
    assert clock.monotonic() == 30
