//! Sources that PostgreSQL reports about the server.

use super::{Source, amount, gauge};

pub(super) const SOURCES: &[&Source] =
    &[&SESSIONS, &WAL_POSITION, &WAL, &CHECKPOINTS, &CONTROL, &BGWRITER, &IO, &LOCKS, &DATABASE, &QUERIES];

const SESSIONS: Source =
    Source::server("sessions", "`pg_stat_activity`, client backends without the probe's").metrics(&[
        gauge("total", "count", "sessions"),
        gauge("active", "count", "of these running a statement"),
        gauge("idle_in_transaction", "count", "of these in a transaction and doing nothing"),
        gauge("waiting_for_locks", "count", "of these waiting for a lock"),
        gauge("oldest_transaction", "ms", "how long the oldest transaction has been open"),
        gauge("xmin_age", "count", "transactions since the oldest row version that one may still need"),
    ]);

const QUERIES: Source =
    Source::server("queries", "`--query`: a query of yours").labels(&[("query", "its name")]).metrics(&[
        gauge("value", "", "the number that it returned; absent for NULL"),
        gauge("took", "ms", "how long the answer took"),
    ]);

const WAL_POSITION: Source = Source::server("wal_position", "`pg_current_wal_insert_lsn()` and its like").metrics(&[
    amount("inserted", "bytes", "WAL made"),
    amount("flushed", "bytes", "WAL brought to disk"),
    gauge("unflushed", "bytes", "made and not yet on disk"),
    amount("received", "bytes", "of a standby: WAL that came"),
    amount("replayed", "bytes", "of a standby: WAL applied"),
    gauge("unreplayed", "bytes", "of a standby: came and not yet applied"),
    gauge(
        "replay_delay",
        "ms",
        "of a standby: age of the last transaction that was applied; also grows while the primary does nothing",
    ),
]);

const WAL: Source = Source::server("wal", "`pg_stat_wal` (from 14); from 18 on writes and syncs from `pg_stat_io`")
    .metrics(&[
        amount("records", "count", "WAL records"),
        amount("full_page_images", "count", "pages written whole, as the first change after a checkpoint requires"),
        amount("bytes", "bytes", "WAL made"),
        amount("buffers_full", "count", "times that WAL had to be written because its buffers were full"),
        amount("writes", "count", "writes of WAL"),
        amount("write_time", "ms", "of these; 0 without track_wal_io_timing"),
        amount("syncs", "count", "times that WAL was brought to disk"),
        amount("sync_time", "ms", "of these; 0 without track_wal_io_timing"),
    ]);

const CHECKPOINTS: Source =
    Source::server("checkpoints", "`pg_stat_bgwriter` (to 16), `pg_stat_checkpointer` (from 17)").metrics(&[
        amount("timed", "count", "begun because checkpoint_timeout had passed"),
        amount("requested", "count", "begun because of max_wal_size or a command"),
        amount("done", "count", "completed (from 18)"),
        amount("restartpoints_timed", "count", "of a standby, because of time (from 17)"),
        amount("restartpoints_requested", "count", "of a standby, requested (from 17)"),
        amount("restartpoints_done", "count", "of a standby, completed (from 17)"),
        amount("write_time", "ms", "spent writing buffers, pauses between them included; reported at the end"),
        amount("sync_time", "ms", "spent syncing files; reported at the end"),
        amount("buffers", "count", "shared buffers written"),
        amount("slru_buffers", "count", "buffers of transaction status and the like written (from 18)"),
    ]);

const CONTROL: Source = Source::server("control", "`pg_control_checkpoint()`").metrics(&[
    gauge("since_checkpoint", "ms", "age of the last completed checkpoint's begin"),
    gauge("since_redo", "bytes", "WAL that a crash would have to replay"),
]);

