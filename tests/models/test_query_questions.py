"""Many random questions to stores in every state of indexing: the answers of a naive list, page by page."""

from __future__ import annotations

import random

import pytest

import lamina
from lamina.disk import MemoryDisk
from lamina.testing import FakeClock
from tests.models.ledger import SOAK
from tests.models.query_ledger import NOW_US, expected, paged, some_messages, some_question

STREAM = "s"
QUESTIONS = 40 * SOAK


@pytest.mark.parametrize("chunk_rows", [16, 1000])
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("orderly", [True, False])
@pytest.mark.parametrize("state", ["growing", "indexed", "sealed", "composite"])
def test_every_answer_is_that_of_a_list(chunk_rows: int, partitions: int, orderly: bool, state: str) -> None:
    chance = random.Random(f"{chunk_rows} {partitions} {orderly} {state}")
    settings = lamina.Settings(
        log=lamina.LogSettings(segment_bytes_max=16_384, frame_bytes_target=2048),
        index=lamina.IndexSettings(chunk_rows=chunk_rows, background=False),
    )
    clock = FakeClock(NOW_US, jump=False)
    with lamina.open("store", disk=MemoryDisk(), clock=clock, settings=settings) as store:
        store.create_stream(STREAM, partitions=partitions)
        newest = NOW_US
        for count in (100, 1, 3, 80, 70, 100):
            sent = some_messages(count, chance, start_us=newest if orderly else None)
            newest = max(m.timestamp or 0 for m in sent)
            store.publish_many(sent, stream=STREAM)
            if state != "growing":
                store._stream(STREAM).index.step()
        if state in ("sealed", "composite"):
            store.seal(STREAM)
        if state == "composite":
            store.create_composite("pair", ["app", "thread"], STREAM)
            store._stream(STREAM).index.step()
            assert [one.state for one in store.composites(STREAM)] == ["ready"]
        messages = [m for p in range(partitions) for m in store.read(stream=STREAM, partition=p)]
        for number in range(QUESTIONS):
            question = some_question(chance)
            descending, show_expired = number % 2 == 0, number % 3 == 0
            wanted = expected(messages, question, now_us=None if show_expired else NOW_US, descending=descending)
            limits = [chance.choice([1, 20, 50, 1000]), chance.choice([20, 50, 300])]
            found = paged(store, STREAM, question, limits, descending=descending, expired=show_expired)
            assert found == wanted, question
            narrowed = question.narrowed
            count = store.count(question.where, STREAM, include_expired=show_expired, **narrowed)  # type: ignore[arg-type]
            assert count == len(wanted), question
