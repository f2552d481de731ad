"""The streams of a data directory: `lamina.json` says that it is one, each `<stream>/stream.json` holds a policy.

Creating and deleting are atomic: a directory is filled under a hidden name and renamed, or renamed and emptied.
"""

from __future__ import annotations

import difflib
import logging
import re

import msgspec

from lamina.clock import new_uid
from lamina.disk import Disk
from lamina.errors import Conflict, InvalidRequest, NotFound
from lamina.log import names
from lamina.log.documents import read_document, write_document
from lamina.log.lineage import PartitionState
from lamina.log.settings import StreamPolicy

logger = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_CREATING, _DELETED = ".creating-", ".deleted-"


class StoreDocument(msgspec.Struct, frozen=True):
    """Contents of `lamina.json`."""

    uid: str
    created_at: int


def prepare_root(disk: Disk, now_us: int) -> None:
    """Make an empty directory a store, or check that it is one. The caller holds the lock."""
    if names.STORE not in disk.list(""):
        write_document(disk, names.STORE, "store", StoreDocument(new_uid().hex(), now_us))
    read_document(disk, names.STORE, "store", StoreDocument)
    for name in disk.list(""):
        if name.startswith((_CREATING, _DELETED)):
            _remove_tree(disk, name.rstrip("/"))


def check_root(disk: Disk, where: str) -> None:
    """InvalidRequest if the directory holds other people's files and no store."""
    entries = disk.list("")
    foreign = [name for name in entries if not name.startswith(".") and name not in ("lost+found/", names.LOCK)]
    if foreign and names.STORE not in entries:
        shown = ", ".join(foreign[:3]) + (" …" if len(foreign) > 3 else "")
        raise InvalidRequest(f"{where} is not a Lamina store and holds other files ({shown}); use an empty directory")


def check_store(disk: Disk, where: str) -> None:
    """NotFound unless the directory is a store."""
    try:
        read_document(disk, names.STORE, "store", StoreDocument)
    except NotFound as error:
        raise NotFound(f"no store at {where}: open it as its owner first, which creates one") from error


def directory_of(stream: str, partition: int) -> str:
    return f"{stream}/{partition}"


def read_policies(disk: Disk) -> dict[str, StreamPolicy]:
    """All streams by name."""
    found = [name.rstrip("/") for name in disk.list("") if name.endswith("/") and _NAME.fullmatch(name.rstrip("/"))]
    return {name: policy for name in found if (policy := _read_policy(disk, name)) is not None}


def create_stream(disk: Disk, name: str, policy: StreamPolicy) -> None:
    """Conflict if the name is taken."""
    hidden = f"{_CREATING}{name}"
    _remove_tree(disk, hidden)
    for partition in range(policy.partitions):
        directory = directory_of(hidden, partition)
        disk.make_directory(directory)
        write_document(disk, f"{directory}/{names.STATE}", "partition", PartitionState())
    write_document(disk, f"{hidden}/{names.STREAM}", "stream", policy)
    disk.rename(hidden, name)
    disk.sync_directory("")


def update_stream(disk: Disk, name: str, policy: StreamPolicy) -> None:
    write_document(disk, f"{name}/{names.STREAM}", "stream", policy)


def delete_stream(disk: Disk, name: str) -> None:
    """Gone when this returns, also after a power loss."""
    hidden = f"{_DELETED}{name}-{new_uid().hex()}"
    disk.rename(name, hidden)
    disk.sync_directory("")
    _remove_tree(disk, hidden)


def check_stream_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name!r} is not a stream name: 1 to 128 letters, digits, '.', '_' or '-', "
            "beginning with a letter or a digit"
        )


def unknown_stream(name: object, known: list[str]) -> NotFound:
    near = difflib.get_close_matches(str(name), known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known)[:10]) or 'none'}"
    return NotFound(f"no stream {name!r}: {hint} (create it with create_stream)")


def check_update(name: str, old: StreamPolicy, new: StreamPolicy) -> None:
    """Conflict for what is fixed when a stream is created."""
    for field in ("partitions", "partition_by"):
        if getattr(old, field) != getattr(new, field):
            raise Conflict(
                f"stream {name!r} has {field} {getattr(old, field)!r} for ever; create another stream and copy"
            )
    if old.durability != new.durability and "memory" in (old.durability, new.durability):
        raise Conflict(f"stream {name!r}: durability cannot change between 'memory' and stored; create another stream")


def _read_policy(disk: Disk, name: str) -> StreamPolicy | None:
    try:
        return read_document(disk, f"{name}/{names.STREAM}", "stream", StreamPolicy)
    except NotFound:
        logger.warning("directory without a stream ignored name=%s", name)
        return None


def _remove_tree(disk: Disk, path: str) -> None:
    try:
        entries = disk.list(path)
    except NotFound:
        return
    for name in entries:
        if name.endswith("/"):
            _remove_tree(disk, f"{path}/{name.rstrip('/')}")
        else:
            disk.unlink(f"{path}/{name}")
    disk.unlink(path)
