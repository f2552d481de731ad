"""The engine over a kv: its keys, and what is left in them."""

from __future__ import annotations

import pytest

from lamina.errors import Corrupt
from lamina.index.backends import Entry, IndexStore, KvBackend
from lamina.index.backends.ordered import keys
from lamina.kv import MemoryKv
from tests.conformance.index_backends_subject import BASE


def entry(number: int, expires_at: int | None = None, **labels: str) -> Entry:
    return Entry(f"{number:04x}", labels, BASE + number, expires_at)


def contents(kv: MemoryKv) -> list[bytes]:
    return [key for key, _ in kv.range(b"", b"\xff")]


# C0-8
def test_replaced_and_deleted_entries_leave_no_keys() -> None:
    kv = MemoryKv()
    store = IndexStore(KvBackend(kv))
    store.register_composite("pair", ["a", "b"])
    before = contents(kv)
    store.index_many(entry(n, BASE * 2, a="1", b=str(n)) for n in range(20))
    assert len(contents(kv)) == len(before) + 20 * 6 + 1
    store.index_many(entry(n, a="2", b="x") for n in range(20))
    assert len(contents(kv)) == len(before) + 20 * 5 + 1
    store.delete(*(f"{n:04x}" for n in range(20)))
    assert contents(kv) == sorted([*before, keys.COUNT_KEY])
    store.drop_composite("pair")
    assert contents(kv) == [keys.COMPOSITE, keys.COUNT_KEY, keys.VERSION_KEY]


def test_the_bytes_of_keys_stay_as_they_are() -> None:
    one = Entry("ab", {"k": "v"}, 1, 2)
    payload = keys.encode_entry(one)
    assert payload == b"\x93\x01\x02\x81\xa1k\xa1v"
    position = b"\0\0\0\0\0\0\0\x01ab"
    expiry = b"\0\0\0\0\0\0\0\x02"
    definition = keys.Definition("pair", 3, ("k",), "ready")
    assert keys.index_pairs(one, payload, [definition]) == [
        (b"t" + position, expiry),
        (b"l\0\x01k\0\x01v" + position, expiry),
        (b"x" + expiry + b"ab", b""),
        (b"c\0\0\0\0\0\0\0\x03\0\x01v" + position, payload),
    ]
    assert keys.decode_definition(keys.encode_definition(definition)) == definition


# D0-9
def test_no_two_lists_of_texts_share_a_prefix() -> None:
    tricky = ["", "a", "b", "ab", "a\x01", "\x01a", "a" * 256, "a" * 257]
    made = [keys.label_prefix(key, value) for key in tricky[1:] for value in tricky]
    assert len(set(made)) == len(made)
    assert not any(one != other and one.startswith(other) for one in made for other in made)


# D0-12: what a killed process left of a dropped composite is swept and cannot come back.
def test_remains_of_a_dropped_composite_are_swept_at_opening() -> None:
    kv = MemoryKv()
    store = IndexStore(KvBackend(kv))
    store.index_many(entry(n, a="1", b="1") for n in range(5))
    store.register_composite("pair", ["a", "b"])
    rows = [pair for pair in kv.range(b"c\0", b"d")]
    assert len(rows) == 5
    store.drop_composite("pair")
    kv.put_batch(rows)  # as if the process had died before it removed them
    store.close()
    kv = kv.reopen()
    store = IndexStore(KvBackend(kv))
    assert list(kv.range(b"c\0", b"d")) == []
    store.register_composite("pair", ["a", "b"])
    assert len(store.query(labels={"a": "1", "b": "1"}).entries) == 5


def test_a_newer_format_is_refused_and_the_kv_is_given_back() -> None:
    kv = MemoryKv()
    kv.put_batch([(keys.VERSION_KEY, b"\x09")])
    with pytest.raises(Corrupt, match="upgrade"):
        KvBackend(kv)
    kv.reopen().close()


def test_the_rarer_label_leads() -> None:
    store = IndexStore(KvBackend())
    store.index_many(entry(n, app="dm", thread=str(n % 50)) for n in range(1000))
    page = store.query(labels={"app": "dm", "thread": "7"})
    assert page.explain.steps == ("label 'thread' -> labels['app'], labels['thread']",)
    assert len(page.entries) == page.explain.scanned == 20
    common = store.query('labels["app"] in ["dm", "x"] && labels["thread"] in ["1", "2"]', descending=True)
    assert "label 'thread'" in common.explain.steps[0]