const BGWRITER: Source = Source::server("bgwriter", "`pg_stat_bgwriter`").metrics(&[
    amount("cleaned", "count", "buffers written by the background writer"),
    amount("stopped", "count", "rounds that ended at bgwriter_lru_maxpages"),
    amount("allocated", "count", "buffers that got another page"),
    amount("by_backends", "count", "buffers that backends wrote themselves (to 16; then see `io`)"),
    amount("synced_by_backends", "count", "files that backends synced themselves (to 16)"),
]);

const IO: Source = Source::server("io", "`pg_stat_io` (from 16); times are 0 without track_io_timing")
    .labels(&[
        ("backend_type", "who did it"),
        ("object", "relation, temp relation, wal (from 18)"),
        ("context", "normal, vacuum, bulkread, bulkwrite, init"),
    ])
    .sparse()
    .metrics(&[
        amount("reads", "count", "reads"),
        amount("read", "bytes", "read"),
        amount("read_time", "ms", "of these"),
        amount("writes", "count", "writes"),
        amount("written", "bytes", "written"),
        amount("write_time", "ms", "of these"),
        amount("writebacks", "count", "blocks that the kernel was asked to write out"),
        amount("writeback_time", "ms", "of these"),
        amount("extends", "count", "extensions of files"),
        amount("extended", "bytes", "by these"),
        amount("extend_time", "ms", "of these"),
        amount("hits", "count", "pages found in shared buffers"),
        amount("evictions", "count", "buffers that had to make room"),
        amount("reuses", "count", "buffers of a ring used again"),
        amount("fsyncs", "count", "files synced"),
        amount("fsync_time", "ms", "of these"),
    ]);

const LOCKS: Source = Source::server("locks", "`pg_stat_lock` (from 19)")
    .labels(&[("type", "relation, tuple, transactionid, …")])
    .sparse()
    .metrics(&[
        amount("waits", "count", "locks granted after a wait of more than deadlock_timeout"),
        amount("wait_time", "ms", "of these"),
        amount("fastpath_exceeded", "count", "weak locks for which a session had no fast-path slot left"),
    ]);

const DATABASE: Source = Source::server(
    "database",
    "`pg_stat_database` of the database that the probe is connected to; the probe's own transactions \
     are among them (`probe`.`queries`)",
)
.metrics(&[
    gauge("backends", "count", "sessions in it"),
    amount("commits", "count", "transactions committed"),
    amount("rollbacks", "count", "transactions rolled back"),
    amount("blocks_read", "count", "pages that were not in shared buffers"),
    amount("blocks_hit", "count", "pages that were"),
    amount("rows_returned", "count", "rows read by scans"),
    amount("rows_fetched", "count", "rows fetched by index scans"),
    amount("rows_inserted", "count", "rows inserted"),
    amount("rows_updated", "count", "rows updated"),
    amount("rows_deleted", "count", "rows deleted"),
    amount("conflicts", "count", "queries cancelled because of recovery"),
    amount("temp_files", "count", "temporary files"),
    amount("temp", "bytes", "written to them"),
    amount("deadlocks", "count", "deadlocks"),
    amount("read_time", "ms", "reading pages; 0 without track_io_timing"),
    amount("write_time", "ms", "writing pages; 0 without track_io_timing"),
    amount("active_time", "ms", "running statements, all sessions (from 14)"),
    amount("idle_in_transaction_time", "ms", "idle in transactions, all sessions (from 14)"),
    amount("sessions", "count", "sessions begun (from 14)"),
    amount("abandoned", "count", "sessions whose client was lost (from 14)"),
    amount("fatal", "count", "sessions that a fatal error ended (from 14)"),
    amount("killed", "count", "sessions that somebody ended (from 14)"),
    amount("checksum_failures", "count", "pages whose checksum was wrong; absent without checksums (from 12)"),
    amount("workers_wanted", "count", "parallel workers that plans wanted (from 18)"),
    amount("workers_launched", "count", "of these launched (from 18)"),
]);
