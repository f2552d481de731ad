"""A connection to a Redis server, shared by the indexes in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lamina.errors import Closed, Denied, InvalidRequest, LaminaError, Unavailable

try:
    import redis
    from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, WatchError
except ImportError:  # an optional extra
    redis = None  # type: ignore[assignment]
    AuthenticationError = NoPermissionError = RedisError = WatchError = Exception  # type: ignore[assignment,misc]

__all__ = ["Connection", "WatchError"]

_TIMEOUT_SECONDS = 30.0  # a script over a large batch takes a while


class Connection:
    """A pool of connections to one server (`redis://[user:password@]host:port/database`). Any thread."""

    def __init__(self, url: str) -> None:
        if redis is None:
            raise Unavailable("the Redis client is not installed; run: pip install 'lamina[redis]'")
        try:
            client = redis.Redis.from_url(url, socket_timeout=_TIMEOUT_SECONDS, socket_connect_timeout=5.0)
        except ValueError as error:
            raise InvalidRequest(f"Redis address: {error}") from error
        self._client: redis.Redis | None = client
        self._place = _without_password(url)
        with self.use() as client:
            client.ping()

    @contextmanager
    def use(self) -> Iterator[redis.Redis]:
        """The client; its errors become Lamina's."""
        if self._client is None:
            raise Closed(f"{self._place}: the connection is closed")
        try:
            yield self._client
        except RedisError as error:
            raise _redis_error(error, self._place) from error

    def close(self) -> None:
        """Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _without_password(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


def _redis_error(error: RedisError, place: str) -> LaminaError:
    if isinstance(error, AuthenticationError | NoPermissionError):
        return Denied(f"{place}: {error}")
    return Unavailable(f"{place}: {error}")
