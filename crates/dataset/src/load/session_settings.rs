//! Settings of a load's sessions, in force until they end.

/// Settings of a session of a load, of which so many run at once.
///
/// Half of the shared buffers is what index builds may use together, but no less than the server
/// gives of itself: it was sized by somebody who knew the machine, where maintenance_work_mem
/// mostly has its default.
pub(super) fn settings(at_once: usize) -> String {
    format!(
        "set synchronous_commit = local; \
         select pg_catalog.set_config('maintenance_work_mem', greatest(m.setting::int8, \
         least(b.setting::int8 * 8 / 2 / {at_once}, 2000000))::text, false) \
         from pg_catalog.pg_settings m, pg_catalog.pg_settings b \
         where m.name = 'maintenance_work_mem' and b.name = 'shared_buffers'"
    )
}

/// Sets the parallel workers of an index build in one of so many sessions. A server as old as 10 has
/// no such setting.
pub(super) fn parallel_workers(sessions: usize) -> String {
    format!(
        "select pg_catalog.set_config(name, greatest((1 + reset_val::int) / {sessions} - 1, 0)::text, false) \
         from pg_catalog.pg_settings where name = 'max_parallel_maintenance_workers'"
    )
}
