"""The blobs: immutable objects by name, where cold segments go.

Owns: nothing by itself; each store owns the objects it was given.
Promises: what `seam.py` says of BlobStore: an object is there whole and durable, or not at all; no backend's own
exceptions leave this room.
Does not know: segments, tiers, checksums, retries, event loops.
"""

from lamina.blobs.files import FileBlobs
from lamina.blobs.memory import MemoryBlobs
from lamina.blobs.seam import BlobInfo, BlobStore

__all__ = ["BlobInfo", "BlobStore", "FileBlobs", "MemoryBlobs"]
