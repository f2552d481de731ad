"""The key index: the newest message of a key, with a Bloom filter in front and hashes that may collide."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.errors import Corrupt
from lamina.log import LogSettings
from lamina.log.key_index import KeyFile, encode_keys, find, key_hash, merge
from tests.unit.log.segments import append, key_entries, new_partition, row


def key_file(keys: list[bytes | None], topics: list[str] | None = None) -> KeyFile:
    names = topics or ["t"] * len(keys)
    return KeyFile(memoryview(encode_keys(key_entries(keys, names, range(len(keys))), names)), "test.keys")


def colliding_keys(size: int = 12) -> tuple[bytes, bytes]:
    """Two keys of one hash. CRCs are linear: some set of bits, flipped together, changes neither of the two."""
    zero = key_hash(bytes(size))
    reduced: dict[int, tuple[int, int]] = {}  # highest bit -> (change of the hash, the bits that cause it)
    for bit in range(size * 8):
        flipped = 1 << bit
        change = key_hash(flipped.to_bytes(size, "big")) ^ zero
        while change and change.bit_length() in reduced:
            known, bits = reduced[change.bit_length()]
            change, flipped = change ^ known, flipped ^ bits
        if not change:
            return bytes(size), flipped.to_bytes(size, "big")
        reduced[change.bit_length()] = change, flipped
    raise AssertionError("more bits than the hash has must hold a collision")


def test_two_different_keys_can_have_one_hash() -> None:
    first, second = colliding_keys()
    assert first != second
    assert key_hash(first) == key_hash(second)


@pytest.mark.parametrize("is_sealed", [False, True])
def test_keys_of_one_hash_are_told_apart(is_sealed: bool) -> None:
    first, second = colliding_keys()
    partition = new_partition()
    for n, key in enumerate([first, second, first, second]):
        append(partition, row(n, key=key))
    if is_sealed:
        partition.roll()
        partition.seal_closed()
    for key, offset in ((first, 2), (second, 3)):
        newest = partition.view.latest(key, None)
        assert newest is not None
        assert (newest.offset, newest.key) == (offset, key)


def test_an_absent_key_is_not_found_through_a_present_one_of_its_hash() -> None:
    first, second = colliding_keys()
    partition = new_partition()
    append(partition, row(key=first))
    assert partition.view.latest(second, None) is None


def test_a_look_up_gives_offsets_newest_first() -> None:
    runs = [key_entries([b"k", b"x"], ["t", "t"], [0, 1]), key_entries([b"k", b"k"], ["t", "u"], [7, 9])]
    merged = merge(runs)
    assert list(find(merged, b"k", None)) == [9, 7, 0]
    assert list(find(merged, b"k", "t")) == [7, 0]
    assert list(find(merged, b"absent", None)) == []
    assert list(find(merge([]), b"k", None)) == []


def test_only_the_last_message_of_a_topic_and_key_is_kept() -> None:
    entries = key_entries([b"k", b"k", None, b"k"], ["t", "t", "t", "u"], range(4))
    assert list(find(entries, b"k", "t")) == [1]
    assert list(find(entries, b"k", "u")) == [3]
    assert len(entries) == 2


def test_the_bloom_filter_never_denies_a_key_that_is_there() -> None:
    keys: list[bytes | None] = [f"user-{n}".encode() for n in range(5000)]
    file = key_file(keys)
    assert all(file.may_contain(key) for key in keys if key is not None)
    assert [list(file.find(key, "t")) for key in keys if key is not None] == [[n] for n in range(5000)]


@pytest.mark.parametrize(
    ("present", "absent"),
    [("user-{}", "user-{}"), ("{:08d}", "{:08d}"), ("order/{}/eu", "order/{}/us"), ("{:x}", "customer {:x}")],
)
def test_the_bloom_filter_is_wrong_for_fewer_than_3_absent_keys_in_100(present: str, absent: str) -> None:
    file = key_file([present.format(n).encode() for n in range(5000)])
    wrong = sum(file.may_contain(absent.format(n).encode()) for n in range(100_000, 110_000))
    assert wrong < 300


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.none() | st.binary(max_size=3), st.sampled_from(["a", "b", "ä"])), max_size=40))
def test_a_key_file_agrees_with_a_dict(messages: list[tuple[bytes | None, str]]) -> None:
    file = key_file([key for key, _ in messages], [topic for _, topic in messages])
    newest: dict[tuple[str, bytes], int] = {}
    for offset, (key, topic) in enumerate(messages):
        if key is not None:
            newest[topic, key] = offset
    for (topic, key), offset in newest.items():
        assert next(file.find(key, topic)) == offset
        assert next(file.find(key, None)) == max(at for (_, other), at in newest.items() if other == key)
    assert file.topics() == sorted({topic for _, topic in messages})


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from([None, b"", b"a", b"b"]), st.sampled_from("tu")), min_size=1, max_size=4)
    ),
    st.integers(0, 6),
    st.booleans(),
)
def test_the_newest_of_a_key_agrees_with_a_scan(
    groups: list[list[tuple[bytes | None, str]]], dropped: int, is_sealed: bool
) -> None:
    partition = new_partition(settings=LogSettings(index_interval_bytes=1, index_entries_max=2))
    for group in groups:
        append(partition, *(row(key=key, topic=topic) for key, topic in group))
        partition.view.latest(b"a", None)
    if is_sealed:
        partition.seal_closed()
    partition.delete_before(dropped)
    kept = list(enumerate(message for group in groups for message in group))[dropped:]
    for key, topic in itertools.product([b"", b"a", b"b", b"c"], [None, "t", "u", "v"]):
        wanted = [offset for offset, (k, t) in kept if k == key and topic in (None, t)]
        newest = partition.view.latest(key, topic)
        assert (newest.offset if newest else None) == max(wanted, default=None)


def test_a_key_file_without_keys_still_knows_its_topics() -> None:
    file = key_file([None, None], ["b", "a"])
    assert not file.may_contain(b"")
    assert list(file.find(b"", None)) == []
    assert file.topics() == ["a", "b"]


@pytest.mark.parametrize("at", [0, 9, 20, 60, 64, 100, -1])
def test_a_flipped_bit_in_a_key_file_is_corrupt(at: int) -> None:
    data = bytearray(encode_keys(key_entries([b"a", b"b"], ["t", "u"], [0, 1]), ["t", "u"]))
    data[at] ^= 4
    with pytest.raises(Corrupt, match=r"test\.keys"):
        KeyFile(memoryview(data), "test.keys")


@pytest.mark.parametrize("size", [0, 10, 63, 64, 190])
def test_a_key_file_that_is_cut_is_corrupt(size: int) -> None:
    data = encode_keys(key_entries([b"a", b"b"], ["t", "u"], [0, 1]), ["t", "u"])
    assert size < len(data)
    with pytest.raises(Corrupt):
        KeyFile(memoryview(data)[:size], "test.keys")


def test_relative_offsets_up_to_32_bits_are_kept() -> None:
    entries = key_entries([b"k"], ["t"], [2**32 - 1])
    assert list(find(entries, b"k", "t")) == [2**32 - 1]
    assert list(find(merge([entries]), b"k", "t")) == [2**32 - 1]
