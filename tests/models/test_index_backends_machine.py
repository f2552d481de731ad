"""Any interleaving of puts, deletes, expiry, composites and restarts, against a naive list: every backend agrees."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from lamina.errors import NotFound
from lamina.index.backends import Entry
from tests.conformance.index_backends_subject import BASE, KINDS, Openers, StoreSubject, pages

SUBJECTS = [name for kind in KINDS for name in (kind, f"{kind}-windowed")]
SOAK = int(os.environ.get("LAMINA_SOAK", "1"))

REFS = st.sampled_from([f"{n:04x}" for n in range(12)])
TIMES = st.integers(0, 9).map(lambda n: BASE + n * 20_000_000)  # two or three entries at one time, three per window
VALUES = st.sampled_from(["", "1", "2", "a/b"])
LABELS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)
ENTRIES = st.tuples(REFS, LABELS, TIMES, st.none() | st.integers(0, 40))
BOUNDS = st.none() | TIMES
COMPOSITES = {"ab": ("a", "b"), "abc": ("c", "a", "b"), "c": ("c",)}


class IndexMachine(RuleBasedStateMachine):
    """One index and a dict of what it should hold."""

    name: ClassVar[str]
    openers: ClassVar[Openers]

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp())
        self.subject: StoreSubject = self.openers.subject(self.name, self.place)
        self.model: dict[str, Entry] = {}
        self.composites: set[str] = set()

    def teardown(self) -> None:
        self.subject.close()
        shutil.rmtree(self.place, ignore_errors=True)

    @rule(batch=st.lists(ENTRIES, max_size=8))
    def put(self, batch: list[tuple[str, dict[str, str], int, int | None]]) -> None:
        now = self.subject.clock.now_us()
        entries = [
            Entry(ref, labels, at, None if left is None else now + left * 1_000_000) for ref, labels, at, left in batch
        ]
        self.subject.put(entries)
        self.model.update((entry.ref, entry) for entry in entries)

    @rule(refs=st.lists(REFS, max_size=3))
    def delete(self, refs: list[str]) -> None:
        assert self.subject.delete(*refs) == len(set(refs) & self.model.keys())
        for ref in refs:
            self.model.pop(ref, None)

    @rule(seconds=st.integers(1, 15))
    def let_time_pass(self, seconds: int) -> None:
        self.subject.clock.advance(seconds)

    @rule()
    def clean_up(self) -> None:
        due = [ref for ref, entry in self.model.items() if entry.is_expired(self.subject.clock.now_us())]
        assert self.subject.cleanup() == len(due)
        for ref in due:
            del self.model[ref]

    @rule()
    def restart(self) -> None:
        self.subject.restart()

    @precondition(lambda self: len(self.composites) < len(COMPOSITES))
    @rule(data=st.data(), wait=st.booleans())
    def register_a_composite(self, data: st.DataObject, wait: bool) -> None:
        name = data.draw(st.sampled_from(sorted(COMPOSITES.keys() - self.composites)))
        self.subject.store.register_composite(name, COMPOSITES[name], wait=wait)
        self.composites.add(name)

    @rule(limit=st.integers(1, 5))
    def build_a_little(self, limit: int) -> None:
        for composite in self.subject.store.composites():
            self.subject.backend.build_composite(composite.name, limit)

    @precondition(lambda self: self.composites)
    @rule(data=st.data())
    def drop_a_composite(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.composites)))
        self.subject.drop_composite(name)
        self.composites.discard(name)

    @rule(ref=REFS)
    def get(self, ref: str) -> None:
        if ref in self.model:
            assert self.subject.store.get(ref, include_expired=True) == self.model[ref]
        else:
            with pytest.raises(NotFound):
                self.subject.store.get(ref)

    @rule(
        labels=LABELS,
        any_of=st.lists(LABELS.filter(bool), max_size=3),
        start=BOUNDS,
        end=BOUNDS,
        limit=st.integers(1, 6),
        descending=st.booleans(),
        include_expired=st.booleans(),
    )
    def page_through(
        self,
        labels: dict[str, str],
        any_of: list[dict[str, str]],
        start: int | None,
        end: int | None,
        limit: int,
        descending: bool,
        include_expired: bool,
    ) -> None:
        def matches(entry: Entry) -> bool:
            return (
                labels.items() <= entry.labels.items()
                and (not any_of or any(one.items() <= entry.labels.items() for one in any_of))
                and (start is None or start <= entry.timestamp)
                and (end is None or entry.timestamp < end)
                and (include_expired or not entry.is_expired(self.subject.clock.now_us()))
            )

        wanted = self.expected(matches, descending=descending)
        found = pages(
            self.subject,
            labels=labels,
            any_of=any_of,
            start=start,
            end=end,
            limit=limit,
            descending=descending,
            include_expired=include_expired,
        )
        assert found == wanted
        count = self.subject.count(labels=labels, any_of=any_of, start=start, end=end, include_expired=include_expired)
        assert count == len(wanted)

    @rule(key=st.sampled_from("abc"), value=VALUES, at=TIMES, descending=st.booleans(), limit=st.integers(1, 6))
    def page_through_a_filter(self, key: str, value: str, at: int, descending: bool, limit: int) -> None:
        """An alternative that is pushed, one with bounds of its own, and a residual over both."""
        filter = (
            f'(labels["{key}"] == "{value}" || !("{key}" in labels) && timestamp >= {at} || timestamp < {at}) '
            '&& !ref.endsWith("1")'
        )

        def matches(entry: Entry) -> bool:
            has = entry.labels.get(key)
            either = has == value or (has is None and entry.timestamp >= at) or entry.timestamp < at
            return either and not entry.ref.endswith("1") and not entry.is_expired(self.subject.clock.now_us())

        wanted = self.expected(matches, descending=descending)
        assert pages(self.subject, filter, limit=limit, descending=descending) == wanted
        assert self.subject.count(filter) == len(wanted)

    @invariant()
    def the_numbers_agree(self) -> None:
        stats = self.subject.store.stats()
        times = [entry.timestamp for entry in self.model.values()]
        assert stats.entries == len(self.model)
        assert (stats.oldest, stats.newest) == ((min(times), max(times)) if times else (None, None))
        assert {composite.name for composite in stats.composites} == self.composites

    def expected(self, matches: object, *, descending: bool) -> list[str]:
        assert callable(matches)
        chosen = [entry for entry in self.model.values() if matches(entry)]
        return [entry.ref for entry in sorted(chosen, key=lambda entry: entry.position, reverse=descending)]


@pytest.fixture(scope="module")
def openers() -> Iterator[Openers]:
    openers = Openers()
    yield openers
    openers.close()


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_backend_agrees_with_a_naive_list(subject: str, openers: Openers) -> None:
    machine = type("Machine", (IndexMachine,), {"name": subject, "openers": openers})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=12 * SOAK,
            stateful_step_count=25,
            deadline=None,
            derandomize=SOAK == 1,
            suppress_health_check=list(HealthCheck),
        ),
    )
