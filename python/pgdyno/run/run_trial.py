"""Runs one trial: starts the engine, reads its events, and ends it reliably."""

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgdyno.errors import EngineError
from pgdyno.programs import Engine
from pgdyno.records import (
    ConnectFigures,
    EventRecord,
    Failure,
    FailureId,
    Generator,
    Outcome,
    PhaseFigures,
    QueryRun,
    ReplayFigures,
    ScriptSummary,
    Stage,
    StatementCounts,
    Summary,
    TpccFigures,
    TpccType,
    TpchFigures,
)
from pgdyno.records.measured import most_frequent_error
from pgdyno.run.event_effects import with_effects
from pgdyno.run.event_injection import Injector, failure_of_events
from pgdyno.run.process import RELEASE, Event, MemorySpool, Running, Spool, running_engine, understood
from pgdyno.units import quantity


@dataclass(frozen=True, slots=True)
class Interval:
    """A second of a trial for the live view."""

    phase: str
    """The phase's name in the plan, warm-up, measuring, or draining."""
    tps: float
    p99_ms: float | None
    """None if no transaction succeeded."""
    seconds: float = 1.0
    """The length of the interval; the last one of a phase is shorter."""
    failed: int = 0


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The raw record of a trial: the engine's events and their evaluation."""

    outcome: Outcome
    events: Sequence[Event]
    """May be on disk, until the trial is stored: each pass reads them again."""
    summary: Summary | None
    generator: Generator | None
    failure: Failure | None
    plan_events: list[EventRecord] = field(default_factory=list)
    """The plan's events, which are also merged into `events`."""


def run_trial(
    engine: Engine,
    options: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    log: Path,
    on_interval: Callable[[Interval], None],
    max_errors: int | None = None,
    injector: Injector | None = None,
    must_stop: Callable[[], bool] = lambda: False,
    on_event: Callable[[Event], None] = lambda _event: None,
    running: Running = running_engine,
    spool: Spool | None = None,
) -> TrialResult:
    """Run the engine in `folder` with `options` and the server's `environment`; its standard error goes to `log`.

    `running` starts one engine here, or several elsewhere. `on_interval` is called once a second, `on_event` for every
    event; `injector` executes the plan's events. After more than `max_errors` failed transactions, without those due to
    an outage, the engine is told to stop, and the trial has failed. The engine is also told to stop if `must_stop`,
    which is called once a second, returns True; the caller decides what that means. `spool` keeps the events, on disk
    if the trial may be long. On any exception, including Ctrl-C, engine and events are stopped before the exception
    propagates.
    """
    spool = spool or MemorySpool()
    failed, stopped, asked_to_stop, is_over = 0, False, False, False
    injector = injector or Injector([], lambda _event, _cutoff: None)
    with log.open("wb") as errors, running(engine, options, environment, errors, folder) as (process, stream), injector:
        for event in stream:
            spool.append(event)
            with understood("follow the trial"):
                injector.handle(event)
                interval = _interval(event) if event["event"] == "interval" else None
            on_event(event)
            if interval is not None:
                failed += interval.failed
                if max_errors is not None and failed > max_errors and not stopped:
                    # with SIGINT, so that the engine still reports its results
                    process.send_signal(signal.SIGINT)
                    stopped = True
                if not asked_to_stop and (must_stop() or injector.is_over):
                    is_over = injector.is_over
                    process.send_signal(signal.SIGINT)
                    asked_to_stop = True
                on_interval(interval)
        code = process.wait()
        injector.finish()
    with understood("evaluate the trial"):
        result = judge(spool.events, code, log)
        if is_over and result.outcome is Outcome.INTERRUPTED:
            # as the plan wants it: trial.until = "recovered"
            result = replace(result, outcome=Outcome.FINISHED, failure=None)
        return _result(result, injector, failed, max_errors if stopped else None)


def _result(result: TrialResult, injector: Injector, failed: int, max_errors: int | None) -> TrialResult:
    if max_errors is not None:
        result = replace(result, outcome=Outcome.FAILED, failure=_too_many_errors(result, failed, max_errors))
    records = with_effects(injector.records, result.events)
    result = replace(result, events=injector.put_among(result.events), plan_events=records)
    missed = failure_of_events(records, injector.left)
    if result.outcome is Outcome.FINISHED and missed is not None:
        return replace(result, outcome=Outcome.FAILED, failure=missed)
    return result


