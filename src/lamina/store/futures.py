"""`publish(wait=False)`: a Future that is settled by whoever commits the message."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from lamina.log import Deadline, Entry, Pending, Stream, not_confirmed
from lamina.model import PublishReceipt, Row


class FutureSink:
    """The sink of one message."""

    __slots__ = ("_future", "_stream", "_timestamp")

    def __init__(self, future: Future[PublishReceipt], stream: str, timestamp: int) -> None:
        self._future = future
        self._stream = stream
        self._timestamp = timestamp

    @classmethod
    def publish(cls, stream: Stream, row: Row, deadline: Deadline) -> Future[PublishReceipt]:
        """Waits only while there is no room for the message."""
        future: Future[PublishReceipt] = Future()
        future.set_running_or_notify_cancel()  # what is in the queue cannot be called back
        sink = cls(future, stream.name, row.timestamp)
        stream.submit_within(deadline, Pending.of_row(row), sink, stream.partition_of(row))
        return future

    def settle(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.error is not None:
                self._future.set_exception(entry.error)
            else:
                receipt = PublishReceipt(self._stream, entry.partition, entry.first, entry.epoch, self._timestamp)
                self._future.set_result(receipt)


def wait_for(future: Future[PublishReceipt], deadline: Deadline) -> PublishReceipt:
    """The receipt; WouldBlock if it does not come in time."""
    try:
        return future.result(deadline.left())
    except TimeoutError as error:
        raise not_confirmed(deadline.timeout) from error
