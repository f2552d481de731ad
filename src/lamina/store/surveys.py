"""Taking stock of a store: infos for people and a full check of its bytes."""

from __future__ import annotations

from collections.abc import Callable

from lamina.log import PartitionView, SegmentCheck, foreign_files, partition_directory, verify_partition
from lamina.store.infos import PartitionInfo, SegmentInfo, StreamInfo, VerifyReport
from lamina.store.streams import FollowedStreams, OpenStream, OwnedStreams


def stream_info(stream: OpenStream) -> StreamInfo:
    views = [] if stream.is_elsewhere else stream.views()
    partitions = [_partition_info(view, epoch) for view, epoch in zip(views, stream.epochs(), strict=False)]
    size = sum(partition.bytes for partition in partitions)
    messages = sum(partition.messages for partition in partitions)
    return StreamInfo(stream.name, stream.policy, partitions, messages, size, {"hot": size})


def segment_infos(stream: OpenStream) -> list[SegmentInfo]:
    infos = []
    for view in stream.views():
        view.bounds()
        for handle in view.segments.handles:
            stats = handle.stats
            infos.append(
                SegmentInfo(
                    view.stream,
                    view.number,
                    handle.base,
                    handle.end,
                    stats.count,
                    handle.bytes,
                    handle.state.value,
                    "hot",
                    stats.ts_min if stats.count else None,
                    stats.ts_max if stats.count else None,
                    handle.damage,
                )
            )
    return infos


Progress = Callable[[int, int], None]


def verify(streams: OwnedStreams | FollowedStreams, progress: Progress | None = None) -> VerifyReport:
    checks: list[SegmentCheck] = []
    foreign: list[str] = []
    rebuilt: list[str] = []
    dropped_bytes = 0
    readable = [stream for stream in streams.all() if not stream.is_elsewhere]
    total = sum(stream_info(stream).bytes for stream in readable)
    for stream in readable:
        for view in stream.views():
            directory = partition_directory(stream.name, view.number)
            for check in verify_partition(stream.disk, directory, view, stream.cache):
                checks.append(check)
                if progress is not None:
                    progress(sum(done.bytes for done in checks), total)
            foreign += [f"{directory}/{name}" for name in foreign_files(stream.disk, directory, view.segments)]
        for report in stream.reports():
            dropped_bytes += report.dropped_bytes
            rebuilt += report.rebuilt
    return VerifyReport(checks, foreign, dropped_bytes, rebuilt)


def _partition_info(view: PartitionView, epoch: int) -> PartitionInfo:
    earliest, latest = view.bounds()
    handles = view.segments.handles
    messages = sum(min(handle.stats.count, max(handle.end - earliest, 0)) for handle in handles)
    size = sum(handle.bytes for handle in handles)
    return PartitionInfo(view.number, earliest, latest, epoch, messages, size, len(handles))
