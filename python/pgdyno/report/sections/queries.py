"""The figures and the query times of a run of tpch."""

from __future__ import annotations

from pgdyno.report.answers.query_times import query_tables
from pgdyno.report.sections.section import Section
from pgdyno.report.translation import gettext

SECTION = Section(
    "queries",
    title=lambda: gettext("Queries"),
    link=lambda: gettext("Queries"),
    blocks=lambda of, _: list(query_tables(of)),
    absence=lambda _: "",
    is_first=True,
)
