"""Letting go of a store on a thread of its own, so that whoever waits for it may give up waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future


class Closing:
    """A call that is under way since this was made. Any thread may wait for its end."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close
        self._ended: Future[None] = Future()
        threading.Thread(target=self._run, name="lamina-closer", daemon=True).start()

    def wait(self, timeout: float | None) -> bool:
        """False if it takes longer; what it raised is raised here."""
        try:
            self._ended.result(timeout)
        except TimeoutError:
            if self._ended.done():
                raise
            return False
        return True

    def _run(self) -> None:
        try:
            self._close()
        except BaseException as error:  # noqa: BLE001 - for whoever waits
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)
