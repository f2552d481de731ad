"""The engine over an ordered kv: every question is a range of keys.

Owns: the keys of the kv it was given, as `keys.py` lays them out.
Promises: what `seam.py` says of IndexBackend; a query sees one moment, whatever is written meanwhile.
Does not know: which kv it is; windows; filters' residuals.
"""

from lamina.index.backends.ordered.backend import KvBackend

__all__ = ["KvBackend"]
