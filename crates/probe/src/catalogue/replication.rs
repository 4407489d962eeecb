//! Sources that PostgreSQL reports about standbys, slots and the archive.

use super::{Source, amount, gauge};

pub(super) const SOURCES: &[&Source] = &[&REPLICATION, &SLOTS, &ARCHIVER, &ARCHIVE_QUEUE];

const REPLICATION: Source = Source::server("replication", "`pg_stat_replication`")
    .labels(&[
        ("pid", "the walsender"),
        ("application", "the standby's name"),
        ("state", "streaming, catchup, backup"),
        ("sync_state", "async, sync, quorum, potential"),
    ])
    .metrics(&[
        gauge("unsent", "bytes", "WAL that is there and was not sent"),
        gauge("unwritten", "bytes", "and was not written there"),
        gauge("unflushed", "bytes", "and is not on disk there"),
        gauge("unreplayed", "bytes", "and is not visible there"),
        gauge("write_lag", "ms", "from our flush to their write; absent when idle"),
        gauge("flush_lag", "ms", "to their flush"),
        gauge("replay_lag", "ms", "to their replay"),
    ]);

const SLOTS: Source = Source::server("slots", "`pg_replication_slots`")
    .labels(&[
        ("slot", "its name"),
        ("kind", "physical or logical"),
        ("status", "reserved, extended, unreserved, lost (from 13)"),
    ])
    .metrics(&[
        gauge("active", "count", "1 when somebody uses it"),
        gauge("retained", "bytes", "WAL that is kept for it"),
        gauge("unconfirmed", "bytes", "of a logical one: WAL whose receipt was not confirmed"),
        gauge("room", "bytes", "WAL that can still come until it is lost; absent without a limit (from 13)"),
        gauge("xmin_age", "count", "transactions since the oldest row version that it keeps"),
        gauge("catalog_xmin_age", "count", "likewise of the catalogs"),
    ]);

const ARCHIVER: Source = Source::server("archiver", "`pg_stat_archiver`").metrics(&[
    amount("archived", "count", "WAL files archived"),
    amount("failed", "count", "attempts that failed"),
    gauge("since_archived", "ms", "since the last file was archived"),
]);

const ARCHIVE_QUEUE: Source = Source::server("archive_queue", "`pg_ls_archive_statusdir()` (from 12), every 10 s")
    .metrics(&[gauge("waiting", "count", "WAL files that are to be archived")]);
