"""Two runs as the report and the archive compare them, with all confounders."""

from __future__ import annotations

from dataclasses import replace

from pgdyno.analyse.metric import Metric
from pgdyno.analyse.pairs import Arms, Confounder, between
from pgdyno.audit.pairing import pairing_between, topic_of_pair, words_of
from pgdyno.fingerprint.compare import topic_of
from pgdyno.report.gathered import Gathered
from pgdyno.store import RunData

StoredRun = RunData | Gathered


def arms_between(base: StoredRun, other: StoredRun, metric: Metric) -> Arms:
    """Return `analyse.pairs.between` with confounders. Raises UsageError.

    `pgdyno compare` refuses runs that measured different things; a page for both shows them, and names the reasons in
    the same place.
    """
    found = pairing_between(base, other)
    refused = [Confounder(topic_of(each.field), each.field, words_of(each)) for each in found.refused]
    refused += [Confounder(topic_of_pair(each), each.rule, each.said) for each in found.invalid]
    return replace(between(base, other, metric), confounders=(*refused, *found.confounders))
