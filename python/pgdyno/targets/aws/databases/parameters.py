"""Parameter groups: the settings of a rented database.

RDS and Aurora accept only some parameters, and only plain numbers in each parameter's own unit. This module has the
rules that are known in advance. pgdyno asks the service for the rest (IsModifiable of DescribeEngineDefaultParameters)
before it creates anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pgdyno.targets.aws.boto3_clients import AwsError, Cloud, ThereAlreadyError, retry_until_settled
from pgdyno.targets.aws.inventory import Maker
from pgdyno.targets.aws.rental_journal import Kind
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
        "archive_cleanup_command",
        "archive_command",
        "archive_library",
        "archive_mode",
        "config_file",
        "data_checksums",
        "data_directory",
        "external_pid_file",
        "fsync",
        "full_page_writes",
        "hba_file",
        "ident_file",
        "listen_addresses",
        "recovery_target",
        "restore_command",
        "ssl_ca_file",
        "ssl_cert_file",
        "ssl_key_file",
        "synchronous_standby_names",
        "unix_socket_directories",
        "wal_level",
        "wal_segment_size",
    ),
    _SERVICE,
)
"""Parameters that both services refuse, with the reason."""
REFUSED_BY_AURORA = dict.fromkeys(
    (
        "checkpoint_completion_target",
        "checkpoint_flush_after",
        "checkpoint_timeout",
        "max_wal_size",
        "min_wal_size",
        "wal_sync_method",
    ),
    _STORAGE,
)

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
    """Returns why `service` ("rds", "aurora") refuses the parameter `name`; None if it may accept it."""
    reason = REFUSED.get(name)
    return REFUSED_BY_AURORA.get(name) if reason is None and service == "aurora" else reason


def in_own_unit(name: str, value: str) -> str:
    """Returns `value` as the service accepts it: `8GB` of shared_buffers as 1048576. Raises ValueError."""
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


AT_ONCE = 20
"""The most parameters that one request can change."""


@dataclass(frozen=True, slots=True)
class Level:
    """The requests for parameter groups of instances, or of clusters."""

    kind: Kind
    defaults: str
    create: str
    modify: str
    name: str
    """The request's key for the name of a group."""


INSTANCE = Level(
    Kind.DB_PARAMETERS,
    "describe_engine_default_parameters",
    "create_db_parameter_group",
    "modify_db_parameter_group",
    "DBParameterGroupName",
)
CLUSTER = Level(
    Kind.CLUSTER_PARAMETERS,
    "describe_engine_default_cluster_parameters",
    "create_db_cluster_parameter_group",
    "modify_db_cluster_parameter_group",
    "DBClusterParameterGroupName",
)


def values_for(cloud: Cloud, level: Level, family: str, asked: Mapping[str, str]) -> dict[str, str]:
    """Returns `asked` as the service accepts it, without creating anything.

    Raises one AwsError for all parameters that do not exist at this level, cannot be changed, or do not take a value.
    """
    if not asked:
        return {}
    known = _defaults(cloud, level, family)
    wrong = [reason for name in asked if (reason := _refusal(known.get(name), name, family)) is not None]
    if not wrong:
        taken = {name: _as_taken(known[name], name, value) for name, value in asked.items()}
        wrong = [reason for name in asked if (reason := _value_refusal(known[name], taken[name])) is not None]
        if not wrong:
            return taken
    hint = "remove them, or choose other values; nothing was created"
    missing = asked.keys() - known.keys()
    if level is INSTANCE and family.startswith("aurora") and missing & _defaults(cloud, CLUSTER, family).keys():
        hint = "put those of the cluster under cluster_parameters, and remove the others; nothing was created"
    raise AwsError("; ".join(wrong), code="Parameters", hint=hint)


_RANGE = re.compile(r"(-?[0-9.]+(?:e[+-]?[0-9]+)?)-(-?[0-9.]+(?:e[+-]?[0-9]+)?)")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def _value_refusal(known: Mapping[str, Any], value: str) -> str | None:
    """Returns why the service refuses `value` for the parameter that it describes in `known`; None if it may accept it.

    Formulas, and lists of words that may be combined, are left to the service.
    """
    allowed, name = str(known.get("AllowedValues", "")), known["ParameterName"]
    limits = _RANGE.fullmatch(allowed)
    if limits is not None and _NUMBER.fullmatch(value) is not None:
        inside = float(limits[1]) <= float(value) <= float(limits[2])
        return None if inside else f"{name} = {value} is outside of {limits[1]} to {limits[2]}"
    if known.get("DataType") == "boolean" and allowed and value not in allowed.split(","):
        return f"{name} = {value} is not one of {allowed.replace(',', ', ')}"
    return None


def _as_taken(known: Mapping[str, Any], name: str, value: str) -> str:
    if known.get("DataType") == "boolean":
        return {"on": "1", "off": "0"}.get(value, value)
    return in_own_unit(name, value)


def _refusal(known: Mapping[str, Any] | None, name: str, family: str) -> str | None:
    if known is None:
        return f"{family} has no parameter {name}"
    return None if known.get("IsModifiable") else f"parameter {name} cannot be changed on {family}"


def _defaults(cloud: Cloud, level: Level, family: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    marker: dict[str, str] = {}
    while True:
        answer = cloud.call("rds", level.defaults, DBParameterGroupFamily=family, **marker)["EngineDefaults"]
        found |= {each["ParameterName"]: each for each in answer.get("Parameters", [])}
        if not answer.get("Marker"):
            return found
        marker = {"Marker": answer["Marker"]}


def make_group(maker: Maker, level: Level, family: str, values: Mapping[str, str]) -> str | None:
    """Creates a group with the result of `values_for`.

    Returns its name, or None if there are no values. Raises AwsError.
    """
    if not values:
        return None
    cloud = maker.cloud
    maker.note(level.kind)
    group = {level.name: maker.name, "DBParameterGroupFamily": family, "Description": "pgdyno"}
    # Names are random: an existing group comes from our own first attempt, whose response was lost.
    with suppress(ThereAlreadyError):
        cloud.call("rds", level.create, **group, Tags=maker.tags)
    for some in _pieces([_value(name, value) for name, value in values.items()]):
        change = partial(cloud.call, "rds", level.modify, **{level.name: maker.name, "Parameters": some})
        retry_until_settled(maker.stop.check, change)
    return maker.name


def _value(name: str, value: str) -> dict[str, str]:
    # The server starts with the group, so that static parameters take effect as well.
    return {"ParameterName": name, "ParameterValue": value, "ApplyMethod": "pending-reboot"}


def _pieces(values: Sequence[dict[str, str]]) -> list[Sequence[dict[str, str]]]:
    return [values[at : at + AT_ONCE] for at in range(0, len(values), AT_ONCE)]
