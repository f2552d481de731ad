"""The clock that moves when a test says so."""

from __future__ import annotations

import threading

import pytest

from lamina.testing import FakeClock


def test_time_stands_still_until_it_is_advanced() -> None:
    clock = FakeClock(now_us=1_000)
    assert (clock.now_us(), clock.monotonic()) == (1_000, 0.0)
    clock.advance(1.5)
    assert (clock.now_us(), clock.monotonic()) == (1_501_000, 1.5)


def test_wall_time_may_step_back_and_monotonic_time_does_not_notice() -> None:
    clock = FakeClock()
    start_us = clock.now_us()
    clock.step(-10)
    assert (clock.now_us() - start_us, clock.monotonic()) == (-10_000_000, 0.0)
    with pytest.raises(ValueError, match="advances"):
        clock.advance(-1)


def test_a_wait_takes_no_real_time_and_moves_the_clock() -> None:
    clock = FakeClock()
    assert not clock.wait(threading.Event(), 3600)
    assert clock.monotonic() == 3600


def test_a_wait_for_what_has_happened_moves_nothing() -> None:
    clock = FakeClock()
    event = threading.Event()
    event.set()
    assert clock.wait(event, 3600)
    assert clock.monotonic() == 0


def test_without_jumps_a_wait_ends_when_another_thread_advances_the_clock() -> None:
    clock = FakeClock(jump=False)
    outcomes: list[bool] = []
    waiting = threading.Thread(target=lambda: outcomes.append(clock.wait(threading.Event(), 60)))
    waiting.start()
    clock.advance(59)
    assert not outcomes
    while waiting.is_alive():  # the thread may read the time before or after any one advance
        clock.advance(60)
        waiting.join(0.01)
    assert outcomes == [False]


def test_without_jumps_a_wait_ends_when_its_event_is_set() -> None:
    clock = FakeClock(jump=False)
    event = threading.Event()
    outcomes: list[bool] = []
    waiting = threading.Thread(target=lambda: outcomes.append(clock.wait(event, 60)))
    waiting.start()
    event.set()
    waiting.join()
    assert outcomes == [True]
    assert clock.monotonic() == 0
