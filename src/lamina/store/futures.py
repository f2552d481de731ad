"""`publish(wait=False)`: a Future that is settled by whoever commits the message."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from lamina.log import Entry, Pending, Stream, not_confirmed
from lamina.model import PublishReceipt, Row


class FutureSink:
    """The sink of one message."""

    __slots__ = ("_future", "_stream", "_timestamp")

    def __init__(self, future: Future[PublishReceipt], stream: str, timestamp: int) -> None:
        self._future = future
        self._stream = stream
        self._timestamp = timestamp

    @classmethod
    def publish(cls, stream: Stream, row: Row) -> Future[PublishReceipt]:
        future: Future[PublishReceipt] = Future()
        future.set_running_or_notify_cancel()  # what is in the queue cannot be called back
        stream.submit(Pending.of_row(row), cls(future, stream.name, row.timestamp), stream.partition_of(row))
        return future

    def settle(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.error is not None:
                self._future.set_exception(entry.error)
            else:
                receipt = PublishReceipt(self._stream, entry.partition, entry.first, entry.epoch, self._timestamp)
                self._future.set_result(receipt)


def wait_for(future: Future[PublishReceipt], timeout: float) -> PublishReceipt:
    """The receipt; WouldBlock if it takes longer than `timeout` seconds."""
    try:
        return future.result(timeout)
    except TimeoutError as error:
        raise not_confirmed(timeout) from error
