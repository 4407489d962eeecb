"""The blocks of sections, which renderers write without knowing the section."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from pgdyno.report.charts.page_figures import Figure
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of its own look; ordinary ones are strings."""

    text: str
    look: str = "behind"
    """CSS class."""


@dataclass(frozen=True, slots=True)
class Heading:
    text: str
    id: str = ""
    look: str = ""


@dataclass(frozen=True, slots=True)
class Items:
    """A list of sentences."""

    lines: Sequence[str]
    look: str = ""


@dataclass(frozen=True, slots=True)
class Code:
    """Text with its line breaks."""

    text: str
    label: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and their values."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Reason:
    """A judgement with its advice and evidence."""

    rule: str
    name: str
    word: str
    verdict: str
    """CSS class of the word."""
    message: str
    advice: str
    evidence: Sequence[str]
    source: str


@dataclass(frozen=True, slots=True)
class Reasons:
    """Judgements below each other."""

    rows: Sequence[Reason]


@dataclass(frozen=True, slots=True)
class TrialTimeline:
    """The charts of the trial that the reader chooses."""

    data: Markup
    """JSON of `timeline_data`."""
    note: str


@dataclass(frozen=True, slots=True)
class Absence:
    """A sentence on what the report lacks; all of them stand at its end."""

    text: str


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks that the page shows on request."""

    title: str
    blocks: Sequence[Block]
    id: str = ""
    look: str = ""
    is_open: bool = False


Block = str | Table | Figure | Paragraph | Heading | Items | Code | Facts | Reasons | TrialTimeline | Absence | Folded
"""A string is a paragraph; an instance of Markup may have inline code."""


def markup(text: str, **values: object) -> Markup:
    """Return a text whose values that are strings are shown as code."""
    told = {
        name: Markup("<code>{}</code>").format(each) if isinstance(each, str) else each for name, each in values.items()
    }
    return escape(gettext(text)).format(**told)


def plain(text: str) -> str:
    """Return a text without the page's markup."""
    return text.striptags() if isinstance(text, Markup) else text


def data_of_chart(table: Table, *, is_above: bool = True) -> Folded:
    """Return the figures of a chart, which is above them or under the headline."""
    title = gettext("Data of this chart") if is_above else gettext("Data of the chart under the headline")
    return Folded(title, [table], look="behind")
