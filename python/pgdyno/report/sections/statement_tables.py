"""Statements and their query plans, growth of tables, and processes, in the trials that represent a peak."""

from collections.abc import Sequence

from pgdyno.report import numbers
from pgdyno.report.report_content import Digest, PlanChange
from pgdyno.report.report_tables import PERCENTILES, peak_statements, script_table, statement_table
from pgdyno.report.sections.draft import Draft, Section
from pgdyno.report.sections.environment import process_table
from pgdyno.report.sections.function_shares import profile_blocks
from pgdyno.report.sections.section_blocks import Absence, Block, Code, Folded
from pgdyno.report.table import Table, first_rows
from pgdyno.report.translation import gettext, gettext_each, gettext_noop
from pgdyno.store.probe_queries import ServerStatementSum, TableSum
from pgdyno.store.trial_tables import StatementRow

_TEXT = 160
"""Displayed characters of a statement."""
MOST_STATEMENTS = 8
"""In a terminal."""
_EMPTY_BYTES = 65_536
"""Larger tables have rows; an empty one has some pages of its indexes."""


def server_statement_table(trial: int, sums: Sequence[ServerStatementSum]) -> Table:
    """Return a row per statement, the one with the most time first."""
    rows = tuple(
        (
            " ".join(each.text.split())[:_TEXT] or numbers.NOTHING,
            f"{each.calls:,.0f}",
            _share(each.spent_ms, each.all_ms),
            numbers.round_text(each.spent_ms / each.calls) if each.spent_ms is not None else numbers.NOTHING,
            _figure(each.rows),
            _figure(each.blocks_read),
            numbers.round_or_dash(each.wal_bytes, 1e6),
        )
        for each in sums
    )
    caption = gettext(
        "Statements of trial {number} as counted by the server (pg_stat_statements), whole trial", number=trial
    )
    headings = gettext_each("statement", "calls", "share of time, %", "mean, ms", "rows", "blocks read", "WAL, MB")
    return Table(caption, headings, rows)


def growth_table(trial: int, sums: Sequence[TableSum]) -> Table:
    """Return a row per table, the one that changed most first."""
    rows = tuple(
        (
            each.name,
            numbers.round_text(each.bytes / 1e6),
            numbers.round_or_dash(each.grown_bytes, 1e6),
            *map(_figure, _row_counts(each)),
            _figure(each.inserted),
            _figure(each.updated),
            _share(each.hot_updated, each.updated),
            _figure(each.deleted),
            _figure(each.scans),
        )
        for each in sums
    )
    caption = gettext(
        "Tables of trial {number} that changed most, whole trial; sizes include indexes and TOAST, HOT is the share "
        "of updates without new index entries",
        number=trial,
    )
    headings = (
        *gettext_each("table", "size, MB", "grown by, MB", "live rows", "dead rows"),
        *gettext_each("inserted", "updated", "HOT, %", "deleted", "sequential scans"),
    )
    return Table(caption, headings, rows)


def _row_counts(table: TableSum) -> tuple[float | None, float | None]:
    is_uncounted = not table.live_rows and not table.dead_rows and table.bytes > _EMPTY_BYTES
    return (None, None) if is_uncounted else (table.live_rows, table.dead_rows)


def _share(part: float | None, whole: float | None) -> str:
    return f"{100 * part / whole:.0f}" if part is not None and whole else numbers.NOTHING


def _figure(count: float | None) -> str:
    return numbers.NOTHING if count is None else f"{count:,.0f}"


def _finds_rows(statement: StatementRow) -> bool:
    return statement.rows is None or statement.rows >= (statement.executions or 0)


def _rows_of_statements(of: Digest) -> list[Table | str]:
    """Return the table of a terminal; without a single statement whose executions all have rows, as they should."""
    table = statement_table(of)
    if table is None or (len(table.rows) == 1 and _finds_rows(peak_statements(of)[0])):
        return []
    return first_rows(table.without(range(len(table.headings))[-len(PERCENTILES) - 1 :]), MOST_STATEMENTS)


def _blocks(draft: Draft) -> list[Block]:
    of, extras = draft.of, draft.extras
    scripts = script_table(of)
    by_script: list[Block] = [scripts] if scripts is not None else []
    if draft.brief:
        shown = first_rows(scripts) if scripts is not None else []
        of_statements = [*shown, *_rows_of_statements(of), *plan_tables(extras.plan_changes)]
        return [*of_statements, *profile_blocks(extras.profiles, brief=True)]
    own = statement_table(of)
    blocks: list[Block] = [*by_script, *([own] if own is not None else [])]
    blocks += [server_statement_table(number, sums) for number, sums in extras.server_statements.items()]
    blocks += [growth_table(number, sums) for number, sums in extras.tables.items()]
    blocks += [process_table(number, sums) for number, sums in extras.processes.items()]
    is_without_processes = bool(blocks) and not extras.processes
    blocks += plan_blocks(extras.plan_changes)
    blocks += profile_blocks(extras.profiles)
    if is_without_processes:
        text = gettext("Processes by I/O: no probe ran during the trials, or it saw no process of the server.")
        blocks.append(text)
    return blocks or [Absence(gettext("Statements, tables and processes: nothing recorded."))]


SECTION = Section("statements", gettext_noop("Statements, tables, processes"), _blocks, link=gettext_noop("Statements"))


MOST_CHANGES = 20
"""Displayed characters of a statement."""


def plan_tables(changes: Sequence[PlanChange]) -> list[Table]:
    """Return a row per statement and pair of arms; no table without changes."""
    rows = tuple(
        (
            _shorten(each.name),
            each.base.name,
            each.other.name,
            str(each.clients),
            numbers.round_or_dash(each.base.mean_ms),
            numbers.round_or_dash(each.other.mean_ms),
            _change(each),
        )
        for each in changes[:MOST_CHANGES]
    )
    caption = gettext(
        "Statements whose query plan (EXPLAIN before the trials) differs between two arms: {count}. Times are means of "
        "the statement as its clients saw them",
        count=len(changes),
    )
    headings = gettext_each("statement", "baseline", "compared", "clients", "baseline, ms", "compared, ms", "change, %")
    return [Table(caption, headings, rows, 3)] if rows else []


def plan_blocks(changes: Sequence[PlanChange]) -> list[Block]:
    blocks: list[Block] = [*plan_tables(changes)]
    for each in changes[:MOST_CHANGES]:
        title = gettext("Query plans of {statement}", statement=_shorten(each.name))
        parts = [f"{arm.name}:\n{arm.plan}" for arm in (each.base, each.other)]
        blocks.append(Folded(title, [Code("\n\n".join([each.text, *parts]), title)]))
    return blocks


def _shorten(text: str) -> str:
    return " ".join(text.split())[:_TEXT]


def _change(change: PlanChange) -> str:
    base, other = change.base.mean_ms, change.other.mean_ms
    return numbers.NOTHING if not base or other is None else f"{100 * (other / base - 1):+.1f}"
