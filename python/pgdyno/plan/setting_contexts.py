"""Contexts of settings: which ones cannot be changed by a client over the network.

The names are those that `postgres --describe-config` of 10 to 18 lists with context postmaster and sighup; where
versions differ, the newest counts. At the start of a run, pgdyno reads pg_settings.context of the server itself.
"""

from __future__ import annotations

_AT_START = """
    archive_mode autovacuum_freeze_max_age autovacuum_multixact_freeze_max_age autovacuum_worker_slots
    bonjour bonjour_name cluster_name commit_timestamp_buffers data_directory data_sync_retry
    dynamic_shared_memory_type event_source external_pid_file hba_file hot_standby huge_page_size huge_pages
    ident_file io_max_combine_limit io_max_concurrency io_method jit_provider listen_addresses
    logging_collector max_active_replication_origins max_connections max_files_per_process
    max_locks_per_transaction max_logical_replication_workers max_notify_queue_pages
    max_pred_locks_per_transaction max_prepared_transactions max_replication_slots max_wal_senders
    max_worker_processes min_dynamic_shared_memory multixact_member_buffers multixact_offset_buffers
    notify_buffers old_snapshot_threshold port recovery_target recovery_target_action
    recovery_target_inclusive recovery_target_lsn recovery_target_name recovery_target_time
    recovery_target_timeline recovery_target_xid reserved_connections serializable_buffers shared_buffers
    shared_memory_type shared_preload_libraries subtransaction_buffers superuser_reserved_connections
    track_activity_query_size track_commit_timestamp transaction_buffers unix_socket_directories
    unix_socket_group unix_socket_permissions wal_buffers wal_decode_buffer_size wal_level wal_log_hints
"""
_CONFIGURATION = """
    allow_alter_system archive_cleanup_command archive_command archive_library archive_timeout
    authentication_timeout autovacuum autovacuum_analyze_scale_factor autovacuum_analyze_threshold
    autovacuum_max_workers autovacuum_naptime autovacuum_vacuum_cost_delay autovacuum_vacuum_cost_limit
    autovacuum_vacuum_insert_scale_factor autovacuum_vacuum_insert_threshold autovacuum_vacuum_max_threshold
    autovacuum_vacuum_scale_factor autovacuum_vacuum_threshold autovacuum_work_mem bgwriter_delay
    bgwriter_flush_after bgwriter_lru_maxpages bgwriter_lru_multiplier checkpoint_completion_target
    checkpoint_flush_after checkpoint_timeout checkpoint_warning db_user_namespace file_extend_method fsync
    full_page_writes gss_accept_delegation hot_standby_feedback idle_replication_slot_timeout io_workers
    krb_caseins_users krb_server_keyfile log_autovacuum_min_duration log_checkpoints log_destination
    log_directory log_file_mode log_filename log_hostname log_line_prefix log_recovery_conflict_waits
    log_rotation_age log_rotation_size log_startup_progress_interval log_timezone log_truncate_on_rotation
    max_parallel_apply_workers_per_subscription max_pred_locks_per_page max_pred_locks_per_relation
    max_slot_wal_keep_size max_standby_archive_delay max_standby_streaming_delay
    max_sync_workers_per_subscription max_wal_size min_wal_size oauth_validator_libraries primary_conninfo
    primary_slot_name promote_trigger_file recovery_end_command recovery_init_sync_method
    recovery_min_apply_delay recovery_prefetch restart_after_crash restore_command ssl ssl_ca_file
    ssl_cert_file ssl_ciphers ssl_crl_dir ssl_crl_file ssl_dh_params_file ssl_ecdh_curve ssl_groups
    ssl_key_file ssl_max_protocol_version ssl_min_protocol_version ssl_passphrase_command
    ssl_passphrase_command_supports_reload ssl_prefer_server_ciphers ssl_tls13_ciphers stats_temp_directory
    summarize_wal sync_replication_slots synchronized_standby_slots synchronous_standby_names
    syslog_facility syslog_ident syslog_sequence_numbers syslog_split_messages trace_recovery_messages
    vacuum_defer_cleanup_age wal_keep_segments wal_keep_size wal_receiver_create_temp_slot
    wal_receiver_status_interval wal_receiver_timeout wal_retrieve_retry_interval wal_summary_keep_time
    wal_sync_method wal_writer_delay wal_writer_flush_after
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
    "backend": "it takes effect when a session begins, and cannot belong to a database",
    "superuser-backend": "it takes effect when a session begins, and cannot belong to a database",
}


def network_refusal(name: str) -> str | None:
    """Returns why the setting `name` is impossible over the network; None if it is possible or unknown."""
    lower = name.lower()
    if lower in NEEDS_START:
        return _BY_CONTEXT["postmaster"]
    return _BY_CONTEXT["sighup"] if lower in NEEDS_RELOAD else None


def context_refusal(context: str) -> str | None:
    """Returns the same for a setting of `context`, as in pg_settings."""
    return _BY_CONTEXT.get(context)
