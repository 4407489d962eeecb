"""Steps of a trial: which groups run when, and work on the data between loads."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from pgdyno.errors import InvalidValueError
from pgdyno.plan.sweeps.expressions import parse_expression, plain_number
from pgdyno.plan.values import HIGHEST_RATE, LONGEST_NAME, Model, Name, Positive, Seconds

OneRate = Annotated[float, Field(gt=0, lt=HIGHEST_RATE)]


def _count(value: object) -> object:
    if isinstance(value, str):
        parse_expression(value)
    elif not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidValueError("must be a whole number above 0", 'or an expression, such as "variables.rows / 100"')
    return value


class Until(Model):
    """The end of a step's load, in place of a duration."""

    transactions: Annotated[int | str, BeforeValidator(_count, json_schema_input_type=Positive | str)]
    """Transactions of each of its groups; in quotes, an expression, such as "variables.rows / 100"."""

    def each_client(self, clients: int, variables: Mapping[str, str]) -> int:
        """Return the transactions of each of `clients`, rounded down to 1 or more. Raises ValueError."""
        number = Fraction(self.transactions) if isinstance(self.transactions, int) else self._evaluate(variables)
        if number < 1:
            raise InvalidValueError(f'"{self.transactions}" comes to {plain_number(number)}', "it must be at least 1")
        return max(1, int(number // clients))

    def shorten(self, share: float) -> Until:
        """Return `share` of the transactions."""
        if isinstance(self.transactions, int):
            return Until(transactions=max(1, int(share * self.transactions)))
        return Until(transactions=f"({self.transactions}) * {share:g}")

    def _evaluate(self, variables: Mapping[str, str]) -> Fraction:
        expression = parse_expression(str(self.transactions))
        known = {f"variables.{name}": value for name, value in variables.items()}
        unknown = sorted(expression.names - known.keys())
        if unknown:
            raise InvalidValueError(f"{unknown[0]} is unknown", f"known: {', '.join(known) or 'none'}")
        return expression.number(known)


class GroupInStep(Model):
    """A group in a step, with what differs there."""

    name: Name
    clients: Positive | None = None
    rate: OneRate | None = None


def _group_in_step(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


def _step_name(text: str) -> str:
    if not text.strip() or not text.isprintable() or len(text) > LONGEST_NAME:
        raise InvalidValueError(f"{text!r} is not a step's name", f"use up to {LONGEST_NAME} characters on one line")
    return text


class StepSpec(Model):
    """A part of a trial: a load, or work on the data; what it changes stays until the trial's end."""

    name: Annotated[str, AfterValidator(_step_name)]
    groups: list[Annotated[GroupInStep, BeforeValidator(_group_in_step, json_schema_input_type=str | GroupInStep)]] = (
        Field(default_factory=list)
    )
    """The groups that run, by name, or as a table with another rate or number of clients."""
    duration: Annotated[Seconds, Field(gt=0)] | None = None
    until: Until | None = None
    """Where the load ends if it has no duration."""
    sql: str | None = None
    """A file of SQL to run once, by psql's rules."""
    do: Literal["vacuum", "checkpoint"] | None = None
    wait: Literal["vacuum", "replication", "archive"] | None = None
    """Wait until no vacuum runs, standbys have replayed everything, or the WAL is archived."""
    result: bool = False
    """Whether arms are compared by it. If no step says so, by the last load."""

    @model_validator(mode="after")
    def _one_kind(self) -> StepSpec:
        given = [key for key in ("groups", "sql", "do", "wait") if getattr(self, key)]
        if len(given) != 1:
            hint = 'give it one: groups = ["NAME"], sql = "FILE", do = "vacuum" or wait = "vacuum"'
            raise InvalidValueError(f"has {' and '.join(given) or 'nothing to do'}", hint)
        if bool(self.groups) != (self.duration is not None or self.until is not None):
            does = "has no end" if self.groups else "is no load, and has one"
            raise InvalidValueError(does, 'a load has duration = "1m" or until = { transactions = 1000 }')
        if self.duration is not None and self.until is not None:
            raise InvalidValueError("has both duration and until", "keep one")
        if self.result and not self.groups:
            raise InvalidValueError("is no load, and cannot be the result", "remove result")
        return self
