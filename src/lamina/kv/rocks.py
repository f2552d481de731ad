"""RocksDB, through rocksdict: an ordered map on local disk for indexes larger than memory.

Every batch goes to RocksDB's write-ahead log. With `sync` (the default) it is synced before the call returns and
survives a power loss; without, it survives the death of the process only.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from lamina.errors import Closed, Conflict, Corrupt, Denied, LaminaError, Unavailable
from lamina.kv.directories import make_directory

try:
    import rocksdict
except ImportError:  # an optional extra
    rocksdict = None  # type: ignore[assignment]

_CHUNK_MIN = 16
_CHUNK_MAX = 512  # pairs read at once; small ranges stay cheap, and large ones seek seldom
_LOCKED = ("lock hold by current process", "While lock file")
_DENIED = ("Permission denied", "Read-only file system")
_OPEN_FILES_MAX = 256  # per directory; a windowed index has many of them open at once
_LOG_FILES_KEPT = 2  # RocksDB's own diary, of which it would keep a thousand


@contextmanager
def rocks_errors(path: Path) -> Iterator[None]:
    """Translate what RocksDB says; rocksdict raises bare Exceptions that carry its text."""
    try:
        yield
    except LaminaError:
        raise
    except Exception as error:
        if isinstance(error, TypeError | ValueError | AttributeError):
            raise  # ours
        raise _rocks_error(error, path) from error


class RocksKv:
    """One RocksDB directory, made if it is not there. A second opener, in any process, gets Conflict."""

    def __init__(self, path: Path | str, *, sync: bool = True) -> None:
        if rocksdict is None:
            raise Unavailable("RocksDB is not installed; run: pip install 'lamina[rocksdb]'")
        self._path = Path(path).absolute()
        self._options = rocksdict.WriteOptions()
        self._options.sync = sync
        self._mutex = threading.Lock()  # guards the two below
        self._views: weakref.WeakSet[RocksView] = weakref.WeakSet()
        self._db: rocksdict.Rdict | None = None
        try:
            make_directory(self._path)
        except OSError as error:
            raise _rocks_error(error, self._path) from error
        with rocks_errors(self._path):
            self._db = rocksdict.Rdict(str(self._path), _rocks_options())

    def put_batch(self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes] = ()) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key in deletes:
            batch.delete(key)
        for key, value in puts:
            batch.put(key, value)
        self._write(batch)

    def delete_range(self, start: bytes, end: bytes) -> None:
        if start < end:
            batch = rocksdict.WriteBatch(raw_mode=True)
            batch.delete_range(start, end)
            self._write(batch)

    def get(self, key: bytes) -> bytes | None:
        database = self._open()
        try:
            found: bytes | None = database.get(key)
        except Exception as error:
            raise _rocks_error(error, self._path) from error
        return found

    def range(self, start: bytes, end: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        with self.view() as view:
            yield from view.range(start, end, reverse=reverse)

    def view(self) -> RocksView:
        with self._mutex, rocks_errors(self._path):
            view = RocksView(self._open().iter(), self._path)
            self._views.add(view)
            return view

    def close(self) -> None:
        with self._mutex, rocks_errors(self._path):
            database, self._db = self._db, None
            if database is None:
                return
            for view in list(self._views):
                view.close()  # an iterator would keep the directory locked
            database.close()

    def _write(self, batch: rocksdict.WriteBatch) -> None:
        with rocks_errors(self._path):
            self._open().write(batch, self._options)

    def _open(self) -> rocksdict.Rdict:
        if self._db is None:
            raise Closed(f"{self._path}: the RocksDB kv is closed")
        return self._db


class RocksView:
    """The moment of one RocksDB iterator, which every look into the view moves about.

    rocksdict's own Snapshot would not do: what it iterates shows later writes.
    """

    def __init__(self, iterator: rocksdict.RdictIter, path: Path) -> None:
        self._iterator: rocksdict.RdictIter | None = iterator
        self._path = path

    def get(self, key: bytes) -> bytes | None:
        iterator = self._open()
        iterator.seek(key)
        if iterator.valid():
            return iterator.value() if iterator.key() == key else None
        self._check(iterator)
        return None

    def range(self, start: bytes, end: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """In chunks, since between two steps others may have moved the iterator."""
        size = _CHUNK_MIN
        while start < end:
            chunk = self._chunk_down(start, end, size) if reverse else self._chunk_up(start, end, size)
            for pair in chunk:
                yield pair
                self._open()
            if len(chunk) < size:
                return
            if reverse:
                end = chunk[-1][0]
            else:
                start = chunk[-1][0] + b"\0"
            size = min(size * 2, _CHUNK_MAX)

    def close(self) -> None:
        self._iterator = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _chunk_up(self, start: bytes, end: bytes, size: int) -> list[tuple[bytes, bytes]]:
        iterator = self._open()
        chunk: list[tuple[bytes, bytes]] = []
        iterator.seek(start)
        while iterator.valid():
            key = iterator.key()
            if key >= end:
                return chunk
            chunk.append((key, iterator.value()))
            if len(chunk) == size:
                return chunk
            iterator.next()
        self._check(iterator)
        return chunk

    def _chunk_down(self, start: bytes, end: bytes, size: int) -> list[tuple[bytes, bytes]]:
        iterator = self._open()
        chunk: list[tuple[bytes, bytes]] = []
        iterator.seek_for_prev(end)
        if iterator.valid() and iterator.key() == end:
            iterator.prev()
        while iterator.valid():
            key = iterator.key()
            if key < start:
                return chunk
            chunk.append((key, iterator.value()))
            if len(chunk) == size:
                return chunk
            iterator.prev()
        self._check(iterator)
        return chunk

    def _check(self, iterator: rocksdict.RdictIter) -> None:
        """An iterator that stands nowhere has come to the end, or has failed."""
        with rocks_errors(self._path):
            iterator.status()

    def _open(self) -> rocksdict.RdictIter:
        if self._iterator is None:
            raise Closed(f"{self._path}: the view of the RocksDB kv is closed")
        return self._iterator


def _rocks_options() -> rocksdict.Options:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_max_open_files(_OPEN_FILES_MAX)
    options.set_keep_log_file_num(_LOG_FILES_KEPT)
    options.set_wal_recovery_mode(rocksdict.DBRecoveryMode.tolerate_corrupted_tail_records())
    return options


def _rocks_error(error: Exception, path: Path) -> LaminaError:
    text = str(error)
    if any(sign in text for sign in _LOCKED):
        return Conflict(f"{path}: another process or handle has this RocksDB directory open; close it first")
    if any(sign in text for sign in _DENIED):
        return Denied(f"{path}: {text}")
    if text.startswith("Corruption"):
        return Corrupt(f"{path}: {text}; restore it from a backup, or delete the directory and index again")
    if "closed" in text:
        return Closed(f"{path}: the RocksDB kv is closed")
    return Unavailable(f"{path}: {text}")
