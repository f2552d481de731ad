"""What tests of Lamina, and of programs that use it, need of the world: time that obeys, disks and blobs that fail.

Owns: nothing that lasts.
Promises: each double keeps the promises of its seam, except the faults that its header names and a test asked for.
Does not know: the rooms above the seams; and nothing in Lamina imports it.
"""

from lamina.testing.clock import FakeClock
from lamina.testing.crash_disk import CrashDisk
from lamina.testing.faults import Fault
from lamina.testing.faulty_blobs import FaultyBlobs
from lamina.testing.faulty_disk import FaultyDisk

__all__ = ["CrashDisk", "FakeClock", "Fault", "FaultyBlobs", "FaultyDisk"]
