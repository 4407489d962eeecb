//! The statement for each source, by version. Its columns have the names of metrics and labels.

/// A source in a range of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    pub source: &'static str,
    /// The first major version.
    pub from: i32,
    pub to: i32,
    /// Seconds between two answers.
    pub every_s: u64,
    pub sql: &'static str,
}

pub const OLDEST: i32 = 10;
/// No last version yet.
const NEWEST: i32 = i32::MAX;

pub fn of_version(major: i32) -> impl Iterator<Item = &'static Query> {
    QUERIES.iter().filter(move |query| (query.from..=query.to).contains(&major))
}

/// One that costs more, or whose result changes slowly.
const fn slow(source: &'static str, from: i32, to: i32, sql: &'static str) -> Query {
    Query { every_s: 10, ..query(source, from, to, sql) }
}

const fn query(source: &'static str, from: i32, to: i32, sql: &'static str) -> Query {
    Query { source, from, to, every_s: 1, sql }
}

/// The end of the WAL, on a primary and on a standby.
macro_rules! end_of_wal {
    () => {
        "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END"
    };
}

/// Columns of a database in all versions.
macro_rules! database {
    () => {
        "SELECT numbackends AS backends, xact_commit AS commits, xact_rollback AS rollbacks,
           blks_read AS blocks_read, blks_hit AS blocks_hit, tup_returned AS rows_returned,
           tup_fetched AS rows_fetched, tup_inserted AS rows_inserted, tup_updated AS rows_updated,
           tup_deleted AS rows_deleted, conflicts, temp_files, temp_bytes AS temp, deadlocks,
           blk_read_time AS read_time, blk_write_time AS write_time"
    };
}

/// Additional columns from version 14 on.
macro_rules! sessions {
    () => {
        ", active_time, idle_in_transaction_time, sessions, sessions_abandoned AS abandoned,
           sessions_fatal AS fatal, sessions_killed AS killed"
    };
}

macro_rules! of_this_database {
    () => {
        " FROM pg_stat_database WHERE datname = current_database()"
    };
}

/// Columns of a vacuum in all versions.
macro_rules! vacuum {
    () => {
        "SELECT v.pid, CASE WHEN v.datname = current_database() THEN relid::regclass::text ELSE relid::text END AS table,
           phase, a.backend_type AS by, heap_blks_total AS blocks, heap_blks_scanned AS scanned,
           heap_blks_vacuumed AS vacuumed, index_vacuum_count AS index_rounds"
    };
}

macro_rules! of_vacuums {
    () => {
        " FROM pg_stat_progress_vacuum AS v LEFT JOIN LATERAL pg_stat_get_activity(v.pid) AS a ON true"
    };
}

/// Columns of a slot in all versions; `end_of_wal!()` comes after it.
macro_rules! slot {
    () => {
        "SELECT slot_name AS slot, slot_type AS kind, active::int AS active,
           now_lsn - restart_lsn AS retained, now_lsn - confirmed_flush_lsn AS unconfirmed,
           age(xmin) AS xmin_age, age(catalog_xmin) AS catalog_xmin_age"
    };
}

