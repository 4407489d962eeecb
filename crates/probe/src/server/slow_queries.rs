//! Statements that cost more, or whose results change slowly: run every ten seconds.

use super::query::{NEWEST, OLDEST, Query};

const fn slow(source: &'static str, from: i32, to: i32, sql: &'static str) -> Query {
    Query { source, from, to, every_s: 10, sql }
}

/// The tables with the most changes since statistics began; of equal ones the largest. Tables under
/// an exclusive lock, or with a request for one, are left out, because reading a size takes a lock.
macro_rules! busiest {
    () => {
        "(SELECT oid FROM pg_class
          WHERE relkind IN ('r', 'm') AND relpersistence <> 't' AND relnamespace NOT IN (
            SELECT oid FROM pg_namespace WHERE nspname IN ('pg_catalog', 'information_schema'))
            AND NOT EXISTS (SELECT FROM pg_locks WHERE relation = pg_class.oid AND mode = 'AccessExclusiveLock'
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
          ORDER BY pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid)
            + pg_stat_get_tuples_deleted(oid) DESC, relpages DESC LIMIT 30)"
    };
}

pub(super) const SLOW: &[Query] = &[
    slow(
        "relations",
        OLDEST,
        NEWEST,
        concat!(
            "SELECT oid::regclass::text AS table, pg_relation_size(oid) AS size, pg_indexes_size(oid) AS indexes,
           pg_table_size(oid) - pg_relation_size(oid) AS others,
           pg_stat_get_live_tuples(oid) AS live_rows, pg_stat_get_dead_tuples(oid) AS dead_rows,
           pg_stat_get_tuples_inserted(oid) AS inserted, pg_stat_get_tuples_updated(oid) AS updated,
           pg_stat_get_tuples_hot_updated(oid) AS hot_updated, pg_stat_get_tuples_deleted(oid) AS deleted,
           pg_stat_get_numscans(oid) AS scans, pg_stat_get_tuples_returned(oid) AS scanned,
           pg_stat_get_vacuum_count(oid) AS vacuums, pg_stat_get_autovacuum_count(oid) AS autovacuums
         FROM ",
            busiest!(),
            " AS busiest"
        ),
    ),
    slow(
        "indexes",
        OLDEST,
        NEWEST,
        concat!(
            "SELECT indexrelid::regclass::text AS index, indrelid::regclass::text AS table,
           pg_relation_size(indexrelid) AS size, pg_stat_get_numscans(indexrelid) AS scans,
           pg_stat_get_tuples_returned(indexrelid) AS entries
         FROM pg_index WHERE indrelid IN ",
            busiest!(),
            " ORDER BY size DESC LIMIT 50"
        ),
    ),
    slow(
        "archive_queue",
        12,
        NEWEST,
        "SELECT count(*) AS waiting FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'",
    ),
];
