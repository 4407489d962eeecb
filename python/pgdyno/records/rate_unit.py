"""What an imported throughput counts: transactions, only TPC-C's new orders (HammerDB prints both, NOPM and TPM),
queries, or transactions within a time that contains connecting, as the first of the two rates that pgbench prints up to
version 13.
"""

import math
from collections.abc import Iterable, Sequence

from pgdyno.records.imported import Imported
from pgdyno.records.trial import TrialRecord

TRANSACTIONS, NEW_ORDERS, QUERIES = "transactions", "new orders", "queries"
WITH_CONNECTING = "transactions, connecting included"


def rate_unit(trial: TrialRecord) -> str:
    """Return what the throughput of `trial` counts, according to its figures as printed."""
    figures = {} if trial.imported is None else trial.imported.figures
    if trial.summary is None or trial.summary.tps is None or trial.imported is None:
        return TRANSACTIONS
    if "tps" in figures:
        return WITH_CONNECTING if _contains_connecting(trial.summary.tps, trial.imported) else TRANSACTIONS
    if "nopm" in figures and math.isclose(trial.summary.tps, figures["nopm"] / 60):
        return NEW_ORDERS
    return QUERIES if "qps" in figures and "tpm" not in figures else TRANSACTIONS


def counts_queries(trials: Iterable[TrialRecord]) -> bool:
    measured = [trial for trial in trials if trial.summary is not None]
    return bool(measured) and all(rate_unit(trial) == QUERIES for trial in measured)


def _contains_connecting(tps: float, imported: Imported) -> bool:
    without = imported.figures.get("tps_excluding_connections")
    if imported.load.get("connections") == "each transaction" or tps == without:
        return False
    return without is not None or "tps_including_connections" in imported.figures


def in_one_unit(runs: Iterable[Sequence[TrialRecord]]) -> list[list[TrialRecord]]:
    """Return the trials of `runs` with new orders as throughput if their units differ and new orders are known for
    all, and without connecting where that rate is known; otherwise unchanged.
    """
    trials = [[_without_connecting(trial) for trial in of] for of in runs]
    every = [trial for of in trials for trial in of]
    has_new_orders = all(trial.imported is not None and "nopm" in trial.imported.figures for trial in every)
    if not has_new_orders or len({rate_unit(trial) for trial in every}) < 2:
        return trials
    return [[_by_new_orders(trial) for trial in of] for of in trials]


def _without_connecting(trial: TrialRecord) -> TrialRecord:
    without = {} if trial.imported is None else trial.imported.figures
    if rate_unit(trial) != WITH_CONNECTING or trial.summary is None or "tps_excluding_connections" not in without:
        return trial
    summary = trial.summary.model_copy(update={"tps": without["tps_excluding_connections"]})
    return trial.model_copy(update={"summary": summary})


def _by_new_orders(trial: TrialRecord) -> TrialRecord:
    if trial.summary is None or trial.imported is None:
        return trial
    tps = trial.imported.figures["nopm"] / 60
    return trial.model_copy(update={"summary": trial.summary.model_copy(update={"tps": tps})})
