"""Resolves a sweep to its points: products, expressions, exclusions, and problems."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import chain, product
from typing import NamedTuple

from pgdyno.errors import InvalidValueError
from pgdyno.plan.plan_document import near, suggestion
from pgdyno.plan.sweeps.expressions import Expression, Value, parse_expression, plain_number
from pgdyno.plan.sweeps.spec import GROUPS, SESSION, Place, PointSpec, Sweep
from pgdyno.plan.values import HIGHEST_RATE
from pgdyno.records import Point

MOST_COMBINATIONS = 20_000
WHOLE = ("clients", "workers", "scale")
NUMBERS = (*WHOLE, "rate")
_WORDS = ("protocol", "connect")
Item = int | float | str
Items = Mapping[str, tuple[Place, Item]]
"""One item per parameter, with its path in the sweep."""


class SweepProblem(NamedTuple):
    place: Place
    message: str
    hint: str | None = None


@dataclass(slots=True)
class Space:
    points: list[Point] = field(default_factory=list)
    """In the order of the product, with parameters that are expensive to change outermost; then the explicit points."""
    places: list[dict[str, Place]] = field(default_factory=list)
    """For each point: the path of each of its parameters in the sweep; items of lists count expanded ranges."""
    problems: list[SweepProblem] = field(default_factory=list)
    beside: int = 0
    """The most connections to the primary in the background of a point, besides its clients."""
    excluded: list[int] = field(default_factory=list)
    """For each condition of `exclude`: the points that it removed first."""

    keys: dict[str, Items] = field(default_factory=dict)
    """The points as text, to detect equal ones, and their sources."""

    def add_problem(self, problem: SweepProblem) -> None:
        """Keep the first problem of each path: further ones repeat it for other points."""
        if all(known.place != problem.place for known in self.problems):
            self.problems.append(problem)


@dataclass(frozen=True, slots=True)
class _Question:
    """The input of `expand`; equal sweeps have equal texts."""

    text: str
    scale: int
    variables: tuple[tuple[str, str], ...]
    sweep: Sweep = field(compare=False)


def expand(sweep: Sweep, scale: int, variables: Mapping[str, str]) -> Space:
    """Return every point of `sweep` over a workload of `scale` with `variables`.

    The result is cached, because large sweeps take seconds: do not modify it.
    """
    return _expand_sweep(_Question(sweep.model_dump_json(), scale, tuple(variables.items()), sweep))


@lru_cache(maxsize=8)
def _expand_sweep(question: _Question) -> Space:
    sweep, scale, variables = question.sweep, question.scale, dict(question.variables)
    space = Space(excluded=[0] * len(sweep.exclude))
    if sweep.clients is None and not sweep.points:
        space.add_problem(SweepProblem(("clients",), "is missing", "such as clients = [1, 4, 16]"))
        return space
    axes = _axes(sweep)
    given = _Given(scale, variables)
    for items in _product(sweep, axes, space):
        _add(space, sweep, items, given, None)
    for place, spec in enumerate(sweep.points):
        written = _write_point(place, spec, axes, space)
        if written is not None:
            _add(space, sweep, written, given, place)
    if not space.points and not space.problems:
        space.add_problem(SweepProblem(("exclude",), "leaves no point to measure", "exclude fewer points"))
    return space


def _axes(sweep: Sweep) -> dict[str, list[tuple[Place, Item]]]:
    lists: dict[Place, Sequence[Item] | None] = {("scale",): sweep.scale}
    lists |= {("settings", name): items for name, items in sweep.settings.items()}
    lists |= {(SESSION, name): items for name, items in sweep.session_settings.items()}
    lists |= {
        ("protocol",): sweep.protocol,
        ("workers",): sweep.workers,
        ("rate",): sweep.rate,
        ("connect",): sweep.connect,
    }
    lists |= {("variables", name): items for name, items in sweep.variables.items()}
    lists |= {("group", name): items for name, items in sweep.group.items()}
    lists[("clients",)] = sweep.clients
    return {
        ".".join(map(str, place)): [((*place, number), item) for number, item in enumerate(items)]
        for place, items in lists.items()
        if items is not None
    }


def _product(sweep: Sweep, axes: Mapping[str, Sequence[tuple[Place, Item]]], space: Space) -> Iterator[Items]:
    if sweep.clients is None:
        return
    count = math.prod(len(items) for items in axes.values())
    if count > MOST_COMBINATIONS:
        message = f"has {count:,} combinations; the maximum is {MOST_COMBINATIONS:,}"
        space.add_problem(SweepProblem((), message, "reduce the sweep"))
        return
    for combination in product(*axes.values()):
        yield dict(zip(axes, combination, strict=True))


def _write_point(
    number: int, spec: PointSpec, axes: Mapping[str, Sequence[tuple[Place, Item]]], space: Space
) -> Items | None:
    """Return the items of an explicit point, completed by single values of the sweep; None if that is impossible."""
    items: dict[str, tuple[Place, Item]] = {}
    for name in ("clients", "workers", *_WORDS, "scale", "rate"):
        value = getattr(spec, name)
        if value is not None:
            items[name] = (("points", number, name), value)
    for group in GROUPS:
        for name, value in getattr(spec, group).items():
            items[f"{group}.{name}"] = (("points", number, group, name), value)
    open_ones = [name for name, of in axes.items() if name not in items and len(of) > 1]
    if open_ones or ("clients" not in items and "clients" not in axes):
        name = open_ones[0] if open_ones else "clients"
        reason = f"the sweep has {len(axes[name])} values" if open_ones else "the sweep has none"
        example = {"protocol": '"simple"', "connect": '"each"'}.get(name, "4")
        hint = f"add it to the point, such as {name} = {example}"
        space.add_problem(SweepProblem(("points", number), f"lacks {name}, and {reason}", hint))
        return None
    return {name: of[0] for name, of in axes.items()} | items


class _Given(NamedTuple):
    """Values of the workload for parameters that are not in the sweep."""

    scale: int
    variables: Mapping[str, str]


def _add(space: Space, sweep: Sweep, items: Items, given: _Given, written: int | None) -> None:
    resolving = _Resolving(items, given)
    # exclusions come first: an excluded point may be invalid
    excluding = _exclude_points(sweep, resolving)
    if isinstance(excluding, int):
        space.excluded[excluding] += 1
        if written is not None:
            message = f'is excluded by "{sweep.exclude[excluding]}"'
            space.add_problem(SweepProblem(("points", written), message, "remove it, or change the condition"))
        return
    values: dict[str, Value] = {}
    for name, (place, _) in items.items():
        try:
            values[name] = resolving.value(name)
        except _WrongError as error:
            space.add_problem(SweepProblem(place, error.message, error.hint))
    if len(values) < len(items):
        return
    if excluding is not None:
        space.add_problem(excluding)
        return
    point = _point(values, given)
    key = point.model_dump_json()
    if key in space.keys:
        _refuse_doubled(space, items, space.keys[key], written)
        return
    space.keys[key] = items
    space.points.append(point)
    space.places.append({name: place for name, (place, _) in items.items()})


def _exclude_points(sweep: Sweep, resolving: _Resolving) -> int | SweepProblem | None:
    for number, text in enumerate(sweep.exclude):
        try:
            if resolving.condition(parse_expression(text)):
                return number
        except _WrongError as error:
            return SweepProblem(("exclude", number), error.message, error.hint)
    return None


def _refuse_doubled(space: Space, items: Items, before: Items, written: int | None) -> None:
    """Report that `items` give the same point as those `before`."""
    if written is not None:
        hint = "trial.repeats measures every point several times"
        space.add_problem(SweepProblem(("points", written), "is measured already", hint))
        return
    # equal literals are reported elsewhere; one of these two is an expression
    differing = [(place, before[name]) for name, (place, _) in items.items() if before[name][0] != place]
    computed = [place for place, item in chain(items.values(), before.values()) if isinstance(item, str)]
    places = [place for place, (other, _) in differing if place in computed or other in computed]
    message = "equals another item of the list for some points"
    space.add_problem(SweepProblem(places[0] if places else (), message, "exclude these points, or use other values"))


def _point(values: Mapping[str, Value], given: _Given) -> Point:
    def whole_number(name: str) -> int | None:
        return int(value) if isinstance(value := values.get(name), Fraction) else None

    rate = values.get("rate")
    texts = {
        group: {name[len(group) + 1 :]: str(value) for name, value in values.items() if name.startswith(f"{group}.")}
        for group in GROUPS
    }
    return Point(
        clients=whole_number("clients") or 0,
        workers=whole_number("workers"),
        protocol=str(values.get("protocol", "simple")),
        scale=whole_number("scale") or given.scale,
        rate=float(rate) if isinstance(rate, Fraction) else None,
        connect=str(values["connect"]) if "connect" in values else None,
        # `Sweep.session_names` tells them apart
        settings=dict(sorted((texts["settings"] | texts[SESSION]).items())),
        variables=dict(sorted(texts["variables"].items())),
        groups=dict(sorted(texts["group"].items())),
    )


# ---- values ----


class _WrongError(Exception):
    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def is_computed(item: str) -> bool:
    """Tells whether the text `item` of a setting or variable computes with a parameter's name."""
    return _read_expression(item) is not None


