"""Checks whether a server logs what a capture needs, and whether this role may read its log."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import psycopg

from pgdyno.capture.server.server_session import CapturedServer, Connection
from pgdyno.capture.server.server_settings import Setting, read_settings, remedy
from pgdyno.errors import TargetError, UsageError
from pgdyno.messages import Message
from pgdyno.targets.response_limits import limit_answers

CSV, JSON, STDERR = "csvlog", "jsonlog", "stderr"
_STATEMENTS = (
    *("log_min_duration_statement", "log_statement", "log_duration"),
    *("log_min_duration_sample", "log_statement_sample_rate", "log_transaction_sample_rate"),
)
_CONTENTS = {
    "log_parameter_max_length": ("(?!-1$).*", "-1", True, Message(
        "log-parameters-cut", "values of parameters are cut or missing")),
    "log_min_messages": ("fatal|panic", "warning", True, Message(
        "log-no-messages", "it has neither statements nor errors")),
    "lc_messages": (r"(?i)(?!(?:c|posix|en|english)(?![a-z])).+", "C", True, Message(
        "log-not-english", "pgdyno reads English messages only")),
    "log_error_verbosity": ("terse", "default", True, Message(
        "log-terse", "it has no values of parameters")),
    "log_min_error_statement": ("log|fatal|panic", "error", False, Message(
        "log-errors-without-text", "it does not have the texts of failed statements")),
    "log_parameter_max_length_on_error": ("(?!-1$).*", "-1", False, Message(
        "log-errors-without-parameters", "it does not have the parameters of failed statements")),
    # PostgreSQL 18 has a list of what it logs
    "log_connections": ("off|", "on", False, Message(
        "log-no-connections", "sessions begin with their first statement")),
    "log_disconnections": ("off", "on", False, Message(
        "log-no-disconnections", "sessions end with their last statement")),
    "log_lock_waits": ("off", "on", False, Message(
        "log-no-lock-waits", "it does not say which statements waited for locks")),
}  # fmt: skip
"""By setting: a pattern of the values with which a log lacks something, what to set, and whether a capture needs it.

`log_error_verbosity` concerns the format stderr only.
"""
_PLACES = ("log_destination", "logging_collector", "log_line_prefix", "log_directory", "log_filename", "data_directory")
_ROLES = """
    SELECT /* pgdyno */ coalesce(pg_catalog.quote_ident(r.rolname), 'every role'), split_part(c, '=', 1)
    FROM pg_catalog.pg_db_role_setting AS s LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = s.setrole
         LEFT JOIN pg_catalog.pg_database AS d ON d.oid = s.setdatabase, unnest(s.setconfig) AS c
    WHERE (s.setdatabase = 0 OR d.datname = pg_catalog.current_database()) AND split_part(c, '=', 1) = ANY(%s)
    ORDER BY 1, 2
"""
_RIGHTS = """
    SELECT /* pgdyno */ pg_catalog.quote_ident(current_user), pg_catalog.pg_has_role('pg_monitor', 'USAGE'),
           pg_catalog.has_function_privilege('pg_catalog.pg_current_logfile(text)', 'EXECUTE')
           OR pg_catalog.has_function_privilege('pg_monitor', 'pg_catalog.pg_current_logfile(text)', 'EXECUTE'),
           pg_catalog.has_function_privilege('pg_catalog.pg_read_binary_file(text, bigint, bigint, boolean)', 'EXECUTE')
