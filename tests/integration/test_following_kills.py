"""A process that only reads tails a store whose owner is killed, again and again.

It never sees a message that a later recovery does not have, never a torn one, and offsets without gaps.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import pytest

import lamina
from benchmarks.kill_rounds import PARTITIONS, ROOT, SETTINGS, STREAM, KillRounds
from lamina.errors import OffsetOutOfRange
from tests.models.ledger import SOAK

ROUNDS = 5


@pytest.mark.slow
def test_what_a_follower_saw_is_there_after_every_recovery(tmp_path: Path) -> None:
    watching = KillRounds(tmp_path, seed=2)
    watching.round()
    command = [sys.executable, "-m", "tests.integration.test_following_kills", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "following\n"
        try:
            for _ in range(ROUNDS * SOAK):
                watching.round()
                assert follower.poll() is None, "the follower died"
        finally:
            found, _ = follower.communicate("", timeout=30)
    assert follower.returncode == 0
    seen = {int(partition): crcs for partition, crcs in json.loads(found).items()}
    with lamina.open(tmp_path, settings=SETTINGS) as store:
        for partition in range(PARTITIONS):
            here = {m.offset: crc32(m.value or b"") for m in store.read(stream=STREAM, partition=partition)}
            saw = {int(offset): crc for offset, crc in seen[partition].items()}
            assert saw, "the follower saw nothing"
            end = store.stream(STREAM).partitions[partition].latest
            assert max(saw) < end, "the follower saw messages that were never durable"
            assert {offset: crc for offset, crc in saw.items() if offset in here} == {
                offset: crc for offset, crc in here.items() if offset in saw
            }


def follow(directory: str) -> dict[int, dict[int, int]]:
    """Read on and on until standard input ends; (partition, offset) -> CRC of the value."""
    seen: dict[int, dict[int, int]] = {partition: {} for partition in range(PARTITIONS)}
    following = dict.fromkeys(range(PARTITIONS), 0)
    with lamina.open(directory, read_only=True, settings=SETTINGS) as store:
        sys.stdout.write("following\n")
        sys.stdout.flush()
        while not select.select([sys.stdin], [], [], 0.002)[0]:
            for partition in range(PARTITIONS):
                try:
                    read_on(store, partition, following, seen[partition])
                except OffsetOutOfRange as error:
                    if error.earliest <= following[partition]:
                        raise AssertionError("the log became shorter") from error
                    following[partition] = error.earliest
    return seen


def read_on(store: lamina.Store, partition: int, following: dict[int, int], seen: dict[int, int]) -> None:
    for message in store.read(stream=STREAM, partition=partition, start=following[partition]):
        assert message.offset == following[partition], "a gap"
        assert message.value is not None
        assert len(message.value.split(b" ")) == 6, "a torn message"
        seen[message.offset] = crc32(message.value)
        following[partition] += 1


if __name__ == "__main__":
    sys.stdout.write(json.dumps(follow(sys.argv[1])))
