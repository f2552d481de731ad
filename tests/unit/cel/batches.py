"""Columns of a few messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from lamina.cel import Columns
from lamina.model import Row, batch_of_rows, complete


def batch_of(rows: Sequence[Row], first_offset: int = 0) -> pa.RecordBatch:
    return complete(batch_of_rows(rows), np.arange(first_offset, first_offset + len(rows)))


def labelled(*labels: Mapping[str, str]) -> Columns:
    """Messages that differ in their labels."""
    return Columns(batch_of([Row(1000 + i, "t", None, b"v", dict(one)) for i, one in enumerate(labels)]), "s", 0)
