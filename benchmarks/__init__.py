"""Measured bars, each beside a rival or the machine's own limit: `python -m benchmarks`."""
