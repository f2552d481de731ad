"""Filters: CEL text compiled, planned for indexes, and evaluated over whole batches or one message.

Owns: the variables of a filter, its limits, its error texts; the plan's groups; the columns that filters look at.
Promises: plan, columns and single messages agree with the official CEL runtime, errors included; a filter that
compiles is bounded in size and cost; filters are immutable and safe in any thread.
Does not know: indexes, files, streams beyond their name, subscriptions, event loops.
"""

from lamina.cel.columns import Columns
from lamina.cel.compiler import Compiler, compile
from lamina.cel.filter import Filter
from lamina.cel.plan import Group, Plan, Residual
from lamina.cel.profile import QUERY, SUBSCRIPTION, Profile

__all__ = [
    "QUERY",
    "SUBSCRIPTION",
    "Columns",
    "Compiler",
    "Filter",
    "Group",
    "Plan",
    "Profile",
    "Residual",
    "compile",
]
