"""Compiling: texts to filters, by way of a template where another filter has been through the compiler already."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

from lamina.cel import official
from lamina.cel.ast import Node
from lamina.cel.check import check_text, check_tree
from lamina.cel.complaints import from_refused
from lamina.cel.decode import Decoded
from lamina.cel.filter import Filter
from lamina.cel.profile import QUERY, Profile
from lamina.cel.shapes import Shape, shape_of
from lamina.cel.template import Lifted, lift
from lamina.errors import FilterError, InvalidRequest

T = TypeVar("T")
_TEMPLATES_MAX = 4096
_FILTERS_MAX = 1024


@dataclass(frozen=True, slots=True)
class CacheStats:
    """How often a template was known, and how often the official compiler was asked."""

    hits: int
    misses: int
    templates: int


@dataclass(frozen=True, slots=True)
class _Template:
    tree: Node
    shape: Shape | None


class Compiler:
    """Texts to filters, with a bounded memory of templates and of whole filters. Any thread."""

    def __init__(self, templates_max: int = _TEMPLATES_MAX, filters_max: int = _FILTERS_MAX) -> None:
        self._lock = threading.Lock()
        self._templates: _Recent[_Template] = _Recent(templates_max)
        self._filters: _Recent[Filter] = _Recent(filters_max)
        self._hits = self._misses = 0

    def compile(self, text: str, profile: Profile = QUERY) -> Filter:
        """The filter of a text, "" being everything; FilterError says what is wrong with it, and where."""
        if not isinstance(text, str):
            raise InvalidRequest(f"a filter is a str, not {type(text).__name__}")
        with self._lock:
            known = self._filters.get((profile, text))
        if known is None:
            known = self._compile(text, profile)
            with self._lock:
                self._filters.put((profile, text), known)
        return known

    def stats(self) -> CacheStats:
        with self._lock:
            return CacheStats(self._hits, self._misses, len(self._templates))

    def _compile(self, text: str, profile: Profile) -> Filter:
        check_text(text, profile)
        source = text if text.strip() else "true"
        lifted = lift(source)
        template = None if lifted is None else self._template(lifted, profile)
        if template is not None and lifted is not None:
            return Filter(text, lifted.text, template.tree, lifted.literals, template.shape)
        return Filter(text, source, _checked(source, source, profile).node, ())

    def _template(self, lifted: Lifted, profile: Profile) -> _Template | None:
        """The template; None if it does not compile: then the text itself says why."""
        key = (profile, lifted.pieces, tuple(map(type, lifted.literals)))
        with self._lock:
            known = self._templates.get(key)
            self._hits += known is not None
            self._misses += known is None
        if known is None:
            text = lifted.stand_in()
            try:
                tree = lifted.tree(_checked(text, text, profile).node)
            except FilterError:
                return None
            if tree is None:
                return None
            known = _Template(tree, shape_of(tree, lifted.literals))
            with self._lock:
                self._templates.put(key, known)
        return known


def _checked(text: str, source: str, profile: Profile) -> Decoded:
    try:
        decoded, type_name = official.check(text, has_strings=profile.has_strings)
    except official.Refused as refused:
        raise from_refused(source, refused) from None
    check_tree(source, decoded, type_name, profile)
    return decoded


class _Recent(Generic[T]):
    """The values used last; its owner holds the lock."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._values: OrderedDict[object, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: object) -> T | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: object, value: T) -> None:
        self._values[key] = value
        while len(self._values) > self._count_max:
            self._values.popitem(last=False)


_compiler = Compiler()


def compile(text: str, *, profile: Profile = QUERY) -> Filter:
    """The filter of a text; "" is everything. FilterError says what is wrong, where, and what was probably meant."""
    return _compiler.compile(text, profile)
