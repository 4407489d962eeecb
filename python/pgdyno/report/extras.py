"""The content of a page besides the run's own figures; each part may be absent, and the page says so."""

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
    """Samples of the probe during one trial, in steps of their own."""

    step_s: float
    series: Sequence[SeriesStep] = ()
    waits: Sequence[WaitStep] = ()
    minutes: Sequence[SeriesStep] = ()
    """Of a rented server: the metrics of its provider."""
    load: Sequence[WaitStep] = ()
    """Likewise: active sessions as the provider samples them."""
    checkpoints: Sequence[LoggedCheckpoint] = ()
    """Checkpoints in the log of a rented server."""


@dataclass(frozen=True, slots=True)
class Extras:
    findings: Sequence[Finding] | None = None
    """None without an audit."""
    comparisons: Sequence[Comparison] = ()
    arms: Mapping[Series, str] = field(default_factory=dict)
    """The arm of the comparisons that each series belongs to."""
    left_out: Collection[int] = ()
    """Trials that the comparisons leave out, because the audit found them invalid."""
    alike_settings: Collection[str] = ()
    """Settings that only some targets changed, to the default of the others."""
    apart: Sequence[str] = ()
    """Runs that have no point in common with the first: they are shown, and not compared."""
    published: Published | None = None
    prices: PriceList | None = None
    besides: Mapping[int, Beside] = field(default_factory=dict)
    """By trial; those with a probe."""
    processes: Mapping[int, Sequence[ProcessSum]] = field(default_factory=dict)
    """By trial, for trials that represent a peak."""
    tables: Mapping[int, Sequence[TableSum]] = field(default_factory=dict)
    server_statements: Mapping[int, Sequence[ServerStatementSum]] = field(default_factory=dict)
    """The same."""
    differences: Sequence[Difference] = ()
    """Differences between the fingerprints of the runs."""
    limits: Mapping[int, SeenBeside] = field(default_factory=dict)
    """Averages of the probe, by trial, for trials that represent a peak."""
    explained: Mapping[int, Sequence[ExplainedDip]] = field(default_factory=dict)
    """Dips with what coincides, by trial, for trials with a probe of the server."""
    dips: Mapping[int, Sequence[Dip]] | None = None
    """By finished trial; None if not computed."""
    unseen: int = 0
    """Trials with a probe whose samples were not read: of a large sweep, only those that represent a point are."""

    def ranks(self, best: Series, worst: Series) -> bool:
        """Return whether a title may rank `best` first: for arms, only if their comparison is significant."""
        names = self.arms.get(best), self.arms.get(worst)
        verdicts = {(each.base, each.other): each.chief.verdict for each in self.comparisons if each.chief is not None}
        is_faster = verdicts.get((names[1] or "", names[0] or "")) is Verdict.FASTER
        is_slower = verdicts.get((names[0] or "", names[1] or "")) is Verdict.SLOWER
        return not self.comparisons or is_faster or is_slower


NO_EXTRAS = Extras()
