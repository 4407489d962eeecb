"""Restores the same state before every trial: the dataset, then the server and its caches, as in the plan."""

from collections.abc import Set
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import LiteralString

from pgdyno.errors import TargetError
from pgdyno.plan.model import Reset
from pgdyno.prepare.cache import (
    dataset_relations,
    drop_cache,
    page_cache_share,
    prewarm_by_reading,
    prewarm_with_extension,
    shared_buffers_share,
)
from pgdyno.prepare.dataset import Dataset, Tables, load_dataset, stamped_dataset, tables_of
from pgdyno.prepare.dataset_copies import (
    copy_template,
    find_template,
    holds_snapshot,
    make_room,
    make_snapshot,
    make_template,
    restore_snapshot,
    template_of,
)
from pgdyno.prepare.timed_steps import Steps, is_worthwhile, minimal_wal, reset_statistics
from pgdyno.programs import Engine
from pgdyno.records import Consistency, Preparation
from pgdyno.targets import Progress, Server


@dataclass(slots=True)
class Preparer:
    """Prepares the trials of one target, one after another, and checks the dataset after each."""

    server: Server
    engine: Engine
    progress: Progress
    reset: Reset
    scripts: Set[str]
    """Names of scripts that may run."""
    keep_free_bytes: int = 0
    """Disk space that the plan keeps free."""
    _all_tables: dict[Dataset, Tables] = field(default_factory=dict)
    _tables: Tables | None = None
    """Those of the trial."""

    def prepare(self, dataset: Dataset | None) -> Preparation:
        """Restores the state in which a trial starts; `dataset` is None if the plan has none.

        Raises TargetError, psycopg.Error; the next call then starts over.
        """
        steps = Steps(self.progress)
        self._tables = None if dataset is None else self._tables_of(dataset)
        self.server.check_replicas()
        if self._tables is not None:
            self._bring_back(self._tables, steps)
            steps.do("verify", "checking the dataset", self._verify)
        replicas = self.server.replicas
        if replicas is not None:
            steps.do("replicas", "checking the replicas", self.server.make_replicas)
        self._condition(steps)
        if replicas is not None:
            steps.do("catch up", "waiting for the replicas", lambda: replicas.wait(self.server.address))
        touches_caches = self.reset.restart or self.reset.drop_cache != "none" or self.reset.prewarm != "none"
        shares = self._shares() if touches_caches else (None, None, None)
        return Preparation(
            # without a dataset nothing is restored or vacuumed
            method="none" if dataset is None else self.reset.method,
            seconds=round(steps.seconds, 6),
            steps=steps.done,
            dataset_bytes=shares[0],
            shared_buffers_share=shares[1],
            page_cache_share=shares[2],
        )

    def load_anew(self, dataset: Dataset) -> None:
        """Load `dataset` whatever the database contains. Raises TargetError, psycopg.Error."""
        self._load(dataset, Steps(self.progress), reload=True)

    def check(self) -> Consistency | None:
        """Check the dataset after a finished trial; None if the plan disables checks.

        Raises TargetError, psycopg.Error.
        """
        return None if self._tables is None or self.reset.consistency == "none" else self._tables.check()

    def forget(self) -> None:
        """Record that the trial ended with the dataset in an unknown state."""
        if self._tables is not None:
            self._tables.forget()

    # ---- the dataset ----

    def _tables_of(self, dataset: Dataset) -> Tables:
        if dataset not in self._all_tables:
            make = tables_of(dataset.name)
            self._all_tables[dataset] = make(dataset, self.server, self.engine, self.progress, self.reset, self.scripts)
        return self._all_tables[dataset]

    def _bring_back(self, tables: Tables, steps: Steps) -> None:
        match self.reset.method:
            case "template":
                self._from_template(tables.dataset, steps)
            case "snapshot":
                self._from_snapshot(tables.dataset, steps)
            case "reload":
                self._load(tables.dataset, steps, reload=True)
            case "none" | "vacuum":
                if self._load(tables.dataset, steps, reload=False):
                    tables.note_restored()
                tables.keep(steps)
                return
        tables.note_restored()

    def _from_template(self, dataset: Dataset, steps: Steps) -> None:
        template = find_template(self.server, dataset)
        if template is None:
            dropped = make_room(self.server, dataset, self.keep_free_bytes)
            if dropped is not None:
                steps.do("make room", "dropping templates", lambda: dropped)
            # a dataset that an earlier run has changed cannot become a template
            self._load(dataset, steps, reload=True)
            steps.do("template", "creating the template", lambda: make_template(self.server, self.reset))
            template = find_template(self.server, dataset) or template_of(self.server)
        source = template
        self.server.end_subscription()
        steps.do("copy", "copying the template", lambda: copy_template(self.server, source, self.reset))

    def _from_snapshot(self, dataset: Dataset, steps: Steps) -> None:
        if self.server.machine is None:
            # its provider has restored the whole server, before it was opened
            return
        if not holds_snapshot(self.server, dataset, self.reset.snapshot):
            self._load(dataset, steps, reload=True)
            make_snapshot(self.server, self.reset.snapshot, steps)
        restore_snapshot(self.server, steps)

    def _load(self, dataset: Dataset, steps: Steps, *, reload: bool) -> bool:
        loaded, must_load = False, reload or stamped_dataset(self.server) != dataset
        if must_load:
            self.server.end_subscription()

        def load() -> str:
            nonlocal loaded
            loaded = load_dataset(dataset, self.server, self.engine, self.progress, reload=reload)
            return str(dataset) if loaded else "already loaded"

        without_wal = must_load and is_worthwhile(self.server, dataset)
        with minimal_wal(self.server, steps) if without_wal else nullcontext():
            steps.do("load", f"checking for {dataset}", load)
        if loaded:
            self._tables_of(dataset).note_loaded()
        return loaded

    def _verify(self) -> str:
        assert self._tables is not None
        found = stamped_dataset(self.server)
        if found != self._tables.dataset:
            wanted = self._tables.dataset
            raise TargetError(f"cannot use the dataset: the database's dataset stamp names {found}, not {wanted}")
        return self._tables.verify()

    # ---- server and caches ----

    def _condition(self, steps: Steps) -> None:
        reset, server = self.reset, self.server
        if reset.checkpoint:
            steps.do("checkpoint", "writing a checkpoint", lambda: checkpoint(server))
        if reset.restart:
            steps.do("restart", "restarting the server", server.restart)
        if reset.drop_cache != "none":
            what = reset.drop_cache
            steps.do("drop cache", "dropping the page cache", lambda: drop_cache(server, what))
        if reset.prewarm != "none":
            work = prewarm_with_extension if reset.prewarm == "pg_prewarm" else prewarm_by_reading
            steps.do("prewarm", "prewarming", lambda: work(server))
        if reset.analyze:
            steps.do("analyze", "analyzing", lambda: _execute(server, "ANALYZE"))
        if reset.statistics:
            steps.do("statistics", "resetting statistics", lambda: reset_statistics(server))

    def _shares(self) -> tuple[int | None, float | None, float | None]:
        relations = dataset_relations(self.server)
        size = sum(relation.main_bytes for relation in relations)
        if self.server.machine is None:
            # files are on another host, and pg_buffercache would be created in a foreign database
            return size, None, None
        # the page cache comes first, because installing an extension reads files
        in_page_cache = page_cache_share(self.server.data_directory, relations)
        in_buffers = shared_buffers_share(self.server, relations)
        return size, in_buffers, in_page_cache


def checkpoint(server: Server) -> None:
    """Write dirty pages of the load and of earlier trials, so that no trial pays for another one's.

    Raises TargetError if the server cannot be reached, psycopg.Error if it fails.
    """
    _execute(server, "CHECKPOINT")


def _execute(server: Server, statement: LiteralString) -> None:
    with server.connect() as connection:
        connection.execute(statement)
