"""Small JSON files that are replaced whole and carry their own checksum.

The first line is `lamina <kind> <version> crc32c=<8 hex digits>`, over the JSON behind it: people can read it,
and a flipped bit cannot pass.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec
from crc32c import crc32c

from lamina.disk import Disk
from lamina.errors import Corrupt
from lamina.log.names import temporary_path

T = TypeVar("T")
VERSION = 1
_FIRST_LINE = re.compile(rb"lamina ([a-z]+) (\d+) crc32c=([0-9a-f]{8})\n")


def encode_document(kind: str, content: msgspec.Struct) -> bytes:
    body = msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
    return f"lamina {kind} {VERSION} crc32c={crc32c(body):08x}\n".encode() + body


def decode_document(kind: str, data: bytes, content: type[T], where: str) -> T:
    """Corrupt says what is wrong; a newer version asks for an upgrade."""
    first = _FIRST_LINE.match(data)
    if first is None or first[1].decode() != kind:
        raise Corrupt(f"{where} is not a Lamina {kind} file; restore it from a backup")
    body = data[first.end() :]
    if int(first[2]) != VERSION:
        raise Corrupt(f"{where} has format {int(first[2])}, this Lamina reads format {VERSION}; upgrade Lamina")
    if crc32c(body) != int(first[3], 16):
        raise Corrupt(f"{where} is damaged (its checksum does not match); restore it from a backup")
    try:
        return msgspec.json.decode(body, type=content)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"{where} cannot be understood: {error}") from error


def write_document(disk: Disk, path: str, kind: str, content: msgspec.Struct) -> None:
    """Replace the file as a whole; durable on return."""
    replace_file(disk, path, encode_document(kind, content))


def read_document(disk: Disk, path: str, kind: str, content: type[T]) -> T:
    file = disk.open(path, "read")
    try:
        return decode_document(kind, file.pread(file.size(), 0), content, path)
    finally:
        file.close()


def replace_file(disk: Disk, path: str, data: bytes) -> None:
    """Temporary file, sync, rename, directory sync: the old contents or the new, never a mixture."""
    temporary = temporary_path(path)
    disk.unlink(temporary)
    file = disk.open(temporary, "create")
    try:
        file.append([data])
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.sync_directory(path.rpartition("/")[0])
