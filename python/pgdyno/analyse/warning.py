"""What a reader has to know before believing a figure. A warning is a value, not an exception."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class WarningCode(StrEnum):
    """Kinds of warnings; the text of each names the figures."""

    ONE_TRIAL = "one-trial"
    FEW_TRIALS = "few-trials"
    FAILED_TRIALS = "failed-trials"
    INTERRUPTED_TRIALS = "interrupted-trials"
    NO_TRIALS = "no-trials"
    NO_LATENCY = "no-latency"
    HISTOGRAM_MISSING = "histogram-missing"
    HISTOGRAM_BROKEN = "histogram-broken"
    ERRORS = "errors"
    PEAK_AT_EDGE = "peak-at-edge"
    KNEE_WITHOUT_INTERVALS = "knee-without-intervals"
    KNEE_NOT_DETERMINED = "knee-not-determined"


@dataclass(frozen=True, slots=True)
class AnalysisWarning:
    """One warning: a code for programs, a sentence for people."""

    code: WarningCode
    message: str
    """Lowercase, one clause or two, without the name of the point it belongs to."""
