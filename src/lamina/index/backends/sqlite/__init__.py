"""The SQLite backend: an index in one file, with nothing to install.

Owns: the file it was given, with the tables of `tables.py`; several processes may share it.
Promises: what `seam.py` says of IndexBackend; every question is one parameterised statement over an index.
Does not know: windows; filters' residuals.
"""

from lamina.index.backends.sqlite.backend import SqliteBackend

__all__ = ["SqliteBackend"]
