"""What follows the server during a trial: the archive of its WAL, and reads that go round all its servers."""

from collections.abc import Iterator
from contextlib import contextmanager

from pgdyno.experiment.run_context import RunContext
from pgdyno.plan import Plan, PlannedTrial
from pgdyno.plan.targets import OwnTarget
from pgdyno.targets import ArchiveWatch, ReadWatch, Server


@contextmanager
def reads_in_turn(plan: Plan, server: Server) -> Iterator[ReadWatch | None]:
    """Read from `server` and its standbys while clients keep a commit ledger; None without either."""
    if not (plan.trial.ledger and server.replicas is not None) or server.has_subscriber:
        yield None
        return
    with ReadWatch(server.address, server.replica_addresses(), server.dbname) as watch:
        yield watch


@contextmanager
def archive_wal(context: RunContext, trial: PlannedTrial, server: Server) -> Iterator[ArchiveWatch | None]:
    """Archive the WAL of `server` as the plan's target says; None if it says nothing. Raises TargetError."""
    spec = context.plan.target[trial.target]
    if not isinstance(spec, OwnTarget) or spec.archive is None:
        yield None
        return
    with ArchiveWatch(spec.archive, server, context.home.account) as watch:
        yield watch
