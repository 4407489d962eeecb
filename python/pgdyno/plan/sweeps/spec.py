"""The sweep: which combinations of parameters are measured, as the file says it.

`points.py` resolves the points. Each parameter is a list of items; an item is a value, or the text of an expression on
other parameters. Ranges are expanded when they are read.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, WithJsonSchema, model_validator
from pydantic_core import PydanticKnownError

from pgdyno.errors import InvalidValueError
from pgdyno.plan.sweeps.expressions import parse_expression
from pgdyno.plan.sweeps.ranges import expand_range, is_range
from pgdyno.plan.values import HIGHEST_RATE, Connect, Model, Protocol, setting_text

SESSION = "session_settings"
GROUPS = ("settings", SESSION, "variables", "group")
"""Groups of any number of parameters: `settings.work_mem`, `variables.range`, `group.reports.clients`."""
Place = tuple[str | int, ...]


def spread_keys(table: Mapping[str, Any]) -> tuple[dict[str, Any], list[Place]]:
    """Normalize `table`, a sweep or a point: `"settings.a"` and `settings.a` become `settings = { a = … }`.

    Names may contain dots (`settings.auto_explain.log_min_duration`). Also returns the paths that occur in two forms;
    the later one wins.
    """
    flat: dict[str, Any] = {}
    twice: list[Place] = []
    for key, value in table.items():
        place = place_after_spread((key,))
        if place == (key,) and not (key in GROUPS and isinstance(value, Mapping)):
            flat[key] = value
            continue
        group = flat.setdefault(str(place[0]), {})
        for name, each in leaves(value, str(place[1]) if len(place) > 1 else ""):
            if name in group:
                twice.append((place[0], name))
            group[name] = each
    return flat, twice


def place_after_spread(place: Place) -> Place:
    """Return the path after `spread_keys` of what was at `place` of a sweep or a point."""
    if not place or not isinstance(place[0], str):
        return place
    group, dot, name = place[0].partition(".")
    if group not in GROUPS:
        return place
    keys: list[str] = [name] if dot else []
    at = 1
    while at < len(place) and isinstance(key := place[at], str):
        keys.append(key)
        at += 1
    return (group, *([".".join(keys)] if keys else []), *place[at:])


def leaves(value: object, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values in a table at any depth, with their dotted names; a `value` that is no table is named `name`."""
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, each in value.items():
        yield from leaves(each, f"{name}.{key}" if name else str(key))


def _spread(value: object) -> object:
    return spread_keys(value)[0] if isinstance(value, Mapping) else value


# ---- items ----

Reader = Callable[[object], Any]


def _number_item(literal: Reader) -> Reader:
    def read(value: object) -> object:
        if not isinstance(value, str) or value.strip().isdigit():
            return literal(value)
        if is_range(value):
            return [literal(_number(each, value)) for each in expand_range(value)]
        expression = parse_expression(value)
        if not expression.names:
            raise InvalidValueError(f'"{value}" names no parameter', 'write a range as "1..8", a number without quotes')
        return expression.text

    return read


def _refuse_range(read: Reader) -> Reader:
    def check(value: object) -> object:
        item = read(value)
        if isinstance(item, list):
            raise InvalidValueError("a point has one value, not a range", "ranges belong in the sweep itself")
        return item

    return check


def _number(text: str, of: str) -> int | float:
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise InvalidValueError(f'"{of}" has a unit, but must be a plain number', "leave the unit out") from None


def _whole_number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise PydanticKnownError("int_type")
    if value < 1:
        raise PydanticKnownError("greater_than_equal", {"ge": 1})
    return value


