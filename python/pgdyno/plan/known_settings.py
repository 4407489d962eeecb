"""Settings that a plan may not have: reserved by pgdyno, unknown to a version, or fixed at server start.

The names are those of 10 to 19 with context postmaster and sighup; where versions differ, the newest counts. At the
start of a run, pgdyno reads pg_settings.context of the server itself.

Read from pg_settings of each version; a setting that is not listed exists in all of them, or belongs to an extension.
Settings that were added in minor releases (restrict_nonsystem_relation_kind) are omitted, too.
"""

import re

from pgdyno.units import BYTES, MICROSECONDS

_AT_START = """
    archive_mode autovacuum_freeze_max_age autovacuum_multixact_freeze_max_age autovacuum_worker_slots
    bonjour bonjour_name cluster_name commit_timestamp_buffers config_file data_directory data_sync_retry
    debug_io_direct dynamic_shared_memory_type event_source external_pid_file hba_file hosts_file
    hot_standby huge_page_size huge_pages ident_file ignore_invalid_pages io_max_combine_limit
    io_max_concurrency io_method jit_provider listen_addresses logging_collector
    max_active_replication_origins max_connections max_files_per_process max_locks_per_transaction
    max_logical_replication_workers max_notify_queue_pages max_pred_locks_per_transaction
    max_prepared_transactions max_repack_replication_slots max_replication_slots max_wal_senders
    max_worker_processes min_dynamic_shared_memory multixact_member_buffers multixact_offset_buffers
    notify_buffers old_snapshot_threshold port recovery_target recovery_target_action
    recovery_target_inclusive recovery_target_lsn recovery_target_name recovery_target_time
    recovery_target_timeline recovery_target_xid reserved_connections serializable_buffers shared_buffers
    shared_memory_type shared_preload_libraries subtransaction_buffers superuser_reserved_connections
    trace_connection_negotiation track_activity_query_size track_commit_timestamp transaction_buffers
    unix_socket_directories unix_socket_group unix_socket_permissions wal_buffers wal_decode_buffer_size
    wal_level wal_log_hints
"""
_CONFIGURATION = """
    allow_alter_system archive_cleanup_command archive_command archive_library archive_timeout
    authentication_timeout autovacuum autovacuum_analyze_scale_factor autovacuum_analyze_score_weight
    autovacuum_analyze_threshold autovacuum_freeze_score_weight autovacuum_max_parallel_workers
    autovacuum_max_workers autovacuum_multixact_freeze_score_weight autovacuum_naptime
    autovacuum_vacuum_cost_delay autovacuum_vacuum_cost_limit autovacuum_vacuum_insert_scale_factor
    autovacuum_vacuum_insert_score_weight autovacuum_vacuum_insert_threshold autovacuum_vacuum_max_threshold
    autovacuum_vacuum_scale_factor autovacuum_vacuum_score_weight autovacuum_vacuum_threshold
    autovacuum_work_mem bgwriter_delay bgwriter_flush_after bgwriter_lru_maxpages bgwriter_lru_multiplier
    checkpoint_completion_target checkpoint_flush_after checkpoint_timeout checkpoint_warning
    db_user_namespace file_extend_method fsync full_page_writes gss_accept_delegation hot_standby_feedback
    idle_replication_slot_timeout io_max_workers io_min_workers io_worker_idle_timeout
    io_worker_launch_interval io_workers krb_caseins_users krb_server_keyfile log_autoanalyze_min_duration
    log_autovacuum_min_duration log_checkpoints log_destination log_directory log_file_mode log_filename
    log_hostname log_line_prefix log_recovery_conflict_waits log_rotation_age log_rotation_size
    log_startup_progress_interval log_timezone log_truncate_on_rotation
    max_parallel_apply_workers_per_subscription max_pred_locks_per_page max_pred_locks_per_relation
    max_slot_wal_keep_size max_standby_archive_delay max_standby_streaming_delay
    max_sync_workers_per_subscription max_wal_size min_wal_size oauth_validator_libraries
    password_expiration_warning_threshold pre_auth_delay primary_conninfo primary_slot_name
    promote_trigger_file recovery_end_command recovery_init_sync_method recovery_min_apply_delay
    recovery_prefetch remove_temp_files_after_crash restart_after_crash restore_command send_abort_for_crash
    send_abort_for_kill ssl ssl_ca_file ssl_cert_file ssl_ciphers ssl_crl_dir ssl_crl_file
    ssl_dh_params_file ssl_ecdh_curve ssl_groups ssl_key_file ssl_max_protocol_version
    ssl_min_protocol_version ssl_passphrase_command ssl_passphrase_command_supports_reload
    ssl_prefer_server_ciphers ssl_sni ssl_tls13_ciphers stats_temp_directory summarize_wal
    sync_replication_slots synchronized_standby_slots synchronous_standby_names syslog_facility syslog_ident
    syslog_sequence_numbers syslog_split_messages trace_recovery_messages vacuum_defer_cleanup_age
    wal_keep_segments wal_keep_size wal_receiver_create_temp_slot wal_receiver_status_interval
    wal_receiver_timeout wal_retrieve_retry_interval wal_summary_keep_time wal_sync_method wal_writer_delay
    wal_writer_flush_after
"""

