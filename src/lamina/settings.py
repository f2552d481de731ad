"""Settings: the only reader of the settings file, the environment and flags.

A value comes from the first of these that names it: flag, environment variable, file, default.

    flag         log.segment_bytes_max=256M
    environment  LAMINA_LOG_SEGMENT_BYTES_MAX=256M
    file         [log]
                 segment_bytes_max = "256M"

The sections are the settings classes of the rooms that use them. Their field names give the units: `_bytes` takes
sizes (`4096`, `64K`, `256MiB`; K is 1024, KB is 1000), `_seconds` takes durations (`1.5`, `100ms`, `7d`).
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Literal, get_type_hints

from lamina.errors import InvalidRequest, NotFound
from lamina.index import IndexSettings
from lamina.log import LogSettings

Value = bool | int | float | str
SourceKind = Literal["default", "code", "file", "environment", "flag"]

# Named by the command line for itself: where the data, the server and the settings file are.
RESERVED_VARIABLES = frozenset({"LAMINA_DATA", "LAMINA_URL", "LAMINA_CONFIG"})


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value came from; `where` names the file, variable or flag."""

    kind: SourceKind
    where: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.where}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every value a process may tune. Make one with `load`, or in code with `Settings(log=LogSettings(...))`."""

    log: LogSettings = field(default_factory=LogSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    sources: Mapping[str, Source] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as `lamina config check` shows it."""

    name: str
    value: Value
    source: Source


def load(
    path: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
) -> Settings:
    """Read the settings from a TOML file, the environment (that of the process by default) and flags.

    Raises NotFound if the named file does not exist, and InvalidRequest, which says where the mistake is and what
    to do, for anything that is not a known setting with a usable value.
    """
    given: dict[str, tuple[Value, Source]] = {}
    if path is not None:
        given.update(_from_file(path))
    given.update(_from_environment(os.environ if environ is None else environ))
    given.update(_from_flags(flags or {}))
    sections = {name: _build(name, make, given) for name, make in _SECTIONS.items()}
    make_settings: Callable[..., Settings] = Settings
    return make_settings(**sections, sources={name: source for name, (_, source) in given.items()})


def describe(settings: Settings) -> list[SettingRow]:
    """Every setting with its value and where that came from; "code" is a value set by the program itself."""
    rows = []
    defaults = Settings()
    for name in _FIELD_TYPES:
        value = _get(settings, name)
        unnamed = Source("default" if value == _get(defaults, name) else "code")
        rows.append(SettingRow(name, value, settings.sources.get(name, unnamed)))
    return rows


def parse_value(name: str, field_type: type, raw: object) -> Value:
    """The value of setting `name` from a text or a TOML value. Raises ValueError saying what was expected."""
    if field_type is bool:
        return _parse_bool(raw)
    if field_type is str:
        if isinstance(raw, str):
            return raw
        raise ValueError(f"{raw!r} is not a text; write it in quotes")
    if isinstance(raw, str):
        number = _parse_text_number(name, raw)
    elif isinstance(raw, int | float) and not isinstance(raw, bool) and math.isfinite(raw):
        number = Decimal(repr(raw))
    else:
        raise ValueError(f"{raw!r} is not a finite number")
    if field_type is float:
        return float(number)
    if number != int(number):
        raise ValueError(f"{raw!r} is not a whole number")
    return int(number)


def _sections() -> dict[str, type]:
    hints = get_type_hints(Settings)
    return {part.name: hints[part.name] for part in dataclasses.fields(Settings) if part.name != "sources"}


def _field_types() -> dict[str, type]:
    return {
        f"{section}.{name}": field_type
        for section, section_type in _SECTIONS.items()
        for name, field_type in get_type_hints(section_type).items()
    }


_SECTIONS = _sections()
_FIELD_TYPES = _field_types()
_VARIABLES = {f"LAMINA_{name.replace('.', '_').upper()}": name for name in _FIELD_TYPES}

_NUMBER = re.compile(r"(?P<number>[+-]?[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)\s*(?P<unit>[A-Za-z]*)")
_SIZE_UNITS = {"": Decimal(1), "B": Decimal(1)} | {
    unit: Decimal(base) ** power
    for power, letter in enumerate("KMGT", start=1)
    for unit, base in ((letter, 1024), (letter.lower(), 1024), (f"{letter}iB", 1024), (f"{letter}B", 1000))
}
_DURATION_UNITS = {
    "": Decimal(1),
    "us": Decimal("0.000001"),
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
    "w": Decimal(604800),
}


