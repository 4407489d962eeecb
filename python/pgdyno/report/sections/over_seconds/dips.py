"""Dips: when, how many transactions were lost, what coincides with them, and what to try next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pgdyno.analyse.over_time.dips import Cause, Coincidence, Dip, ExplainedDip, trial_dips
from pgdyno.records import Outcome
from pgdyno.report import numbers
from pgdyno.report.report_content import Digest
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext, gettext_each, gettext_noop, ngettext

MOST_DIPS = 40
MOST_CAUSES = 3
"""Causes to name per dip; the strongest come first."""


@dataclass(frozen=True, slots=True)
class Try:
    """The next experiment."""

    cause: str
    why: str
    fragment: str
    """A fragment of a plan, in TOML."""


TRIES: Mapping[Cause, Try] = MappingProxyType(
    {
        Cause.PLANNED: Try(
            Cause.PLANNED.value,
            gettext_noop("if the plan's event causes the dip, it disappears without the event"),
            "[trial]\nrepeats = 10        # once with the event, once without it\n",
        ),
        Cause.CHECKPOINT: Try(
            Cause.CHECKPOINT.value,
            gettext_noop("if checkpoints cause the dips, fewer checkpoints cause fewer dips"),
            '[sweep.settings]\nmax_wal_size = ["1GB", "16GB"]\ncheckpoint_timeout = ["5min", "30min"]\n',
        ),
        Cause.FULL_PAGES: Try(
            Cause.FULL_PAGES.value,
            gettext_noop(
                "if full-page images in the WAL cause the dips, compressing them or rarer checkpoints make the dips "
                "flatter"
            ),
            '[sweep.settings]\nwal_compression = ["off", "lz4"]\ncheckpoint_timeout = ["5min", "30min"]\n',
        ),
        Cause.COMMIT: Try(
            Cause.COMMIT.value,
            gettext_noop("if sessions wait for WAL, less WAL or an asynchronous commit removes the dips"),
            '[sweep.settings]\nwal_compression = ["off", "lz4"]\nsynchronous_commit = ["on", "off"]\n',
        ),
        Cause.LOCKS: Try(
            Cause.LOCKS.value,
            gettext_noop("if sessions wait for row locks, more rows per session remove the dips"),
            "[workload]\nscale = 1000        # ten times the clients at least\n",
        ),
        Cause.LIGHT_LOCKS: Try(
            Cause.LIGHT_LOCKS.value,
            gettext_noop("if sessions wait for each other, fewer sessions wait less"),
            "[sweep]\nclients = [8, 16, 32]\n",
        ),
        Cause.STORAGE: Try(
            Cause.STORAGE.value,
            gettext_noop("if sessions wait for reads, a larger cache removes the dips"),
            '[sweep.settings]\nshared_buffers = ["256MB", "2GB"]\n',
        ),
        Cause.VACUUM: Try(
            Cause.VACUUM.value,
            gettext_noop("if vacuum causes the dips, a slower vacuum makes them flatter"),
            '[sweep.settings]\nautovacuum_vacuum_cost_delay = ["2ms", "20ms"]\n',
        ),
        Cause.STEAL: Try(
            Cause.STEAL.value,
            gettext_noop("if the hypervisor took CPU time, the dips recur at other times"),
            "[trial]\nrepeats = 10        # does it come back at the same second?\n",
        ),
        Cause.GENERATOR: Try(
            Cause.GENERATOR.value,
            gettext_noop("if the generator was at its limit, more workers remove the dips"),
            "[sweep]\nworkers = [4, 8]\n",
        ),
    }
)
UNEXPLAINED = Try(
    gettext_noop("unexplained"),
    gettext_noop("a dip that recurs at the same second has its cause in the server, any other in the machine"),
    '[trial]\nrepeats = 10\nduration = "120s"\n',
)
NOT_LOOKED = gettext_noop("unknown")


@dataclass(frozen=True, slots=True)
class Dips:
    summary: str
    table: Table | None
    tries: Sequence[Try]
    """Each cause once, in the language of the report."""


def dips_of(of: Digest) -> dict[int, Sequence[Dip]]:
    return {
        trial.number: trial_dips(of.run, trial.number) for trial in of.run.trials if trial.outcome is Outcome.FINISHED
    }


def costliest(dips: Mapping[int, Sequence[Dip]]) -> list[tuple[int, Dip]]:
    """Return trial and dip, the largest loss first."""
    return sorted(((number, dip) for number, found in dips.items() for dip in found), key=lambda pair: -pair[1].loss)


def dip_section(of: Digest, dips: Mapping[int, Sequence[Dip]], explained: Mapping[int, Sequence[ExplainedDip]]) -> Dips:
    """Return the most expensive dips first; `explained` are trials with a probe of the server."""
    every = costliest(dips)
    if not every:
        return Dips(
            ngettext("None in {count:,} finished trial.", "None in {count:,} finished trials.", len(dips)), None, ()
        )
    summary = gettext(
        "{dips} in {trials} of {all}: {lost} transactions lost. A dip is a period of at least 2 s well below the "
        "rolling median.",
        dips=ngettext("{count:,} dip", "{count:,} dips", len(every)),
        trials=numbers.trials(sum(bool(each) for each in dips.values())),
        all=f"{len(dips):,}",
        lost=f"{sum(dip.loss for _, dip in every):,.0f}",
    )
    trials = {trial.number: trial for trial in of.run.trials}
    rows, tries = [], []
    for number, dip in every[:MOST_DIPS]:
        cause, evidence, next_try = _explain_dip(dip, explained.get(number))
        if next_try is not None:
            tries.append(next_try)
        where = f"{of.trial_name(trials[number])}, {numbers.clients(trials[number].point.clients)}"
        times = (f"{dip.from_s:.0f}", f"{dip.to_s:.0f}", f"{100 * dip.depth:.0f}", f"{dip.loss:,.0f}")
        rows.append((str(number), where, cause, evidence, *times))
    headings = gettext_each("trial", "point", "coincides with", "evidence", "from, s", "to, s", "deepest, %", "lost")
    caption = gettext("Dips by transactions lost")
    if len(every) > MOST_DIPS:
        caption = gettext(
            "Dips by transactions lost, the {count} most expensive of {all}", count=MOST_DIPS, all=f"{len(every):,}"
        )
    return Dips(
        summary, Table(caption, headings, tuple(rows), 4), [_translate_try(each) for each in dict.fromkeys(tries)]
    )


def _translate_try(of: Try) -> Try:
    return Try(gettext(of.cause), gettext(of.why), of.fragment)


def _explain_dip(dip: Dip, explained: Sequence[ExplainedDip] | None) -> tuple[str, str, Try | None]:
    if explained is None:
        return gettext(NOT_LOOKED), gettext("no probe sampled the server"), None
    found = next((each.coincidences for each in explained if each.dip == dip), ())
    if not found:
        return (
            gettext(UNEXPLAINED.cause),
            gettext("nothing in the probe's data differs from quiet seconds"),
            UNEXPLAINED,
        )
    figures = [_figures(each, alone=len(found) == 1) for each in found[:MOST_CAUSES]]
    return gettext(found[0].cause.value), gettext("; ").join(figures), TRIES[found[0].cause]


def _figures(each: Coincidence, *, alone: bool) -> str:
    during, quiet = numbers.round_text(each.during, 2), numbers.round_text(each.quiet, 2)
    if each.unit == "share":
        during, quiet = f"{100 * each.during:.0f} %", f"{100 * each.quiet:.0f} %"
    figures = {
        "number": gettext("event {number} of the plan", number=f"{each.during:.0f}"),
        "ms": gettext("{ms} ms of syncing", ms=f"{each.during:,.0f}"),
        "sessions": gettext("{during} sessions, {quiet} in quiet seconds", during=during, quiet=quiet),
        "share": gettext("{during} of the time, {quiet} in quiet seconds", during=during, quiet=quiet),
        "images a second": gettext("{during} images a second, {quiet} in quiet seconds", during=during, quiet=quiet),
    }[each.unit]
    return figures if alone or each.cause is Cause.PLANNED else f"{gettext(each.cause.value)}: {figures}"
