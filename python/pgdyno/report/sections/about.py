"""Environment: trials that did not finish, errors, the machine, the servers."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.records import TargetRecord, TrialRecord
from pgdyno.report import numbers
from pgdyno.report.digest import Digest
from pgdyno.report.tables import Table
from pgdyno.report.texts import gettext, gettext_each
from pgdyno.store.beside import ProcessSum
from pgdyno.units import format_bytes

LEAST_CPU_US = 10_000
"""Least CPU time of a process that neither read nor wrote."""


def failed_table(of: Digest) -> Table:
    """Return the trials that did not finish, with reasons."""
    rows = []
    for trial in of.unfinished:
        failure = trial.failure
        rows.append(
            (
                str(trial.number),
                of.trial_name(trial),
                _point(trial),
                gettext(trial.outcome.value),
                failure.stage.value if failure is not None else numbers.NOTHING,
                (failure.sqlstate if failure is not None else None) or numbers.NOTHING,
                failure.message if failure is not None else gettext("no reason was recorded"),
                (failure.hint if failure is not None else None) or "",
            )
        )
    headings = (*gettext_each("trial", "series", "point", "outcome", "stage"), "SQLSTATE", *gettext_each("why", "hint"))
    return Table(gettext("They do not count in the figures above"), headings, tuple(rows), 8)


def process_table(trial: int, sums: Sequence[ProcessSum]) -> Table:
    """Return the processes of a trial by kind, most I/O first."""
    total = sum(each.read_bytes + each.written_bytes for each in sums) or 1.0
    rows = tuple(
        (
            each.kind,
            numbers.rounded(each.read_bytes / 1e6),
            numbers.rounded(each.written_bytes / 1e6),
            f"{100 * (each.read_bytes + each.written_bytes) / total:.0f}",
            numbers.rounded(each.cpu_us / 1e6),
        )
        for each in sums
        if each.read_bytes + each.written_bytes > 0 or each.cpu_us >= LEAST_CPU_US
    )
    caption = gettext("Processes of the server in trial {number} by device reads and writes, whole trial", number=trial)
    return Table(caption, gettext_each("process", "read, MB", "written, MB", "share of I/O, %", "CPU, s"), rows)


def _point(trial: TrialRecord) -> str:
    return gettext("{clients}, repeat {number}", clients=numbers.clients(trial.point.clients), number=trial.repeat)


def error_table(of: Digest) -> Table | None:
    """Return errors from servers, by point; None without any."""
    rows = tuple(
        (of.point_name(point), error.sqlstate or numbers.NOTHING, error.message, f"{error.count:,}")
        for point in of.points
        for error in point.errors
    )
    headings = (gettext("point"), "SQLSTATE", *gettext_each("message", "count"))
    return Table(gettext("Errors of finished trials"), headings, rows, 3) if rows else None


def host_facts(of: Digest) -> list[tuple[str, str]]:
    host = of.manifest.host
    if host is None:
        return [
            (gettext("Machine"), gettext("unknown: the run was imported")),
            (gettext("Tools"), f"pgdyno {of.manifest.pgdyno}"),
        ]
    return [
        (gettext("Processor"), host.cpu_model),
        (gettext("Cores"), str(host.cores)),
        (gettext("Memory"), format_bytes(host.memory_bytes)),
        (gettext("System"), f"{host.os}, {host.architecture}"),
        (gettext("Kernel"), host.kernel),
        (gettext("Tools"), f"pgdyno {of.manifest.pgdyno}, pgdrive {of.manifest.pgdrive}"),
    ]


def server_table(targets: Sequence[TargetRecord]) -> Table:
    rows = []
    for target in targets:
        facts = target.facts
        if facts is None:
            rows.append((target.name, target.kind, gettext("never started"), *[numbers.NOTHING] * 3))
            continue
        size = numbers.NOTHING if facts.cluster_bytes is None else format_bytes(facts.cluster_bytes)
        checksums = "on" if facts.data_checksums else "off"
        rows.append((target.name, target.kind, facts.version, checksums, size, facts.version_full))
    headings = gettext_each("target", "kind", "version", "checksums", "cluster", "as reported by the server")
    return Table(gettext("Servers"), headings, tuple(rows), 6)
