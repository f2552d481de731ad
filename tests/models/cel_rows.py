"""Random messages, as dicts for the official runtime and as batches (whole, sliced, taken) for ours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

import numpy as np
import pyarrow as pa

from lamina.cel import Columns
from lamina.model import Row, batch_of_rows, complete, format_ref
from tests.models.cel_expressions import LABELS, NUMBERS, TEXTS, TOPICS

STREAM, PARTITION, COUNT = "s", 1, 64
TIMES = tuple(number for number in NUMBERS if number <= 253_402_300_799_999_999)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Variables = dict[str, object]


@dataclass(frozen=True, slots=True)
class Sample:
    """The same messages twice; `variables` leaves out what a message does not have."""

    variables: list[Variables]
    columns: Columns


def samples(seed: int) -> list[Sample]:
    """Messages of every shape that a batch comes in."""
    random = Random(seed)
    made = [_messages(random, COUNT, alike=False) for _ in range(3)] + [_messages(random, COUNT, alike=True)]
    (whole, sliced, taken, alike), places = made, [random.randrange(COUNT) for _ in range(12)]
    found = [
        _sample(*whole),
        _sample(sliced[0][13:31], sliced[1].slice(13, 18)),
        _sample([taken[0][place] for place in places], taken[1].take(pa.array(places))),
        _sample(alike[0][40:], alike[1].slice(40)),
        _sample([], whole[1].slice(3, 0)),
    ]
    part = found[0].columns.take(np.arange(5, 30)).take(np.array([0, 3, 24, 3]))
    found.append(Sample([whole[0][5 + place] for place in (0, 3, 24, 3)], part))
    return found


Messages = tuple[list[Variables], pa.RecordBatch]


def _sample(variables: list[Variables], batch: pa.RecordBatch) -> Sample:
    return Sample(variables, Columns(batch, STREAM, PARTITION))


def _messages(random: Random, count: int, *, alike: bool) -> Messages:
    pattern = random.sample(LABELS, 3)
    rows = [_row(random, pattern if alike else None) for _ in range(count)]
    offsets = [random.choice((*range(70), 2**62, 2**63 - 1, 2**63 - 2)) for _ in range(count)]
    batch = complete(batch_of_rows(rows), np.array(offsets, np.int64))
    return [_variables(row, offset) for row, offset in zip(rows, offsets, strict=True)], batch


def _row(random: Random, pattern: list[str] | None) -> Row:
    keys = pattern if pattern is not None else random.sample(LABELS, random.randint(0, len(LABELS)))
    value = random.choice((None, b"", b"abc", b"x" * 64, b"y" * 127))
    return Row(
        timestamp=random.choice(TIMES),
        topic=random.choice(TOPICS),
        key=random.choice((None, b"", b"a", b"k\0z", b"\0", b"\xff\xfe", "é".encode(), b"42", b"dm")),
        value=value,
        labels={key: random.choice(TEXTS) for key in keys},
        expires_at=random.choice((None, *TIMES)),
        priority=random.choice((None, 0, 1, 5, 127)),
    )


def _variables(row: Row, offset: int) -> Variables:
    found: Variables = {
        "labels": row.labels,
        "topic": row.topic,
        "key": row.key,
        "timestamp": row.timestamp,
        "time": _EPOCH + timedelta(microseconds=row.timestamp),
        "offset": offset,
        "partition": PARTITION,
        "size": 0 if row.value is None else len(row.value),
        "priority": row.priority,
        "ref": format_ref(STREAM, PARTITION, offset),
        "expires_at": row.expires_at,
    }
    return {name: value for name, value in found.items() if value is not None}
