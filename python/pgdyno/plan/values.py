"""Kinds of values in a plan: durations, commands, numbers, ramps; and the base of its models."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo
from pydantic_core import core_schema

from pgdyno.errors import InvalidValueError, UsageError
from pgdyno.records.secret_values import may_name_secret
from pgdyno.units import parse_bytes, parse_duration_s

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

HIGHEST_RATE = 1e9
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
LONGEST_NAME = 64
"""Names become parts of folder names, which file systems limit to 255 bytes."""


def refuse_undecodable(what: str, text: str) -> None:
    """Raise UsageError if `text`, an argument or a path, is not UTF-8.

    Python keeps such bytes as surrogates, which neither a plan, a manifest nor libpq can have.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{what} is not valid UTF-8", hint="write it in UTF-8; rename the file or folder") from error


def refused_option(text: str, error: Exception) -> str:
    """Return `: invalid connection option "hst"` if libpq refuses the connection string `text` because of that.

    Any other message of libpq quotes what it could not parse, which may be a part of a password.
    """
    is_name = str(error).startswith("invalid connection option")
    return f": {str(error).strip()}" if is_name and not may_name_secret(text) else ""


class Model(BaseModel):
    """Immutable; refuses unknown keys, and text or booleans in place of numbers.

    The docstring after a field is its description in the JSON Schema.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found = handler(schema)
        properties = handler.resolve_ref_schema(found)["properties"]
        # pydantic's use_attribute_docstrings would read the source of every model whenever pgdyno starts
        for name, text in _field_docstrings(cls).items():
            properties[cls.model_fields[name].alias or name].setdefault("description", text)
        return found


class ByOwnModel:
    """Makes a field validate by a model that pydantic builds when a plan first needs it.

    A plan has few of the sections and one kind of target, and to build the models of all takes longer than to check it.
    """

    builds_all = ContextVar("builds_all", default=False)
    """Set while the JSON Schema is made, which describes all sections and kinds."""

    def __init__(self, read: Callable[[object, ValidationInfo], object], described: Callable[[], Any]) -> None:
        """`described` returns the type that the JSON Schema has."""
        self._read = read
        self._described = described

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        del source
        if self.builds_all.get():
            return handler.generate_schema(self._described())
        return core_schema.with_info_plain_validator_function(self._read)


if TYPE_CHECKING:
    _M = TypeVar("_M", bound=BaseModel)
    Section = Annotated[_M, ByOwnModel]
else:

    class Section:
        """`Section[TrialSpec]`: a section of a plan."""

        def __class_getitem__(cls, model: type[BaseModel]) -> object:
            def read(value: object, info: ValidationInfo) -> BaseModel:
                return model.model_validate(value, context=info.context)

            return Annotated[model, ByOwnModel(read, lambda: model)]


def _field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if issubclass(each, BaseModel) and each is not BaseModel:
            found |= _by_class(each.__module__).get(each.__qualname__, {})
    return {name: text for name, text in found.items() if name in model.model_fields}


@cache
def _by_class(module: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {each.name: _docstrings(each) for each in tree.body if isinstance(each, ast.ClassDef)}


def _docstrings(of: ast.ClassDef) -> dict[str, str]:
    found = {}
    for field, text in pairwise(of.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(written))):
                found[name] = inspect.cleandoc(written)
    return found


def _check_name(text: str) -> str:
    if NAME.fullmatch(text) is None:
        raise InvalidValueError(
            f"{text!r} is not a name", "use letters, digits, - and _, starting with a letter or digit"
        )
    if len(text) > LONGEST_NAME:
        raise InvalidValueError(f"a name of {len(text)} characters is too long", f"use at most {LONGEST_NAME}")
    return text


def setting_text(value: object) -> object:
    """Return a boolean or number as in postgresql.conf, and other values unchanged."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value) if isinstance(value, (int, float)) else value


