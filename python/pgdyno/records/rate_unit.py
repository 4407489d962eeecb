"""What an imported throughput counts: transactions, or only TPC-C's new orders. HammerDB prints both, NOPM and TPM."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from pgdyno.records.trial import TrialRecord

TRANSACTIONS, NEW_ORDERS = "transactions", "new orders"


def rate_unit(trial: TrialRecord) -> str:
    """Return what the throughput of `trial` counts, according to its figures as printed."""
    figures = {} if trial.imported is None else trial.imported.figures
    if trial.summary is None or trial.summary.tps is None or "nopm" not in figures or "tps" in figures:
        return TRANSACTIONS
    return NEW_ORDERS if math.isclose(trial.summary.tps, figures["nopm"] / 60) else TRANSACTIONS


def in_one_unit(runs: Iterable[Sequence[TrialRecord]]) -> list[list[TrialRecord]]:
    """Return the trials of `runs` with new orders as throughput if their units differ and new orders are known for
    all; otherwise unchanged.
    """
    trials = [list(of) for of in runs]
    every = [trial for of in trials for trial in of]
    has_new_orders = all(trial.imported is not None and "nopm" in trial.imported.figures for trial in every)
    if not has_new_orders or len({rate_unit(trial) for trial in every}) < 2:
        return trials
    return [[_by_new_orders(trial) for trial in of] for of in trials]


def _by_new_orders(trial: TrialRecord) -> TrialRecord:
    if trial.summary is None or trial.imported is None:
        return trial
    tps = trial.imported.figures["nopm"] / 60
    return trial.model_copy(update={"summary": trial.summary.model_copy(update={"tps": tps})})
