"""The memory kv: what is its own."""

from __future__ import annotations

import pytest

from lamina.errors import Closed, Conflict
from lamina.kv import MemoryKv


def test_it_is_opened_again_only_when_closed() -> None:
    kv = MemoryKv()
    kv.put_batch([(b"a", b"1")])
    with pytest.raises(Conflict):
        kv.reopen()
    kv.close()
    again = kv.reopen()
    assert again.get(b"a") == b"1"
    with pytest.raises(Closed):
        kv.get(b"a")
    kv.close()
    with pytest.raises(Conflict):
        kv.reopen()


def test_blocks_split_and_vanish() -> None:
    kv = MemoryKv()
    names = [b"%06d" % n for n in range(5000)]
    kv.put_batch([(name, b"") for name in names])
    for name in names[::2]:
        kv.put_batch([], [name])
    assert [key for key, _ in kv.range(b"", b"\xff")] == names[1::2]
    kv.put_batch([], names)
    assert list(kv.range(b"", b"\xff")) == []
    kv.put_batch([(b"again", b"1")])
    assert list(kv.range(b"", b"\xff", reverse=True)) == [(b"again", b"1")]
