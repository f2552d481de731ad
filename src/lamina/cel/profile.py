"""How large and how costly a filter may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Limits that are checked when a filter is compiled, so that no text is dear at run time."""

    name: str
    source_bytes_max: int = 4096
    nodes_max: int = 256
    """Operators, calls, variables and literals; the literals of a list are bounded by `list_items_max` instead."""
    depth_max: int = 32
    list_items_max: int = 256
    regex_bytes_max: int = 256
    steps_max: int = 10_000
    """Of all macros together, nested ones multiplied: the official runtime gives up beyond it."""
    has_strings: bool = True
    """Functions such as `lowerAscii` and `split`."""
    has_macros: bool = True
    """`exists`, `all`, `exists_one`, `map`, `filter`: over labels and lists of literals only."""
    has_dyn: bool = True
    has_bytes: bool = True


QUERY = Profile(name="query")
SUBSCRIPTION = Profile(name="subscription", has_strings=False, has_macros=False, has_dyn=False, has_bytes=False)
"""Many subscriptions meet every batch: only what is cheap for each of them."""
