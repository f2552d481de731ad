"""`lamina.open`: from a path to a store."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path
from weakref import WeakSet

from lamina.clock import Clock, SystemClock
from lamina.disk import Disk, FileDisk, MemoryDisk
from lamina.errors import InvalidRequest, NotFound
from lamina.log import Catalog
from lamina.metrics import Metrics
from lamina.settings import Settings
from lamina.store.store import Store
from lamina.store.streams import FollowedStreams, OwnedStreams

MEMORY = "memory:"
_open_stores: WeakSet[Store] = WeakSet()


def _abandon_in_child() -> None:
    for store in _open_stores:
        store.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_in_child)


def open_store(
    path: str | PathLike[str],
    *,
    read_only: bool = False,
    settings: Settings | None = None,
    clock: Clock | None = None,
    disk: Disk | None = None,
) -> Store:
    """Open a store, creating it if there is none; `"memory:"` keeps everything in this process.

    One process owns a directory: a second one gets Conflict. Any number may open it with `read_only=True` beside
    the owner and read what is durable. `settings`, `clock` and `disk` are for tuning and for tests.
    """
    settings = settings or Settings()
    clock = clock or SystemClock()
    metrics = Metrics()
    where = str(path)
    if disk is None:
        disk = MemoryDisk() if where == MEMORY else _file_disk(where, read_only=read_only)
    catalog = Catalog(disk, where)
    future_us = int(settings.log.timestamp_future_seconds * 1e6)
    if read_only:
        catalog.check()
        return _remembered(
            Store(FollowedStreams(disk, catalog, settings.log, settings.index), clock, future_us, metrics)
        )
    lock = catalog.take_lock()
    try:
        catalog.prepare(clock.now_us())
    except BaseException:
        lock.close()
        raise
    streams = OwnedStreams(disk, catalog, lock, clock, settings.log, metrics, settings.index)
    return _remembered(Store(streams, clock, future_us, metrics))


def _remembered(store: Store) -> Store:
    _open_stores.add(store)
    return store


def _file_disk(where: str, *, read_only: bool) -> FileDisk:
    path = Path(where)
    if path.exists() and not path.is_dir():
        raise InvalidRequest(f"{where} is a file; a store is a directory")
    if read_only and not path.exists():
        raise NotFound(f"no store at {where}: the directory does not exist")
    return FileDisk(path)
