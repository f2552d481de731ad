"""The cursor of a page, printable: the last entry returned, and which query it belongs to.

`<16 hex digits of the timestamp>.<a or d><8 hex digits of the query>.<ref>`
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from zlib import crc32

import msgspec

from lamina.errors import InvalidRequest
from lamina.index.backends.entry import Position
from lamina.index.backends.plans import AnyOf

_SHAPE = re.compile(r"([0-9a-f]{16})\.([ad][0-9a-f]{8})\.(.+)", re.DOTALL)


def query_mark(
    text: str | None,
    labels: Mapping[str, str] | None,
    any_of: AnyOf | None,
    span: tuple[int | None, int | None],
    *,
    descending: bool,
) -> str:
    """Two queries with one mark walk along the same entries in the same direction."""
    alternatives = [
        sorted(one.items() if isinstance(one, Mapping) else [tuple(pair) for pair in one]) for one in any_of or ()
    ]
    whole = msgspec.json.encode([text, sorted((labels or {}).items()), alternatives, span])
    return f"{'d' if descending else 'a'}{crc32(whole):08x}"


def format_cursor(position: Position, mark: str) -> str:
    return f"{position.timestamp:016x}.{mark}.{position.ref}"


def parse_cursor(cursor: str, mark: str) -> Position:
    """InvalidRequest if it is no cursor, or one of another query or direction."""
    match = _SHAPE.fullmatch(cursor) if isinstance(cursor, str) else None
    if match is None:
        raise InvalidRequest(f"{cursor!r:.80} is not a cursor; pass the cursor of a page as it was given")
    if match[2][0] != mark[0]:
        raise InvalidRequest("the cursor belongs to the other direction; begin without it to turn round")
    if match[2] != mark:
        raise InvalidRequest("the cursor belongs to another query; repeat the query that gave it, or begin without it")
    return Position(int(match[1], 16), match[3])