NEEDS_START = frozenset(_AT_START.split())
"""Read when a server starts."""
NEEDS_RELOAD = frozenset(_CONFIGURATION.split())
"""Read from the configuration file on a reload, for all databases."""


_OVER_NETWORK = "and pgdyno reaches this server only over the network"
_BY_CONTEXT = {
    "internal": "it is fixed when the server is built or its cluster is created",
    "postmaster": f"it takes effect when the server starts, {_OVER_NETWORK}",
    "sighup": f"it belongs to the server's configuration file, {_OVER_NETWORK}",
    "backend": "it takes effect when a session begins: put it under session_settings",
    "superuser-backend": "it takes effect when a session begins: put it under session_settings",
}


def network_refusal(name: str) -> str | None:
    """Return why the setting `name` is impossible over the network; None if it is possible or unknown."""
    lower = name.lower()
    if lower in NEEDS_START:
        return _BY_CONTEXT["postmaster"]
    return _BY_CONTEXT["sighup"] if lower in NEEDS_RELOAD else None


def session_refusal(name: str) -> tuple[str, str] | None:
    """Return why no session can have the setting `name`, and the remedy; None if one can, or if it is unknown."""
    if SETTING_NAME.fullmatch(name) is None:
        return "it is not a valid name of a setting", "remove it"
    lower = name.lower()
    if lower in NEEDS_START:
        return "it takes effect when the server starts", _ON_SERVER
    if lower in NEEDS_RELOAD:
        return "it belongs to the server's configuration file", _ON_SERVER
    return None


_ON_SERVER = (
    "put it under settings of a server that pgdyno starts; on your own server, change it there, measure before and "
    "after, and compare the two runs"
)


def context_refusal(context: str) -> str | None:
    """Return the same for a setting of `context`, as in pg_settings."""
    return _BY_CONTEXT.get(context)


