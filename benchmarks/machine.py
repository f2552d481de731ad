"""Where and with what a run was made: figures mean nothing without it."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
IN_MEMORY = frozenset({"tmpfs", "ramfs"})


def describe(data: Path) -> dict[str, str]:
    """CPU, versions, file system and commit."""
    return {
        "commit": _commit(),
        "cpu": f"{os.cpu_count()} x {_cpu_model()}",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "pyarrow": version("pyarrow"),
        "file system": file_system(data),
        "load before": f"{os.getloadavg()[0]:.1f}",
    }


def file_system(path: Path) -> str:
    """Kind of the file system that holds `path`, or "unknown"."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    mounts = [line.split() for line in lines]
    at = path.resolve()
    holding = [(len(mount[1]), mount[2]) for mount in mounts if at.is_relative_to(mount[1])]
    return max(holding, default=(0, "unknown"))[1]


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _commit() -> str:
    """The commit id, with a "+" if the sources differ from it."""
    git = ["git", "-C", str(REPOSITORY)]
    try:
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
        changes = [*git, "status", "--porcelain", "--untracked-files=no"]
        changed = subprocess.run(changes, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")
