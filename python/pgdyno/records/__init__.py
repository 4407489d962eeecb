"""The records that steps exchange and store on disk: format 1 of a run folder.

Times are ISO 8601 in UTC; latencies are nanoseconds unless a name says otherwise.

A module is loaded when one of its names is first used, because commands that list runs need few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgdyno.records.base import FORMAT, FailureId, KeptMessage, Outcome, Record, Stage
    from pgdyno.records.during_trial import (
        CapturedWait,
        ClassLikeness,
        CloudGap,
        CloudRecord,
        CloudReport,
        CloudSource,
        EventEffect,
        EventOutcome,
        EventRecord,
        LedgerRange,
        LedgerRecord,
        Likeness,
        ReplicaFigures,
        ReplicaLag,
    )
    from pgdyno.records.imported import (
        Imported,
        ImportedClaim,
        ImportedFile,
        ImportedLine,
        ImportRecord,
        Printed,
        UnusedLine,
    )
    from pgdyno.records.machine import (
        Check,
        CheckVerdict,
        Fingerprint,
        Host,
        HostPrint,
        RentRecord,
        ServerFacts,
        ServerPrint,
        TargetRecord,
    )
    from pgdyno.records.manifest import (
        Attempt,
        BudgetRecord,
        ConfirmedDifference,
        KeptCapture,
        KeptScript,
        Manifest,
        SearchRecord,
        SettingLine,
        StoppingRule,
        TargetVerdict,
    )
    from pgdyno.records.measured import (
        ErrorCount,
        Failure,
        Generator,
        GeneratorHost,
        Latency,
        PhaseFigures,
        ProfileRecord,
        ReplayFigures,
        ScriptSummary,
        StatementCounts,
        Summary,
        TpccFigures,
        TpccType,
        TpchFigures,
        TpchTiming,
        WorkersTried,
    )
    from pgdyno.records.point import Point
    from pgdyno.records.probe import (
        ALIGNED_US,
        ClockRecord,
        OverSshRecord,
        PlacedLines,
        ProbeRecord,
        StandbyProbeRecord,
    )
    from pgdyno.records.trial import (
        Consistency,
        DuetRecord,
        Leftovers,
        NetworkPathRecord,
        Preparation,
        PrepareStep,
        TrialRecord,
    )

__all__ = [
    "ALIGNED_US",
    "FORMAT",
    "Attempt",
    "BudgetRecord",
    "CapturedWait",
    "Check",
    "CheckVerdict",
    "ClassLikeness",
    "ClockRecord",
    "CloudGap",
    "CloudRecord",
    "CloudReport",
    "CloudSource",
    "ConfirmedDifference",
    "Consistency",
    "DuetRecord",
    "ErrorCount",
    "EventEffect",
    "EventOutcome",
    "EventRecord",
    "Failure",
    "FailureId",
    "Fingerprint",
    "Generator",
    "GeneratorHost",
    "Host",
    "HostPrint",
    "ImportRecord",
    "Imported",
    "ImportedClaim",
    "ImportedFile",
    "ImportedLine",
    "KeptCapture",
    "KeptMessage",
    "KeptScript",
    "Latency",
    "LedgerRange",
    "LedgerRecord",
    "Leftovers",
    "Likeness",
    "Manifest",
    "NetworkPathRecord",
    "Outcome",
    "OverSshRecord",
    "PhaseFigures",
    "PlacedLines",
    "Point",
    "Preparation",
    "PrepareStep",
    "Printed",
    "ProbeRecord",
    "ProfileRecord",
    "Record",
    "RentRecord",
    "ReplayFigures",
    "ReplicaFigures",
    "ReplicaLag",
    "ScriptSummary",
    "SearchRecord",
    "ServerFacts",
    "ServerPrint",
    "SettingLine",
    "Stage",
    "StandbyProbeRecord",
    "StatementCounts",
    "StoppingRule",
    "Summary",
    "TargetRecord",
    "TargetVerdict",
    "TpccFigures",
    "TpccType",
    "TpchFigures",
    "TpchTiming",
    "TrialRecord",
    "UnusedLine",
    "WorkersTried",
]

_MODULES = ("base", "point", "imported", "machine", "measured", "manifest", "probe", "during_trial", "trial")
"""Each imports only earlier ones."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class or a constant
    for module in _MODULES if name in __all__ else ():
        found = vars(import_module(f"{__name__}.{module}"))
        if name in found:
            return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
