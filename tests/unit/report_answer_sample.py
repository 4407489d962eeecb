"""Runs with each kind of answer, and where answers are shown."""

import io
import math
from collections.abc import Callable, Sequence
from typing import cast

from rich.console import Console

from pgdyno.audit import Finding, Severity
from pgdyno.records import PhaseFigures, Point
from pgdyno.report.answers.answer import Answer, answer
from pgdyno.report.charts.page_figures import curves_figure
from pgdyno.report.report_content import Extras, digest
from pgdyno.report.several_runs import arms_of, comparisons_of, left_out_of
from pgdyno.report.terminal.run_report import print_report
from tests.present import present
from tests.unit.report_sample import SampleRun, add_trial, manifest, render_html, sweep, with_knee
from tests.unit.test_report_html import Page


def extras_of(run: SampleRun, findings: Sequence[Finding] | None = None) -> Extras:
    of = digest(run)
    left_out = left_out_of(of, findings or ())
    return Extras(comparisons=comparisons_of(of, left_out), arms=arms_of(of), findings=findings, left_out=left_out)


def answered(run: SampleRun, findings: Sequence[Finding] | None = None) -> Answer:
    return answer(digest(run), extras_of(run, findings))


def shown(run: SampleRun, width: int = 80, findings: Sequence[Finding] | None = None) -> list[str]:
    to = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None, legacy_windows=False)
    print_report(digest(run), to, extras_of(run, findings))
    return cast("io.StringIO", to.file).getvalue().splitlines()


def curves_title(run: SampleRun) -> str:
    return present(curves_figure(digest(run), extras=extras_of(run))).title


def page(run: SampleRun) -> Page:
    return Page(render_html(run, "here", extras_of(run)))


def arms(names: Sequence[str], gains: Sequence[float], repeats: int = 8, shake: float = 0.004) -> SampleRun:
    """Three numbers of clients under arms that are `gains` as fast."""
    run = SampleRun(manifest(names, trials_planned=3 * len(names) * repeats))
    for repeat in range(1, repeats + 1):
        for clients, tps in ((1, 1000.0), (4, 3900.0), (16, 5000.0)):
            for name, gain in zip(names, gains, strict=True):
                noise = 1 + shake * math.sin(7 * repeat + clients + 50 * gain)
                add_trial(run, name, clients, tps * gain * noise, repeat=repeat, seconds=2)
    return run


def at_rates(
    rates: Sequence[float], target: str = "pg18", served: float = 1.0, of: SampleRun | None = None
) -> SampleRun:
    """Adds three trials at each of `rates`, of which `served` was served, to the run `of`, or to a new one."""
    run = of or SampleRun(manifest((target,)))
    for repeat in range(1, 4):
        for rate in rates:
            point, skipped = Point(clients=8, protocol="prepared", rate=rate), round(rate * 2 * (1 - served))
            p50 = 900 + 10 * repeat
            add_trial(run, target, 8, rate * served, p50, repeat=repeat, seconds=2, point=point, skipped=skipped)
    return run


def in_phases() -> SampleRun:
    phases = [
        {"name": "rise", "rate": {"from": 100, "to": 900}},
        {"name": "hold", "rate": 900},
        {"name": "settle", "rate": 100},
    ]
    run = SampleRun(manifest(plan={**manifest().plan, "phase": phases}))
    for repeat in (1, 2, 3):
        summary = present(add_trial(run, "pg18", 8, 600, repeat=repeat, seconds=2).summary)
        for name, tps, p99_us in (("rise", 500, 2000), ("hold", 900, 8000), ("settle", 100, 1000)):
            latency = {"p50": 400_000, "p99": p99_us * 1000 + 1000 * repeat}
            figures = PhaseFigures(
                name=name, result=name != "settle", measured_s=5, scheduled=5 * tps, succeeded=5 * tps, failed=0,
                skipped=3, unstarted=0, tps=tps + repeat,
                latency_ns=present(summary.latency_ns).model_copy(update=latency),
            )  # fmt: skip
            summary.phases.append(figures)
    return run


def invalid() -> Finding:
    return Finding(
        rule="littles-law", severity=Severity.INVALID, trials=[1], message="the load was another", evidence=[],
        advice="measure anew", source="x",
    )  # fmt: skip


RUNS: dict[str, Callable[[], SampleRun]] = {
    "two arms": lambda: arms(("pg17", "pg18"), (1.0, 1.06)),
    "two arms alike": lambda: arms(("pg17", "pg18"), (1.0, 1.01), repeats=3, shake=0.03),
    "three arms": lambda: arms(("pg16", "pg17", "pg18"), (1.0, 1.002, 1.06)),
    "too few pairs": lambda: arms(("pg17", "pg18"), (1.0, 1.06), repeats=1),
    "a rate": lambda: at_rates([1000.0]),
    "rates": lambda: at_rates([500.0, 1000.0]),
    "phases": in_phases,
    "one arm": with_knee,
    "one arm once": lambda: sweep(clients=(1, 4), repeats=1),
}
