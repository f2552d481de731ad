"""A Redis server of the tests' own: on loopback, on a free port, without files, stopped at the end."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis


class RedisServer:
    """A running server and a client to look into it."""

    def __init__(self, url: str, client: redis.Redis) -> None:
        self.url = url
        self.client = client

    def keys(self, pattern: str = "*") -> list[str]:
        return sorted(key.decode() for key in self.client.scan_iter(pattern))


@contextmanager
def redis_server() -> Iterator[RedisServer]:
    """A server of our own. Without one there is nothing to test: that is a failure, not a pass."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.fail("redis-server is not installed; run: make servers")
    port = _free_port()
    options = {"port": port, "bind": "127.0.0.1", "save": "", "appendonly": "no", "loglevel": "warning"}
    command = [program, *(part for name, value in options.items() for part in (f"--{name}", str(value)))]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        client = redis.Redis(port=port)
        _wait_for(client)
        yield RedisServer(f"redis://127.0.0.1:{port}/0", client)
        client.close()
    finally:
        process.terminate()
        process.wait(10)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(client: redis.Redis) -> None:
    """The client itself waits between its attempts."""
    for _ in range(200):
        try:
            client.ping()
        except redis.ConnectionError:
            continue
        return
    raise AssertionError("redis-server does not answer")
