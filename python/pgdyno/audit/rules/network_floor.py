"""Compares network round-trip times between load and server: measured before each trial, or the least latency."""

from collections.abc import Iterator, Mapping, Sequence

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.rules.generator_on_server import HERE
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message
from pgdyno.records import GeneratorHost, NetworkPathRecord

RATIO, LEAST_MS = 1.5, 0.5
"""Smaller differences are caused by processors and by chance."""
MANY_TIMES, SHORT_MS = 3.0, 0.1
"""This ratio means another network path even if round trips are short. A round trip is the complete time of a statement
that is answered immediately. Over the local socket of one idle machine it took 0.016 to 0.062 ms before 12 trials.
"""
FAR_RATIO, FAR_MS = 2.0, 1.0


def _check(subject: Subject) -> Iterator[RuleFinding]:
    paths = _paths_by_target(subject)
    if paths is None:
        yield from _by_latency(subject)
        return
    near = {target.name for target in subject.manifest.targets if target.kind in HERE}
    yield from _path_findings({target: of for target, of in paths.items() if target not in near})
    if len(paths) > 1:
        yield from _find_different(subject, {target: min(of, key=_least_us) for target, of in paths.items()})
    yield from _scatter_findings(subject)


_MeasuredPath = tuple[int, NetworkPathRecord]
"""Number of a trial, and the round trip measured before it."""


def _paths_by_target(subject: Subject) -> dict[str, list[_MeasuredPath]] | None:
    """Return round trips by target; None unless one was measured before each trial."""
    found = {
        target: [(each.number, each.trial.network_path) for each in samples if each.trial.network_path is not None]
        for target, samples in subject.by_target.items()
    }
    whole = all(len(found[target]) == len(samples) for target, samples in subject.by_target.items())
    return found if found and whole else None


def _least_us(path: _MeasuredPath) -> float:
    return path[1].least_us


def _median_us(path: _MeasuredPath) -> float:
    return path[1].median_us


def _path_findings(paths: Mapping[str, Sequence[_MeasuredPath]]) -> Iterator[RuleFinding]:
    for target, of in paths.items():
        low, high = min(of, key=_median_us), max(of, key=_median_us)
        apart_ms = (_median_us(high) - _median_us(low)) / 1e3
        if _is_apart(_median_us(high) / max(_median_us(low), 1.0), apart_ms):
            yield RuleFinding(
                Severity.CAUTION,
                Message(
                    "network-floor-moved",
                    "a round trip to {target} took {short_ms:.3g} ms before trial {short_trial} and {long_ms:.3g} ms "
                    "before trial {long_trial}"
                    if high[1].generator is None
                    else "a round trip to {target} took {short_ms:.3g} ms before trial {short_trial} and {long_ms:.3g} "
                    "ms before trial {long_trial} from {generator}, the farthest generator",
                    target=target,
                    short_ms=_median_us(low) / 1e3,
                    short_trial=low[0],
                    long_ms=_median_us(high) / 1e3,
                    long_trial=high[0],
                    generator=high[1].generator or "",
                ),
                [low[0], high[0]],
                [_evidence(target, each) for each in (low, high)],
                "the network path between load and server changed during the run: measure again",
            )


def _find_different(subject: Subject, floors: Mapping[str, _MeasuredPath]) -> Iterator[RuleFinding]:
    low, high = (pick(floors, key=lambda target: _least_us(floors[target])) for pick in (min, max))
    ratio = _least_us(floors[high]) / max(_least_us(floors[low]), 1.0)
    statements = max((_statements(subject, target) for target in (low, high)), default=1.0)
    apart_ms = (_least_us(floors[high]) - _least_us(floors[low])) / 1e3 * statements
    if not _is_apart(ratio, apart_ms):
        return
    yield RuleFinding(
        _severity(ratio, apart_ms),
        Message(
            "network-floor",
            "a round trip takes {near_ms:.3g} ms to {near} and {far_ms:.3g} ms to {far}, {apart_ms:.3g} ms more per "
            "transaction of {statements:.0f} statements: the network distance between load and server differs"
            if floors[high][1].generator is None
            else (
                "a round trip takes {near_ms:.3g} ms to {near} and {far_ms:.3g} ms to {far} from {generator}, the "
                "farthest generator, {apart_ms:.3g} ms more per transaction of {statements:.0f} statements: the "
                "network distance between load and server differs"
            ),
            near_ms=_least_us(floors[low]) / 1e3,
            near=low,
            far_ms=_least_us(floors[high]) / 1e3,
            far=high,
            generator=floors[high][1].generator or "",
            apart_ms=apart_ms,
            statements=statements,
        ),
        [sample.number for samples in subject.by_target.values() for sample in samples],
        [_evidence(target, path) for target, path in floors.items()],
        "compare only targets with the same round-trip time, or measure again with the load placed accordingly",
    )


def _is_apart(ratio: float, apart_ms: float) -> bool:
    return (ratio > RATIO and apart_ms > LEAST_MS) or (ratio > MANY_TIMES and apart_ms > SHORT_MS)


def _severity(ratio: float, apart_ms: float) -> Severity:
    return Severity.INVALID if ratio > FAR_RATIO and apart_ms > FAR_MS else Severity.CAUTION


