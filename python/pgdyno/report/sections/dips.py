"""Dips: when, how many transactions were lost, what was different then, and what to try next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno.analyse.dips import Dip, trial_dips
from pgdyno.records import Outcome, TrialRecord
from pgdyno.report import numbers
from pgdyno.report.digest import Digest
from pgdyno.report.extras import Beside
from pgdyno.report.sections.limits import wait_class
from pgdyno.report.tables import Table

MOST_DIPS = 40
NEAR_S = 2.0
"""A checkpoint that was counted so long before or after belongs to the dip."""
MORE_SESSIONS = 0.5
"""Of a wait that becomes the dip's evidence: sessions more than outside of it."""


@dataclass(frozen=True, slots=True)
class Try:
    """The next experiment."""

    cause: str
    why: str
    fragment: str
    """Of a plan, in TOML."""


TRIES: Mapping[str, Try] = {
    "checkpoint": Try(
        "checkpoint",
        "if checkpoints make the dips, fewer of them make fewer dips",
        '[sweep.settings]\nmax_wal_size = ["1GB", "16GB"]\ncheckpoint_timeout = ["5min", "30min"]\n',
    ),
    "autovacuum": Try(
        "autovacuum",
        "if vacuum makes the dips, a slower one makes them flatter",
        '[sweep.settings]\nautovacuum_vacuum_cost_delay = ["2ms", "20ms"]\n',
    ),
    "WAL": Try(
        "WAL",
        "if sessions wait for WAL, less of it or a commit that does not wait closes the dips",
        '[sweep.settings]\nwal_compression = ["off", "lz4"]\nsynchronous_commit = ["on", "off"]\n',
    ),
    "I/O": Try(
        "I/O",
        "if sessions wait for pages, more of them in memory closes the dips",
        '[sweep.settings]\nshared_buffers = ["256MB", "2GB"]\n',
    ),
    "Lock": Try(
        "Lock",
        "if sessions wait for rows, fewer of them for each row close the dips",
        "[workload]\nscale = 1000        # ten times the clients at least\n",
    ),
    "LWLock": Try(
        "LWLock", "if sessions wait for each other, fewer of them do less", "[sweep]\nclients = [8, 16, 32]\n"
    ),
    "CPU": Try(
        "CPU",
        "if sessions had no processor, somebody else used it",
        "[trial]\nrepeats = 10        # does it come back at the same second?\n",
    ),
}
UNEXPLAINED = Try(
    "unexplained",
    "a dip that comes back at the same second has a cause in the server, one that does not has it in the machine",
    '[trial]\nrepeats = 10\nduration = "120s"\n',
)


@dataclass(frozen=True, slots=True)
class Dips:
    """What the section shows."""

    summary: str
    table: Table | None
    tries: Sequence[Try]
    """Each cause once."""


def dips_of(of: Digest) -> dict[int, list[Dip]]:
    """Dips of every finished trial."""
    return {
        trial.number: trial_dips(of.run, trial.number) for trial in of.run.trials if trial.outcome is Outcome.FINISHED
    }


def costliest(dips: Mapping[int, Sequence[Dip]]) -> list[tuple[int, Dip]]:
    """Trial and dip, the largest loss first."""
    return sorted(((number, dip) for number, found in dips.items() for dip in found), key=lambda pair: -pair[1].loss)


def dip_section(of: Digest, dips: Mapping[int, Sequence[Dip]], besides: Mapping[int, Beside]) -> Dips:
    """The deepest losses first; evidence as far as a probe was there."""
    trials = {trial.number: trial for trial in of.run.trials}
    every = costliest(dips)
    if not every:
        return Dips(f"None in {numbers.count(len(dips), 'finished trial')}.", None, ())
    lost = sum(dip.loss for _, dip in every)
    summary = (
        f"{numbers.count(len(every), 'dip')} in {numbers.count(sum(bool(each) for each in dips.values()), 'trial')} of "
        f"{len(dips):,}: {lost:,.0f} transactions lost. A dip is 2 s or more well under the rolling median."
    )
    rows, causes = [], []
    for number, dip in every[:MOST_DIPS]:
        cause, evidence = _cause(trials[number], dip, besides.get(number))
        causes.append(cause)
        where = f"{of.trial_name(trials[number])}, {numbers.count(trials[number].point.clients, 'client')}"
        times = (f"{dip.from_s:.0f}", f"{dip.to_s:.0f}", f"{100 * dip.depth:.0f}", f"{dip.loss:,.0f}")
        rows.append((str(number), where, cause, evidence, *times))
    headings = ("trial", "point", "cause", "evidence", "from, s", "to, s", "deepest, %", "lost")
    more = f", the {MOST_DIPS} that cost most of {len(every):,}" if len(every) > MOST_DIPS else ""
    table = Table(f"Dips by transactions lost{more}; times count the warm-up", headings, tuple(rows), 4)
    tries = [TRIES.get(cause, UNEXPLAINED) for cause in dict.fromkeys(causes)]
    return Dips(summary, table, tries)


def _cause(trial: TrialRecord, dip: Dip, beside: Beside | None) -> tuple[str, str]:
    for event in trial.events:
        began = None if event.began_s is None else trial.warmup_s + event.began_s
        if began is not None and dip.from_s - NEAR_S <= began <= dip.to_s:
            return event.do, f"the plan's {event.do} at {began:.0f} s"
    if beside is None:
        return "not known", "no probe beside it"
    for each in beside.series:
        at = each.step * beside.step_s
        if each.value > 0 and dip.from_s - NEAR_S - beside.step_s <= at <= dip.to_s + NEAR_S:
            if each.source == "checkpoints":
                return "checkpoint", f"a checkpoint ({each.metric}) at {at:.0f} s"
            if each.metric == "autovacuums":
                return "autovacuum", f"an autovacuum ended at {at:.0f} s"
    return _waits(dip, beside)


def _waits(dip: Dip, beside: Beside) -> tuple[str, str]:
    """The wait that had most more sessions in the dip than outside."""
    first, end = int(dip.from_s / beside.step_s), max(int(dip.to_s / beside.step_s), 1)
    inside: dict[tuple[str, str], float] = defaultdict(float)
    outside: dict[tuple[str, str], float] = defaultdict(float)
    last = max((each.step for each in beside.waits), default=0)
    for each in beside.waits:
        of = (wait_class(each.wait_type, each.wait), each.wait or each.wait_type)
        (inside if first <= each.step < end else outside)[of] += each.sessions
    within, around = max(end - first, 1), max(last + 1 - (end - first), 1)
    grown = {key: value / within - outside[key] / around for key, value in inside.items()}
    chief = max(grown, key=lambda key: grown[key], default=None)
    if chief is None or grown[chief] < MORE_SESSIONS:
        return "unexplained", "no wait grew, no checkpoint and no vacuum was near"
    before, then = outside[chief] / around, inside[chief] / within
    return chief[0], f"{numbers.rounded(then, 2)} sessions in {chief[1]}, {numbers.rounded(before, 2)} outside of it"