def read_by(parse: Callable[[str], object]) -> Callable[[str], str]:
    """Return a validator that keeps a text as it was written if `parse` can read it."""

    def check(text: str) -> str:
        parse(text)
        return text

    return check


Name = Annotated[str, AfterValidator(_check_name)]
Setting = Annotated[str, BeforeValidator(setting_text, json_schema_input_type=str | int | float | bool)]
Protocol = Literal["simple", "extended", "prepared"]
Connect = Literal["once", "each"]
"""When a client connects: once, or for each transaction."""
Size = Annotated[str, AfterValidator(read_by(parse_bytes))]
"""Bytes with a unit, as written; `parse_bytes` reads it."""
Positive = Annotated[int, Field(ge=1)]
FEWEST_LOOK, MOST_LOOK = 6, 1_000
"""A run that stops when decided looks first after six pairs, because a claim needs them."""
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def repeats(value: object) -> object:
    """Validate a number of repeats, or a range such as `6..40`. Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise ValueError("must be at least 1")
        return value
    match = _RANGE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('write a number, such as 6, or a range, such as "6..40", to stop when decided')
    fewest, most = int(match[1]), int(match[2])
    if not FEWEST_LOOK <= fewest < most <= MOST_LOOK:
        raise ValueError(f'write a range from {FEWEST_LOOK} or more to {MOST_LOOK:,} or less, such as "6..40"')
    return value


def repeat_range(value: int | str) -> tuple[int, int]:
    """Return the fewest and the most repeats, which are equal for a number."""
    fewest, _, most = str(value).partition("..")
    return int(fewest), int(most or fewest)


RESOLVED = "resolved"
"""The context for validating the result of `Plan.as_resolved`, where durations are seconds."""


def _seconds(value: object, info: ValidationInfo) -> object:
    if isinstance(value, str):
        return parse_duration_s(value)
    if info.context == RESOLVED:
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise ValueError(f'give the duration a unit, such as "{value}s"')
    raise ValueError('write a duration as text with a unit, such as "10s" or "5m"')


def _command(value: object) -> object:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value) and value[0]:
        return value
    raise ValueError('write a line for the shell, "sync; date", or a list of words, ["sync", "-f", "/mnt"]')


def given_duration(text: str | None) -> str | None:
    """Validate a positive duration that may be left out. Raises ValueError."""
    return None if text is None else positive_duration(text)


def positive_duration(text: str) -> str:
    """Parse a duration above 0. Raises ValueError."""
    if parse_duration_s(text) <= 0:
        raise ValueError("must be more than 0s")
    return text


Lasting = Annotated[str, AfterValidator(positive_duration)]


def _ramp_of(whole: bool, right: str) -> Callable[[object], object]:
    kinds = (int,) if whole else (int, float)

    def check(value: object) -> object:
        numbers = list(value.values()) if isinstance(value, dict) and value.keys() == {"from", "to"} else [value]
        if all(isinstance(each, kinds) and not isinstance(each, bool) and 0 <= each < HIGHEST_RATE for each in numbers):
            return value
        raise InvalidValueError("is invalid", f"write {right}")

    return check


Repeats = Annotated[
    int | str,
    BeforeValidator(repeats, json_schema_input_type=Positive | Annotated[str, Field(pattern=rf"^{_RANGE.pattern}$")]),
]
"""A number of repeats, or a range."""
Seconds = Annotated[float, BeforeValidator(_seconds, json_schema_input_type=str)]
"""A duration."""
Command = Annotated[str | list[str], BeforeValidator(_command)]
"""A shell command, or a list of words."""
Rate = Annotated[float | dict[str, float], BeforeValidator(_ramp_of(False, "500 or { from = 500, to = 5000 }"))]
"""Transactions per second, or the start and end of a ramp."""
Count = Annotated[int | dict[str, int], BeforeValidator(_ramp_of(True, "8 or { from = 1, to = 8 }"))]
"""A number of clients, or the start and end of a ramp."""
