"""Converts outputs of other tools to trials of an ordinary run; values that were not printed stay unknown."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pgdyno import records
from pgdyno.importers.hammerdb import unused_item_of
from pgdyno.importers.parsed import FIGURES, LARGEST_NUMBER, Moment, Output
from pgdyno.records.rate_unit import NEW_ORDERS, QUERIES, TRANSACTIONS, WITH_CONNECTING
from pgdyno.store import IntervalRow, StatementRow, TrialTables

_QUANTILES = {50.0: "p50", 75.0: "p75", 90.0: "p90", 95.0: "p95", 99.0: "p99", 99.9: "p999", 99.99: "p9999"}
_SCALE = re.compile(r"[0-9]{1,12}")
_NOT_IN_SLUGS = re.compile(r"[^\w.]+")
_ASKED_LENGTHS = ("pgbench", "hammerdb")
"""Tools that print the length that they were asked for; others print the time that elapsed."""
_ALIKE = 1.1
"""Elapsed times count as the same length if the longest is at most this many times the shortest."""
LONGEST_NAME = 40
"""Characters of a target's name in a trial's folder; they may have several bytes each."""


@dataclass(slots=True)
class Trial:
    record: records.TrialRecord
    tables: TrialTables = field(default_factory=TrialTables)


def trials_of(outputs: Sequence[Output]) -> list[Trial]:
    """Return a trial for each output, numbered from 1."""
    repeats: Counter[str] = Counter()
    trials = []
    for number, (output, point) in enumerate(zip(outputs, _points(outputs), strict=True), start=1):
        same = f"{output.trial_target} {point.model_dump_json()}"
        repeats[same] += 1
        trials.append(_trial(number, output, point, repeats[same]))
    return trials


def tell_apart(logs: Sequence[records.TrialRecord], others: Sequence[records.TrialRecord]) -> list[records.TrialRecord]:
    """Return the records of `logs` with points and repeats that distinguish them from each other and from `others`."""
    outputs = []
    for record in logs:
        output = Output("pgbench-log", 1, 1, trial_target=record.target, clients=record.point.clients)
        output.workers = record.point.workers
        output.duration_s = record.duration_s
        output.transactions = record.summary.scheduled if record.summary is not None else None
        output.shown = dict(record.imported.load) if record.imported is not None else {}
        outputs.append(output)
    repeats = Counter(f"{record.target} {record.point.model_dump_json()}" for record in others)
    found = []
    for record, shown in zip(logs, _points(outputs), strict=True):
        point = record.point.model_copy(update={"variables": shown.variables})
        same = f"{record.target} {point.model_dump_json()}"
        repeats[same] += 1
        found.append(record.model_copy(update={"point": point, "repeat": repeats[same]}))
    return found


def throughput(output: Output) -> float | None:
    """Return transactions per second; else transactions or new orders per minute as such a rate, or queries/s."""
    unit = unit_of(output)
    printed: float | None = getattr(output, unit)
    return printed / 60 if printed is not None and unit in PER_MINUTE else printed


PER_MINUTE = ("tpm", "nopm")


def unit_of(output: Output) -> str:
    """Return the unit in which the throughput of `output` was printed: `tps`, `tpm`, `nopm` or `qps`."""
    units = ("tps", "nopm", "tpm", "qps") if output.is_by_new_orders else ("tps", "tpm", "nopm", "qps")
    return next((unit for unit in units if getattr(output, unit) is not None), "tps")


def _counted_unit(output: Output) -> str:
    if output.tps is not None and output.tps == output.tps_including_connections != output.tps_excluding_connections:
        return TRANSACTIONS if output.shown.get("connections") == "each transaction" else WITH_CONNECTING
    return {"nopm": NEW_ORDERS, "qps": QUERIES}.get(unit_of(output), TRANSACTIONS)


def prefer_new_orders(outputs: Sequence[Output]) -> None:
    """Take new orders as the throughput of all outputs per minute if some have nothing else, and all have them."""
    by_minute = [output for output in outputs if unit_of(output) in PER_MINUTE]
    if any(unit_of(output) == "nopm" for output in by_minute) and all(output.nopm is not None for output in by_minute):
        for output in by_minute:
            output.is_by_new_orders = True


def slug(number: int, target: str, clients: int | None) -> str:
    name = _NOT_IN_SLUGS.sub("_", target).strip("_")[:LONGEST_NAME]
    return f"{number:04d}-{name}" + (f"-c{clients}" if clients else "")


def _points(outputs: Sequence[Output]) -> list[records.Point]:
    points = [_point(output) for output in outputs]
    units = [_counted_unit(output) for output in outputs]
    # rates of different things are not compared
    further = [{"unit": unit} if len(set(units)) > 1 else {} for unit in units]
    alike: dict[str, list[int]] = {}
    for at, (output, point) in enumerate(zip(outputs, points, strict=True)):
        alike.setdefault(f"{output.trial_target} {point} {further[at]}", []).append(at)
    names = _workload_names([output.workload for output in outputs])
    is_named = len(set(names)) > 1
    for members in alike.values():
        for at, differing in zip(members, _differing_loads([outputs[at] for at in members]), strict=True):
            workload = {"workload": name} if is_named and (name := names[at]) is not None else {}
            variables = points[at].variables | further[at] | workload | differing
            points[at] = points[at].model_copy(update={"variables": variables})
    return points


def _workload_names(workloads: Sequence[str | None]) -> list[str | None]:
    # the basename in a command and the path that its summary prints are one script
    return [base if each and (base := each.rpartition("/")[2]) in workloads else each for each in workloads]


def _differing_loads(outputs: Sequence[Output]) -> list[dict[str, str]]:
    loads = _loads(outputs)
    differing: list[dict[str, str]] = [{} for _ in outputs]
    for name in dict.fromkeys(("options", *(name for load in loads for name in load))):
        shown: dict[tuple[str | None, ...], set[str | None]] = {}
        for output, load, further in zip(outputs, loads, differing, strict=True):
            # an output differs from one of a known length if it does not state that kind of length
            if name in load or name == "transactions" or (name == "duration_s" and output.tool == "pgbench"):
                # workload and options become variables of their own, and say this, too: `-C`, the name of a script
                same = {"scripts": (output.workload, further.get("options")), "connections": (further.get("options"),)}
                shown.setdefault(same.get(name, ()), set()).add(load.get(name))
        if any(len(values) > 1 for values in shown.values()):
            for load, further in zip(loads, differing, strict=True):
                further.update({name: load[name]} if name in load else {})
    return differing


def _loads(outputs: Sequence[Output]) -> list[dict[str, str]]:
    loads = [output.load for output in outputs]
    elapsed = [at for at, load in enumerate(loads) if "duration_s" in load and outputs[at].tool not in _ASKED_LENGTHS]
    counts = {outputs[at].transactions for at in elapsed}
    if len(elapsed) > 1 and len(counts) == 1 and None not in counts:
        return [{name: value for name, value in load.items() if name != "duration_s"} for load in loads]
    length = -math.inf
    for at in sorted(elapsed, key=lambda at: float(loads[at]["duration_s"])):
        seconds = float(loads[at]["duration_s"])
        if seconds > max(length * _ALIKE, length + 1):
            length = seconds
        loads[at]["duration_s"] = f"{length:.0f}"
    return loads


def _point(output: Output) -> records.Point:
    variables = dict(output.variables)
    scale = output.scale if output.scale is not None else output.warehouses
    # pgbench prints the scale that it found in the tables, and a script's :scale is the value of -D
    if _SCALE.fullmatch(variables.get("scale", "")):
        scale = int(variables.pop("scale"))
    if "checkpoints" in output.words:
        variables["checkpoints"] = output.words["checkpoints"]
    return records.Point(
        clients=output.clients,
        workers=output.workers,
        protocol=output.protocol or "",
        scale=scale,
        rate=output.rate,
        settings=output.settings,
        variables=variables,
    )


def _trial(number: int, output: Output, point: records.Point, repeat: int) -> Trial:
    record = records.TrialRecord(
        number=number,
        slug=slug(number, output.trial_target, point.clients),
        target=output.trial_target,
        point=point,
        repeat=repeat,
        started_at=None,
        ended_at=None,
        warmup_s=0,
        duration_s=output.duration_s,
        transactions=output.transactions_per_client,
        outcome=records.Outcome.FINISHED if output.aborted is None else records.Outcome.FAILED,
        failure=None
        if output.aborted is None
        else records.Failure(stage=records.Stage.RUN, id=records.FailureId.IMPORTED, message=output.aborted[:400]),
        summary=None if throughput(output) is None else _summary(output),
        imported=_imported_record(output),
    )
    tables = TrialTables(intervals=_intervals(number, output), statements=_statements(number, output))
    return Trial(record, tables)


def _imported_record(output: Output) -> records.Imported:
    figures = {name: float(value) for name in FIGURES if (value := getattr(output, name)) is not None}
    printed = {name: records.Printed(line=line, text=text) for name, (line, text) in output.printed.items()}
    of_percentiles = printed.pop("percentiles_ms", None)
    for percentile, value in output.percentiles_ms.items():
        name = f"latency_p{percentile:g}_ms"
        figures[name] = value
        if of_percentiles is not None:
            printed[name] = of_percentiles
    return records.Imported(
        file=output.file,
        line=output.line,
        last_line=output.last_line,
        tool=output.tool,
        version=output.version,
        unused_item=unused_item_of(output),
        command=output.command,
        figures=figures | output.further,
        printed=printed,
        words=output.words if output.workload is None else output.words | {"workload": output.workload},
        load=output.load,
    )


def _summary(output: Output) -> records.Summary:
    tps = throughput(output)
    assert tps is not None, "outputs without a throughput are unread"
    succeeded = output.transactions
    failed = output.failed if output.failed is not None else output.errors
    retried, retries = output.retried, output.retries
    if output.tool == "pgbench":
        # releases that do not print failures end a client at its first error; without --max-tries, none prints retries
        failed, retried, retries = failed or 0, retried or 0, retries or 0
    skipped = output.skipped or 0
    return records.Summary(
        measured_s=output.duration_s,
        scheduled=None if succeeded is None else succeeded + (failed or 0) + skipped,
        succeeded=succeeded,
        failed=failed,
        skipped=skipped,
        in_flight=None,
        retried=retried,
        retries=retries,
        clients_aborted=output.clients_aborted,
        tps=tps,
        latency_ns=_latency(
            output.latency_mean_ms,
            output.latency_stddev_ms,
            min=_ns(output.latency_min_ms),
            max=_ns(output.latency_max_ms),
            **{_QUANTILES[at]: _ns(value) for at, value in output.percentiles_ms.items() if at in _QUANTILES},
        ),
        connect_us=None if output.connect_ms is None else round(output.connect_ms * 1000),
        scripts=_scripts(output),
        errors=[],
    )


def _scripts(output: Output) -> list[records.ScriptSummary]:
    # one without a printed count is left out
    return [
        records.ScriptSummary(
            id=at,
            name=script.name,
            weight=script.weight,
            succeeded=script.transactions,
            failed=script.failed,
            skipped=script.skipped,
            retried=script.retried,
            retries=script.retries,
            latency_ns=_latency(script.latency_mean_ms, script.latency_stddev_ms),
        )
        for at, script in enumerate(output.scripts)
        if script.transactions is not None
    ]


def _latency(mean_ms: float | None, stddev_ms: float | None, **further: int | None) -> records.Latency | None:
    mean, stddev = (None if each is None else each * 1e6 for each in (mean_ms, stddev_ms))
    latency = records.Latency(mean=mean, stddev=stddev, **further)
    return None if latency == records.Latency() else latency


def _ns(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else round(milliseconds * 1e6)


def _intervals(trial: int, output: Output) -> list[IntervalRow]:
    start = Moment(0, 0.0, 0.0)
    rows = []
    for second, (before, moment) in enumerate(pairwise([start, *output.progress])):
        length_s = moment.at_s - before.at_s
        if length_s <= 0 or max(moment.tps * length_s, moment.failed or 0) > LARGEST_NUMBER:
            continue
        succeeded = round(moment.tps * length_s)
        rows.append(
            IntervalRow(
                trial=trial,
                second=second,
                from_us=round(before.at_s * 1e6),
                to_us=round(moment.at_s * 1e6),
                phase="measure",
                script=0,
                succeeded=succeeded,
                failed=round(moment.failed or 0),
                skipped=round(moment.skipped or 0),
                retried=round(moment.retried or 0),
                retries=round(moment.retries or 0),
                clients=output.clients,
                latency_sum_ns=None if moment.latency_ms is None else moment.latency_ms * 1e6 * succeeded,
                p95_ns=_ns(moment.p95_ms),
            )
        )
    return rows


def _statements(trial: int, output: Output) -> list[StatementRow]:
    return [
        StatementRow(
            trial=trial,
            script=statement.script,
            statement=at,
            line=at + 1,
            text=statement.text,
            failures=statement.failures,
            latency_mean_ns=statement.latency_ms * 1e6,
        )
        for at, statement in enumerate(output.statements)
    ]
