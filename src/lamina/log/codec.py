"""Payloads: packed rows for small groups, one Arrow IPC stream for large ones. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa
import pyarrow.ipc

from lamina.errors import Corrupt
from lamina.model import Row

ROWS_PACKED_MAX = 63
"""A call with more messages becomes an Arrow batch in its own thread: from here on readers save more than it costs."""

_encoder = msgspec.msgpack.Encoder()
_row_decoder = msgspec.msgpack.Decoder(list[Row])


def pack_row(row: Row) -> bytes:
    """One packed row: a MessagePack array in the field order of Row."""
    return _encoder.encode(row)


def join_rows(packed: Sequence[bytes]) -> bytes:
    """The payload of a packed frame: one MessagePack array of packed rows."""
    count = len(packed)
    if count < 16:
        head = bytes((0x90 | count,))
    elif count < 1 << 16:
        head = b"\xdc" + count.to_bytes(2, "big")
    else:
        head = b"\xdd" + count.to_bytes(4, "big")
    return head + b"".join(packed)


def decode_rows(payload: bytes | memoryview) -> list[Row]:
    try:
        return _row_decoder.decode(payload)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"packed rows cannot be read: {error}") from error


def encode_batch(batch: pa.RecordBatch) -> memoryview:
    """One Arrow IPC stream: schema, dictionaries, one batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())


def decode_batch(payload: memoryview) -> pa.RecordBatch:
    """The stored batch, sharing the payload's memory."""
    try:
        return pa.ipc.open_stream(pa.py_buffer(payload)).read_next_batch()
    except (pa.ArrowException, StopIteration, OSError) as error:
        raise Corrupt(f"an Arrow payload cannot be read: {error}") from error
