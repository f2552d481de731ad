"""The state of a partition that its log does not hold: first kept offset and the lineage of epochs.

A new epoch begins at every open that follows an unclean end: what readers saw after that point may have been
lost and written anew, so a position from before must prove that it lies in the shared history.
"""

from __future__ import annotations

import msgspec

from lamina.errors import Diverged


class PartitionState(msgspec.Struct, frozen=True):
    """Contents of `partition.json`. `lineage` is [(epoch, first offset)], both rising; it is never empty."""

    start: int = 0
    lineage: list[tuple[int, int]] = msgspec.field(default_factory=lambda: [(1, 0)])

    @property
    def epoch(self) -> int:
        return self.lineage[-1][0]

    def epoch_of(self, offset: int) -> int:
        """The epoch in which the offset was written."""
        return max((epoch for epoch, first in self.lineage if first <= offset), default=self.lineage[0][0])

    def with_new_epoch(self, end: int) -> PartitionState:
        """The next epoch begins at `end`. Epochs that begin there too or later held nothing and go away."""
        kept = [(epoch, first) for epoch, first in self.lineage if first < end]
        return msgspec.structs.replace(self, lineage=[*kept, (self.epoch + 1, end)])

    def with_start(self, start: int) -> PartitionState:
        return msgspec.structs.replace(self, start=max(self.start, start))

    def check(self, epoch: int, offset: int, end: int) -> None:
        """Diverged unless the position (epoch, offset) lies in the history that is here."""
        shared_end = next((first for later, first in self.lineage if later > epoch), end)
        if offset > shared_end or epoch > self.epoch:
            raise Diverged(
                f"position (epoch {epoch}, offset {offset}) is from a history that was lost; "
                f"the shared history ends at offset {shared_end}: resume there",
                at=shared_end,
            )
