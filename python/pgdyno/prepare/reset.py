"""Restores the same state before every trial: the dataset, then the server and its caches, as in the plan."""

from __future__ import annotations

from collections.abc import Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import LiteralString

from pgdyno.errors import TargetError
from pgdyno.plan.model import Reset
from pgdyno.prepare import workload_tables
from pgdyno.prepare.cache import (
    dataset_relations,
    drop_cache,
    page_cache_share,
    prewarm_by_reading,
    prewarm_with_extension,
    shared_buffers_share,
)
from pgdyno.prepare.consistency import (
    Balances,
    DatasetCheck,
    Rule,
    check_consistency,
    check_counts,
    read_balances,
    rule_for,
    scope_for,
)
from pgdyno.prepare.dataset import Dataset, load_dataset, stamped_dataset
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
from pgdyno.prepare.steps import Steps, is_worthwhile, minimal_wal, reset_statistics, vacuum_as_pgbench
from pgdyno.programs import Engine
from pgdyno.records import Consistency, Preparation
from pgdyno.targets import Progress, Server

BRING_BACK = 'set reset.method to "reload", "template" or "snapshot", which restore it'


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
    _whole: dict[Dataset, DatasetCheck] = field(default_factory=dict)
    """A check for each dataset that was loaded or restored."""
    _balances: Balances | None = None
    """The balances at the start of the next trial; None if unknown."""
    _dataset: Dataset | None = None

    def prepare(self, dataset: Dataset | None) -> Preparation:
        """Restores the state in which a trial starts; `dataset` is None if the plan has none.

        Raises TargetError, psycopg.Error; the next call then starts over.
        """
        steps = Steps(self.progress)
        known, self._balances = self._balances if dataset == self._dataset else None, None
        self._dataset = dataset
        self.server.check_replicas()
        if dataset is not None:
            self._balances = self._bring_back(dataset, known, steps)
            steps.do("verify", "checking the dataset", lambda: self._verify(dataset))
        if self.server.has_replicas:
            steps.do("replicas", "checking the replicas", self.server.make_replicas)
        self._condition(steps)
        if self.server.has_replicas:
            steps.do("catch up", "waiting for the replicas", self.server.wait_for_replicas)
        shares = self._shares() if self._touches_caches() else (None, None, None)
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
        """Loads `dataset` whatever the database contains. Raises TargetError, psycopg.Error."""
        self._load(dataset, Steps(self.progress), reload=True)

    def check(self) -> Consistency | None:
        """Checks the dataset after a finished trial; None if the plan disables checks.

        Raises TargetError, psycopg.Error.
        """
        before, self._balances = self._balances, None
        if self._dataset is None or self.reset.consistency == "none":
            return None
        if self._dataset.name == workload_tables.SBTEST:
            self.progress.step("counting the dataset's rows")
            return workload_tables.check_sbtest(self.server, self._dataset)
        if self._dataset.name == workload_tables.TPCC:
            self.progress.step("checking TPC-C's consistency conditions")
            return workload_tables.check_tpcc(self._dataset, self.server, self.engine, self.reset.consistency)
        if self._dataset.name == workload_tables.TPCH:
            self.progress.step("counting the rows of refreshed tables")
            return workload_tables.check_tpch(self.server)
        scope = scope_for(self.reset.consistency, self._dataset, self._rule)
        if scope != "none":
            self.progress.step("checking the dataset's consistency")
        checked = check_consistency(self.server, self._dataset, scope, self._rule, before)
        self._balances = checked.after
        return checked.record

    @property
    def _rule(self) -> Rule:
        return rule_for(self.scripts)

    def forget(self) -> None:
        """Records that the trial ended with the dataset in an unknown state."""
        self._balances = None

    # ---- the dataset ----

    def _bring_back(self, dataset: Dataset, known: Balances | None, steps: Steps) -> Balances | None:
        """Restores the dataset and returns its balances, or None if they are not needed."""
        match self.reset.method:
            case "template":
                self._from_template(dataset, steps)
            case "snapshot":
                self._from_snapshot(dataset, steps)
            case "reload":
                self._load(dataset, steps, reload=True)
            case "none" | "vacuum":
                return self._as_it_is(dataset, known, steps)
        return self._as_loaded(dataset)

    @staticmethod
    def _as_loaded(dataset: Dataset) -> Balances | None:
        """Returns the balances of a fresh dataset; only pgbench's tables have any."""
        if dataset.name in (workload_tables.SBTEST, workload_tables.TPCC, workload_tables.TPCH):
            return None
        return Balances.as_loaded(dataset.scale)

    def _as_it_is(self, dataset: Dataset, known: Balances | None, steps: Steps) -> Balances | None:
        if self._load(dataset, steps, reload=False):
            known = self._as_loaded(dataset)
        if dataset.name == workload_tables.TPCC:
            return None
        if dataset.name == workload_tables.SBTEST:
            if self.reset.method == "vacuum":
                steps.do("vacuum", "vacuuming the tables", lambda: workload_tables.vacuum_sbtest(self.server, dataset))
            return None
        if self.reset.method == "vacuum":
            vacuum = "vacuuming the small tables, emptying the history"
            steps.do("vacuum", vacuum, lambda: vacuum_as_pgbench(self.server))
            known = known.without_history() if known is not None else None
        if known is None and scope_for(self.reset.consistency, dataset, self._rule) == "full":
            steps.do("read sums", "reading the balances", self._read_balances)
            return self._balances
        return known

    def _read_balances(self) -> None:
        self._balances = read_balances(self.server)

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
        loaded = False

        def load() -> str:
            nonlocal loaded
            loaded = load_dataset(dataset, self.server, self.engine, self.progress, reload=reload)
            return str(dataset) if loaded else "already loaded"

        with self._load_settings(dataset, steps, reload=reload):
            steps.do("load", f"checking for {dataset}", load)
        if loaded:
            self._whole.pop(dataset, None)
        return loaded

    def _load_settings(self, dataset: Dataset, steps: Steps, *, reload: bool) -> AbstractContextManager[None]:
        if not is_worthwhile(self.server, dataset) or not (reload or stamped_dataset(self.server) != dataset):
            return nullcontext()
        return minimal_wal(self.server, steps)

    def _verify(self, dataset: Dataset) -> str:
        """Checks the stamp, and the rows as far as that is fast. Raises TargetError."""
        found = stamped_dataset(self.server)
        if found != dataset:
            raise TargetError(f"cannot use the dataset: the database's dataset stamp names {found}, not {dataset}")
        is_restored = self.reset.method in ("template", "snapshot", "reload")
        if dataset.name in (workload_tables.TPCC, workload_tables.TPCH):
            return "its dataset stamp"
        if dataset.name == workload_tables.SBTEST:
            return self._verify_sbtest(dataset, is_restored=is_restored)
        if self._rule is Rule.UNKNOWN and not is_restored:
            return "its dataset stamp"
        scope = scope_for(self.reset.consistency, dataset, self._rule)
        whole = self._whole.setdefault(dataset, DatasetCheck())
        rows = whole.rows(self.server, scope, self._balances, same_size=is_restored)
        wrong = check_counts(dataset, rows)
        if self.reset.method != "none" and rows["pgbench_history"] != 0:
            wrong.append(f"pgbench_history has {rows['pgbench_history']:,} rows, but should be empty")
        if wrong:
            raise TargetError(f"the dataset differs from the loaded one: {'; '.join(wrong)}", hint=BRING_BACK)
        return "accounts counted" if "pgbench_accounts" in rows else "accounts by size"

    def _verify_sbtest(self, dataset: Dataset, *, is_restored: bool) -> str:
        if self.reset.consistency == "none" and not is_restored:
            # the scripts of such a plan may change the number of rows
            return "its dataset stamp"
        wrong = workload_tables.count_sbtest(self.server, dataset)[1]
        if wrong:
            raise TargetError(f"the dataset differs from the loaded one: {'; '.join(wrong)}", hint=BRING_BACK)
        return "all tables counted"

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

    def _touches_caches(self) -> bool:
        return self.reset.restart or self.reset.drop_cache != "none" or self.reset.prewarm != "none"

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
    """Writes dirty pages of the load and of earlier trials, so that no trial pays for another one's.

    Raises TargetError if the server cannot be reached, psycopg.Error if it fails.
    """
    _execute(server, "CHECKPOINT")


def _execute(server: Server, statement: LiteralString) -> None:
    with server.connect() as connection:
        connection.execute(statement)
