"""The Redis backend: an index in a Redis server that several processes share.

Owns: every key of the server that starts with the prefix it was given (`layout.py`).
Promises: what `seam.py` says of IndexBackend; a write is one script and a query's page is another, so nobody sees half
of either; what it makes for one query it removes, and Redis removes it if the process dies.
Does not know: windows; filters' residuals; Redis Cluster, where the keys of one index would be apart.
"""

from lamina.index.backends.redis.backend import RedisBackend
from lamina.index.backends.redis.connection import Connection

__all__ = ["Connection", "RedisBackend"]
