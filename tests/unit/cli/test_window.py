"""Reading several partitions, and following a store that grows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

import lamina
from lamina.cli.window import Window
from lamina.errors import NotFound, OffsetOutOfRange
from lamina.model import Message
from lamina.testing import FakeClock


def until_pause(found: Iterator[Message | None]) -> list[bytes | None]:
    return [message.value for message in takewhile(lambda message: message is not None, found) if message]


def test_the_messages_of_several_partitions_come_in_order_of_time(tmp_path: Path) -> None:
    with lamina.open(tmp_path) as store:
        store.create_stream("events", partitions=3)
        for number in range(30):
            store.publish(f"topic-{number % 7}", b"%d" % number, timestamp=1_000 + number, stream="events")
        window = Window(stream="events")
        ascending = [message.value for message in window.messages(store, None, descending=False)]
        assert ascending == [b"%d" % number for number in range(30)]
        newest = next(window.messages(store, None, descending=True))
        assert newest.value == b"29"


def test_following_shows_what_is_there_and_then_what_is_new_once(tmp_path: Path) -> None:
    with lamina.open(tmp_path) as owner, lamina.open(tmp_path, read_only=True) as store:
        owner.publish("a", b"1")
        found = Window().follow(store, FakeClock())
        assert until_pause(found) == [b"1"]
        assert until_pause(found) == []
        owner.publish("a", b"2")
        owner.publish("b", b"3")
        assert until_pause(found) == [b"2", b"3"]
        assert until_pause(found) == []


def test_following_one_topic_leaves_out_the_others(tmp_path: Path) -> None:
    with lamina.open(tmp_path) as store:
        found = Window(topic="a").follow(store, FakeClock())
        assert until_pause(found) == []
        store.publish("b", b"1")
        assert until_pause(found) == []
        store.publish("a", b"2")
        assert until_pause(found) == [b"2"]


def test_following_all_partitions_misses_none(tmp_path: Path) -> None:
    with lamina.open(tmp_path) as store:
        store.create_stream("events", partitions=3)
        found = Window(stream="events").follow(store, FakeClock())
        assert until_pause(found) == []
        for number in range(10):
            store.publish(f"topic-{number}", b"%d" % number, stream="events")
        assert sorted(filter(None, until_pause(found))) == [b"%d" % number for number in range(10)]


def test_following_goes_on_behind_what_was_deleted_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with lamina.open(tmp_path) as store:
        store.publish("a", b"0")
        found = Window().follow(store, FakeClock())
        assert until_pause(found) == [b"0"]
        for number in range(1, 5):
            store.publish("a", b"%d" % number)
        store.delete_before("default", 0, 3)
        assert until_pause(found) == [b"3", b"4"]
        assert "offsets 1 to 2" in capsys.readouterr().err


def test_following_from_a_place_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with lamina.open(tmp_path) as store:
        with pytest.raises(OffsetOutOfRange):
            next(Window(start=7).follow(store, FakeClock()))
        with pytest.raises(NotFound):
            next(Window(partition=7).follow(store, FakeClock()))
