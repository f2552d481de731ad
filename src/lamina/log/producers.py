"""Idempotent producers of one partition: which numbered calls are already in the log. Pure.

A producer's call carries a sequence. The last RANGES_KEPT calls of each producer are remembered, so a retried one
gets its original place back instead of being written twice.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from lamina.errors import Corrupt
from lamina.log.format import ProducerEntry

RANGES_KEPT = 5


class AppendedRange(msgspec.Struct, frozen=True, array_like=True):
    """One numbered call: its offsets are [first, first + count)."""

    sequence: int
    first: int
    count: int


class ProducerState(msgspec.Struct, array_like=True):
    """The last calls of one producer, oldest first, and when the newest was appended."""

    ranges: list[AppendedRange]
    appended_at: int


class Producers:
    """The producers of one partition. Owned by whoever leads the partition's commits."""

    def __init__(self, states: dict[str, ProducerState] | None = None) -> None:
        self._states = states or {}

    def __len__(self) -> int:
        return len(self._states)

    def find(self, producer: str, sequence: int) -> AppendedRange | None:
        """Where this call is, if it is remembered."""
        state = self._states.get(producer)
        return next((r for r in state.ranges if r.sequence == sequence), None) if state else None

    def last_sequence(self, producer: str) -> int | None:
        state = self._states.get(producer)
        return state.ranges[-1].sequence if state else None

    def record(self, entry: ProducerEntry, first: int, appended_at: int) -> None:
        """A call (or the next part of one that spans frames) was appended with `first` as its frame's offset."""
        offset = first + entry.first_row
        state = self._states.pop(entry.producer, None) or ProducerState([], appended_at)
        last = state.ranges[-1] if state.ranges else None
        if last is not None and last.sequence == entry.sequence and last.first + last.count == offset:
            state.ranges[-1] = AppendedRange(entry.sequence, last.first, last.count + entry.count)
        else:
            state.ranges = [*state.ranges[1 - RANGES_KEPT :], AppendedRange(entry.sequence, offset, entry.count)]
        state.appended_at = appended_at
        # Re-inserted at the end: the dict stays ordered by the time of the last call.
        self._states[entry.producer] = state

    def forget(self, *, before: int, keep_max: int) -> None:
        """Drop producers idle since `before`, and the longest idle ones beyond `keep_max`."""
        spare = len(self._states) - keep_max
        for producer, state in list(self._states.items()):
            if spare <= 0 and state.appended_at >= before:
                return
            del self._states[producer]
            spare -= 1

    def forget_one(self, producer: str, *, before: int) -> None:
        """Drop this producer if it was idle since `before`."""
        if (state := self._states.get(producer)) is not None and state.appended_at < before:
            del self._states[producer]

    def encode(self, base: int) -> bytes:
        """For a state frame, whose offsets are relative to its segment like all others."""
        return msgspec.msgpack.encode(
            {
                producer: ProducerState(
                    [AppendedRange(r.sequence, r.first - base, r.count) for r in state.ranges], state.appended_at
                )
                for producer, state in self._states.items()
            }
        )

    @classmethod
    def decode(cls, payload: bytes | memoryview, base: int) -> Producers:
        try:
            states = msgspec.msgpack.decode(payload, type=dict[str, ProducerState])
        except msgspec.MsgspecError as error:
            raise Corrupt(f"a producer table cannot be read: {error}") from error
        for state in states.values():
            state.ranges = [AppendedRange(r.sequence, r.first + base, r.count) for r in state.ranges]
        return cls(states)

    def replace(self, other: Producers) -> None:
        """Take over all that the other knows, and nothing else."""
        self._states = other._states

    def update(self, entries: Iterable[ProducerEntry], first: int, appended_at: int) -> None:
        for entry in entries:
            self.record(entry, first, appended_at)