def _parse_bool(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    if raw in ("true", "false"):
        return raw == "true"
    raise ValueError(f"{raw!r} is neither true nor false")


def _parse_text_number(name: str, text: str) -> Decimal:
    units, expected = _units_of(name)
    found = _NUMBER.fullmatch(text.strip())
    if found is None or found["unit"] not in units:
        raise ValueError(f"{text!r} is not {expected}")
    return Decimal(found["number"].replace("_", "")) * units[found["unit"]]


def _units_of(name: str) -> tuple[Mapping[str, Decimal], str]:
    if "_bytes" in name:
        return _SIZE_UNITS, "a size such as 4096, 64K, 256M or 1GiB"
    if name.endswith("_seconds"):
        return _DURATION_UNITS, "a duration such as 30s, 100ms, 5m or 7d"
    return {"": Decimal(1)}, "a plain number"


def _from_file(path: Path) -> Iterator[tuple[str, tuple[Value, Source]]]:
    for section, content in _read_toml(path).items():
        if section not in _SECTIONS:
            raise InvalidRequest(f"{path}: unknown section [{section}]; {_nearest(section, _SECTIONS)}")
        if not isinstance(content, dict):
            raise InvalidRequest(f"{path}: {section!r} must be a section; write [{section}] and its settings below it")
        for key, raw in content.items():
            name = f"{section}.{key}"
            place = f"{path}: key {key!r} in section [{section}]"
            if name not in _FIELD_TYPES:
                keys = [known.partition(".")[2] for known in _FIELD_TYPES if known.startswith(f"{section}.")]
                raise InvalidRequest(f"{place} is not a setting; {_nearest(key, keys)}")
            yield name, (_parse(place, name, raw), Source("file", str(path)))


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, tuple[Value, Source]]]:
    for variable, text in environ.items():
        if not variable.startswith("LAMINA_") or variable in RESERVED_VARIABLES:
            continue
        place = f"environment variable {variable}"
        if variable in _VARIABLES:
            name = _VARIABLES[variable]
            yield name, (_parse(place, name, text), Source("environment", variable))
        elif _looks_like_setting(variable):
            raise InvalidRequest(f"{place} is not a setting; {_nearest(variable, _VARIABLES)}, or unset it")


def _from_flags(flags: Mapping[str, str]) -> Iterator[tuple[str, tuple[Value, Source]]]:
    for name, text in flags.items():
        place = f"flag {name}"
        if name not in _FIELD_TYPES:
            raise InvalidRequest(f"{place} is not a setting; {_nearest(name, _FIELD_TYPES)}")
        yield name, (_parse(place, name, text), Source("flag", name))


def _read_toml(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise NotFound(f"no settings file {path}; create it or name another") from error
    except OSError as error:
        raise InvalidRequest(f"cannot read the settings file {path}: {error.strerror}; name a readable file") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"{path} is not valid TOML: {error}; correct it there") from error


def _parse(place: str, name: str, raw: object) -> Value:
    try:
        return parse_value(name, _FIELD_TYPES[name], raw)
    except ValueError as error:
        raise InvalidRequest(f"{place}: {error}") from error


def _build(section: str, make: Callable[..., object], given: Mapping[str, tuple[Value, Source]]) -> object:
    mine = {name: entry for name, entry in given.items() if name.startswith(f"{section}.")}
    try:
        return make(**{name.partition(".")[2]: value for name, (value, _) in mine.items()})
    except ValueError as error:
        places = ", ".join(f"{name} = {value!r} from {source}" for name, (value, source) in mine.items())
        raise InvalidRequest(f"settings of section [{section}] refused: {error}; correct one of: {places}") from error


def _looks_like_setting(variable: str) -> bool:
    """Other programs may own LAMINA_ variables (Kubernetes sets LAMINA_SERVICE_HOST); only likely typos are errors."""
    in_section = any(variable.startswith(f"LAMINA_{section.upper()}_") for section in _SECTIONS)
    return in_section or bool(difflib.get_close_matches(variable, _VARIABLES, n=1, cutoff=0.9))


def _nearest(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]}?" if close else f"known are: {', '.join(names)}"


def _get(settings: Settings, name: str) -> Value:
    section, _, key = name.partition(".")
    value: Value = getattr(getattr(settings, section), key)
    return value
