"""The records that steps exchange and store on disk: format 1 of a run folder.

Times are ISO 8601 in UTC; latencies are nanoseconds unless a name says otherwise.
"""

from pgdyno.records.around import Consistency, Leftovers, Preparation, PrepareStep
from pgdyno.records.base import FORMAT, Outcome, Record, Stage
from pgdyno.records.beside import (
    EventEffect,
    EventOutcome,
    EventRecord,
    LedgerRange,
    LedgerRecord,
    ReplicaFigures,
    ReplicaLag,
)
from pgdyno.records.cloud import CloudGap, CloudRecord, CloudSource, CloudTold
from pgdyno.records.imported import Imported, ImportedClaim, ImportedFile, ImportedLine, ImportRecord, Printed
from pgdyno.records.machine import (
    Check,
    CheckVerdict,
    Fingerprint,
    Host,
    HostPrint,
    ServerFacts,
    ServerPrint,
    TargetRecord,
)
from pgdyno.records.measured import (
    ErrorCount,
    Failure,
    Generator,
    GeneratorHost,
    Latency,
    PhaseFigures,
    Point,
    ScriptSummary,
    Summary,
    WorkersTried,
)
from pgdyno.records.probe import (
    ALIGNED_US,
    ClockRecord,
    OverSshRecord,
    PlacedLines,
    ProbeRecord,
    StandbyProbeRecord,
)
from pgdyno.records.rent import RentRecord
from pgdyno.records.run import Attempt, KeptMessage, KeptScript, Manifest, SearchRecord
from pgdyno.records.trial import TrialRecord
from pgdyno.records.way import WayRecord
from pgdyno.records.workloads import StatementCounts, TpccFigures, TpccType

__all__ = [
    "ALIGNED_US",
    "FORMAT",
    "Attempt",
    "Check",
    "CheckVerdict",
    "ClockRecord",
    "CloudGap",
    "CloudRecord",
    "CloudSource",
    "CloudTold",
    "Consistency",
    "ErrorCount",
    "EventEffect",
    "EventOutcome",
    "EventRecord",
    "Failure",
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
    "KeptMessage",
    "KeptScript",
    "Latency",
    "LedgerRange",
    "LedgerRecord",
    "Leftovers",
    "Manifest",
    "Outcome",
    "OverSshRecord",
    "PhaseFigures",
    "PlacedLines",
    "Point",
    "Preparation",
    "PrepareStep",
    "Printed",
    "ProbeRecord",
    "Record",
    "RentRecord",
    "ReplicaFigures",
    "ReplicaLag",
    "ScriptSummary",
    "SearchRecord",
    "ServerFacts",
    "ServerPrint",
    "Stage",
    "StandbyProbeRecord",
    "StatementCounts",
    "Summary",
    "TargetRecord",
    "TpccFigures",
    "TpccType",
    "TrialRecord",
    "WayRecord",
    "WorkersTried",
]
