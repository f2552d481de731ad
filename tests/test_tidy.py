"""What linters do not hold: docstrings, sizes, leftovers, dead modules, and text that speaks of one machine."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
ENTRY_POINTS = {"lamina", "lamina.__main__", "lamina.cli", "lamina.testing", "lamina.aio", "lamina.index.backends"}

# "rule: place" of what is tolerated. This list may only shrink: an entry that is no longer needed fails the test.
EXCEPTIONS: frozenset[str] = frozenset()

LEFTOVER = re.compile(r"\bFIX" r"ME\b")
MACHINE_PATH = re.compile(r"(?<![\w.~)}$])/(?:home|Users|root|work|opt)/\w|\b[A-Z]:\\Users\\")
REGISTRY_HOST = re.compile(r"\b(?:py[p]i\.org|python[h]osted\.org|conda\.anacond[a]\.org|artifactor[y]|index[-_]url)\b")


def test_the_tree_is_tidy() -> None:
    untidy = sorted(violations() - EXCEPTIONS)
    assert not untidy, "\n".join(untidy)


def test_no_exception_is_stale() -> None:
    stale = sorted(EXCEPTIONS - violations())
    assert not stale, "\n".join(stale)


def violations() -> set[str]:
    return {*code_violations(), *dead_modules(), *text_violations()}


def code_violations() -> Iterator[str]:
    for path in python_files():
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        if not ast.get_docstring(tree):
            yield f"module without a docstring: {name}"
        if len(text.splitlines()) > FILE_LINES_MAX:
            yield f"file of more than {FILE_LINES_MAX} lines: {name}"
        if LEFTOVER.search(text):
            yield f"leftover to be fixed: {name}"
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    yield f"function of more than {FUNCTION_LINES_MAX} lines: {name} {node.name}"


def dead_modules() -> Iterator[str]:
    """Modules that nothing in src imports from outside themselves."""
    modules = {module_name(path): path for path in sorted(SRC.rglob("*.py"))}
    imports = {
        (importer, imported) for importer, path in modules.items() for imported in imported_names(importer, path)
    }
    for module in modules.keys() - ENTRY_POINTS:
        importers = [importer for importer, imported in imports if imported == module]
        if all(f"{importer}.".startswith(f"{module}.") for importer in importers):
            yield f"module that nobody imports: {module}"


def text_violations() -> Iterator[str]:
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        name = path.relative_to(ROOT).as_posix()
        if MACHINE_PATH.search(text):
            yield f"path of one machine: {name}"
        if REGISTRY_HOST.search(text):
            yield f"package registry host: {name}"


def python_files() -> Iterator[Path]:
    for folder in ("src", "tests", "benchmarks"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def tracked_files() -> Iterable[Path]:
    """What git tracks or would add; without git, the sources."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        return python_files()
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")


def imported_names(importer: str, path: Path) -> Iterator[str]:
    """Every dotted name an import statement may load, with the packages above it."""
    package = importer if path.name == "__init__.py" else importer.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            targets = [f"{base}.{alias.name}" for alias in node.names]
        for target in targets:
            parts = target.split(".")
            yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))
