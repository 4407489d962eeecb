"""The pairs of a duet: two trials at the same time, each on half of the processors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgdyno.analyse.over_time.duet import duet_ratio
from pgdyno.experiment.trials.at_once import Side, is_finished
from pgdyno.records import DuetRecord
from pgdyno.run import TrialResult


def duet_records(sides: Sequence[Side], results: Sequence[TrialResult]) -> list[DuetRecord]:
    """Return the record of each trial of a pair, with the ratio of the two if both have finished."""
    ratio = duet_ratio(results[0].events, results[1].events) if is_finished(results) else None
    records = []
    for side, sign in zip(sides, (-1, 1), strict=True):
        record = DuetRecord(partner=side.partners[0].number, processors=list(side.processors))
        if ratio is not None:
            record = record.model_copy(
                update={"tps_ratio": math.exp(sign * ratio.log), "seconds": round(ratio.seconds, 6)}
            )
        records.append(record)
    return records
