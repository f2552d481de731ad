"""Fixtures of the store's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import lamina
from tests.unit.store.stores import memory_store


@pytest.fixture
def store() -> Iterator[lamina.Store]:
    with memory_store() as opened:
        yield opened
