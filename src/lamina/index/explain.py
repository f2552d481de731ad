"""What a query did, for people who ask why it was quick or slow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from lamina.cel import Plan
from lamina.index.candidates import Used


@dataclass(slots=True)
class Trace:
    """Counted while a query runs. One thread."""

    segments: int = 0
    pruned: Counter[str] = field(default_factory=Counter)
    spans_indexed: int = 0
    spans_scanned: int = 0
    rows_scanned: int = 0
    used: dict[str, tuple[int, int]] = field(default_factory=dict)

    def prune(self, why: str) -> None:
        self.pruned[why] += 1

    def use(self, lists: Sequence[Used]) -> None:
        for one in lists:
            count, rows = self.used.get(one.field, (0, 0))
            self.used[one.field] = (count + 1, rows + one.rows)

    def report(self, plan: Plan, returned: int) -> dict[str, object]:
        """Plain values: what `explain()` gives and `--json` prints."""
        return {
            "groups": [group.describe() for group in plan.groups],
            "residual": [text for group in plan.groups for text in map(str, group.residual)],
            "segments": {
                "total": self.segments,
                "pruned": dict(self.pruned),
                "searched": self.segments - sum(self.pruned.values()),
            },
            "postings": [
                {"field": name, "lists": count, "rows": rows} for name, (count, rows) in sorted(self.used.items())
            ],
            "spans": {"indexed": self.spans_indexed, "scanned": self.spans_scanned},
            "rows_scanned": self.rows_scanned,
            "rows_returned": returned,
        }
