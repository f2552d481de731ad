"""The streams of a data directory: `lamina.json` says that it is one, each `<stream>/stream.json` holds a policy.

Creating and deleting are atomic: a directory is filled under a hidden name and renamed, or renamed and emptied.
"""

from __future__ import annotations

import difflib
import re

import msgspec

from lamina.clock import new_uid
from lamina.disk import Disk, Lock
from lamina.errors import Conflict, Corrupt, InvalidRequest, NotFound
from lamina.log import names
from lamina.log.documents import read_document, write_document
from lamina.log.lineage import PartitionState
from lamina.log.settings import StreamPolicy

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_CREATING, _DELETED = ".creating-", ".deleted-"


class StoreDocument(msgspec.Struct, frozen=True):
    """Contents of `lamina.json`."""

    uid: str
    created_at: int


class StreamDocument(msgspec.Struct, frozen=True):
    """Contents of `stream.json`. The uid tells a stream from a later one of the same name."""

    uid: str
    policy: StreamPolicy


class Catalog:
    """What a data directory holds. Changes are for the one owner; reading is for anybody."""

    def __init__(self, disk: Disk, where: str) -> None:
        self._disk = disk
        self._where = where

    def take_lock(self) -> Lock:
        """Conflict if another owner has it. Nothing is written into a directory of other people's files."""
        self._disk.make_directory("")
        entries = self._disk.list("")
        ours = ("lost+found/", names.LOCK, names.STORE + names.TEMPORARY)
        foreign = [name for name in entries if not name.startswith(".") and name not in ours]
        if foreign and names.STORE not in entries:
            shown = ", ".join(foreign[:3]) + (" …" if len(foreign) > 3 else "")
            raise InvalidRequest(
                f"{self._where} is not a Lamina store and holds other files ({shown}); use an empty directory"
            )
        try:
            return self._disk.lock(names.LOCK)
        except Conflict as error:
            raise Conflict(
                f"{self._where} is in use: {error}; stop the other owner or open it with read_only=True"
            ) from error

    def prepare(self, now_us: int) -> None:
        """Make an empty directory a store, or check that it is one; finish interrupted deletions."""
        if names.STORE not in self._disk.list(""):
            write_document(self._disk, names.STORE, "store", StoreDocument(new_uid().hex(), now_us))
        read_document(self._disk, names.STORE, "store", StoreDocument)
        for name in self._disk.list(""):
            if name.startswith((_CREATING, _DELETED)):
                self._remove_tree(name.rstrip("/"))

    def check(self) -> None:
        """NotFound unless the directory is a store."""
        try:
            read_document(self._disk, names.STORE, "store", StoreDocument)
        except NotFound as error:
            raise NotFound(f"no store at {self._where}: open it as its owner first, which creates one") from error

    def streams(self) -> dict[str, StreamDocument]:
        """All streams by name."""
        found = [name.rstrip("/") for name in self._disk.list("") if name.endswith("/")]
        return {name: document for name in found if (document := self.stream(name)) is not None}

    def stream(self, name: str) -> StreamDocument | None:
        """None if there is no such stream."""
        if not _NAME.fullmatch(name):
            return None
        path = f"{name}/{names.STREAM}"
        try:
            return read_document(self._disk, path, "stream", StreamDocument)
        except NotFound:
            if self._segments_of(name):
                raise Corrupt(f"{path} is missing beside messages of the stream; restore it from a backup") from None
            return None

    def create(self, name: str, policy: StreamPolicy) -> None:
        """Conflict if the name is taken."""
        hidden = f"{_CREATING}{name}"
        self._remove_tree(hidden)
        for partition in range(policy.partitions):
            directory = partition_directory(hidden, partition)
            self._disk.make_directory(directory)
            write_document(self._disk, f"{directory}/{names.STATE}", "partition", PartitionState())
        write_document(self._disk, f"{hidden}/{names.STREAM}", "stream", StreamDocument(new_uid().hex(), policy))
        self._disk.rename(hidden, name)
        self._disk.sync_directory("")

    def update(self, name: str, policy: StreamPolicy) -> None:
        path = f"{name}/{names.STREAM}"
        old = read_document(self._disk, path, "stream", StreamDocument)
        write_document(self._disk, path, "stream", StreamDocument(old.uid, policy))

    def clear(self, name: str) -> None:
        """Remove what an interrupted creation left under the name. Conflict if there are messages."""
        if self._segments_of(name):
            raise Conflict(f"{name} holds messages of a stream that is not open; move the directory away")
        if f"{name}/" in self._disk.list(""):
            self.remove(self.hide(name))

    def hide(self, name: str) -> str:
        """The first step of a deletion, all or nothing: the name under which `remove` finds what is left."""
        hidden = f"{_DELETED}{name}-{new_uid().hex()}"
        self._disk.rename(name, hidden)
        return hidden

    def remove(self, hidden: str) -> None:
        """Gone when this returns, also after a power loss."""
        self._disk.sync_directory("")
        self._remove_tree(hidden)

    def _segments_of(self, name: str) -> bool:
        """Whether any partition directory under the name holds a segment."""
        try:
            directories = [entry for entry in self._disk.list(name) if entry.rstrip("/").isdecimal()]
        except NotFound:
            return False
        files = (file for directory in directories for file in self._disk.list(f"{name}/{directory.rstrip('/')}"))
        return any(names.base_of(file) is not None for file in files)

    def _remove_tree(self, path: str) -> None:
        try:
            entries = self._disk.list(path)
        except NotFound:
            return
        for name in entries:
            if name.endswith("/"):
                self._remove_tree(f"{path}/{name.rstrip('/')}")
            else:
                self._disk.unlink(f"{path}/{name}")
        self._disk.unlink(path)


def partition_directory(stream: str, partition: int) -> str:
    return f"{stream}/{partition}"


def check_stream_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name!r} is not a stream name: 1 to 128 letters, digits, '.', '_' or '-', "
            "beginning with a letter or a digit"
        )
    if name in (names.LOCK, names.STORE) or name.endswith(names.TEMPORARY):
        raise InvalidRequest(f"{name!r} is the name of a file of the store; choose another name for the stream")


def unknown_stream(name: object, known: list[str]) -> NotFound:
    near = difflib.get_close_matches(str(name), known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known)[:10]) or 'none'}"
    return NotFound(f"no stream {name!r}: {hint}; a stream must be created before it is used")


def check_policy_change(name: str, old: StreamPolicy, new: StreamPolicy) -> None:
    """Conflict for what is fixed when a stream is created."""
    for field in ("partitions", "partition_by"):
        if getattr(old, field) != getattr(new, field):
            raise Conflict(
                f"stream {name!r} has {field} {getattr(old, field)!r} for ever; create another stream and copy"
            )
    if old.durability != new.durability and "memory" in (old.durability, new.durability):
        raise Conflict(f"stream {name!r}: durability cannot change between 'memory' and stored; create another stream")
