"""Sections, each a heading over blocks, and what they are made of: the analysed runs, and what several need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pgdyno.analyse.noise_grade import NoiseGrade
from pgdyno.analyse.over_time.dips import Dip
from pgdyno.analyse.scaling import NotFitted, UslFit, fit_curve
from pgdyno.analyse.series import Series
from pgdyno.records.base import FEWEST_PAIRS
from pgdyno.report.answers.answer import Answer, answer, shows_peak
from pgdyno.report.answers.noise import noise_grade
from pgdyno.report.charts import page_figures
from pgdyno.report.charts.page_figures import Figure
from pgdyno.report.report_content import Digest, Extras
from pgdyno.report.sections.figures.comparison import MOST_COMPARISONS, Compared, comparison_figure
from pgdyno.report.sections.figures.latency import loops_figure
from pgdyno.report.sections.figures.validity import Validity, validity
from pgdyno.report.sections.key_figures import BigNumber, noise_number, peak_numbers
from pgdyno.report.sections.over_seconds.dips import dips_of
from pgdyno.report.sections.section_blocks import Block
from pgdyno.report.table import Table
from pgdyno.report.translation import capital, gettext


@dataclass(frozen=True)
class Draft:
    of: Digest
    extras: Extras
    location: str = ""
    """The path or address of the run folder."""
    brief: bool = False
    """For a terminal or Markdown, where a report has fewer blocks than a page, and no answer's figures above them."""
    left_out: int = 0
    """Points that only the page has."""

    @classmethod
    def short(cls, of: Digest, extras: Extras) -> Draft:
        """Return the draft for a terminal or Markdown: of a search for settings, it has what was measured in pairs."""
        most = max((len(each.finished) for each in of.points), default=0)
        fewest = min(FEWEST_PAIRS, most) if of.manifest.finds_settings else 0
        points = tuple(each for each in of.points if len(each.finished) >= fewest)
        series = {each.series for each in points}
        curves = tuple(each for each in of.curves if each.series in series)
        left_out = len(of.points) - len(points)
        return cls(replace(of, points=points, curves=curves), extras, brief=True, left_out=left_out)

    @cached_property
    def said(self) -> Answer:
        return answer(self.of, self.extras)

    @cached_property
    def numbers(self) -> Sequence[BigNumber]:
        of, extras = self.of, self.extras
        numbers = peak_numbers(of, of.best, extras) if of.best is not None and shows_peak(of, self.said) else []
        if any(each.finished for each in of.points):
            numbers.insert(2, noise_number(self.noise))
        return numbers

    @cached_property
    def noise(self) -> NoiseGrade | None:
        return noise_grade(self.of, self.said.chief)

    def key_lines(self) -> list[str]:
        """Return the figures of the first screen, and how many rules of the audit passed."""
        figures = (f"{each.name}: {each.figure} {each.unit}".rstrip() + f" ({each.about})" for each in self.numbers)
        audited = [f"{gettext('Validity')}: {self.validity.line}"] if self.validity is not None else []
        return [*map(capital, figures), *audited]

    @cached_property
    def validity(self) -> Validity | None:
        return validity(self.extras.findings) if self.extras.findings is not None else None

    @cached_property
    def comparisons(self) -> Sequence[Compared]:
        # the comparison in the answer comes first, and its forest plot is on the first screen
        ordered = sorted(self.extras.comparisons, key=lambda each: each is not self.said.chief)[:MOST_COMPARISONS]
        return [comparison_figure(self.of, each, at) for at, each in enumerate(ordered)]

    @cached_property
    def fits(self) -> Mapping[Series, UslFit | NotFitted]:
        curves = () if self.brief else self.of.curves[: page_figures.FITTED_UP_TO]
        return {curve.series: fit_curve(curve) for curve in curves}

    @cached_property
    def curves(self) -> Figure | None:
        return page_figures.curves_figure(self.of, self.fits, self.extras)

    @cached_property
    def latency(self) -> Figure | None:
        return page_figures.latency_figure(self.of)

    @cached_property
    def spectrum(self) -> Figure | None:
        return page_figures.spectrum_figure(self.of)

    @cached_property
    def loops(self) -> tuple[Figure, Table] | None:
        return loops_figure(self.of)

    @cached_property
    def dips(self) -> Mapping[int, Sequence[Dip]]:
        return self.extras.dips if self.extras.dips is not None else dips_of(self.of)

    @cached_property
    def proof(self) -> Sequence[Figure]:
        """Return one or two figures for the first screen.

        These are the seconds around an operation, the forest plot of the first comparison or, without a comparison,
        throughput and p99 by clients; for a single point, the first that exists of: open vs closed loop, throughput,
        the latency spectrum.
        """
        operation = page_figures.operation_figure(self.of)
        if operation is not None:
            return [operation]
        chief = self.comparisons[0] if self.comparisons else None
        if chief is not None and chief.figure is not None:
            return [chief.first or chief.figure]
        if len(self.of.curves) == 1 and self.curves is not None and self.latency is not None:
            return [self.curves, self.latency]
        loops = self.loops[0] if self.loops is not None else None
        return [each for each in (loops, self.curves, self.spectrum) if each is not None][:1]

    def elsewhere(self, figure: Figure | None) -> Sequence[Figure]:
        """Return the figure, unless it is on the first screen."""
        return [figure] if figure is not None and (self.brief or figure not in self.proof) else []


@dataclass(frozen=True, slots=True)
class Section:
    id: str
    """The anchor on the page."""
    title: str
    """In English, for `gettext`."""
    blocks: Callable[[Draft], Sequence[Block]]
    """Reports leave it out without blocks, or with only absences. With `draft.brief`: for terminals and Markdown."""
    link: str = ""
    """Its name in the navigation, if that is not the title."""
