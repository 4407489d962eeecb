"""The oldest, a middle and the newest PostgreSQL: prepared, reset, checked, examined.

Each is 10 to 15 MB and is fetched once, which takes a second or two.
"""

import psycopg
import pytest

from pgdyno.plan.known_settings import NEEDS_RELOAD, NEEDS_START, SINCE, UNTIL, why_unknown
from pgdyno.prepare import Dataset
from pgdyno.records.probe import WAIT_TYPES
from pgdyno.targets import Home, Server
from tests.postgres.servers import embedded, opened, preparer, rows

SMALL = Dataset("pgbench", 1)
QUICK = {"fsync": "off", "shared_buffers": "16MB", "work_mem": "7MB"}


def settings_are_those_of_the_table(server: Server, version: str) -> None:
    known = {name for (name,) in rows(server, "SELECT name FROM pg_settings")}
    told = {name for name in SINCE | UNTIL if why_unknown(name, int(version)) is None}
    assert told == known & (SINCE.keys() | UNTIL.keys())


@pytest.mark.long_cases("[10", "[13", "snapshot", "template")
@pytest.mark.parametrize("method", ["vacuum", "template", "snapshot"])
@pytest.mark.parametrize("version", ["10", "13", "18"])
def test_every_version_is_prepared_and_checked_alike(home: Home, version: str, method: str) -> None:
    spec = embedded(version, settings=QUICK)
    with opened(home, spec) as server:
        trials = preparer(server, method=method, restart=True, drop_cache="files", prewarm="read", analyze=True,
                          statistics=True, consistency="full")  # fmt: skip
        for _ in range(2):
            prepared = trials.prepare(SMALL)
            assert (prepared.dataset_bytes or 0) > 10_000_000
            # the table is there, its index is not
            assert 0.5 < (prepared.page_cache_share or 0) < 1
            found = trials.check()
            assert found is not None
            assert (found.violations, found.counts["pgbench_accounts"]) == ([], 100_000)
        facts = server.facts()
        settings_are_those_of_the_table(server, version)
    assert facts.version.startswith(f"{version}.")
    assert facts.settings_changed["work_mem"] == "7MB"
    assert facts.data_checksums
    assert (facts.cluster_bytes or 0) > 10_000_000


CONTEXTS = frozenset(["internal", "postmaster", "sighup", "superuser-backend", "backend", "superuser", "user"])
VIEWS = frozenset(
    [
        "pg_stat_activity", "pg_stat_all_indexes", "pg_stat_all_tables", "pg_stat_archiver",
        "pg_stat_autovacuum_scores", "pg_stat_bgwriter", "pg_stat_checkpointer", "pg_stat_database",
        "pg_stat_database_conflicts", "pg_stat_gssapi", "pg_stat_io", "pg_stat_lock",
        "pg_stat_progress_analyze", "pg_stat_progress_basebackup", "pg_stat_progress_cluster",
        "pg_stat_progress_copy", "pg_stat_progress_create_index", "pg_stat_progress_data_checksums",
        "pg_stat_progress_repack", "pg_stat_progress_vacuum", "pg_stat_recovery", "pg_stat_recovery_prefetch",
        "pg_stat_replication", "pg_stat_replication_slots", "pg_stat_slru", "pg_stat_ssl",
        "pg_stat_subscription", "pg_stat_subscription_stats", "pg_stat_sys_indexes", "pg_stat_sys_tables",
        "pg_stat_user_functions", "pg_stat_user_indexes", "pg_stat_user_tables", "pg_stat_wal",
        "pg_stat_wal_receiver", "pg_stat_xact_all_tables", "pg_stat_xact_sys_tables",
        "pg_stat_xact_user_functions", "pg_stat_xact_user_tables",
    ]
)  # fmt: skip
"""Of 10 to 19: for a view that is new, decide whether it adds evidence, then add it here."""


def unknown_to_tables(session: psycopg.Connection[tuple[str]]) -> dict[str, set[str]]:
    """Returns what a server of 17 or later reports and pgdyno's tables of versions lack, by its sort."""
    asked = {
        "wait types": ("SELECT type FROM pg_wait_events", WAIT_TYPES),
        "contexts of settings": ("SELECT context FROM pg_settings", CONTEXTS),
        "views": ("SELECT viewname FROM pg_views WHERE viewname LIKE 'pg\\_stat\\_%'", VIEWS),
        "settings to start with": ("SELECT name FROM pg_settings WHERE context = 'postmaster'", NEEDS_START),
        "settings to reload": ("SELECT name FROM pg_settings WHERE context = 'sighup'", NEEDS_RELOAD),
    }
    found = {
        sort: {text.lower() if "settings to" in sort else text for (text,) in session.execute(query)} - known
        for sort, (query, known) in asked.items()
    }
    return {sort: unknown for sort, unknown in found.items() if unknown}


def test_the_newest_server_reports_nothing_that_the_tables_lack(server: Server) -> None:
    settings_are_those_of_the_table(server, "18")
    with server.connect() as session:
        assert unknown_to_tables(session) == {}
