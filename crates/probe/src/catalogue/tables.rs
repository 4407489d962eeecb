//! Sources that PostgreSQL reports about tables, indexes, vacuums and statements.

use super::{Source, amount, gauge};

pub(super) const SOURCES: &[&Source] = &[&TABLES, &RELATIONS, &INDEXES, &VACUUM, &STATEMENTS];

const TABLES: Source = Source::server("tables", "statistics of the database's tables, TOAST among them, added up")
    .metrics(&[
        gauge("live_rows", "count", "rows"),
        gauge("dead_rows", "count", "row versions that vacuum could remove, or soon"),
        amount("updated", "count", "rows updated"),
        amount("hot_updated", "count", "of these, without new index entries (HOT)"),
        amount("vacuums", "count", "vacuums by command, of tables"),
        amount("autovacuums", "count", "vacuums by autovacuum, of tables"),
        amount("analyzes", "count", "analyses by command"),
        amount("autoanalyzes", "count", "analyses by autovacuum"),
    ]);

const VACUUM: Source = Source::server("vacuum", "`pg_stat_progress_vacuum`, while there is one")
    .labels(&[
        ("pid", "who vacuums"),
        ("table", "its name, or number in another database"),
        ("phase", "as in the view"),
        ("by", "autovacuum worker or client backend"),
    ])
    .metrics(&[
        gauge("blocks", "count", "of the table"),
        gauge("scanned", "count", "of these scanned"),
        gauge("vacuumed", "count", "of these vacuumed"),
        gauge("index_rounds", "count", "times that its indexes were vacuumed"),
        gauge("dead", "count", "dead rows that wait for the indexes' turn"),
        gauge("dead_memory", "bytes", "memory that these take (from 17)"),
        gauge("indexes", "count", "its indexes (from 17)"),
        gauge("indexes_done", "count", "of these done in this round (from 17)"),
        gauge("delayed", "ms", "slept for vacuum_cost_delay so far; 0 without track_cost_delay_timing (from 18)"),
    ]);

const RELATIONS: Source = Source::server(
    "relations",
    "the 30 tables and materialized views of the database that changed most, every 10 s; those that are \
         locked against everybody are left out",
)
.labels(&[("table", "its name with its schema's")])
.sparse()
.metrics(&[
    gauge("size", "bytes", "of its main file"),
    gauge("indexes", "bytes", "of its indexes"),
    gauge("others", "bytes", "of its TOAST, its maps of free space and of visibility"),
    gauge("live_rows", "count", "rows"),
    gauge("dead_rows", "count", "row versions that vacuum could remove, or soon"),
    amount("inserted", "count", "rows inserted"),
    amount("updated", "count", "rows updated"),
    amount("hot_updated", "count", "of these, without new index entries (HOT)"),
    amount("deleted", "count", "rows deleted"),
    amount("scans", "count", "sequential scans begun"),
    amount("scanned", "count", "rows that these read"),
    amount("vacuums", "count", "vacuums by command"),
    amount("autovacuums", "count", "vacuums by autovacuum"),
]);

const INDEXES: Source = Source::server("indexes", "the 50 largest indexes of these tables, every 10 s")
    .labels(&[("index", "its name with its schema's"), ("table", "as in `relations`")])
    .sparse()
    .metrics(&[
        gauge("size", "bytes", "of its main file"),
        amount("scans", "count", "scans begun"),
        amount("entries", "count", "entries that these gave"),
    ]);

const STATEMENTS: Source = Source::server(
    "statements",
    "`pg_stat_statements`, where the database has that extension, every 10 s, less often while the server takes \
         more than 5 s to answer: those that took the longest (`--statements`), without the probe's",
)
.labels(&[
    ("query_id", "as in `waits`; the line `statements` at the end has the text"),
    ("user", "who ran it"),
    ("database", "where"),
])
.sparse()
.counted_from_zero()
.metrics(&[
    amount("calls", "count", "executions"),
    amount("rows", "count", "rows given or changed"),
    amount("exec_time", "ms", "running it"),
    amount("plans", "count", "times that it was planned; 0 without track_planning (from 13)"),
    amount("plan_time", "ms", "planning it (from 13)"),
    amount("blocks_hit", "count", "pages found in shared buffers"),
    amount("blocks_read", "count", "pages that were not there"),
    amount("blocks_dirtied", "count", "pages changed that were clean"),
    amount("blocks_written", "count", "pages that it had to write itself"),
    amount("read_time", "ms", "reading pages; 0 without track_io_timing"),
    amount("write_time", "ms", "writing pages; 0 without track_io_timing"),
    amount("temp_read", "count", "pages of temporary files read"),
    amount("temp_written", "count", "pages of temporary files written"),
    amount("wal_records", "count", "WAL records (from 13)"),
    amount("wal_full_page_images", "count", "pages written whole to WAL (from 13)"),
    amount("wal", "bytes", "WAL made (from 13)"),
    amount("wal_buffers_full", "count", "times that WAL's buffers were full (from 18)"),
]);
