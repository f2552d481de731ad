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

    def encode(self, stream: str) -> str:
        body = f"{'d' if self.descending else 'a'}{self.timestamp:x}.{self.partition:x}.{self.offset:x}"
        return f"{body}.{_check(body, stream):08x}"

    @classmethod
    def decode(cls, text: object, stream: str, *, descending: bool) -> Cursor:
        """InvalidRequest unless it is a cursor of this stream and direction."""
        match = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if match is None or int(match[5], 16) != _check(match[0].rpartition(".")[0], stream):
            raise InvalidRequest(
                f"{text!r:.80} is not a cursor of stream {stream!r}; pass page.cursor of a query of this stream"
            )
        if (match[1] == "d") is not descending:
            way = "descending" if match[1] == "d" else "ascending"
            raise InvalidRequest(f"the cursor is of a query in {way} order; go on in the same order, or without it")
        return cls(int(match[2], 16), int(match[3], 16), int(match[4], 16), descending)


def _check(body: str, stream: str) -> int:
    return crc32c(f"{stream}\0{body}".encode())
