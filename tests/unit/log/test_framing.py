"""From waiting calls to frames: packed below 64 messages, Arrow from there, calls that stay whole."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.errors import Corrupt
from lamina.log.block import Block
from lamina.log.codec import decode_batch, decode_rows, encode_batch, join_rows, pack_row
from lamina.log.format import Codec, Flag, FrameHeader, ProducerEntry
from lamina.log.framing import NO_TS_MAX, NO_TS_MIN, Draft, Pending, draft_frames
from lamina.model import Row, batch_of_rows
from tests.unit.log.segments import pending, row

TARGET = 1 << 20


def rows(count: int, first: int = 0) -> list[Row]:
    return [row(n) for n in range(first, first + count)]


def values(draft: Draft) -> list[bytes | None]:
    header = FrameHeader(
        draft.codec, 0, 0, len(draft.payload), 0, 0, draft.count, draft.count, draft.ts_min, draft.ts_max, 0, 0
    )
    block = Block.decode(header, memoryview(draft.payload), 0)
    return [message.value for message in block.messages("s", 0)]


@pytest.mark.parametrize("count", [1, 63, 64, 500])
def test_rows_of_many_calls_share_one_packed_frame(count: int) -> None:
    (draft,) = draft_frames([pending(each) for each in rows(count)], TARGET)
    assert draft.codec is Codec.PACKED
    assert draft.count == count


def test_a_frame_knows_its_smallest_and_largest_timestamp() -> None:
    (draft,) = draft_frames([pending(row(timestamp=time)) for time in (50, 10, 70, 20)], TARGET)
    assert (draft.ts_min, draft.ts_max) == (10, 70)


def test_calls_share_a_frame_up_to_its_size() -> None:
    calls = [pending(row(n, size=300)) for n in range(10)]
    drafts = draft_frames(calls, 3 * calls[0].bytes)
    assert [draft.count for draft in drafts] == [3, 3, 3, 1]
    assert [value for draft in drafts for value in values(draft)] == [row(n, size=300).value for n in range(10)]


def test_a_call_larger_than_a_frame_gets_a_frame_of_its_own() -> None:
    drafts = draft_frames([pending(row(0)), pending(row(1, size=5000)), pending(row(2))], 1000)
    assert [draft.count for draft in drafts] == [1, 1, 1]


def test_batches_stay_apart_and_all_but_the_last_say_that_more_follows() -> None:
    batches = [batch_of_rows(rows(2)), batch_of_rows(rows(1, 2)), batch_of_rows(rows(3, 3))]
    call = Pending.of_batches(batches)
    drafts = draft_frames([pending(row(90)), call, pending(row(91))], TARGET)
    assert [draft.codec for draft in drafts] == [Codec.PACKED, *[Codec.ARROW] * 3, Codec.PACKED]
    assert [draft.flags for draft in drafts] == [0, Flag.MORE, Flag.MORE, 0, 0]
    assert call.count == 6


def test_the_table_names_the_rows_of_each_numbered_call() -> None:
    group = [
        pending(*rows(2), producer=("a", 5)),
        pending(row(2)),
        pending(*rows(3, 3), producer=("b", 0)),
        pending(producer=("c", 9)),
    ]
    (draft,) = draft_frames(group, TARGET)
    assert draft.table == [ProducerEntry("a", 5, 0, 2), ProducerEntry("b", 0, 3, 3), ProducerEntry("c", 9, 6, 0)]


def test_the_rows_of_a_numbered_call_are_counted_from_their_own_frame() -> None:
    calls = [pending(row(n, size=300), producer=("p", n)) for n in range(4)]
    drafts = draft_frames(calls, 2 * calls[0].bytes)
    assert [draft.table for draft in drafts] == [
        [ProducerEntry("p", 0, 0, 1), ProducerEntry("p", 1, 1, 1)],
        [ProducerEntry("p", 2, 0, 1), ProducerEntry("p", 3, 1, 1)],
    ]


def test_each_batch_of_a_numbered_call_names_its_producer() -> None:
    call = Pending.of_batches([batch_of_rows(rows(2)), batch_of_rows(rows(3))], ("p", 1))
    assert [draft.table for draft in draft_frames([call], TARGET)] == [
        [ProducerEntry("p", 1, 0, 2)],
        [ProducerEntry("p", 1, 0, 3)],
    ]


def test_a_numbered_call_without_messages_still_uses_a_frame() -> None:
    (draft,) = draft_frames([pending(producer=("p", 1))], TARGET)
    assert (draft.count, draft.ts_min, draft.ts_max) == (0, NO_TS_MIN, NO_TS_MAX)
    assert draft.table == [ProducerEntry("p", 1, 0, 0)]


def test_no_calls_make_no_frames() -> None:
    assert draft_frames([], TARGET) == []


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 400), max_size=5), max_size=30), st.integers(200, 3000))
def test_frames_hold_all_messages_in_order(groups: list[list[int]], target: int) -> None:
    calls = [[row(n, size=size) for n, size in enumerate(sizes)] for sizes in groups]
    drafts = draft_frames([pending(*call) for call in calls], target)
    assert [v for draft in drafts for v in values(draft)] == [each.value for call in calls for each in call]
    assert sum(draft.count for draft in drafts) == sum(len(call) for call in calls)


def test_packed_rows_come_back() -> None:
    packed = [Row(1, "ä", b"k", None, {"a": "b"}, 2, 3, 4), row(5)]
    assert decode_rows(join_rows([pack_row(each) for each in packed])) == packed
    assert decode_rows(memoryview(join_rows([]))) == []


def test_a_batch_comes_back() -> None:
    batch = batch_of_rows([Row(1, "ä", b"k", None, {"a": "b"}, 2, 3, 4), row(5)])
    assert decode_batch(encode_batch(batch)).equals(batch)


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x91\x01", b"garbage"])
def test_payloads_that_cannot_be_read_are_corrupt(payload: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_rows(payload)
    with pytest.raises(Corrupt):
        decode_batch(memoryview(payload))


@pytest.mark.parametrize("codec", [Codec.PACKED, Codec.ARROW])
def test_a_payload_with_another_count_than_its_header_is_corrupt(codec: Codec) -> None:
    payload = (
        join_rows([pack_row(each) for each in rows(2)])
        if codec is Codec.PACKED
        else encode_batch(batch_of_rows(rows(2)))
    )
    header = FrameHeader(codec, 0, 0, len(payload), 0, 0, 3, 3, 0, 0, 0, 0)
    with pytest.raises(Corrupt, match="header says 3"):
        Block.decode(header, memoryview(payload), 0)


def test_a_frame_of_an_unknown_codec_asks_for_an_upgrade() -> None:
    with pytest.raises(Corrupt, match="upgrade"):
        Block.decode(FrameHeader(9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), memoryview(b""), 0)


def test_a_sparse_frame_keeps_the_offset_of_each_row() -> None:
    batch = batch_of_rows(rows(3))
    sparse = batch.append_column("offset", pa.array([0, 4, 9]))
    payload = encode_batch(sparse)
    header = FrameHeader(Codec.ARROW, 0, 0, len(payload), 0, 10, 20, 3, 0, 0, 0, 0)
    block = Block.decode(header, payload, 100)
    assert block.offset_array().tolist() == [110, 114, 119]
    assert [m.offset for m in block.between(111, 119).messages("s", 0)] == [114]
    assert block.arrow().column("offset").to_pylist() == [110, 114, 119]