"""
_CURRENT = "SELECT /* pgdyno */ pg_catalog.pg_current_logfile(%s)"
_LOG_FILE = "EXECUTE ON FUNCTION pg_current_logfile(text)"
_READ_FILE = "EXECUTE ON FUNCTION pg_read_binary_file(text, bigint, bigint, boolean)"
_READ_REFUSED = "read files through SQL (pg_read_binary_file); or use --ssh, or --log"


@dataclass(frozen=True, slots=True)
class Lack:
    setting: Setting
    wanted: str
    missing: Message
    """What the log lacks because of the setting."""
    is_required: bool = True
    """Whether a capture without it would be misleading."""

    @property
    def message(self) -> Message:
        value = self.setting.shown or "''"
        return Message(
            "log-lacks", "{setting} = {value}: {missing}", setting=self.setting.name, value=value, missing=self.missing
        )


@dataclass(frozen=True, slots=True)
class ServerLog:
    format: str
    """csvlog, jsonlog or stderr."""
    statements: str
    """The setting by which statements are logged, such as "log_min_duration_statement = 0"."""
    prefix: str
    directory: str
    """`log_directory`, which may be relative to the data directory."""
    data_directory: str
    pattern: str
    """Pattern of the log files' names in the directory."""
    notes: list[Message]
    """What the log does not have, and a capture can do without."""

    @property
    def path(self) -> str:
        """The pattern of its files' absolute paths on the server's host."""
        inner = f"{self.directory.rstrip('/')}/{self.pattern}"
        return inner if inner.startswith("/") else f"{self.data_directory}/{inner}"


def check_server_log(server: CapturedServer, *, through_sql: bool, files_given: bool) -> ServerLog:
    """Return where and how the server logs every statement.

    `through_sql` says that its files will be read through SQL, `files_given` that the user names the files. Raises
    UsageError with the remedy if the log lacks something that a capture needs, or if the role may not read it.
    """
    with server.connect(as_others=True) as connection:
        try:
            with limit_answers(connection):
                return _check_log(connection, through_sql=through_sql, files_given=files_given)
        except psycopg.Error as error:
            raise TargetError(f"cannot check what the server logs: {str(error).strip()}") from error


def _check_log(connection: Connection, *, through_sql: bool, files_given: bool) -> ServerLog:
    settings = read_settings(connection, (*_STATEMENTS, *_CONTENTS, *_PLACES))
    found = list(lacks(settings, files_given=files_given))
    grants, revokes, refusals = ([], [], []) if files_given else _rights(connection, through_sql=through_sql)
    required = [lack for lack in found if lack.is_required]
    if required or refusals:
        lines = [*(f"  {lack.message}" for lack in required), *(f"  {each}" for each in refusals)]
        what = "what a capture needs" if required else "for this role"
        verb = "log" if required else "open its log"
        raise UsageError(
            "\n".join([f"the server does not {verb} {what}:", *lines]),
            hint=remedy([(lack.setting, lack.wanted) for lack in found] if required else [], grants, revokes),
        )
    notes = [lack.message for lack in found]
    for role, name in connection.execute(_ROLES, [[*_STATEMENTS, *_CONTENTS]]).fetchall():
        notes.append(
            Message(
                "log-setting-of-role",
                "{role} has a value of its own for {setting}, which may keep statements out of the log",
                role=role,
                setting=name,
            )
        )
    form = log_format(settings)
    if not files_given and connection.execute(_CURRENT, [form]).fetchall() == [(None,)]:
        hint = "wait for its next message, or name the files: --log"
        raise UsageError(f"the server has no {form} file yet", hint=hint)
    return ServerLog(
        form,
        _statements(settings) or "",
        settings["log_line_prefix"].value,
        _value(settings, "log_directory"),
        _value(settings, "data_directory"),
        file_pattern(_value(settings, "log_filename"), form),
        notes,
    )


def _rights(connection: Connection, *, through_sql: bool) -> tuple[list[str], list[str], list[str]]:
    """Return what grants the missing rights, what revokes them, and what the role may not do."""
    ((role, may_monitor, may_locate, may_read),) = connection.execute(_RIGHTS).fetchall()
    in_database = f"  -- in database {connection.info.dbname}"
    grants, revokes, refusals = [], [], []
    for may, right, comment, refusal in (
        (may_monitor, "pg_monitor", "", "see where the log is (pg_monitor)"),
        # before PostgreSQL 17, pg_monitor does not have it
        (may_locate, _LOG_FILE, in_database, "see which file the log is (pg_current_logfile)"),
        (may_read or not through_sql, _READ_FILE, in_database, _READ_REFUSED),
    ):
        if may:
            continue
        if right == _READ_FILE:
            risk = f"{role} may read every file of the data directory, hashes of passwords and all databases included"
            grants.append(f"-- until it is revoked, {risk}; --ssh and --log need no such right")
        grants.append(f"GRANT {right} TO {role};{comment}")
        revokes.append(f"REVOKE {right} FROM {role};")
        refusals.append(f"the role {role} may not {refusal}")
    return grants, revokes, refusals


