"""Why a disk says no: the rules for paths, and the operating system's errors in Lamina's words."""

from __future__ import annotations

import errno
from types import TracebackType

from lamina.errors import Conflict, Denied, InvalidRequest, LaminaError, NotFound, Unavailable

_KINDS: dict[int, type[LaminaError]] = {
    errno.ENOENT: NotFound,
    errno.EEXIST: Conflict,
    errno.ENOTEMPTY: Conflict,
    errno.EISDIR: Conflict,
    errno.ENOTDIR: Conflict,
    errno.EACCES: Denied,
    errno.EPERM: Denied,
    errno.EROFS: Denied,
    # These three cannot be cured by waiting, so they must not look like Unavailable.
    errno.EINVAL: InvalidRequest,
    errno.ENAMETOOLONG: InvalidRequest,
    errno.EBADF: InvalidRequest,
}

_ADVICE: dict[int, str] = {
    errno.ENOSPC: "free some space on this file system, then retry",
    errno.EDQUOT: "free some space or raise the quota, then retry",
    errno.EFBIG: "raise the file size limit of the process (ulimit -f) or use smaller segments",
    errno.EIO: "the device failed; check the kernel log and the disk's health before you trust it again",
    errno.EMFILE: "raise the limit of open files of the process (ulimit -n)",
    errno.EACCES: "give this user the permission",
    errno.EROFS: "mount the file system for writing",
    errno.EBADF: "the file was opened for reading only",
}


def disk_error(error: OSError, path: str) -> LaminaError:
    """The error to raise for what the operating system said about `path`."""
    number = error.errno or 0
    message = f"{path}: {error.strerror or error}"
    advice = _ADVICE.get(number)
    return _KINDS.get(number, Unavailable)(f"{message}; {advice}" if advice else message)


class DiskErrors:
    """Turns OSError into Lamina's errors for one path. Reusable and free of state, so a file makes it once."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise disk_error(error, self._path) from error


def path_parts(path: str) -> tuple[str, ...]:
    """The names in `path`; none for the root. InvalidRequest for a path that could leave the root.

    A directory may carry the trailing "/" with which `Disk.list` shows it.
    """
    if path == "":
        return ()
    parts = tuple(path.removesuffix("/").split("/"))
    for part in parts:
        if part in ("", ".", "..") or "\0" in part:
            raise InvalidRequest(f"{path!r}: a path is names joined by '/', relative to the disk, without '.' or '..'")
    return parts


def entry_parts(path: str) -> tuple[str, ...]:
    """As `path_parts`, but the root is not among the things that can be opened, renamed or removed."""
    parts = path_parts(path)
    if not parts:
        raise InvalidRequest("the path is empty, which means the root: name a file or directory below it")
    return parts


def rename_parts(old: str, new: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Both paths of a rename; InvalidRequest if the directory `old` would have to move into itself."""
    source, target = entry_parts(old), entry_parts(new)
    if len(target) > len(source) and target[: len(source)] == source:
        raise InvalidRequest(f"{old!r} cannot be renamed to {new!r}, which is inside it")
    return source, target
