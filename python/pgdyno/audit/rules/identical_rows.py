"""Reports identical figures under two names."""

from collections.abc import Iterator, Mapping
from itertools import combinations

from pgdyno.audit.finding import Evidence, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message

MEASURED = (
    "tps", "tps_excluding_connections", "tpm", "nopm", "qps", "reads", "writes", "transactions", "latency_mean_ms",
    "latency_stddev_ms", "latency_min_ms", "latency_max_ms", "latency_p95_ms", "latency_p99_ms",
)  # fmt: skip
"""What a trial measures, without what was requested."""
CERTAIN = 4
"""This many equal figures are no coincidence."""
SEVERAL = 2
"""With fewer figures per row, two targets must share this many rows."""
DIGITS = 8
"""Significant digits of all figures of one row. Trials differ by about one percent, so all digits but the first two are
chance, and six digits agree once in a million pairs.
"""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    alike: dict[tuple[str, str, bool], list[tuple[Sample, Sample]]] = {}
    by_figures: dict[tuple[float, ...], list[Sample]] = {}
    for sample in subject.samples:
        # an idle trial has no figures
        if sample.rate > 0 or subject.imported:
            by_figures.setdefault(tuple(_measured_figures(sample).values()), []).append(sample)
    for group in by_figures.values():
        for a, b in combinations(group, 2):
            is_certain = subject.imported or (len(_measured_figures(a)) >= CERTAIN and _digits(a) >= DIGITS)
            if is_certain and list(_measured_figures(a)) == list(_measured_figures(b)) and _is_other(a, b):
                alike.setdefault((a.target, b.target, a.clients == b.clients), []).append((a, b))
    for (first, second, same_clients), pairs in alike.items():
        certain = len(_measured_figures(pairs[0][0])) >= CERTAIN
        many_digits = max(_digits(a) for a, _ in pairs) >= DIGITS
        if certain or many_digits or (same_clients and len(pairs) >= SEVERAL):
            yield _finding(first, second, pairs, certain=certain)


def _measured_figures(sample: Sample) -> Mapping[str, float]:
    return {name: sample.figures[name] for name in MEASURED if name in sample.figures}


def _digits(sample: Sample) -> int:
    return sum(len(f"{value:.15g}".replace(".", "").strip("0")) for value in _measured_figures(sample).values())


def _is_other(a: Sample, b: Sample) -> bool:
    """Return whether these are two places: a line that two parsers read is no copy. Few digits may agree by chance."""
    is_repeat = a.target == b.target and a.trial.point == b.trial.point
    return a.figure_location() != b.figure_location() and (
        not is_repeat or (len(_measured_figures(a)) >= CERTAIN and _digits(a) >= DIGITS)
    )


def _clients(sample: Sample) -> str:
    return f"{sample.clients} client{'' if sample.clients == 1 else 's'}"


def _finding(first: str, second: str, pairs: list[tuple[Sample, Sample]], *, certain: bool) -> RuleFinding:
    clients = ", ".join(dict.fromkeys(str(a.clients) for a, _ in pairs))
    if first == second and all(a.trial.point == b.trial.point for a, b in pairs):
        what = Message(
            "identical-rows-repeats",
            "repeats of {target} have the same figures at {clients} clients",
            target=first,
            clients=clients,
        )
    elif all(a.clients == b.clients for a, b in pairs):
        what = Message(
            "identical-rows",
            "{first} and {second} have the same figures at {clients} clients",
            first=first,
            second=second,
            clients=clients,
        )
    else:
        each = [f"{_clients(a)} of {first} and {_clients(b)} of {second}" for a, b in pairs]
        what = Message("identical-rows-other-clients", "{rows} have the same figures", rows="; ".join(each))
    return RuleFinding(
        Severity.INVALID if certain else Severity.CAUTION,
        what,
        sorted({sample.number for pair in pairs for sample in pair}),
        [
            Evidence(
                at=sample.figure_location(),
                figures={"target": sample.target, "clients": sample.clients, **_measured_figures(sample)},
            )
            for sample in dict.fromkeys(sample for pair in pairs for sample in pair)
        ],
        "one of them was not measured: leave it out, or request the original figures",
    )


RULE = Rule(
    "identical-rows",
    "two imported trials whose measured figures are all equal: invalid with at least four figures (of repeats of a "
    "point, with at least eight significant digits); of different targets or points, caution with fewer, if at least "
    "two rows of the same clients are equal, or if at least eight significant digits are",
    Severity.INVALID,
    "docs/design/method.md, Gates",
    _check,
    place=30,
)
