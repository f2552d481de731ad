"""Measured bars, each beside a rival or the machine's own limit: `python -m benchmarks`.

Every bar is one module with a `measure(bench)` that yields results; `bars.py` lists them. Rivals run in the same
minutes, interleaved with what they are compared to, since the disk and the clock rate of a machine drift.
"""