def _too_many_errors(result: TrialResult, failed: int, max_errors: int) -> Failure:
    message = f"stopped after {quantity(failed, 'failed transaction')}; trial.max_errors is {max_errors:,}"
    if result.failure is not None and result.outcome is Outcome.FAILED:
        message = f"{message}; {result.failure.message}"
        return Failure(stage=Stage.RUN, id=FailureId.TOO_MANY_ERRORS, message=message, hint=result.failure.hint)
    most = most_frequent_error(result.summary.errors if result.summary else [])
    if most is None:
        return Failure(stage=Stage.RUN, id=FailureId.TOO_MANY_ERRORS, message=message)
    message, hint = f"{message}; most often: {most.message}", timeout_hint(most.sqlstate, most.message)
    return Failure(stage=Stage.RUN, id=FailureId.TOO_MANY_ERRORS, message=message, hint=hint, sqlstate=most.sqlstate)


OF_TIMEOUT = "statement_timeout of the role"


def timeout_hint(sqlstate: str | None, message: str | None) -> str | None:
    """Return where the timeout that canceled a statement may come from; None if none did."""
    if sqlstate != "57014" or message is None or "user request" in message:
        return None
    return (
        f"{OF_TIMEOUT}, the database or PGOPTIONS applies to the load, too: reset it there, or set "
        'session_settings.statement_timeout = "0" of the target'
    )


_PHASES = {"measure": "measuring", "drain": "draining"}


def _interval(event: Event) -> Interval:
    length_s = (event["to_us"] - event["from_us"]) / 1e6
    succeeded = sum(script["succeeded"] for script in event["scripts"])
    worst_ns = [script["latency_ns"]["p99"] for script in event["scripts"] if script.get("latency_ns")]
    return Interval(
        phase=str(event.get("phase_name") or _PHASES.get(event["phase"], event["phase"])),
        tps=succeeded / length_s if length_s > 0 else 0.0,
        p99_ms=max(worst_ns) / 1e6 if worst_ns else None,
        seconds=length_s,
        failed=sum(script["failed"] - script.get("lost", 0) for script in event["scripts"]),
    )


def judge(events: Sequence[Event], exit_code: int, log: Path) -> TrialResult:
    """Evaluate an engine's `events`; `log` is its standard error. Raises EngineError."""
    start = next((event for event in events if event["event"] == "start"), None)
    connected = next((event for event in events if event["event"] == "connected"), None)
    end = events[-1] if events and events[-1]["event"] == "end" else None
    generator = _generator(start, connected, end, exit_code) if start else None
    if end is None:
        said = _last_line(log)
        if start is None and exit_code == 1:
            # a usage error: pgdyno wrote the options, so that a pgdrive of its release knows them
            failure = Failure(stage=Stage.RUN, id=FailureId.ENGINE_REFUSED, message=said, hint=RELEASE)
            return TrialResult(Outcome.FAILED, events, None, None, failure)
        message = f"the engine ended early with exit code {exit_code}: {said}"
        failure = Failure(stage=Stage.RUN, id=FailureId.ENGINE_ENDED, message=message)
        return TrialResult(Outcome.FAILED, events, None, generator, failure)
    if end["outcome"] == "failed":
        message = end.get("message") or _last_line(log)
        why = _REASONS.get(end.get("reason", ""), FailureId.NOT_BEGUN)
        if end.get("lost_generator") is not None:
            why = FailureId.GENERATOR_LOST
        failure = Failure(stage=Stage.RUN, id=why, message=message, hint=end.get("hint"))
        return TrialResult(Outcome.FAILED, events, None, generator, failure)
    if start is None:
        raise EngineError("the engine's events have an end but no start")
    summary = _summary(start, connected, end)
    outcome = {"finished": Outcome.FINISHED, "interrupted": Outcome.INTERRUPTED}.get(end["outcome"], Outcome.FAILED)
    return TrialResult(outcome, events, summary, generator, _failure(outcome, events, end))


_REASONS = {
    "not-prepared": FailureId.NOT_PREPARED,
    "not-connected": FailureId.NOT_CONNECTED,
    "interrupted": FailureId.ENGINE_STOPPED,
}
"""Ids by the field `reason` of pgdrive's `end`."""


