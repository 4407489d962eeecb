"""What ran where: failed trials, the machine, servers, generators, and differences of settings and environment."""

from collections.abc import Collection, Mapping, Sequence

from pgdyno.fingerprint import Difference
from pgdyno.records import GeneratorHost, TargetRecord, TrialRecord
from pgdyno.records.measured import merge_values
from pgdyno.records.secret_values import masked_plan
from pgdyno.report import numbers
from pgdyno.report.report_content import Digest, median_trial
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext, gettext_each, translate
from pgdyno.store.probe_queries import ProcessSum
from pgdyno.units import format_size

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
            numbers.round_text(each.read_bytes / 1e6),
            numbers.round_text(each.written_bytes / 1e6),
            f"{100 * (each.read_bytes + each.written_bytes) / total:.0f}",
            numbers.round_text(each.cpu_us / 1e6),
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
        for error in merge_values(point.errors)
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
        (gettext("Memory"), format_size(host.memory_bytes)),
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
        size = numbers.NOTHING if facts.cluster_bytes is None else format_size(facts.cluster_bytes)
        checksums = "on" if facts.data_checksums else "off"
        version = gettext("{version}, standby", version=facts.version) if facts.is_standby else facts.version
        rows.append((target.name, target.kind, version, checksums, size, facts.program_words))
    headings = gettext_each("target", "kind", "version", "checksums", "cluster", "as reported by the server")
    return Table(gettext("Servers"), headings, tuple(rows), 6)


def generator_table(of: Digest) -> Table | None:
    """Return the generators of the median trial of the highest peak; None if there was only one."""
    if of.best is None:
        return None
    trial = median_trial(of, of.best.peak.summary)
    hosts = trial.generator.hosts if trial.generator is not None else []
    headings = gettext_each(
        "generator",
        "host",
        "clients",
        "tps",
        "CPU, s",
        "busiest worker, %",
        "ceiling, tps",
        "start delay, ms",
        "clock ahead, ms",
        "report delay, ms",
    )
    caption = gettext(
        "Generators of trial {number}: CPU is the engine's; the ceiling is against a null server; a clock is "
        "accurate to half of the round trip",
        number=trial.number,
    )
    return Table(caption, headings, tuple(_cells(each) for each in hosts), 2) if hosts else None


def _cells(of: GeneratorHost) -> tuple[str, ...]:
    share = None if of.busiest_cpu_share is None else 100 * of.busiest_cpu_share
    return (
        of.name,
        of.host,
        numbers.NOTHING if of.clients is None else f"{of.clients:,}",
        numbers.round_or_dash(of.tps),
        numbers.round_or_dash(None if of.cpu_us is None else sum(of.cpu_us.values()), 1e6, 2),
        numbers.round_or_dash(share, 1, 2),
        numbers.round_or_dash(of.ceiling_tps),
        numbers.round_or_dash(of.start_late_us, 1e3, 2),
        f"{numbers.round_text(of.clock_ahead_us / 1e3, 2)} ± {numbers.round_text(of.clock_round_trip_us / 2e3, 2)}",
        numbers.round_text(of.report_delay_us / 1e3, 2),
    )


def settings_tables(targets: Sequence[TargetRecord], alike: Collection[str] = ()) -> tuple[Table | None, Table | None]:
    """Return settings that differ between targets, and all that are not the server's default; a column per target.

    `alike` are names of settings with equal values, although only some targets changed them.
    """
    started = [(target.name, target.facts.settings_changed) for target in targets if target.facts is not None]
    names = sorted({name for _, settings in started for name in settings})
    if not names:
        return None, None
    values = {name: [settings.get(name, gettext("default")) for _, settings in started] for name in names}
    differing = [name for name in names if len(set(values[name])) > 1 and name not in alike]
    headings = (gettext("setting"), *(name for name, _ in started))
    rest = Table(
        gettext("Settings that are not the default"),
        headings,
        tuple((name, *values[name]) for name in names),
        len(headings),
    )
    if not differing:
        return None, rest
    rows = tuple((name, *values[name]) for name in differing)
    return Table(gettext("Settings that differ between targets"), headings, rows, len(headings)), rest


def _shorten_checksum(of: Difference, value: str | None) -> str | None:
    return value[:8] if value is not None and of.of_file is not None else value


def environment_table(differences: Sequence[Difference]) -> Table | None:
    """Return the differences between fingerprints of runs, most severe first."""
    if not differences:
        return None
    rows = tuple(
        (
            each.field,
            gettext(each.severity.value),
            *(_shorten_checksum(each, value) or numbers.NOTHING for value in (each.a, each.b)),
            translate(each.of_file or each.why),
        )
        for each in differences
    )
    headings = gettext_each("field", "weight", "first", "other", "why it matters")
    return Table(gettext("Differences between the runs"), headings, rows, 5)


def asked_differences(targets: Sequence[TargetRecord]) -> Table | None:
    """Return differences between the targets in the plan."""
    if len(targets) < 2:
        return None
    flat = {target.name: dict(_flatten("", masked_plan(target.asked))) for target in targets}
    keys = list(dict.fromkeys(key for values in flat.values() for key in values))
    rows = [(key, *(values.get(key, numbers.NOTHING) for values in flat.values())) for key in keys]
    differing = tuple(row for row in rows if len(set(row[1:])) > 1)
    headings = (gettext("of the plan"), *flat)
    return (
        Table(gettext("Settings of targets in the plan that differ"), headings, differing, len(headings))
        if differing
        else None
    )


def _flatten(prefix: str, values: Mapping[str, object]) -> Sequence[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += _flatten(f"{prefix}{name}.", value)
        elif value not in (None, [], "", {}):
            found.append((f"{prefix}{name}", str(value)))
    return found