def lacks(settings: Mapping[str, Setting], *, files_given: bool) -> Iterator[Lack]:
    """Yield the settings that keep something out of the log; a setting of our own role says nothing about others."""
    yield from (lack for lack in _all_lacks(settings, files_given=files_given) if not lack.setting.is_of_role)


def _all_lacks(settings: Mapping[str, Setting], *, files_given: bool) -> Iterator[Lack]:
    by = _statements(settings)
    if by is None:
        least = settings["log_min_duration_statement"]
        missing = (
            Message("log-no-statements", "it has no statements")
            if least.value == "-1"
            else Message("log-slow-statements", "it has only slower statements")
        )
        yield Lack(least, "0", missing)
    elif by.startswith("log_statement ") and _value(settings, "log_duration") != "on":
        missing = Message("log-no-durations", "it does not say how long statements took")
        yield Lack(settings["log_duration"], "on", missing, is_required=False)
    if not files_given:
        yield from _destination(settings)
    for name, (bad, wanted, is_required, missing) in _CONTENTS.items():
        is_written = name != "log_error_verbosity" or log_format(settings) == STDERR
        if is_written and name in settings and re.fullmatch(bad, settings[name].value):
            yield Lack(settings[name], wanted, missing, is_required)


def _statements(settings: Mapping[str, Setting]) -> str | None:
    """Return the setting because of which every statement is logged; None if not all are."""
    for name, others in (
        ("log_min_duration_statement", {"log_min_duration_statement": "0"}),
        ("log_min_duration_sample", {"log_min_duration_sample": "0", "log_statement_sample_rate": "1"}),
        ("log_transaction_sample_rate", {"log_transaction_sample_rate": "1"}),
        ("log_statement", {"log_statement": "all"}),
    ):
        if all(_value(settings, other) == value for other, value in others.items()):
            return f"{name} = {_value(settings, name)}"
    return None


def _destination(settings: Mapping[str, Setting]) -> Iterator[Lack]:
    destinations = settings["log_destination"]
    listed = _destinations(settings)
    collector = settings["logging_collector"]
    if collector.value != "on":
        yield Lack(
            collector,
            "on",
            Message(
                "log-no-files",
                "the server writes no log file of its own (if another program writes one, name it: --log)",
            ),
        )
    if {CSV, JSON} & listed:
        return
    missing = Message("log-other-destination", "the log goes elsewhere")
    if STDERR in listed:
        if _says_enough(settings["log_line_prefix"].value):
            return
        missing = Message("log-prefix", "log_line_prefix lacks the time (%m), session (%c) or database (%d)")
    yield Lack(destinations, ",".join([*_in_order(destinations.value), CSV]), missing)


def log_format(settings: Mapping[str, Setting]) -> str:
    """Return the format to read: the one that says most."""
    listed = _destinations(settings)
    return next((each for each in (CSV, JSON) if each in listed), STDERR)


def _destinations(settings: Mapping[str, Setting]) -> set[str]:
    return set(_in_order(_value(settings, "log_destination")))


def _in_order(value: str) -> list[str]:
    return [each.strip() for each in value.lower().split(",") if each.strip()]


def _says_enough(prefix: str) -> bool:
    found = set(re.findall(r"%-?\d*([a-zA-Z])", prefix))
    return bool(found & {"m", "n"}) and bool(found & {"c", "p"}) and "d" in found


def file_pattern(filename: str, form: str) -> str:
    """Return the pattern of the names that `log_filename` yields in this format."""
    # as syslogger.c does: another suffix replaces ".log", and is added to other names
    if form != STDERR:
        filename = filename.removesuffix(".log") + {CSV: ".csv", JSON: ".json"}[form]
    escaped = re.sub(r"[\[*?]", lambda found: f"[{found[0]}]", filename)
    return re.sub(r"%(.)", lambda found: "%" if found[1] == "%" else "*", escaped)


def _value(settings: Mapping[str, Setting], name: str) -> str:
    """Return the value; empty for a setting that the server or the role does not have."""
    return settings[name].value if name in settings else ""
