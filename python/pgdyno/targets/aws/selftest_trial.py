"""A trial on the servers of a selftest, and what was told of it."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.plan.model import Plan
from pgdyno.records import CloudRecord, CloudSource, CloudTold, Outcome, TrialRecord
from pgdyno.targets.aws.life import Rental
from pgdyno.targets.aws.selftest_checks import Tally, checks_of
from pgdyno.targets.provider import SelftestTrial
from pgdyno.units import format_duration


def try_a_trial(tally: Tally, plan: Plan, rental: Rental, trial: Callable[[Plan], SelftestTrial]) -> None:
    """Runs `plan` by `trial`, on the servers of `rental`, which stay up.

    Raises PgdynoError only where that is none of the servers' doing.
    """
    with tally.trying("trial", "generator", "cloudwatch", "insights", "log"):
        # the run takes what is up, and leaves it up
        rental.journal.release()
        try:
            done = trial(plan)
        finally:
            rental.journal.hold()
        record = done.record
        succeeded = record.summary.succeeded if record.summary is not None else None
        why = record.failure or f"{succeeded or 0:,} transactions"
        tally.tell("trial", record.outcome is Outcome.FINISHED, f"{why}, {done.folder}")
        _generator(tally, record)
        _told(tally, done.told)


def _generator(tally: Tally, record: TrialRecord) -> None:
    way = record.way
    if way is None or way.clock_uncertainty_us is None:
        tally.tell("generator", False, "neither round trips nor the clock were measured")
        return
    where = f"a round trip of {way.median_us:,.0f} µs in {way.generator_zone}, the server in {way.server_zone}"
    clock = f"clocks to {way.clock_uncertainty_us / 1000:,.1f} ms"
    tally.tell("generator", way.generator_zone == way.server_zone, f"{where}; {clock}")


def _told(tally: Tally, kept: CloudRecord | None) -> None:
    """Of Amazon's sources."""
    sources = {told.source.value: told for told in kept.sources} if kept is not None else {}
    for check in checks_of(tally.kind):
        if check.key not in {each.value for each in CloudSource}:
            continue
        if check.key in sources:
            tally.tell(check.key, *_verdict(sources[check.key], quiet=tally.kind == "aurora"))
        else:
            tally.tell(check.key, False, "nothing was asked for")


def _verdict(told: CloudTold, *, quiet: bool) -> tuple[bool, str]:
    """`quiet`: its log may have nothing to say."""
    if told.message is not None:
        return False, told.message
    if told.gaps:
        lacking_s = sum(each.to_s - each.from_s for each in told.gaps)
        return False, f"{told.figures:,} figures, and {format_duration(lacking_s)} are missing"
    if told.source is CloudSource.LOG:
        return told.figures > 0 or quiet, f"{told.figures:,} lines"
    return told.figures > 0, f"{told.figures:,} figures, none missing"
