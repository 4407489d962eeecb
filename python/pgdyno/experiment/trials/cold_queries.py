"""Runs each query of a trial once on a server that has just started, whose files the kernel does not have in memory."""

from collections.abc import Callable, Iterator, Mapping
from tempfile import TemporaryFile

from pgdyno.errors import TargetError
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.records import QueryRun
from pgdyno.run.process import running_engine
from pgdyno.targets import Server
from pgdyno.targets.cluster.file_cache import cached_share, cluster_files, drop_cache

_BLOCKS_READ = "SELECT sum(blks_read)::bigint FROM pg_catalog.pg_stat_database"


class ColdQueries:
    def __init__(self, context: RunContext, progress: RunProgress) -> None:
        self._context = context
        self._progress = progress

    def run(self, server: Server, environment: Callable[[], Mapping[str, str]]) -> list[QueryRun]:
        """Return the cold runs of a trial; none unless the plan asks for them.

        `environment` is that of the load's clients, which a restart may change. Raises TargetError.
        """
        workload = self._context.plan.workload
        return list(self._runs(server, environment)) if workload.runs_cold else []

    def _runs(self, server: Server, environment: Callable[[], Mapping[str, str]]) -> Iterator[QueryRun]:
        folder = server.own_instance("measure queries without a cache").data_directory
        for query in self._context.plan.workload.query_files:
            self._progress.show(f"restarting for a cold run of {query}")
            server.restart()
            before = _blocks_read(server)
            drop_cache(folder)
            share = cached_share(cluster_files(folder))
            run = run_alone(self._context, query, 1, environment(), "the cold run")
            read = _blocks_read(server) - before
            yield run.model_copy(update={"cached_share": share, "blocks_read": read})


def run_alone(context: RunContext, query: str, times: int, environment: Mapping[str, str], what: str) -> QueryRun:
    """Run `query` in a session of its own, and return the first run. Raises TargetError, which names `what` failed."""
    options = ["--events=-", "--parent-lease", "--no-vacuum", f"--transactions={times}"]
    options += context.plan.workload.query_options(query)
    with (
        TemporaryFile() as errors,
        running_engine(context.engine, options, environment, errors, context.loaded.folder) as (_, events),
    ):
        end = next((each for each in events if each["event"] == "end" and each.get("queries")), None)
        if end is None:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip().splitlines()
            raise TargetError(f"{what} of {query} failed: {said[0] if said else 'without a message'}")
    return QueryRun.of_event(end["queries"][0])


def _blocks_read(server: Server) -> int:
    with server.connect() as connection:
        row = connection.execute(_BLOCKS_READ).fetchone()
    return int(row[0]) if row else 0
