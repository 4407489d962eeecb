"""What stands on a page beside the run's own figures; each part may be absent, and the page says so."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pgdyno.analyse.compare import Comparison, Verdict
from pgdyno.analyse.dips import Dip
from pgdyno.analyse.evidence import ExplainedDip
from pgdyno.analyse.price import PriceList
from pgdyno.analyse.series import Series
from pgdyno.audit import Finding
from pgdyno.fingerprint import Difference
from pgdyno.published import Published
from pgdyno.store.beside import ProcessSum, SeriesStep, WaitStep
from pgdyno.store.cloud import LoggedCheckpoint
from pgdyno.store.inside import ServerStatementSum, TableSum
from pgdyno.store.limits import SeenBeside


@dataclass(frozen=True, slots=True)
class Beside:
    """What the probe saw beside one trial, in steps of its own."""

    step_s: float
    series: Sequence[SeriesStep] = ()
    waits: Sequence[WaitStep] = ()
    minutes: Sequence[SeriesStep] = ()
    """Of a rented server: CloudWatch's figures."""
    load: Sequence[WaitStep] = ()
    """Likewise: active sessions by Performance Insights."""
    checkpoints: Sequence[LoggedCheckpoint] = ()
    """Likewise: in the server's log."""


@dataclass(frozen=True, slots=True)
class Extras:
    """All of it."""

    findings: Sequence[Finding] | None = None
    """None: nobody audited."""
    comparisons: Sequence[Comparison] = ()
    arms: Mapping[Series, str] = field(default_factory=dict)
    """The arm of the comparisons that each series belongs to."""
    left_out: Collection[int] = ()
    """Trials that the comparisons go without, for the audit calls them invalid."""
    alike_settings: Collection[str] = ()
    """Settings that only some targets changed, to what is the default of the others."""
    apart: Sequence[str] = ()
    """Runs that have no point in common with the first: they stand beside it, and are not compared."""
    published: Published | None = None
    prices: PriceList | None = None
    besides: Mapping[int, Beside] = field(default_factory=dict)
    """By trial; those with a probe."""
    processes: Mapping[int, Sequence[ProcessSum]] = field(default_factory=dict)
    """By trial, of the trials that stand for a peak."""
    tables: Mapping[int, Sequence[TableSum]] = field(default_factory=dict)
    server_statements: Mapping[int, Sequence[ServerStatementSum]] = field(default_factory=dict)
    """Likewise."""
    differences: Sequence[Difference] = ()
    """Of the fingerprints of the runs that are set beside each other."""
    limits: Mapping[int, SeenBeside] = field(default_factory=dict)
    """What the probe saw on average, by trial; of those that stand for a peak."""
    explained: Mapping[int, Sequence[ExplainedDip]] = field(default_factory=dict)
    """Dips with what coincides, by trial; of those whose probe looked at the server."""
    dips: Mapping[int, Sequence[Dip]] | None = None
    """By finished trial; None: nobody looked yet."""
    unseen: int = 0
    """Trials with a probe whose samples were not read: of a large sweep, what stands for each point is."""

    def ranks(self, best: Series, worst: Series) -> bool:
        """Whether a title may name `best` as the higher one: of arms only where their comparison is settled so."""
        names = self.arms.get(best), self.arms.get(worst)
        verdicts = {(each.base, each.other): each.chief.verdict for each in self.comparisons if each.chief is not None}
        is_faster = verdicts.get((names[1] or "", names[0] or "")) is Verdict.FASTER
        is_slower = verdicts.get((names[0] or "", names[1] or "")) is Verdict.SLOWER
        return not self.comparisons or is_faster or is_slower


NO_EXTRAS = Extras()
