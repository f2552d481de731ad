"""The open streams of a store: those that this process owns, or follows while another process owns them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from lamina.clock import Clock
from lamina.disk import Disk, Lock, MemoryDisk
from lamina.errors import Denied, LaminaError, Unavailable
from lamina.index import Indexer, IndexSettings, OpenIndexes, PartitionIndex, StreamIndex
from lamina.log import (
    Catalog,
    Flusher,
    FollowedPartition,
    LogSettings,
    OpenSegments,
    Partition,
    PartitionContext,
    PartitionView,
    RecoveryReport,
    Sealer,
    Stream,
    StreamPolicy,
    open_partition,
    partition_directory,
    unknown_stream,
)
from lamina.metrics import Metrics
from lamina.model import partition_of


class OpenStream:
    """One stream, owned (then it can be appended to) or followed."""

    def __init__(
        self,
        name: str,
        policy: StreamPolicy,
        disk: Disk,
        cache: OpenSegments,
        partitions: Sequence[Partition] | Sequence[FollowedPartition],
        stream: Stream | None,
        index: StreamIndex,
    ) -> None:
        self.name = name
        self.policy = policy
        self.disk = disk
        self.cache = cache
        self._partitions = partitions
        self._stream = stream
        self._index = index

    @property
    def index(self) -> StreamIndex:
        self.views()  # raises if the messages are out of reach: no index must say that there are none
        return self._index

    @property
    def is_elsewhere(self) -> bool:
        """Whether the messages are in the memory of another process."""
        return self._stream is None and self.policy.durability == "memory"

    def views(self) -> list[PartitionView]:
        if self.is_elsewhere:
            raise Unavailable(f"stream {self.name!r} is kept in its owner's memory: only that process can read it")
        return [partition.view for partition in self._partitions]

    def views_for(self, topic: str | None, key: bytes | None) -> list[PartitionView]:
        """The partitions that can hold messages of this topic (or key)."""
        views, by = self.views(), self.policy.partition_by
        if topic is not None and (by == "topic" or key is not None):
            return [views[partition_of(topic, key, len(views), by)]]
        if key is not None and by == "key":
            return [views[partition_of("", key, len(views), by)]]
        return views

    def epochs(self) -> list[int]:
        return [partition.epoch for partition in self._partitions]

    def reports(self) -> list[RecoveryReport]:
        return [partition.report for partition in self.owned_partitions()] if self._stream else []

    def appender(self) -> Stream:
        if self._stream is None:
            raise Denied("the store is open read-only")
        return self._stream

    def owned_partitions(self) -> Sequence[Partition]:
        return self.appender().partitions

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            return
        for partition in self._partitions:
            partition.close()


class OwnedStreams:
    """All streams of a directory whose lock this process holds."""

    def __init__(
        self,
        disk: Disk,
        catalog: Catalog,
        lock: Lock,
        clock: Clock,
        settings: LogSettings,
        metrics: Metrics,
        index_settings: IndexSettings,
    ) -> None:
        self._index_settings = index_settings
        self._open_indexes = OpenIndexes(index_settings.open_indexes_max)
        self._indexer = Indexer(clock, index_settings)
        self._disk = disk
        self._catalog = catalog
        self._lock = lock
        self._clock = clock
        self._settings = settings
        self._metrics = metrics
        self._cache = OpenSegments(settings.open_segments_max)
        self._sealer = Sealer()
        self._streams: dict[str, OpenStream] = {}
        self.appenders: dict[str, Stream] = {}
        """The same streams for appending: one look-up on the way of every message. Empty once closed."""
        try:
            for name, document in catalog.streams().items():
                self._open(name, document.policy)
            if "default" not in self._streams:
                self.create("default", StreamPolicy())
        except BaseException:
            self.close()
            raise
        self._flusher = Flusher(self._to_flush, clock, settings.flush_interval_seconds)

    def names(self) -> list[str]:
        return sorted(self._streams)

    def find(self, name: str) -> OpenStream | None:
        return self._streams.get(name)

    def get(self, name: str) -> OpenStream:
        stream = self._streams.get(name) if isinstance(name, str) else None
        if stream is None:
            raise unknown_stream(name, list(self._streams))
        return stream

    def create(self, name: str, policy: StreamPolicy) -> None:
        """All or nothing; what an earlier attempt left under the name goes first."""
        self._catalog.clear(name)
        self._catalog.create(name, policy)
        self._open(name, policy)

    def update(self, name: str, policy: StreamPolicy) -> None:
        self._catalog.update(name, policy)
        stream = self._streams[name]
        stream.policy = stream.appender().policy = policy
        for partition in stream.owned_partitions():
            partition.change_policy(policy)

    def delete(self, name: str) -> None:
        """If hiding it fails nothing has changed; from then on it is gone for everybody."""
        stream = self.get(name)
        hidden = self._catalog.hide(name)
        del self._streams[name], self.appenders[name]
        self._indexer.remove(stream.index)
        stream.close()
        self._catalog.remove(hidden)

    def gauge(self, metrics: Metrics) -> None:
        streams = list(self._streams.values())
        handles = [handle for stream in streams for view in stream.views() for handle in view.segments.handles]
        metrics.set("lamina_streams", len(streams))
        metrics.set("lamina_partitions", sum(stream.policy.partitions for stream in streams))
        metrics.set("lamina_segments_open", len(self._cache))
        metrics.set("lamina_index_backlog_messages", sum(stream.index.backlog() for stream in streams))
        metrics.set("lamina_quarantined_segments", sum(handle.damage is not None for handle in handles))

    def all(self) -> list[OpenStream]:
        return list(self._streams.values())

    def close(self) -> None:
        self.appenders.clear()
        try:
            self._indexer.close()
            if hasattr(self, "_flusher"):
                self._flusher.close()
            for stream in self._streams.values():
                stream.close()
            self._sealer.close()
        finally:
            self._lock.close()

    def _open(self, name: str, policy: StreamPolicy) -> None:
        in_memory = policy.durability == "memory"
        disk = MemoryDisk() if in_memory else self._disk
        partitions = []
        for number in range(policy.partitions):
            context = PartitionContext(
                name,
                number,
                partition_directory(name, number),
                disk,
                self._disk,
                self._clock,
                self._settings,
                self._metrics,
                self._cache,
                self._sealer.request,
                self._indexer.wake,
            )
            try:
                partitions.append(open_partition(context, policy))
            except LaminaError:
                for opened in partitions:
                    opened.close()
                raise
        for partition in partitions:
            self._metrics.add("lamina_recovery_dropped_bytes_total", partition.report.dropped_bytes)
            self._metrics.add("lamina_recovery_side_files_rebuilt_total", len(partition.report.rebuilt))
        stream = Stream(name, policy, partitions, self._settings, self._clock)
        index = StreamIndex(
            name,
            self._disk,
            [
                PartitionIndex(
                    p.view, disk, p.context.directory, self._index_settings, self._open_indexes, p.durable_end
                )
                for p in partitions
            ],
            is_owner=True,
            wake=self._indexer.wake,
        )
        self._streams[name] = OpenStream(name, policy, disk, self._cache, partitions, stream, index)
        self.appenders[name] = stream
        self._indexer.add(index)

    def _to_flush(self) -> Iterable[Partition]:
        return [
            partition
            for stream in list(self._streams.values())
            if stream.policy.durability == "flush"
            for partition in stream.owned_partitions()
        ]


class FollowedStreams:
    """All streams of a directory, read beside its owner. The directory is looked at again for unknown names."""

    def __init__(self, disk: Disk, catalog: Catalog, settings: LogSettings, index_settings: IndexSettings) -> None:
        self._index_settings = index_settings
        self._open_indexes = OpenIndexes(index_settings.open_indexes_max)
        self._disk = disk
        self._catalog = catalog
        self._settings = settings
        self._cache = OpenSegments(settings.open_segments_max)
        self._refreshing = threading.Lock()
        self._uids: dict[str, str] = {}
        self.appenders: dict[str, Stream] = {}  # nothing can be appended here
        self._streams: dict[str, OpenStream] = {}
        self._refresh()

    def names(self) -> list[str]:
        return sorted(stream.name for stream in self.all())

    def get(self, name: str) -> OpenStream:
        """As the owner has it now: its policy may have changed, or another stream may have its name."""
        with self._refreshing:
            return self._get(name)

    def _get(self, name: str) -> OpenStream:
        document = self._catalog.stream(name) if isinstance(name, str) and name in self._uids else None
        if document is None or self._uids.get(name) != document.uid:
            self._refresh()
        elif self._streams[name].policy != document.policy:
            self._streams[name].policy = document.policy
        if name not in self._streams:
            raise unknown_stream(name, list(self._streams))
        return self._streams[name]

    def gauge(self, metrics: Metrics) -> None:
        metrics.set("lamina_streams", len(self._streams))
        metrics.set("lamina_segments_open", len(self._cache))

    def all(self) -> list[OpenStream]:
        with self._refreshing:
            self._refresh()
            return list(self._streams.values())

    def close(self) -> None:
        for stream in self._streams.values():
            stream.close()

    def _refresh(self) -> None:
        """Under the _refreshing lock."""
        found = self._catalog.streams()
        for name, uid in list(self._uids.items()):
            if name not in found or found[name].uid != uid:
                del self._uids[name]
                self._streams.pop(name).close()
        for name, document in found.items():
            if name not in self._uids:
                self._streams[name] = self._follow(name, document.policy)
                self._uids[name] = document.uid
            self._streams[name].policy = document.policy

    def _follow(self, name: str, policy: StreamPolicy) -> OpenStream:
        partitions = [
            FollowedPartition(self._disk, partition_directory(name, number), name, number, self._settings, self._cache)
            for number in range(policy.partitions)
        ]
        index = StreamIndex(
            name,
            self._disk,
            [
                PartitionIndex(
                    p.view,
                    self._disk,
                    partition_directory(name, number),
                    self._index_settings,
                    self._open_indexes,
                    None,
                )
                for number, p in enumerate(partitions)
            ],
            is_owner=False,
        )
        return OpenStream(name, policy, self._disk, self._cache, partitions, None, index)