def _scatter_findings(subject: Subject) -> Iterator[RuleFinding]:
    for target, samples in subject.by_target.items():
        found = [(sample.number, *ends) for sample in samples if (ends := _ends(sample.hosts)) is not None]
        if not found:
            continue
        _, near, far = max(found, key=lambda each: _trip_us(each[2]) / max(_trip_us(each[1]), 1.0))
        yield RuleFinding(
            Severity.CAUTION,
            Message(
                "network-floor-generators",
                "a round trip to {target} takes {far_ms:.3g} ms from {far} and {near_ms:.3g} ms from {near}: their "
                "network distances differ",
                target=target,
                far_ms=_trip_us(far) / 1e3,
                far=far.called,
                near_ms=_trip_us(near) / 1e3,
                near=near.called,
            ),
            [number for number, _, _ in found],
            [
                Evidence(at=f"trial {number}", figures={each.name: _trip_us(each) for each in ends})
                for number, *ends in found
            ],
            "place all generators in one zone, on hosts of one kind",
        )


def _ends(hosts: Sequence[GeneratorHost]) -> tuple[GeneratorHost, GeneratorHost] | None:
    known = [each for each in hosts if each.round_trip_us is not None]
    near, far = min(known, key=_trip_us, default=None), max(known, key=_trip_us, default=None)
    if near is None or far is None:
        return None
    apart_ms = (_trip_us(far) - _trip_us(near)) / 1e3
    return (near, far) if _is_apart(_trip_us(far) / max(_trip_us(near), 1.0), apart_ms) else None


def _trip_us(host: GeneratorHost) -> float:
    return host.round_trip_us or 0.0


def _evidence(target: str, path: _MeasuredPath) -> Evidence:
    at, measured = path
    figures: dict[str, float | str] = {
        "target": target,
        "round_trip_us": measured.least_us,
        "round_trip_median_us": measured.median_us,
    }
    if measured.generator is not None:
        figures["generator"] = measured.generator
    return Evidence(at=f"trial {at}", figures=figures)


def _statements(subject: Subject, target: str) -> float:
    sample = subject.by_target[target][0]
    executions = sum(row.executions or 0 for row in subject.statements(sample.number))
    return max(1.0, round(executions / sample.summary.succeeded)) if sample.summary.succeeded else 1.0


def _by_latency(subject: Subject) -> Iterator[RuleFinding]:
    known = {
        target: [sample for sample in samples if "latency_min_ms" in sample.figures]
        for target, samples in subject.by_target.items()
    }
    floors = {target: min(samples, key=_least_ms) for target, samples in known.items() if samples}
    if not floors:
        raise MissingError(Message("no-least-latency", "no minimum latency is reported"))
    if len(floors) == 1 and len(subject.by_target) > 1:
        raise MissingError(
            Message(
                "few-least-latencies", "the minimum latency of only {target} is reported", target=next(iter(floors))
            )
        )
    if len(floors) < 2:
        return
    low, high = min(floors.values(), key=_least_ms), max(floors.values(), key=_least_ms)
    ratio, apart_ms = _least_ms(high) / max(_least_ms(low), 1e-6), _least_ms(high) - _least_ms(low)
    if not _is_apart(ratio, apart_ms):
        return
    round_trips = _round_trips(low)
    near = [target for target, sample in floors.items() if _least_ms(sample) < (_least_ms(low) + apart_ms / 2)]
    yield RuleFinding(
        _severity(ratio, apart_ms),
        Message(
            "network-floor-latency",
            "the minimum latency is {least_ms:.3g} ms at {least_at} and {most_ms:.3g} ms at {most_at}, "
            "{statement_ms:.2f} ms for each of {statements:.0f} statements: the network distance between load and "
            "server differs; near: {near}; far: {far}"
            if round_trips
            else (
                "the minimum latency is {least_ms:.3g} ms at {least_at} and {most_ms:.3g} ms at {most_at}: the "
                "network distance between load and server differs; near: {near}; far: {far}"
            ),
            least_ms=_least_ms(low),
            least_at=low.target,
            most_ms=_least_ms(high),
            most_at=high.target,
            statement_ms=apart_ms / round_trips if round_trips else 0.0,
            statements=round_trips or 0.0,
            near=", ".join(near),
            far=", ".join(target for target in floors if target not in near),
        ),
        [sample.number for samples in subject.by_target.values() for sample in samples],
        [
            Evidence(
                at=sample.figure_location("latency_min_ms"), figures={"target": target, **sample.some("latency_min_ms")}
            )
            for target, sample in floors.items()
        ],
        "compare only targets with the same minimum latency, or measure again with the load at the same distance",
    )


def _least_ms(sample: Sample) -> float:
    return sample.figures["latency_min_ms"]


def _round_trips(sample: Sample) -> float | None:
    if sample.figures.get("tps") and "qps" in sample.figures:
        return round(sample.figures["qps"] / sample.figures["tps"])
    return None


RULE = Rule(
    "network-floor",
    "the round trip to each target before its trials, times the statements of a transaction: caution from 1.5 times "
    "and 0.5 ms apart, or 3 times and 0.1 ms, also between trials of one target; invalid from 2 times and 1 ms. For "
    "several generators, the farthest counts, and they must not differ among themselves by as much. If no round "
    "trip was measured, minimum latencies are compared in the same way",
    Severity.INVALID,
    "docs/design/method.md, Gates",
    _check,
    place=50,
    needs_rate=True,
    topic="network path",
)