def _read_expression(item: str) -> Expression | None:
    try:
        expression = parse_expression(item)
    except ValueError:
        return None
    known = [name for name in expression.names if _is_parameter(name) or near(name, NUMBERS)]
    return expression if known and not expression.bare else None


def _is_parameter(name: str) -> bool:
    return name in (*NUMBERS, *_WORDS) or name.partition(".")[0] in GROUPS


class _Resolving(Mapping[str, Value]):
    """Values of one point's parameters, evaluated on demand."""

    def __init__(self, items: Items, given: _Given) -> None:
        self._items = items
        self._given = given
        self._known: dict[str, Value] = {}
        self._under_way: list[str] = []

    def value(self, name: str) -> Value:
        """Return the value of the parameter `name`, which is among the items. Raises _WrongError."""
        if name not in self._known:
            self._known[name] = self._worked_out(name, self._items[name][1])
        return self._known[name]

    def condition(self, expression: Expression) -> bool:
        """Tells whether `expression` holds for this point. Raises _WrongError."""
        try:
            return expression.holds(self)
        except ValueError as error:
            raise _wrong(error) from error

    def _worked_out(self, name: str, item: Item) -> Value:
        if name in _WORDS:
            return str(item)
        if not isinstance(item, str):
            return Fraction(repr(item))
        expression = parse_expression(item) if name in NUMBERS else _read_expression(item)
        if expression is None:
            return item
        if name in self._under_way:
            circle = " → ".join([*self._under_way[self._under_way.index(name) :], name])
            raise _WrongError(f"depends on itself: {circle}", "give one of them a constant value")
        self._under_way.append(name)
        try:
            number = expression.number(self)
        except ValueError as error:
            raise _wrong(error) from error
        finally:
            self._under_way.pop()
        return self._fit_type(name, expression, number)

    def _fit_type(self, name: str, expression: Expression, number: Fraction) -> Value:
        if name in WHOLE:
            whole = Fraction(math.floor(number))
            if whole < 1:
                shown = plain_number(number) + ("" if number == whole else f", rounded down {whole}")
                hint = f'write "max(1, {expression.text})"; fractions are rounded down'
                raise self._wrong_result(expression, shown, hint)
            return whole
        if name == "rate":
            if number <= 0:
                hint = "a rate must be above 0 transactions per second"
                raise self._wrong_result(expression, plain_number(number), hint)
            if number >= HIGHEST_RATE:
                hint = f"a rate must be less than {HIGHEST_RATE:g} transactions per second"
                raise self._wrong_result(expression, f"{float(number):g}", hint)
            return number
        return plain_number(number)

    def _wrong_result(self, expression: Expression, shown: str, hint: str) -> _WrongError:
        """Return the problem with the values that led to it: ` for clients = 1`."""
        values = {name: self[name] for name in sorted(expression.names)}
        used = [
            f"{name} = {plain_number(each) if isinstance(each, Fraction) else each}" for name, each in values.items()
        ]
        given = f" for {', '.join(used)}" if used else ""
        return _WrongError(f'"{expression.text}" comes to {shown}{given}', hint)

    # as in names of expressions

    def __getitem__(self, name: str) -> Value:
        if name in self._items:
            return self.value(name)
        group, _, variable = name.partition(".")
        if name == "scale":
            return Fraction(self._given.scale)
        if name == "protocol":
            return "simple"
        if group == "variables" and variable in self._given.variables:
            return self._given.variables[variable]
        if group in GROUPS and variable:
            others = ", or the workload" if group == "variables" else ""
            raise _WrongError(f"{name} is unknown", f"add {name} to the sweep{others}")
        if name in NUMBERS:
            raise _WrongError(f"{name} is unknown", f"add {name} to the sweep")
        known = f"parameters: {', '.join(NUMBERS)}, protocol, {', '.join(f'{group}.NAME' for group in GROUPS)}"
        hint = suggestion(name, [*NUMBERS, "protocol", *self._items], known)
        raise _WrongError(f"parameter {name} does not exist", hint)

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


def _wrong(error: ValueError) -> _WrongError:
    return _WrongError(error.message, error.hint) if isinstance(error, InvalidValueError) else _WrongError(str(error))