def _failure(outcome: Outcome, events: Sequence[Event], end: Event) -> Failure | None:
    if outcome is Outcome.FAILED:
        return abort_failure(events, end)
    if outcome is Outcome.INTERRUPTED:
        message = "the engine was stopped before the trial's end"
        return Failure(stage=Stage.RUN, id=FailureId.ENGINE_STOPPED, message=message)
    return None


def ends_client(event: Event) -> bool:
    """Tells whether `event` is an error that ended a client."""
    return event["event"] == "error" and str(event["consequence"]).startswith(("client", "conn"))


def abort_failure(events: Sequence[Event], end: Event) -> Failure:
    """Return why clients gave up, from the first of them."""
    first = next(filter(ends_client, events), None)
    if first is None:
        message = end.get("message") or "clients were aborted"
        return Failure(stage=Stage.RUN, id=FailureId.CLIENTS_ABORTED, message=message)
    where = f"client {first['client']}, command {first['command']} of script {first['script']}, line {first['line']}"
    if end.get("queries") is not None:
        start = next(event for event in events if event["event"] == "start")
        where = start["scripts"][0]["statements"][first["command"]]["text"]
    others = end["clients_aborted"] - 1
    message = f"{first['message']} ({where})"
    if others > 0:
        message += f", and {quantity(others, 'more client')} aborted"
    message += _where_aborted(end.get("generators") or ())
    return Failure(
        stage=Stage.RUN,
        id=FailureId.CLIENTS_ABORTED,
        message=message,
        hint=first.get("hint") or timeout_hint(first.get("sqlstate"), first.get("message")),
        sqlstate=first.get("sqlstate"),
    )


def _where_aborted(hosts: Sequence[Event]) -> str:
    places = [
        f"{host['clients_aborted']} of {host['clients']} clients of {host['name']} ({host['host']})"
        for host in hosts
        if len(hosts) > 1 and host.get("clients_aborted")
    ]
    return f": {', '.join(places)}" if places else ""


def _generator(start: Event, connected: Event | None, end: Event | None, exit_code: int) -> Generator:
    cpu = (end or {}).get("cpu_us") or {}
    return Generator.of_event(
        start,
        version=start["pgdrive"],
        io=(connected or {}).get("io", "unknown"),
        exit_code=exit_code,
        cpu_user_us=cpu.get("user"),
        cpu_system_us=cpu.get("system"),
        hosts=list((end or {}).get("generators") or ()),
    )


def _summary(start: Event, connected: Event | None, end: Event) -> Summary:
    names = {script["id"]: script for script in start["scripts"]}
    # imported scripts alone have counts of retries
    scripts = [
        ScriptSummary.of_event(each | names[each["script"]], retried=None, retries=None) for each in end["scripts"]
    ]
    return Summary.of_event(
        end,
        connect_us=(connected or {}).get("connect_us", 0),
        scripts=scripts,
        connect=_connect_figures(end.get("connect")),
        statements=statement_counts(end),
        tpcc=tpcc_figures(end),
        tpch=None if end.get("tpch") is None else TpchFigures.of_event(end["tpch"]),
        replay=None if end.get("replay") is None else ReplayFigures.of_event(end["replay"]),
        queries=[QueryRun.of_event(each) for each in end.get("queries") or ()],
        phases=[PhaseFigures.of_event(phase) for phase in end.get("phases") or ()],
    )


def _connect_figures(figures: Event | None) -> ConnectFigures | None:
    if figures is None:
        return None
    parts = {name: each and each["latency_ns"] for name, each in figures.items() if name != "count"}
    return ConnectFigures.model_validate({"count": figures["count"], **parts})


def statement_counts(end: Event) -> StatementCounts | None:
    """Return the counts of a Lua script's clients in the engine's last event; None for other loads."""
    counts = end.get("statements") if end.get("tpcc") is None else None
    return None if counts is None else StatementCounts.of_event(counts)


def tpcc_figures(end: Event) -> TpccFigures | None:
    """Return the figures of TPC-C in the engine's last event; None for other loads."""
    figures = end.get("tpcc")
    if figures is None:
        return None
    on_server = {f"server_{name}": figures["server"].get(name) for name in ("nopm", "tpm")}
    return TpccFigures.of_event(figures, types=list(map(TpccType.of_event, figures["types"])), **on_server)


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if ": error: " in line]
    messages = [line for line in lines if ": hint: " not in line]
    return (errors or messages or ["it printed no message"])[-1]
