"""Copies the stopped cluster and restores it."""

from __future__ import annotations

from pgdyno.plan.snapshot_words import SnapshotWay
from pgdyno.prepare.mark import Dataset, read_comment, read_mark
from pgdyno.prepare.steps import Steps
from pgdyno.targets import Server


def holds_snapshot(server: Server, dataset: Dataset, wanted: SnapshotWay | None) -> bool:
    """Tells whether a complete copy of the cluster with `dataset` exists, made by the `wanted` method, if any."""
    record = server.copy.read()
    if record is None or wanted not in (None, record.way):
        return False
    mark = read_mark(record.mark)
    return mark is not None and mark.dataset == dataset


def make_snapshot(server: Server, wanted: SnapshotWay | None, steps: Steps) -> None:
    """Stops the server, copies its data directory, and starts it. Raises TargetError, with sizes if space is short."""
    mark = read_comment(server) or ""
    steps.do("stop", "stopping the server", server.stop)
    try:
        steps.do("copy", "copying the cluster", lambda: server.copy.make(mark, wanted))
    finally:
        steps.do("start", "starting the server", server.start)


def restore_snapshot(server: Server, steps: Steps) -> None:
    """Stops the server, replaces its data directory by the copy, and starts it. Raises TargetError."""
    steps.do("stop", "stopping the server", server.stop)
    steps.do("restore", "restoring the cluster", server.copy.restore)
    steps.do("start", "starting the server", lambda: _start_again(server))


def _start_again(server: Server) -> None:
    server.start()
    # the copy may have the password of an earlier run
    server.prepare(set_password=True)
