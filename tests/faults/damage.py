"""A small store as a dictionary of files, so that thousands of damaged copies are cheap; and how to read one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import lamina
from lamina.disk import Disk, MemoryDisk
from lamina.errors import Corrupt, LaminaError, NotFound
from lamina.log.format import SEGMENT_HEADER_BYTES, decode_segment_header, frame_salt
from lamina.testing import FakeClock
from tests.models.ledger import NOW_US, TOPICS, Expected, arrow_of, some_messages

PARTITION = "default/0"
Files = dict[str, bytes]


def settings(frame_bytes_target: int = 1 << 20) -> lamina.Settings:
    return lamina.Settings(
        log=lamina.LogSettings(
            index_interval_bytes=64, frame_bytes_target=frame_bytes_target, segment_bytes_max=1 << 20
        ),
        index=lamina.IndexSettings(background=False),
    )


@dataclass(frozen=True, slots=True)
class Truth:
    """What the undamaged store holds."""

    files: Files
    messages: list[Expected]


def store_of(kind: str, *, sealed: bool, numbered: bool = True) -> Truth:
    """Three appends of a kind, closed cleanly; where sealed, an empty active segment follows."""
    disk = MemoryDisk()
    target = 1500 if kind == "chained" else 1 << 20
    messages: list[Expected] = []
    with lamina.open("store", disk=disk, clock=FakeClock(NOW_US, jump=False), settings=settings(target)) as store:
        for number in range(3):
            call = some_messages({"packed": 2, "arrow": 3, "chained": 40}[kind], number, value_bytes=8)
            content = [m.message() for m in call] if kind == "packed" else arrow_of(call)
            store.publish_many(content, producer=("p", number) if numbered else None)
            messages += call
        if sealed:
            store.seal()
    return Truth(files_of(disk), messages)


def files_of(disk: Disk, directory: str = "") -> Files:
    """Every file by its path."""
    found: Files = {}
    for name in disk.list(directory):
        path = f"{directory}/{name}".lstrip("/")
        if name.endswith("/"):
            found |= files_of(disk, path.rstrip("/"))
        else:
            file = disk.open(path, "read")
            found[path] = file.pread(file.size(), 0)
            file.close()
    return found


def end_of(files: Mapping[str, bytes]) -> int:
    """The next offset after the owner has opened the store."""
    with lamina.open("store", disk=disk_of(files), clock=FakeClock(NOW_US, jump=False)) as store:
        return store.stream().partitions[0].latest


def disk_of(files: Mapping[str, bytes]) -> MemoryDisk:
    disk = MemoryDisk()
    for path, content in files.items():
        disk.make_directory(path.rpartition("/")[0])
        file = disk.open(path, "create")
        file.append([content])
        file.close()
    return disk


def outcome(files: Mapping[str, bytes], truth: Truth, *, read_only: bool = False, may_lose: bool = False) -> str:
    """Open and read in every way: "whole", "torn" (a tail is gone, which must be allowed), or "corrupt".

    Anything else is a wrong answer and fails the test here.
    """
    disk = disk_of(files)
    try:
        store = lamina.open(
            "store", disk=disk, clock=FakeClock(NOW_US, jump=False), settings=settings(), read_only=read_only
        )
    except Corrupt as error:
        return _corrupt(error)
    try:
        return _reading(store, truth.messages, may_lose)
    finally:
        with suppress(LaminaError):
            store.close()


def _reading(store: lamina.Store, wanted: list[Expected], may_lose: bool) -> str:
    seen: set[str] = {_outcome_of_read(store, wanted), *_outcomes_of_gets(store, wanted)}
    try:
        end = min(store.stream().partitions[0].latest, len(wanted))
    except Corrupt:
        return "corrupt"
    seen |= {_outcome_of_latest(store, wanted[:end]), _outcome_of_times(store, wanted[:end])}
    assert "wrong" not in seen, "other messages than were published"
    if "corrupt" in seen:
        return "corrupt"
    if "torn" in seen:
        assert may_lose, "messages are missing without an error"
        return "torn"
    return "whole"


def _outcome_of_read(store: lamina.Store, wanted: list[Expected]) -> str:
    found: list[Expected] = []
    try:
        for message in store.read():
            assert message.offset == len(found)
            found.append(Expected.of(message))
    except Corrupt as error:
        return _corrupt(error) if found == wanted[: len(found)] else "wrong"
    assert found == wanted[: len(found)]
    return "whole" if len(found) == len(wanted) else "torn"


def _outcomes_of_gets(store: lamina.Store, wanted: list[Expected]) -> set[str]:
    outcomes = set()
    for offset, message in enumerate(wanted):
        try:
            assert Expected.of(store.get(f"{PARTITION}/{offset}")) == message
            outcomes.add("whole")
        except Corrupt:
            outcomes.add("corrupt")
        except NotFound:
            outcomes.add("torn")
    return outcomes


def _outcome_of_latest(store: lamina.Store, wanted: list[Expected]) -> str:
    outcomes = set()
    for topic in (None, *TOPICS):
        there = [m for m in wanted if m.key == b"a" and topic in (None, m.topic)]
        try:
            found = store.latest(b"a", topic)
            assert (Expected.of(found) if found else None) == (there[-1] if there else None)
        except Corrupt:
            outcomes.add("corrupt")
    return "corrupt" if outcomes else "whole"


def _outcome_of_times(store: lamina.Store, wanted: list[Expected]) -> str:
    end = len(wanted)
    try:
        for second in range(-60, 60, 17):
            time_us = NOW_US + second * 1_000_000
            naive = next((at for at, m in enumerate(wanted) if (m.timestamp or 0) >= time_us), end)
            found = store.offset_at(time_us)
            assert found == naive or (naive == end and found >= end)
    except Corrupt:
        return "corrupt"
    return "whole"


def _corrupt(error: Corrupt) -> str:
    """The outcome, if the message says where."""
    assert any(name in str(error) for name in (PARTITION, ".json", "head")), error
    return "corrupt"


def salt_of(log: bytes) -> int:
    """What the CRCs of this segment's frame headers begin with."""
    return frame_salt(decode_segment_header(log[:SEGMENT_HEADER_BYTES], "log"))
