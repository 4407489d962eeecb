"""Major versions of the settings that not all of 10 to 18 have.

Read from pg_settings of each version; a setting that is not listed exists in all of them, or belongs to an extension.
Settings that were added in minor releases (restrict_nonsystem_relation_kind) are omitted, too.
"""

from __future__ import annotations

OLDEST, NEWEST = 10, 18

_SINCE = {
    11: """
        data_directory_mode enable_parallel_append enable_parallel_hash enable_partition_pruning
        enable_partitionwise_aggregate enable_partitionwise_join jit jit_above_cost jit_debugging_support
        jit_dump_bitcode jit_expressions jit_inline_above_cost jit_optimize_above_cost jit_profiling_support
        jit_provider jit_tuple_deforming max_parallel_maintenance_workers parallel_leader_participation
        ssl_passphrase_command ssl_passphrase_command_supports_reload vacuum_cleanup_index_scale_factor
    """,
    12: """
        archive_cleanup_command default_table_access_method log_transaction_sample_rate plan_cache_mode
        primary_conninfo primary_slot_name promote_trigger_file recovery_end_command recovery_min_apply_delay
        recovery_target recovery_target_action recovery_target_inclusive recovery_target_lsn recovery_target_name
        recovery_target_time recovery_target_timeline recovery_target_xid restore_command shared_memory_type
        ssl_library ssl_max_protocol_version ssl_min_protocol_version tcp_user_timeout wal_init_zero wal_recycle
    """,
    13: """
        autovacuum_vacuum_insert_scale_factor autovacuum_vacuum_insert_threshold backtrace_functions
        enable_incremental_sort hash_mem_multiplier ignore_invalid_pages log_min_duration_sample
        log_parameter_max_length log_parameter_max_length_on_error log_statement_sample_rate
        logical_decoding_work_mem maintenance_io_concurrency max_slot_wal_keep_size wal_keep_size
        wal_receiver_create_temp_slot wal_skip_threshold
    """,
    14: """
        client_connection_check_interval compute_query_id debug_discard_caches default_toast_compression
        enable_async_append enable_memoize huge_page_size idle_session_timeout in_hot_standby
        log_recovery_conflict_waits min_dynamic_shared_memory recovery_init_sync_method
        remove_temp_files_after_crash ssl_crl_dir track_wal_io_timing vacuum_failsafe_age
        vacuum_multixact_failsafe_age
    """,
    15: """
        archive_library log_startup_progress_interval recovery_prefetch recursive_worktable_factor
        shared_memory_size shared_memory_size_in_huge_pages stats_fetch_consistency wal_decode_buffer_size
    """,
    16: """
        createrole_self_grant debug_io_direct debug_logical_replication_streaming debug_parallel_query
        enable_presorted_aggregate gss_accept_delegation icu_validation_level
        max_parallel_apply_workers_per_subscription reserved_connections scram_iterations send_abort_for_crash
        send_abort_for_kill vacuum_buffer_usage_limit
    """,
    17: """
        allow_alter_system commit_timestamp_buffers enable_group_by_reordering event_triggers huge_pages_status
        io_combine_limit max_notify_queue_pages multixact_member_buffers multixact_offset_buffers notify_buffers
        serializable_buffers subtransaction_buffers summarize_wal sync_replication_slots
        synchronized_standby_slots trace_connection_negotiation transaction_buffers transaction_timeout
        wal_summary_keep_time
    """,
    18: """
        autovacuum_vacuum_max_threshold autovacuum_worker_slots enable_distinct_reordering
        enable_self_join_elimination extension_control_path file_copy_method idle_replication_slot_timeout
        io_max_combine_limit io_max_concurrency io_method io_workers log_lock_failures
        max_active_replication_origins md5_password_warnings num_os_semaphores oauth_validator_libraries
        ssl_groups ssl_tls13_ciphers track_cost_delay_timing vacuum_max_eager_freeze_failure_rate vacuum_truncate
    """,
}
_UNTIL = {
    10: "replacement_sort_tuples",
    11: "default_with_oids",
    12: "wal_keep_segments",
    13: "operator_precedence_warning vacuum_cleanup_index_scale_factor",
    14: "stats_temp_directory",
    15: "force_parallel_mode promote_trigger_file vacuum_defer_cleanup_age",
    16: "db_user_namespace old_snapshot_threshold trace_recovery_messages",
    17: "ssl_ecdh_curve",
}

SINCE = {name: version for version, names in _SINCE.items() for name in names.split()}
"""The first major version with a setting."""
UNTIL = {name: version for version, names in _UNTIL.items() for name in names.split()}
"""The last major version with a setting that was removed."""


def why_unknown(name: str, major: int) -> str | None:
    """Returns why version `major` lacks the setting `name`: `since 18`, `until 12`; None if it may have it."""
    first, last = SINCE.get(name.lower()), UNTIL.get(name.lower())
    if first is not None and major < first:
        return f"since {first}"
    if last is not None and major > last:
        return f"until {last}"
    return None
