"""Settings: precedence, units, sources, and errors that say where, what and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.errors import InvalidRequest, NotFound
from lamina.log import LogSettings
from lamina.settings import RESERVED_VARIABLES, Settings, Source, Value, describe, load, parse_value

MIB = 1024 * 1024


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "lamina.toml"


def refusal(
    path: Path | None = None, environ: dict[str, str] | None = None, flags: dict[str, str] | None = None
) -> str:
    """The message of the InvalidRequest that these sources must cause."""
    with pytest.raises(InvalidRequest) as caught:
        load(path, environ or {}, flags)
    return str(caught.value)


def test_without_sources_everything_is_default() -> None:
    assert load(environ={}) == Settings()


def test_the_file_sets_values(file: Path) -> None:
    file.write_text('[log]\nsegment_bytes_max = "64M"\nindex_interval_bytes = 8192\nsegment_age_seconds = "1d"\n')
    assert load(file, {}).log == LogSettings(
        segment_bytes_max=64 * MIB, index_interval_bytes=8192, segment_age_seconds=86400.0
    )


def test_flags_win_over_environment_over_file_over_defaults(file: Path) -> None:
    file.write_text(
        '[log]\nsegment_bytes_max = "64M"\nsegment_age_seconds = "1h"\nflush_interval_seconds = "200ms"\n',
    )
    environ = {"LAMINA_LOG_SEGMENT_BYTES_MAX": "128M", "LAMINA_LOG_SEGMENT_AGE_SECONDS": "2h"}
    log = load(file, environ, {"log.segment_bytes_max": "32M"}).log
    assert log.segment_bytes_max == 32 * MIB
    assert log.segment_age_seconds == 7200.0
    assert log.flush_interval_seconds == 0.2
    assert log.index_interval_bytes == LogSettings().index_interval_bytes


def test_the_process_environment_is_read_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_LOG_SEGMENT_AGE_SECONDS", "3d")
    assert load().log.segment_age_seconds == 3 * 86400.0


def test_describe_names_every_setting_with_its_source(file: Path) -> None:
    file.write_text('[log]\nsegment_bytes_max = "64M"\n')
    settings = load(file, {"LAMINA_LOG_SEGMENT_AGE_SECONDS": "5m"}, {"log.index_interval_bytes": "4K"})
    rows = {row.name: row for row in describe(settings)}
    assert rows["log.segment_bytes_max"].value == 64 * MIB
    assert rows["log.segment_bytes_max"].source == Source("file", str(file))
    assert rows["log.segment_age_seconds"].source == Source("environment", "LAMINA_LOG_SEGMENT_AGE_SECONDS")
    assert rows["log.index_interval_bytes"].source == Source("flag", "log.index_interval_bytes")
    assert rows["log.flush_interval_seconds"].source == Source("default")


def test_describe_tells_values_set_in_code_from_defaults() -> None:
    rows = {row.name: row for row in describe(Settings(log=LogSettings(segment_bytes_max=64 * MIB)))}
    assert rows["log.segment_bytes_max"].source == Source("code")
    assert rows["log.segment_age_seconds"].source == Source("default")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("1_000", 1000),
        ("10B", 10),
        ("64K", 64 * 1024),
        ("50M", 50 * MIB),
        ("50m", 50 * MIB),
        ("256 MiB", 256 * MIB),
        ("1GiB", 1024 * MIB),
        ("1.5G", 1536 * MIB),
        ("2T", 2 * 1024 * 1024 * MIB),
        ("5MB", 5_000_000),
    ],
)
def test_sizes_take_units(text: str, size: int) -> None:
    assert parse_value("log.segment_bytes_max", int, text) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30.0),
        ("0.1", 0.1),
        ("100ms", 0.1),
        ("250us", 0.00025),
        ("30s", 30.0),
        ("5m", 300.0),
        ("2h", 7200.0),
        ("7d", 604800.0),
        ("1w", 604800.0),
    ],
)
def test_durations_take_units(text: str, seconds: float) -> None:
    assert parse_value("log.segment_age_seconds", float, text) == seconds


@pytest.mark.parametrize(
    ("field_type", "raw", "value"),
    [
        (int, "128", 128),
        (int, 128, 128),
        (int, 128.0, 128),
        (float, 2, 2.0),
        (float, "-1e3", -1000.0),
        (bool, "true", True),
        (bool, "false", False),
        (bool, True, True),
        (str, "eu-west", "eu-west"),
    ],
)
def test_plain_values_keep_their_type(field_type: type, raw: object, value: Value) -> None:
    parsed = parse_value("log.other", field_type, raw)
    assert parsed == value
    assert type(parsed) is field_type


@pytest.mark.parametrize(
    ("name", "field_type", "raw", "expected"),
    [
        ("log.segment_bytes_max", int, "12 parsecs", "is not a size such as"),
        ("log.segment_bytes_max", int, "5mb", "is not a size such as"),
        ("log.segment_bytes_max", int, "0.3", "is not a whole number"),
        ("log.segment_bytes_max", int, "", "is not a size such as"),
        ("log.segment_bytes_max", int, True, "is not a finite number"),
        ("log.segment_bytes_max", int, [1], "is not a finite number"),
        ("log.segment_age_seconds", float, "7M", "is not a duration such as"),
        ("log.segment_age_seconds", float, float("inf"), "is not a finite number"),
        ("log.segment_age_seconds", float, "nan", "is not a duration such as"),
        ("log.index_entries_max", int, "5K", "is not a plain number"),
        ("log.other", bool, "yes", "is neither true nor false"),
        ("log.other", bool, 1, "is neither true nor false"),
        ("log.other", str, 5, "is not a text"),
    ],
)
def test_a_value_of_the_wrong_shape_is_refused(name: str, field_type: type, raw: object, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        parse_value(name, field_type, raw)


def test_a_bad_value_is_located_in_file_environment_and_flag(file: Path) -> None:
    file.write_text('[log]\nsegment_bytes_max = "huge"\n')
    assert f"{file}: key 'segment_bytes_max' in section [log]: 'huge' is not a size" in refusal(file)
    message = refusal(environ={"LAMINA_LOG_SEGMENT_BYTES_MAX": "huge"})
    assert "environment variable LAMINA_LOG_SEGMENT_BYTES_MAX: 'huge' is not a size" in message
    assert "flag log.segment_bytes_max: 'huge'" in refusal(flags={"log.segment_bytes_max": "huge"})


def test_an_unknown_name_is_answered_with_the_nearest_known_one(file: Path) -> None:
    file.write_text("[log]\nsegment_byte_max = 1\n")
    assert "did you mean segment_bytes_max?" in refusal(file)
    assert "did you mean LAMINA_LOG_SEGMENT_BYTES_MAX?" in refusal(environ={"LAMINA_LOG_SEGMENTS_BYTES": "1"})
    assert "did you mean log.segment_bytes_max?" in refusal(flags={"log.segment_bytes": "1"})


def test_an_unknown_section_is_answered_with_the_nearest_known_one(file: Path) -> None:
    file.write_text("[logs]\nsegment_bytes_max = 1\n")
    assert "unknown section [logs]; did you mean log?" in refusal(file)
    file.write_text("[zzz]\n")
    assert "known are: index, log" in refusal(file)


def test_a_misspelt_section_in_a_variable_is_caught() -> None:
    message = refusal(environ={"LAMINA_LOGS_SEGMENT_BYTES_MAX": "1M"})
    assert "did you mean LAMINA_LOG_SEGMENT_BYTES_MAX?" in message


def test_variables_of_the_command_line_and_of_others_are_left_alone() -> None:
    environ = dict.fromkeys(RESERVED_VARIABLES, "x") | {"LAMINA_SERVICE_HOST": "10.0.0.1", "PATH": "/bin"}
    assert load(environ=environ) == Settings()


def test_a_section_must_be_a_table(file: Path) -> None:
    file.write_text("log = 5\n")
    assert "write [log]" in refusal(file)


def test_a_value_that_the_room_refuses_names_its_source(file: Path) -> None:
    file.write_text("[log]\nsegment_bytes_max = 0\n")
    message = refusal(file)
    assert "section [log]" in message
    assert f"log.segment_bytes_max = 0 from file {file}" in message


def test_what_may_wait_for_the_disk_is_bounded(file: Path) -> None:
    assert LogSettings().pending_bytes_max == 64 * MIB
    file.write_text('[log]\npending_bytes_max = "8M"\n')
    assert load(file, {}).log.pending_bytes_max == 8 * MIB
    assert load(file, {"LAMINA_LOG_PENDING_BYTES_MAX": "512K"}).log.pending_bytes_max == 512 * 1024
    assert "pending_bytes_max must be positive" in refusal(flags={"log.pending_bytes_max": "0"})


def test_a_missing_file_is_not_found(file: Path) -> None:
    with pytest.raises(NotFound, match=r"no settings file .*lamina\.toml"):
        load(file, {})


def test_broken_toml_is_located_by_line(file: Path) -> None:
    file.write_text("[log]\nsegment_bytes_max = = 1\n")
    assert "line 2" in refusal(file)


def test_a_file_that_is_no_text_is_refused(file: Path) -> None:
    file.write_bytes(b"[log]\n\xff\xfe")
    assert "not UTF-8" in refusal(file)


def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert "cannot read the settings file" in refusal(tmp_path)
