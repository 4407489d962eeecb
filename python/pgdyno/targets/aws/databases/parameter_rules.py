"""Which parameters RDS and Aurora refuse, and their units: what is known before a request to them."""

import re

from pgdyno.units import BYTES, parse_duration_s

_BLOCK = 8192
_KB = 1024
_MB = 1024**2
BYTES_OF = {
    "autovacuum_work_mem": _KB,
    "effective_cache_size": _BLOCK,
    "huge_page_size": _KB,
    "logical_decoding_work_mem": _KB,
    "maintenance_work_mem": _KB,
    "max_slot_wal_keep_size": _MB,
    "max_wal_size": _MB,
    "min_parallel_index_scan_size": _BLOCK,
    "min_parallel_table_scan_size": _BLOCK,
    "min_wal_size": _MB,
    "shared_buffers": _BLOCK,
    "temp_buffers": _BLOCK,
    "temp_file_limit": _KB,
    "wal_buffers": _BLOCK,
    "wal_keep_size": _MB,
    "wal_writer_flush_after": _BLOCK,
    "work_mem": _KB,
}
"""Bytes in one unit of the parameter (pg_settings.unit)."""
SECONDS_OF = {
    "autovacuum_naptime": 1.0,
    "autovacuum_vacuum_cost_delay": 0.001,
    "bgwriter_delay": 0.001,
    "checkpoint_timeout": 1.0,
    "checkpoint_warning": 1.0,
    "deadlock_timeout": 0.001,
    "idle_in_transaction_session_timeout": 0.001,
    "lock_timeout": 0.001,
    "log_autovacuum_min_duration": 0.001,
    "log_min_duration_statement": 0.001,
    "statement_timeout": 0.001,
    "vacuum_cost_delay": 0.001,
    "wal_writer_delay": 0.001,
}
"""Seconds in one unit of the parameter."""

_SERVICE = "the service manages it itself"
_STORAGE = "Aurora's storage processes the log itself, and has neither WAL files nor checkpoints"
REFUSED = dict.fromkeys(
    (
        "archive_cleanup_command", "archive_command", "archive_library", "archive_mode", "config_file",
        "data_checksums", "data_directory", "external_pid_file", "fsync", "full_page_writes", "hba_file",
        "ident_file", "listen_addresses", "recovery_target", "restore_command", "ssl_ca_file", "ssl_cert_file",
        "ssl_key_file", "synchronous_standby_names", "unix_socket_directories", "wal_level", "wal_segment_size",
    ),
    _SERVICE,
)  # fmt: skip
"""Parameters that both services refuse, with the reason."""
REFUSED_BY_AURORA = dict.fromkeys(
    (
        "checkpoint_completion_target", "checkpoint_flush_after", "checkpoint_timeout", "max_wal_size",
        "min_wal_size", "wal_sync_method",
    ),
    _STORAGE,
)  # fmt: skip

_OF_CLUSTER = """
apg_ccm_enabled array_nulls autovacuum autovacuum_analyze_scale_factor autovacuum_analyze_threshold
autovacuum_freeze_max_age autovacuum_max_workers autovacuum_multixact_freeze_max_age autovacuum_naptime
autovacuum_vacuum_cost_delay autovacuum_vacuum_cost_limit autovacuum_vacuum_insert_scale_factor
autovacuum_vacuum_insert_threshold autovacuum_vacuum_scale_factor autovacuum_vacuum_threshold autovacuum_work_mem
backslash_quote backtrace_functions client_encoding compute_query_id datestyle default_tablespace
default_toast_compression extra_float_digits huge_pages intervalstyle lc_monetary lc_numeric lc_time
log_autovacuum_min_duration log_transaction_sample_rate max_logical_replication_workers max_prepared_transactions
max_replication_slots max_sync_workers_per_subscription max_wal_senders password_encryption plan_cache_mode port
recovery_init_sync_method ssl_ciphers ssl_max_protocol_version ssl_min_protocol_version synchronous_commit timezone
track_commit_timestamp track_wal_io_timing transform_null_equals vacuum_cost_delay vacuum_cost_limit
vacuum_cost_page_dirty vacuum_cost_page_hit vacuum_cost_page_miss vacuum_defer_cleanup_age vacuum_failsafe_age
vacuum_freeze_min_age vacuum_freeze_table_age vacuum_multixact_failsafe_age vacuum_multixact_freeze_min_age
vacuum_multixact_freeze_table_age wal_buffers wal_receiver_create_temp_slot wal_receiver_timeout wal_sender_timeout
"""
CLUSTER_LEVEL = frozenset(_OF_CLUSTER.split())
"""Parameters that only the cluster's group of Aurora has, by Amazon's list of them (AuroraUserGuide, "Amazon Aurora
PostgreSQL parameters"): the table of the instance's group lacks them.
"""

_SIZE = re.compile(r"(\d+)\s*(kB|MB|GB|TB)")
_TIME = re.compile(r"\d+\s*(ms|s|min|h)")


def parameter_refusal(service: str, name: str) -> str | None:
    """Return why `service` ("rds", "aurora") refuses the parameter `name`; None if it may accept it."""
    reason = REFUSED.get(name)
    return REFUSED_BY_AURORA.get(name) if reason is None and service == "aurora" else reason


def in_own_unit(name: str, value: str) -> str:
    """Return `value` as the service accepts it: `8GB` of shared_buffers as 1048576. Raises ValueError."""
    size = _SIZE.fullmatch(value)
    if size is not None:
        return _count_units(name, int(size[1]) * BYTES[size[2]], BYTES_OF.get(name), value)
    if _TIME.fullmatch(value) is not None:
        return _count_units(name, parse_duration_s(value.replace("min", "m")), SECONDS_OF.get(name), value)
    return value


def _count_units(name: str, amount: float, unit: float | None, value: str) -> str:
    if unit is None:
        raise ValueError(
            f"{value}: pgdyno does not know the unit of {name}; write a number without a unit, in the server's own unit"
        )
    count = round(amount / unit, 6)
    if count != int(count):
        raise ValueError(f"{value} is not a multiple of the unit of {name}")
    return str(int(count))