OLDEST, NEWEST = 10, 19

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
    19: """
        autovacuum_analyze_score_weight autovacuum_freeze_score_weight autovacuum_max_parallel_workers
        autovacuum_multixact_freeze_score_weight autovacuum_vacuum_insert_score_weight
        autovacuum_vacuum_score_weight debug_exec_backend debug_print_raw_parse effective_wal_level
        enable_eager_aggregate hosts_file io_max_workers io_min_workers io_worker_idle_timeout
        io_worker_launch_interval log_autoanalyze_min_duration max_repack_replication_slots
        min_eager_agg_group_size password_expiration_warning_threshold ssl_sni timing_clock_source
        wal_sender_shutdown_timeout
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
    18: "escape_string_warning io_workers",
}

SINCE = {name: version for version, names in _SINCE.items() for name in names.split()}
"""The first major version with a setting."""
UNTIL = {name: version for version, names in _UNTIL.items() for name in names.split()}
"""The last major version with a setting that was removed."""


def why_unknown(name: str, major: int) -> str | None:
    """Return why version `major` lacks the setting `name`: `since 18`, `until 12`; None if it may have it."""
    first, last = SINCE.get(name.lower()), UNTIL.get(name.lower())
    if first is not None and major < first:
        return f"since {first}"
    if last is not None and major > last:
        return f"until {last}"
    return None


_EVERYWHERE = """
    allow_in_place_tablespaces allow_system_table_mods application_name array_nulls backend_flush_after
    backslash_quote block_size bytea_output check_function_bodies client_encoding client_min_messages
    commit_delay commit_siblings constraint_exclusion cpu_index_tuple_cost cpu_operator_cost cpu_tuple_cost
    cursor_tuple_fraction data_checksums datestyle deadlock_timeout debug_assertions debug_pretty_print
    debug_print_parse debug_print_plan debug_print_rewritten default_statistics_target default_tablespace
    default_text_search_config default_transaction_deferrable default_transaction_isolation
    default_transaction_read_only dynamic_library_path effective_cache_size effective_io_concurrency
    enable_bitmapscan enable_gathermerge enable_hashagg enable_hashjoin enable_indexonlyscan enable_indexscan
    enable_material enable_mergejoin enable_nestloop enable_seqscan enable_sort enable_tidscan exit_on_error
    extra_float_digits from_collapse_limit geqo geqo_effort geqo_generations geqo_pool_size geqo_seed
    geqo_selection_bias geqo_threshold gin_fuzzy_search_limit gin_pending_list_limit
    idle_in_transaction_session_timeout ignore_checksum_failure ignore_system_indexes integer_datetimes
    intervalstyle is_superuser join_collapse_limit lc_messages lc_monetary lc_numeric lc_time
    lo_compat_privileges local_preload_libraries lock_timeout log_btree_build_stats log_connections
    log_disconnections log_duration log_error_verbosity log_executor_stats log_lock_waits
    log_min_duration_statement log_min_error_statement log_min_messages log_parser_stats log_planner_stats
    log_replication_commands log_statement log_statement_stats log_temp_files maintenance_work_mem
    max_function_args max_identifier_length max_index_keys max_parallel_workers max_parallel_workers_per_gather
    max_stack_depth min_parallel_index_scan_size min_parallel_table_scan_size output_plugin_libraries
    parallel_setup_cost parallel_tuple_cost password_encryption post_auth_delay quote_all_identifiers
    random_page_cost restrict_nonsystem_relation_kind role row_security search_path seed segment_size
    seq_page_cost server_encoding server_version server_version_num session_authorization
    session_preload_libraries session_replication_role standard_conforming_strings statement_timeout
    synchronize_seqscans synchronous_commit tcp_keepalives_count tcp_keepalives_idle tcp_keepalives_interval
    temp_buffers temp_file_limit temp_tablespaces timezone timezone_abbreviations trace_locks trace_lwlocks
    trace_notify trace_sort track_activities track_counts track_functions track_io_timing transaction_deferrable
    transaction_isolation transaction_read_only transform_null_equals update_process_title vacuum_cost_delay
    vacuum_cost_limit vacuum_cost_page_dirty vacuum_cost_page_hit vacuum_cost_page_miss vacuum_freeze_min_age
    vacuum_freeze_table_age vacuum_multixact_freeze_min_age vacuum_multixact_freeze_table_age wal_block_size
    wal_compression wal_consistency_checking wal_debug wal_segment_size wal_sender_timeout work_mem xmlbinary
    xmloption zero_damaged_pages
