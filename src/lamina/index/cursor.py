"""The cursor of a page: the last message that was returned, as an opaque text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from crc32c import crc32c

from lamina.errors import InvalidRequest

_TEXT = re.compile(r"([ad])([0-9a-f]+)\.([0-9a-f]+)\.([0-9a-f]+)\.([0-9a-f]{8})")


@dataclass(frozen=True, slots=True)
class Cursor:
    """Everything up to and including this message has been seen, in this direction."""

    timestamp: int
    partition: int
    offset: int
    descending: bool

    def encode(self, asked: str) -> str:
        """`asked` stands for the query: its stream and all that it selects by."""
        body = f"{'d' if self.descending else 'a'}{self.timestamp:x}.{self.partition:x}.{self.offset:x}"
        return f"{body}.{_check(body, asked):08x}"

    @classmethod
    def decode(cls, text: object, asked: str, *, descending: bool) -> Cursor:
        """InvalidRequest unless it is a cursor of this query in this direction."""
        match = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise InvalidRequest(f"{text!r:.80} is not a cursor; pass page.cursor of the same query")
        if (match[1] == "d") is not descending:
            way = "descending" if match[1] == "d" else "ascending"
            raise InvalidRequest(f"the cursor is of a query in {way} order; go on in the same order, or without it")
        if int(match[5], 16) != _check(match[0].rpartition(".")[0], asked):
            raise InvalidRequest(
                f"the cursor {text!r:.80} is of another query; go on with the same stream, filter, labels and times"
            )
        return cls(int(match[2], 16), int(match[3], 16), int(match[4], 16), descending)


def _check(body: str, asked: str) -> int:
    return crc32c(f"{asked}\0{body}".encode())