macro_rules! of_slots {
    () => {
        concat!(" FROM pg_replication_slots, (SELECT ", end_of_wal!(), " AS now_lsn) AS wal")
    };
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

const QUERIES: &[Query] = &[
    query(
        "sessions",
        OLDEST,
        NEWEST,
        "SELECT count(*) AS total, count(*) FILTER (WHERE state = 'active') AS active,
           count(*) FILTER (WHERE state LIKE 'idle in transaction%') AS idle_in_transaction,
           count(*) FILTER (WHERE wait_event_type = 'Lock') AS waiting_for_locks,
           coalesce(extract(epoch FROM clock_timestamp() - min(xact_start)) * 1000, 0) AS oldest_transaction,
           coalesce(max(age(backend_xmin)), 0) AS xmin_age
         FROM pg_stat_get_activity(NULL)
         WHERE backend_type = 'client backend' AND application_name <> 'pgprobe' OR backend_type IS NULL
         HAVING count(*) = count(backend_type)",
    ),
    query(
        "wal_position",
        OLDEST,
        NEWEST,
        "SELECT inserted, flushed, inserted - flushed AS unflushed,
           received, replayed, received - replayed AS unreplayed,
           CASE WHEN is_standby THEN
             extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) * 1000 END AS replay_delay
         FROM (SELECT is_standby,
             CASE WHEN NOT is_standby THEN pg_current_wal_insert_lsn() - '0/0' END AS inserted,
             CASE WHEN NOT is_standby THEN pg_current_wal_flush_lsn() - '0/0' END AS flushed,
             CASE WHEN is_standby THEN pg_last_wal_receive_lsn() - '0/0' END AS received,
             CASE WHEN is_standby THEN pg_last_wal_replay_lsn() - '0/0' END AS replayed
           FROM pg_is_in_recovery() AS is_standby OFFSET 0) AS positions",
    ),
    query(
        "wal",
        14,
        17,
        "SELECT wal_records AS records, wal_fpi AS full_page_images, wal_bytes AS bytes,
           wal_buffers_full AS buffers_full, wal_write AS writes, wal_write_time AS write_time,
           wal_sync AS syncs, wal_sync_time AS sync_time FROM pg_stat_wal",
    ),
    query(
        "wal",
        18,
        NEWEST,
        "SELECT wal_records AS records, wal_fpi AS full_page_images, wal_bytes AS bytes,
           wal_buffers_full AS buffers_full, io.* FROM pg_stat_wal,
           (SELECT sum(writes) AS writes, sum(write_time) AS write_time,
              sum(fsyncs) AS syncs, sum(fsync_time) AS sync_time
            FROM pg_stat_io WHERE object = 'wal' AND context = 'normal') AS io",
    ),
    query(
        "checkpoints",
        OLDEST,
        16,
        "SELECT checkpoints_timed AS timed, checkpoints_req AS requested,
           checkpoint_write_time AS write_time, checkpoint_sync_time AS sync_time,
           buffers_checkpoint AS buffers FROM pg_stat_bgwriter",
    ),
    query(
        "checkpoints",
        17,
        17,
        "SELECT num_timed AS timed, num_requested AS requested, restartpoints_timed,
           restartpoints_req AS restartpoints_requested, restartpoints_done, write_time, sync_time,
           buffers_written AS buffers FROM pg_stat_checkpointer",
    ),
    query(
        "checkpoints",
        18,
        NEWEST,
        "SELECT num_timed AS timed, num_requested AS requested, num_done AS done, restartpoints_timed,
           restartpoints_req AS restartpoints_requested, restartpoints_done, write_time, sync_time,
           buffers_written AS buffers, slru_written AS slru_buffers FROM pg_stat_checkpointer",
    ),
    query(
        "control",
        OLDEST,
        NEWEST,
        concat!(
            "SELECT extract(epoch FROM clock_timestamp() - checkpoint_time) * 1000 AS since_checkpoint, ",
            end_of_wal!(),
            " - redo_lsn AS since_redo FROM pg_control_checkpoint()"
        ),
    ),
    query(
        "bgwriter",
        OLDEST,
        16,
        "SELECT buffers_clean AS cleaned, maxwritten_clean AS stopped, buffers_alloc AS allocated,
           buffers_backend AS by_backends, buffers_backend_fsync AS synced_by_backends
         FROM pg_stat_bgwriter",
    ),
    query(
        "bgwriter",
        17,
        NEWEST,
        "SELECT buffers_clean AS cleaned, maxwritten_clean AS stopped, buffers_alloc AS allocated
         FROM pg_stat_bgwriter",
    ),
    query(
        "io",
        16,
        17,
        "SELECT backend_type, object, context, reads, reads * op_bytes AS read, read_time, writes,
           writes * op_bytes AS written, write_time, writebacks, writeback_time, extends,
           extends * op_bytes AS extended, extend_time, hits, evictions, reuses, fsyncs, fsync_time
         FROM pg_stat_io",
    ),
    query(
        "io",
        18,
        NEWEST,
        "SELECT backend_type, object, context, reads, read_bytes AS read, read_time, writes,
           write_bytes AS written, write_time, writebacks, writeback_time, extends,
           extend_bytes AS extended, extend_time, hits, evictions, reuses, fsyncs, fsync_time
         FROM pg_stat_io",
    ),
    query("locks", 19, NEWEST, "SELECT locktype AS type, waits, wait_time, fastpath_exceeded FROM pg_stat_lock"),
    query("database", OLDEST, 11, concat!(database!(), of_this_database!())),
    query("database", 12, 13, concat!(database!(), ", checksum_failures", of_this_database!())),
    query("database", 14, 17, concat!(database!(), ", checksum_failures", sessions!(), of_this_database!())),
    query(
        "database",
        18,
        NEWEST,
        concat!(
            database!(),
            ", checksum_failures",
            sessions!(),
            ", parallel_workers_to_launch AS workers_wanted, parallel_workers_launched AS workers_launched",
            of_this_database!()
        ),
    ),
    query(
        "tables",
        OLDEST,
        NEWEST,
        "SELECT sum(pg_stat_get_live_tuples(oid)) AS live_rows, sum(pg_stat_get_dead_tuples(oid)) AS dead_rows,
           sum(pg_stat_get_tuples_updated(oid)) AS updated,
           sum(pg_stat_get_tuples_hot_updated(oid)) AS hot_updated,
           sum(pg_stat_get_vacuum_count(oid)) FILTER (WHERE relkind <> 't') AS vacuums,
           sum(pg_stat_get_autovacuum_count(oid)) FILTER (WHERE relkind <> 't') AS autovacuums,
           sum(pg_stat_get_analyze_count(oid)) AS analyzes,
           sum(pg_stat_get_autoanalyze_count(oid)) AS autoanalyzes
         FROM pg_class WHERE relkind IN ('r', 't', 'm')",
    ),
    query("vacuum", OLDEST, 16, concat!(vacuum!(), ", num_dead_tuples AS dead", of_vacuums!())),
    query(
        "vacuum",
        17,
        17,
        concat!(
            vacuum!(),
            ", num_dead_item_ids AS dead, dead_tuple_bytes AS dead_memory, indexes_total AS indexes,
               indexes_processed AS indexes_done",
            of_vacuums!()
        ),
    ),
    query(
        "vacuum",
        18,
        NEWEST,
        concat!(
            vacuum!(),
            ", num_dead_item_ids AS dead, dead_tuple_bytes AS dead_memory, indexes_total AS indexes,
               indexes_processed AS indexes_done, delay_time AS delayed",
            of_vacuums!()
        ),
    ),
    query(
        "replication",
        OLDEST,
        NEWEST,
        concat!(
            "SELECT pid, application_name AS application, state, sync_state, now_lsn - sent_lsn AS unsent,
           now_lsn - write_lsn AS unwritten, now_lsn - flush_lsn AS unflushed,
           now_lsn - replay_lsn AS unreplayed, extract(epoch FROM write_lag) * 1000 AS write_lag,
           extract(epoch FROM flush_lag) * 1000 AS flush_lag, extract(epoch FROM replay_lag) * 1000 AS replay_lag
         FROM pg_stat_replication, (SELECT ",
            end_of_wal!(),
            " AS now_lsn) AS wal"
        ),
    ),
    query("slots", OLDEST, 12, concat!(slot!(), of_slots!())),
    query("slots", 13, NEWEST, concat!(slot!(), ", wal_status AS status, safe_wal_size AS room", of_slots!())),
    query(
        "archiver",
        OLDEST,
        NEWEST,
        "SELECT archived_count AS archived, failed_count AS failed,
           extract(epoch FROM clock_timestamp() - last_archived_time) * 1000 AS since_archived
         FROM pg_stat_archiver",
    ),
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::catalogue::{Side, sources};

    #[test]
    fn every_source_has_one_statement_in_a_version_and_one_in_the_newest() {
        for major in 10..=19 {
            let mut known = HashSet::new();
            for query in of_version(major) {
                assert!(known.insert(query.source), "{} in {major}", query.source);
            }
        }
        let asked: HashSet<_> = of_version(19).map(|query| query.source).collect();
        let known = sources().into_iter().filter(|source| source.side == Side::Server);
        // their statements depend on the extension's version, and on the command line
        let known = known.filter(|source| !["statements", "queries"].contains(&source.name));
        assert_eq!(asked, known.map(|source| source.name).collect());
    }
}
