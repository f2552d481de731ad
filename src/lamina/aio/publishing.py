"""Single messages from many tasks: collected by turns of the loop, committed by a thread, resolved together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from lamina.errors import LaminaError
from lamina.log import MESSAGE_BYTES, Entry, Pending, Stream, check_timeout, no_room, not_confirmed, pack_row
from lamina.model import PublishReceipt, Row

logger = logging.getLogger(__name__)


class Publisher:
    """Collects the rows of one turn of the loop, submits them as one call per partition, and is the calls' sink.

    Rows that the stream has no room for stay with their tasks, in order, until a commit has made room. On the loop's
    thread, but for `settle` and `_hear`.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.loop = asyncio.get_running_loop()
        self._is_single = len(stream.partitions) == 1
        self._frame_bytes = stream.frame_bytes_target
        self._waiting: dict[int, Run] = {}
        self._room_bytes = 0  # what this turn may still collect
        self._late: dict[asyncio.Future[PublishReceipt], Row] = {}
        self._is_admitting = False
        self._is_listening = False

    def send(self, row: Row, future: asyncio.Future[PublishReceipt]) -> bool:
        """Put the row into the run of its partition; False if there is no room for it yet."""
        # Packed at once, while the message is in the processor's cache.
        packed = pack_row(row)
        weight = len(packed) + MESSAGE_BYTES
        if weight > self._room_bytes and not self._begin_turn(weight):
            self._room_bytes = 0  # nor for smaller ones behind it
            self._late[future] = row
            self._listen()
            return False
        self._room_bytes -= weight
        number = 0 if self._is_single else self.stream.partition_of(row)
        run = self._waiting.get(number)
        if run is None or run.bytes > self._frame_bytes:
            if run is not None:
                self._submit(number, run)
            run = self._waiting[number] = Run()
        run.rows.append(packed)
        run.times.append(row.timestamp)
        run.futures.append(future)
        run.bytes += len(packed)
        return True

    async def send_within(self, row: Row, timeout: float) -> PublishReceipt:
        """WouldBlock if the message is not confirmed in time."""
        timeout = check_timeout(timeout) or 0
        future: asyncio.Future[PublishReceipt] = asyncio.Future(loop=self.loop)
        self.send(row, future)
        try:
            # Unlike wait_for, this never throws away a receipt that arrives in the last moment.
            await asyncio.wait([future], timeout=timeout)
            if future.done():
                return future.result()
            raise no_room(timeout) if future in self._late else not_confirmed(timeout)
        finally:
            future.cancel()
            self.forget(future)

    def forget(self, future: asyncio.Future[PublishReceipt]) -> None:
        """Its task has gone: if the message is not on its way yet, it will not be stored."""
        self._late.pop(future, None)

    def _begin_turn(self, weight: int) -> bool:
        """False if it has begun, if others wait already, or if there is no room."""
        if self._waiting or (self._late and not self._is_admitting) or not self.stream.has_room(weight):
            return False
        self._room_bytes = self.stream.room_bytes()
        self.loop.call_soon(self.flush)
        return True

    def flush(self) -> None:
        waiting, self._waiting = self._waiting, {}
        self._room_bytes = 0
        for number, run in waiting.items():
            self._submit(number, run)

    def settle(self, entries: Sequence[Entry]) -> None:
        """On the commit thread: one call into the loop for all that was committed together."""
        try:
            self.loop.call_soon_threadsafe(self._resolve, entries)
        except RuntimeError:
            count = sum(entry.pending.count for entry in entries)
            logger.warning("the event loop ended before its messages were committed count=%s", count)

    def _listen(self) -> None:
        if not self._is_listening:
            self._is_listening = True
            self.stream.call_when_settled(self._hear)

    def _hear(self) -> None:
        """On the commit thread."""
        with suppress(RuntimeError):  # the loop has ended, and with it who waits
            self.loop.call_soon_threadsafe(self._admit)

    def _admit(self) -> None:
        """Send what was late and has room now."""
        self._is_listening = False
        self._is_admitting = True
        admitted = []
        for future, row in self._late.items():
            if not future.done() and not self.send(row, future):
                break
            admitted.append(future)
        for future in admitted:
            del self._late[future]
        self._is_admitting = False

    def _submit(self, number: int, run: Run) -> None:
        run.close()
        try:
            self.stream.submit(run, self, number)
        except LaminaError as error:
            run.fail(error)

    def _resolve(self, entries: Sequence[Entry]) -> None:
        name = self.stream.name
        for entry in entries:
            run = entry.pending
            assert isinstance(run, Run)
            if entry.error is not None:
                run.fail(entry.error)
                continue
            number, offset, epoch = entry.partition, entry.first, entry.epoch
            for time, future in zip(run.times, run.futures, strict=True):
                if not future.done():
                    future.set_result(PublishReceipt(name, number, offset, epoch, time))
                offset += 1


class Run(Pending):
    """Packed rows for one partition, with their times and the futures of their tasks."""

    __slots__ = ("futures", "rows", "times")

    def __init__(self) -> None:
        self.rows: list[bytes] = []
        self.times: list[int] = []
        self.futures: list[asyncio.Future[PublishReceipt]] = []
        super().__init__(self.rows, 0, 0, 0)

    def close(self) -> None:
        """No more rows: say what they are together."""
        self.count = len(self.rows)
        self.ts_min, self.ts_max = min(self.times), max(self.times)

    def fail(self, error: Exception) -> None:
        for future in self.futures:
            if not future.done():
                future.set_exception(error)
