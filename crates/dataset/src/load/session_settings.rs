//! Settings of a load's sessions, valid until they end.

/// Settings of a session of a load, if `at_once` sessions run in parallel.
///
/// Together, index builds may use half of the size of shared_buffers, but each gets no less than the server's own
/// setting: shared_buffers is usually adapted to the machine, while maintenance_work_mem mostly has its default.
///
/// All sessions write the ledger, so serializable transactions would fail. The database's comment is read and written
/// again as UTF-8, which the server converts unless it does not know its own encoding.
pub(super) fn settings(at_once: usize) -> String {
    format!(
        "set synchronous_commit = local; set default_transaction_isolation = 'read committed'; \
         select pg_catalog.set_config('client_encoding', 'UTF8', false) \
         where pg_catalog.current_setting('server_encoding') <> 'SQL_ASCII'; \
         select pg_catalog.set_config('maintenance_work_mem', greatest(m.setting::int8, \
         least(b.setting::int8 * 8 / 2 / {at_once}, 2000000))::text, false) \
         from pg_catalog.pg_settings m, pg_catalog.pg_settings b \
         where m.name = 'maintenance_work_mem' and b.name = 'shared_buffers'"
    )
}

/// Sets the parallel workers of an index build in one of `sessions` sessions. PostgreSQL 10 has no such setting.
pub(super) fn parallel_workers(sessions: usize) -> String {
    format!(
        "select pg_catalog.set_config(name, greatest((1 + reset_val::int) / {sessions} - 1, 0)::text, false) \
         from pg_catalog.pg_settings where name = 'max_parallel_maintenance_workers'"
    )
}
