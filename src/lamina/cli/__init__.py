"""The command line: `lamina NOUN VERB`, for people by default and for machines with `--json`.

Owns: option names, exit codes, the shape of what is printed.
Promises: results on stdout and nothing else there; errors on stderr in one line; exit codes 0 ok, 1 failed, 2 usage,
3 not found, 4 damaged data, 5 unavailable; commands that read work beside the process that owns the store.
Does not know: how a store keeps its messages; it calls the public API as any program would.
"""

from lamina.cli.app import main

__all__ = ["main"]