def _rate(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PydanticKnownError("float_type")
    if value <= 0:
        raise PydanticKnownError("greater_than", {"gt": 0})
    if not value < HIGHEST_RATE:
        raise InvalidValueError(f"{value:g} transactions per second exceed the limit", "write less than 1e9")
    return float(value)


def _text_item(value: object) -> object:
    value = setting_text(value)
    if not isinstance(value, str):
        raise PydanticKnownError("string_type")
    # "../lib" and "a..b" are texts, not ranges
    return expand_range(value) if (is_range(value) and value.lstrip()[:1].isdigit()) else value


_ASSIGNED = re.compile(r"[^=<>!]=[^=]")


def _condition(text: str) -> str:
    try:
        return parse_expression(text).text
    except ValueError as error:
        if _ASSIGNED.search(text):
            raise InvalidValueError(f'"{text}" is not a condition', "write == to compare for equality") from error
        raise


def _as_list(value: object) -> object:
    return value if value is None or isinstance(value, list) else [value]


def _flatten(items: list[Any]) -> list[Any]:
    return [each for item in items for each in (item if isinstance(item, list) else [item])]


def _items_schema(*of: Mapping[str, Any]) -> WithJsonSchema:
    choices = [dict(each) for each in of]
    return WithJsonSchema({"anyOf": [*choices, {"type": "array", "minItems": 1, "items": {"anyOf": choices}}]})


_TEXT = {"type": "string", "description": "A range (1..8, 2..160 step 2, 1..256 doubling) or an expression"}
_WHOLE = {"type": "integer", "minimum": 1}
_POSITIVE = {"type": "number", "exclusiveMinimum": 0}
_PLAIN = ({"type": "string"}, {"type": "number"}, {"type": "boolean"})

_whole_item, _rate_item = _number_item(_whole_number), _number_item(_rate)
_AXIS = (Field(min_length=1), AfterValidator(_flatten), BeforeValidator(_as_list))
WholeItems = Annotated[list[Annotated[int | str, PlainValidator(_whole_item)]], *_AXIS, _items_schema(_WHOLE, _TEXT)]
RateItems = Annotated[list[Annotated[float | str, PlainValidator(_rate_item)]], *_AXIS, _items_schema(_POSITIVE, _TEXT)]
TextItems = Annotated[list[Annotated[str, PlainValidator(_text_item)]], *_AXIS, _items_schema(*_PLAIN)]
Protocols = Annotated[
    list[Protocol], Field(min_length=1), BeforeValidator(_as_list, json_schema_input_type=Protocol | list[Protocol])
]
Connects = Annotated[
    list[Connect], Field(min_length=1), BeforeValidator(_as_list, json_schema_input_type=Connect | list[Connect])
]
OneWhole = Annotated[int | str, PlainValidator(_refuse_range(_whole_item)), WithJsonSchema({"anyOf": [_WHOLE, _TEXT]})]
OneRate = Annotated[
    float | str, PlainValidator(_refuse_range(_rate_item)), WithJsonSchema({"anyOf": [_POSITIVE, _TEXT]})
]
OneText = Annotated[str, PlainValidator(_refuse_range(_text_item)), WithJsonSchema({"anyOf": [*_PLAIN]})]


Condition = Annotated[str, AfterValidator(_condition)]


class PointSpec(Model):
    """An explicit point; the sweep gives the parameters that it omits."""

    clients: OneWhole | None = None
    workers: OneWhole | None = None
    protocol: Protocol | None = None
    scale: OneWhole | None = None
    rate: OneRate | None = None
    connect: Connect | None = None
    settings: dict[str, OneText] = {}
    session_settings: dict[str, OneText] = {}
    variables: dict[str, OneText] = {}
    group: dict[str, OneText] = {}

    @model_validator(mode="before")
    @classmethod
    def _in_one_form(cls, value: object) -> object:
        return _spread(value)


class Sweep(Model):
    """The space of parameters; its product is measured. Each is a value, a list, a range or an expression."""

    clients: WholeItems | None = None
    """Numbers of clients; None: only the points are measured."""
    workers: WholeItems | None = None
    """Engine threads; None: the engine decides."""
    protocol: Protocols = Field(default_factory=lambda: list[Protocol](["simple"]))
    scale: WholeItems | None = None
    """Scale of the dataset; None: that of the workload."""
    rate: RateItems | None = None
    """Transactions per second, in open loop; None: closed loop."""
    connect: Connects | None = None
    """Whether clients connect once or for each transaction; None: as the workload says."""
    settings: dict[str, TextItems] = {}
    """Lines of postgresql.conf, which override those of the target."""
    session_settings: dict[str, TextItems] = {}
    """Settings of each connection of the load, which override those of the target and of the server."""
    variables: dict[str, TextItems] = {}
    """Variables of scripts, which override those of the workload."""
    group: dict[str, TextItems] = {}
    """Keys of groups of clients, which override those of `[[group]]`, such as `group.reports.clients`."""
    points: list[PointSpec] = []
    """Explicit points, measured in addition to the product, or instead of it without clients."""
    exclude: Annotated[list[Condition], BeforeValidator(_as_list, json_schema_input_type=str | list[str])] = []
    """Conditions; a point for which one holds is not measured."""

    @model_validator(mode="before")
    @classmethod
    def _in_one_form(cls, value: object) -> object:
        return _spread(value)

    @property
    def session_names(self) -> frozenset[str]:
        """The names of `Point.settings` that belong to connections, not to the server."""
        return frozenset(self.session_settings).union(*(point.session_settings for point in self.points))
