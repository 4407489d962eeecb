"""Reports statements of which no execution returned or changed a row: values that hit nothing, or a policy."""

from collections import defaultdict
from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.subject import Subject
from pgdyno.effect.short_statement import short_statement
from pgdyno.messages import Message
from pgdyno.store.trial_tables import StatementRow

FEWEST_EXECUTIONS = 100
SHOWN = 80
"""Characters of a statement in the message."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if subject.manifest.capture is not None:
        raise MissingError(Message("captured-load", "the captured statements may return no row, too"))
    by_statement: dict[tuple[str, int, int], list[StatementRow]] = defaultdict(list)
    for target, samples in subject.by_target.items():
        for sample in samples:
            for row in subject.statements(sample.number):
                if row.executions and row.rows is not None:
                    by_statement[target, row.script, row.statement].append(row)
    if not by_statement:
        raise MissingError(Message("no-row-counts", "no rows of statements were counted"))
    for (target, script, _), rows in by_statement.items():
        executions = sum(row.executions or 0 for row in rows)
        if executions >= FEWEST_EXECUTIONS and not any(row.rows for row in rows):
            summary = next(each.summary for each in subject.by_target[target])
            names = {each.id: each.name for each in summary.scripts}
            yield RuleFinding(
                Severity.CAUTION,
                Message(
                    "no-rows",
                    "none of {executions:,} executions at {target} returned or changed a row: {script}, line {line}, "
                    "{statement}",
                    executions=executions,
                    target=target,
                    script=names.get(script, str(script)),
                    line=rows[0].line,
                    statement=short_statement(rows[0].text, SHOWN),
                ),
                [row.trial for row in rows],
                [
                    Evidence(at=f"trial {row.trial}", figures={"executions": row.executions or 0, "rows": 0})
                    for row in rows
                ],
                "compare the ranges of the script's values with the tables, and look for row-level security",
            )


RULE = Rule(
    "no-rows",
    "rows that each statement returned or changed, by target: caution if none of at least 100 executions had one; not "
    "of captured loads",
    Severity.CAUTION,
    "docs/reference/events.md",
    _check,
    place=335,
    needs_rate=True,
)
