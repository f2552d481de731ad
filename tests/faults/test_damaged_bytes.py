"""Damage of single bytes and torn tails: recovery or a precise Corrupt, never wrong or silently missing messages."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable

import pytest

import lamina
from lamina.errors import LaminaError
from lamina.log.format import FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES, decode_frame_header
from lamina.log.head import Head, decode_head
from lamina.log.names import log_name, side_name
from lamina.testing import FakeClock
from tests.faults.damage import PARTITION, Truth, disk_of, end_of, outcome, salt_of, store_of
from tests.models.ledger import SOAK

LOG = f"{PARTITION}/{log_name(0)}"
HEAD = f"{PARTITION}/head"
KINDS = ("packed", "arrow", "chained")

truth_of = functools.cache(store_of)


def frame_positions(log: bytes) -> list[int]:
    """Where frames begin, and where the last one ends."""
    positions = [SEGMENT_HEADER_BYTES]
    while (header := decode_frame_header(memoryview(log), positions[-1], salt_of(log))) is not None:
        positions.append(positions[-1] + header.frame_bytes)
    return positions


def flipped(content: bytes, at: int, bits: int = 0xFF) -> bytes:
    return content[:at] + bytes([content[at] ^ bits]) + content[at + 1 :]


def every(start: int, end: int, step: int) -> range:
    return range(start, end, 1 if SOAK > 1 else step)


def without(truth: Truth, *paths: str) -> dict[str, bytes]:
    return {path: content for path, content in truth.files.items() if path not in paths}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_active_segment_is_corrupt_where_head_says_more_was_durable(kind: str) -> None:
    truth = truth_of(kind, sealed=False)
    log = truth.files[LOG]
    start = frame_positions(log)[-3]
    for size in every(start, len(log), 97 if kind == "chained" else 13):
        found = outcome(truth.files | {LOG: log[:size]}, truth)
        assert found == "corrupt" or size > len(log) - 64, f"{size} of {len(log)} bytes: {found}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_active_segment_loses_whole_calls_only_where_head_is_gone(kind: str) -> None:
    truth = truth_of(kind, sealed=False)
    log = truth.files[LOG]
    start = frame_positions(log)[-3]
    calls = {len(truth.messages) * calls // 3 for calls in range(4)}
    for size in every(start, len(log), 97 if kind == "chained" else 13):
        files = without(truth, HEAD) | {LOG: log[:size]}
        assert kind == "chained" or outcome(files, truth, may_lose=True) in ("torn", "whole")
        assert end_of(files) in calls, f"{size} of {len(log)} bytes: part of a call is left"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_head", [True, False], ids=["head", "no head"])
def test_a_truncated_sealed_segment_is_corrupt_or_whole(kind: str, with_head: bool) -> None:
    truth = truth_of(kind, sealed=True)
    log = truth.files[LOG]
    files = truth.files if with_head else without(truth, HEAD)
    for size in every(0, len(log), 41):
        outcome(files | {LOG: log[:size]}, truth)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sealed", [False, True], ids=["active", "sealed"])
@pytest.mark.parametrize("with_head", [True, False], ids=["head", "no head"])
def test_a_flipped_byte_anywhere_in_a_segment_is_found_or_harmless(kind: str, sealed: bool, with_head: bool) -> None:
    """Header, every frame with its table, footer and trailer. Without head the last call may pass for torn."""
    truth = truth_of(kind, sealed=sealed)
    log = truth.files[LOG]
    files = truth.files if with_head else without(truth, HEAD)
    last_call = last_call_position(log) if not sealed and not with_head else len(log)
    outcomes: Counter[str] = Counter()
    for at in every(0, len(log), 101 if kind == "chained" else 13):
        found = outcome(files | {LOG: flipped(log, at)}, truth, may_lose=at >= last_call)
        outcomes[found] += 1
        assert found != "torn" or at >= last_call
    assert outcomes["corrupt"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["packed", "arrow"])
@pytest.mark.parametrize("sealed", [False, True], ids=["active", "sealed"])
@pytest.mark.parametrize("bits", [0x01, 0x80])
def test_a_flipped_bit_in_a_header_is_found_or_harmless(kind: str, sealed: bool, bits: int) -> None:
    truth = truth_of(kind, sealed=sealed)
    log = truth.files[LOG]
    for at in every(0, SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES, 3):
        outcome(truth.files | {LOG: flipped(log, at, bits)}, truth)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".keys"])
@pytest.mark.parametrize("sealed", [False, True], ids=["active", "sealed"])
def test_a_damaged_side_file_is_rebuilt(suffix: str, sealed: bool) -> None:
    truth = truth_of("packed", sealed=sealed)
    path = f"{PARTITION}/{side_name(0, suffix)}"
    if path not in truth.files:
        assert (suffix, sealed) == (".keys", False)
        return
    content = truth.files[path]
    variants: list[bytes] = [flipped(content, at) for at in every(0, len(content), 5)]
    variants += [b"", content[:-1], content[: len(content) // 2], content + b"\0", content + content[-8:], b"\xff" * 64]
    for variant in variants:
        for read_only in (False, True):
            assert outcome(truth.files | {path: variant}, truth, read_only=read_only) == "whole"
    assert outcome(without(truth, path), truth) == "whole"
    assert outcome(without(truth, path), truth, read_only=True) == "whole"


@pytest.mark.parametrize("sealed", [False, True], ids=["active", "sealed"])
def test_a_flipped_byte_in_head_is_noticed(sealed: bool) -> None:
    truth = truth_of("packed", sealed=sealed)
    for at in range(len(truth.files[HEAD])):
        files = truth.files | {HEAD: flipped(truth.files[HEAD], at)}
        assert outcome(files, truth) == "whole"
        assert outcome(files, truth, read_only=True) == "corrupt"


@pytest.mark.parametrize("size", [0, 1, 31, 33, 64])
def test_a_head_of_the_wrong_size_is_rebuilt(size: int) -> None:
    truth = truth_of("packed", sealed=False)
    record = (truth.files[HEAD] * 3)[:size]
    assert outcome(truth.files | {HEAD: record}, truth) == "whole"


@pytest.mark.slow
@pytest.mark.parametrize("document", [f"{PARTITION}/partition.json", "default/stream.json", "lamina.json"])
@pytest.mark.parametrize("change", ["flip", "low bit", "cut"])
def test_a_damaged_document_is_corrupt(document: str, change: str) -> None:
    truth = truth_of("packed", sealed=False)
    content = truth.files[document]
    damage: dict[str, Callable[[int], bytes]] = {
        "flip": lambda at: flipped(content, at),
        "low bit": lambda at: flipped(content, at, 1),
        "cut": lambda at: content[:at],
    }
    for at in every(0, len(content), 3):
        assert outcome(truth.files | {document: damage[change](at)}, truth) == "corrupt", f"byte {at}"


@pytest.mark.parametrize("sealed", [False, True], ids=["active", "sealed"])
def test_a_missing_segment_is_corrupt_and_never_an_empty_log(sealed: bool) -> None:
    truth = truth_of("packed", sealed=sealed)
    assert outcome(without(truth, LOG), truth) == "corrupt"
    assert outcome(without(truth, LOG), truth, read_only=True) == "corrupt"


def test_head_beyond_the_data_is_corrupt_and_never_shows_more() -> None:
    truth = truth_of("packed", sealed=False)
    head = decode_head(truth.files[HEAD])
    assert head is not None
    for more in (1, 64, 4096):
        beyond = Head(head.end + more, head.segment, head.byte_end + 64 * more)
        assert outcome(truth.files | {HEAD: beyond.encode()}, truth) == "corrupt"


def last_call_position(log: bytes) -> int:
    """Where the frames of the last of the three calls begin."""
    positions = frame_positions(log)
    return positions[-1 - (len(positions) - 1) // 3]


@pytest.mark.parametrize("document", [f"{PARTITION}/partition.json", "default/stream.json", "lamina.json"])
def test_a_missing_document_is_an_error(document: str) -> None:
    truth = truth_of("packed", sealed=False)
    with pytest.raises(LaminaError):
        end_of(without(truth, document))


def test_a_stream_whose_document_is_missing_does_not_vanish_silently() -> None:
    """Its messages are there and nobody deleted them: opening fails, or a check of the store says so."""
    truth = truth_of("packed", sealed=False)
    moved = {path.replace("default/", "other/"): content for path, content in truth.files.items()}
    disk = disk_of(truth.files | without(Truth(moved, []), "other/stream.json"))
    try:
        store = lamina.open("store", disk=disk, clock=FakeClock(jump=False))
    except LaminaError:
        return
    with store:
        report = store.verify()
        assert not report.ok or any("other" in name for name in report.foreign)
