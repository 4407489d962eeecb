"""The figures of an earlier run at the same point, for comparison with a running trial."""

from __future__ import annotations

from pathlib import Path

from pgdyno.errors import PgdynoError
from pgdyno.live.entry import Entry
from pgdyno.live.index import Index
from pgdyno.live.watched import Baseline, Json, mean_of
from pgdyno.records import Outcome, TrialRecord
from pgdyno.store import load_run


def earlier(index: Index, run: Path) -> Baseline:
    """Search the last finished run of the same plan, and of the same fingerprint if both have one."""
    known: dict[str, list[TrialRecord]] = {}

    def at(slug: str, _arm: str, _clients: int) -> Json | None:
        try:
            before = _before(index.runs(), run.name)
            if before is None:
                return None
            if before.name not in known:
                known[before.name] = list(load_run(index.path(before.name)).trials)
        except PgdynoError:
            # the comparison is optional: an error must not break the page
            return None
        trials = [each for each in known[before.name] if _point(each.slug) == _point(slug)]
        found = mean_of([_result(each) for each in trials])
        return found and {**found, "of": before.name}

    return at


def _before(runs: list[Entry], name: str) -> Entry | None:
    """Return the newest of `runs`, which are newest first, with the same plan and fingerprint as `name`."""
    this = next((each for each in runs if each.name == name), None)
    if this is None:
        return None
    for each in runs:
        alike = (each.plan, each.workload) == (this.plan, this.workload) and each.started_at < this.started_at
        if alike and each.outcome == Outcome.FINISHED.value and each.fingerprint == this.fingerprint:
            return each
    return None


def _point(slug: str) -> str:
    """Return a slug without the trial's number."""
    return slug.partition("-")[2]


def _result(trial: TrialRecord) -> Json:
    summary = trial.summary
    latency = summary.latency_ns if summary else None
    p99_ms = latency.p99 / 1e6 if latency and latency.p99 is not None else None
    return {"outcome": trial.outcome.value, "tps": summary.tps if summary else None, "p99": p99_ms}