"""
_SIZES = """
    autovacuum_work_mem backend_flush_after bgwriter_flush_after checkpoint_flush_after commit_timestamp_buffers
    effective_cache_size gin_pending_list_limit huge_page_size io_combine_limit io_max_combine_limit
    log_parameter_max_length log_parameter_max_length_on_error log_rotation_size log_temp_files
    logical_decoding_work_mem maintenance_work_mem max_slot_wal_keep_size max_stack_depth max_wal_size
    min_dynamic_shared_memory min_parallel_index_scan_size min_parallel_table_scan_size min_wal_size
    multixact_member_buffers multixact_offset_buffers notify_buffers serializable_buffers shared_buffers
    subtransaction_buffers temp_buffers temp_file_limit track_activity_query_size transaction_buffers
    vacuum_buffer_usage_limit wal_buffers wal_decode_buffer_size wal_keep_size wal_skip_threshold
    wal_writer_flush_after work_mem
"""
_TIMES = """
    archive_timeout authentication_timeout autovacuum_naptime autovacuum_vacuum_cost_delay bgwriter_delay
    checkpoint_timeout checkpoint_warning client_connection_check_interval deadlock_timeout
    idle_in_transaction_session_timeout idle_replication_slot_timeout idle_session_timeout lock_timeout
    log_autovacuum_min_duration log_min_duration_sample log_min_duration_statement log_rotation_age
    log_startup_progress_interval max_standby_archive_delay max_standby_streaming_delay post_auth_delay
    pre_auth_delay recovery_min_apply_delay statement_timeout tcp_keepalives_idle tcp_keepalives_interval
    tcp_user_timeout transaction_timeout vacuum_cost_delay wal_receiver_status_interval wal_receiver_timeout
    wal_retrieve_retry_interval wal_sender_timeout wal_summary_keep_time wal_writer_delay
"""
KNOWN = frozenset([*NEEDS_START, *NEEDS_RELOAD, *SINCE, *UNTIL, *_EVERYWHERE.split()])
"""Settings of any of these versions, in lower case; extensions have others, with a dot in their names."""
_NUMBER = re.compile(r"([-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?))\s*(.*)", re.DOTALL)
_QUANTITIES = (
    (frozenset(_SIZES.split()), BYTES, "a size, such as 512MB", dict(zip("bkmgt", BYTES, strict=True))),
    (
        frozenset(_TIMES.split()),
        MICROSECONDS,
        "a time, such as 30s",
        {"u": "us", "s": "s", "m": "min", "h": "h", "d": "d"},
    ),
)


def wrong_unit(name: str, value: str) -> tuple[str, str] | None:
    """Return why no version accepts `value` for the size or time `name`, and the remedy; None if one may."""
    for names, units, words, letters in _QUANTITIES:
        if name.lower() not in names:
            continue
        found = _NUMBER.fullmatch(value.strip())
        if found is None:
            return f"{value!r} is not a number", f"write {words}"
        number, unit = found[1], found[2].strip()
        if unit and unit not in units:
            meant = "ms" if unit.lower().startswith(("ms", "mil")) else letters.get(unit[0].lower())
            return f"{value!r} has no unit of PostgreSQL", f"write {number}{meant}" if meant else f"write {words}"
    return None


SETTING_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)*")

RESERVED_SETTINGS = {
    "cluster_name": "it marks the servers of pgdyno",
    "config_file": "pgdyno keeps the configuration with the cluster",
    "data_directory": "pgdyno creates the cluster in its own folder",
    "external_pid_file": "pgdyno tracks the server's process",
    "hba_file": "pgdyno keeps the configuration with the cluster",
    "ident_file": "pgdyno keeps the configuration with the cluster",
    "listen_addresses": "pgdyno chooses it; see the target's connect",
    "log_destination": "pgdyno keeps the server's log with each trial",
    "logging_collector": "pgdyno keeps the server's log with each trial",
    "port": "pgdyno chooses a free one",
    "unix_socket_directories": "pgdyno creates a folder for the socket",
    "unix_socket_group": "only pgdyno's own user may use the socket",
    "unix_socket_permissions": "only pgdyno's own user may use the socket",
}
"""Names in lower case, as the server compares them, with the reason."""


def refusal(name: str) -> str | None:
    """Return why the setting `name` is refused in a plan, or None."""
    if SETTING_NAME.fullmatch(name) is None or name.lower().startswith("include"):
        return "it is not a valid name of a setting"
    return RESERVED_SETTINGS.get(name.lower())
