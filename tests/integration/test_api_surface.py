"""The public names: what is promised, and nothing by accident."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import lamina
from lamina import errors

PROMISED = {
    "Composite",
    "IndexSettings",
    "LogSettings",
    "Message",
    "Page",
    "PublishReceipt",
    "Receipt",
    "Settings",
    "Store",
    "StreamPolicy",
    "__version__",
    "aio",
    "errors",
    "open",
}

MESSAGE_FIELDS = [
    "stream", "partition", "offset", "timestamp", "time", "topic",
    "key", "labels", "value", "expires_at", "priority", "ref",
]  # fmt: skip

SIGNATURES = {
    "create_stream": "name partitions durability retention_seconds retention_bytes compaction window_seconds",
    "update_stream": "name changes",
    "delete_stream": "name",
    "delete_before": "stream partition offset",
    "streams": "",
    "stream": "name",
    "publish": "topic value key labels timestamp ttl priority stream wait",
    "publish_many": "messages stream producer",
    "producer": "stream id linger max_batch_bytes",
    "read": "topic stream partition start end limit start_time end_time descending",
    "read_arrow": "topic stream partition start end limit start_time end_time descending",
    "query": "where stream topic labels any_of start end limit cursor descending include_expired",
    "count": "where stream",
    "create_composite": "name keys stream",
    "drop_composite": "name stream",
    "composites": "stream",
    "get": "ref",
    "latest": "key topic stream",
    "contains_key": "key stream topic",
    "offset_at": "time stream partition",
    "topics": "stream prefix",
    "seal": "stream",
    "segments": "stream",
    "verify": "",
    "metrics": "",
    "close": "",
}


def test_the_package_offers_what_was_promised_and_nothing_else() -> None:
    assert set(lamina.__all__) == PROMISED
    for name in lamina.__all__:
        assert hasattr(lamina, name)


def test_no_other_public_name_leaks_into_the_package() -> None:
    rooms = {path.stem for path in Path(lamina.__file__).parent.iterdir()}
    assert {name for name in vars(lamina) if not name.startswith("_")} - rooms <= PROMISED


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_method_takes_what_was_promised(name: str) -> None:
    wanted = SIGNATURES[name].split()
    taken = list(inspect.signature(getattr(lamina.Store, name)).parameters)
    assert taken[1 : len(wanted) + 1] == wanted


def test_every_public_method_is_explained_or_explains_itself_and_is_typed() -> None:
    for name, method in inspect.getmembers(lamina.Store, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.signature(method).return_annotation is not inspect.Signature.empty, name


def test_the_package_is_typed_for_its_users() -> None:
    assert (Path(lamina.__file__).parent / "py.typed").is_file()


def test_open_takes_what_was_promised() -> None:
    parameters = inspect.signature(lamina.open).parameters
    assert list(parameters)[:2] == ["path", "read_only"]
    assert parameters["read_only"].default is False


def test_messages_and_receipts_have_the_promised_fields() -> None:
    with lamina.open("memory:") as store:
        receipt = store.publish("t", b"v")
        message = store.get(receipt.ref)
    for name in MESSAGE_FIELDS:
        assert hasattr(message, name), name
    for name in ["stream", "partition", "offset", "epoch", "ref"]:
        assert hasattr(receipt, name), name
    assert {"count", "ranges"} <= set(lamina.Receipt.__struct_fields__)


def test_errors_have_the_promised_names() -> None:
    names = (
        "LaminaError InvalidRequest FilterError NotFound OffsetOutOfRange Conflict Diverged Unavailable WouldBlock "
        "Corrupt Closed Denied"
    )
    for name in names.split():
        assert issubclass(getattr(errors, name), errors.LaminaError)
