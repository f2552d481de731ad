"""The power goes, or the process dies, between any two changes of the disk: nothing acknowledged is lost."""

from __future__ import annotations

import copy
import random
from contextlib import suppress

import pytest

import lamina
from lamina.errors import LaminaError, Unavailable
from lamina.testing import CrashDisk, FakeClock
from lamina.testing.crash_model import Keep
from tests.faults.hooked_disk import HookedDisk
from tests.faults.scenario import SETTINGS, Diary, Life
from tests.models.ledger import NOW_US, SOAK


def moments() -> list[tuple[CrashDisk, Diary, str]]:
    """The disk and the diary before each change that the scenario makes."""
    disk = CrashDisk()
    found: list[tuple[CrashDisk, Diary, str]] = []

    def remember(operation: str, path: str) -> None:
        found.append((disk.fork(), life.snapshot(), f"before {operation} {path}"))

    life = Life(HookedDisk(disk, remember))
    life.run()
    assert life.diary.failures == 0
    found.append((disk.fork(), life.snapshot(), "at the end"))
    return found


@pytest.mark.slow
def test_the_power_may_go_before_any_change_of_the_disk() -> None:
    for number, (disk, diary, moment) in enumerate(moments()):
        keeps: list[Keep] = ["none", random.Random(number), "all", random.Random(-number)]
        for keep in keeps if SOAK > 1 else keeps[number % 4 :][:1]:
            twin = disk.fork()
            twin.crash(keep)
            check_after(twin, diary, f"{moment}, keep {keep}")


@pytest.mark.slow
def test_the_process_may_die_before_any_change_of_the_disk() -> None:
    for disk, diary, moment in moments()[:: 1 if SOAK > 1 else 4]:
        disk.kill()
        check_after(disk, diary, moment)


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [False, True], ids=["once", "from then on"])
def test_any_change_may_be_refused_and_the_power_go_later(persistent: bool) -> None:
    """One refusal, or all from one moment on: the steps go on as well as they can, then the power goes."""
    count = len(moments())
    for refused in range(0, count, 1 if SOAK > 1 else 13 if persistent else 7):
        disk = CrashDisk()
        calls = iter(range(10**9))
        met: list[str] = []

        def refuse(
            operation: str, path: str, refused: int = refused, calls: object = calls, met: list[str] = met
        ) -> None:
            number = next(calls)  # type: ignore[call-overload]
            if number == refused or (persistent and number > refused):
                met.append(f"{operation} {path}")
                raise Unavailable(f"{path}: {operation} refused by the test")

        hooked = HookedDisk(disk, refuse)
        life = Life(hooked)
        life.run()
        hooked.die()
        for seed in (refused, "none"):
            twin = disk.fork()
            twin.crash(random.Random(seed) if isinstance(seed, int) else "none")
            check_after(twin, life.snapshot(), f"call {refused}: {met[:1]} refused, keep {seed}")


def check_after(disk: CrashDisk, diary: Diary, moment: str) -> None:
    """Open what is left and compare; say at which moment it went wrong."""
    diary = copy.deepcopy(diary)
    store = None
    try:
        store = lamina.open("store", disk=disk, clock=FakeClock(NOW_US, jump=False), settings=SETTINGS)
        diary.check(store, random.Random(0))
    except (AssertionError, LaminaError) as error:
        raise AssertionError(f"{moment}: {type(error).__name__}: {error}") from error
    finally:
        if store is not None:
            with suppress(LaminaError):
                store.close()
