"""A stopped copy of the whole cluster to go back to."""

from __future__ import annotations

from pgdyno.plan.snapshot_words import SnapshotWay
from pgdyno.prepare.mark import Dataset, read_comment, read_mark
from pgdyno.prepare.steps import Steps
from pgdyno.targets import Server


def holds_snapshot(server: Server, dataset: Dataset, wanted: SnapshotWay | None) -> bool:
    """Whether a whole copy of the cluster with `dataset` is there, made the way that is `wanted`, if any is."""
    record = server.copy.read()
    if record is None or wanted not in (None, record.way):
        return False
    mark = read_mark(record.mark)
    return mark is not None and mark.dataset == dataset


def make_snapshot(server: Server, wanted: SnapshotWay | None, steps: Steps) -> None:
    """Stops the server, copies its data directory, starts it. Raises TargetError, with sizes if room is short."""
    mark = read_comment(server) or ""
    steps.do("stop", "stopping the server", server.stop)
    try:
        steps.do("copy", "copying the cluster", lambda: server.copy.make(mark, wanted))
    finally:
        steps.do("start", "starting the server", server.start)


def restore_snapshot(server: Server, steps: Steps) -> None:
    """Stops the server, puts the copy in place of its data directory, starts it. Raises TargetError."""
    steps.do("stop", "stopping the server", server.stop)
    steps.do("restore", "bringing back the cluster", server.copy.restore)
    steps.do("start", "starting the server", lambda: _start_again(server))


def _start_again(server: Server) -> None:
    server.start()
    # the copy may be of an earlier run, which had another password
    server.prepare(set_password=True)
