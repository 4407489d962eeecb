"""The space of a search on one server: what pg_settings says of each setting, and why a range is refused."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import psycopg

from pgdyno.plan.known_settings import context_refusal
from pgdyno.plan.sweeps.settings_space import Choice, Span, read_choice, unit_family
from pgdyno.units import BYTES, format_bytes

MEMORY = (
    "autovacuum_work_mem", "logical_decoding_work_mem", "maintenance_work_mem", "min_dynamic_shared_memory",
    "shared_buffers", "temp_buffers", "wal_buffers", "work_mem",
)  # fmt: skip
"""Settings that allocate memory. effective_cache_size is an estimate only."""
_NUMBER = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_BOOLEANS = ("on", "off", "true", "false", "yes", "no", "1", "0")
_QUERY = """
    SELECT lower(name), context, vartype, unit, min_val, max_val, enumvals
    FROM pg_catalog.pg_settings WHERE lower(name) = ANY(%s)
"""


@dataclass(frozen=True, slots=True)
class ServerSetting:
    context: str
    vartype: str
    """bool, integer, real, string or enum."""
    unit: str | None
    """Unit of a number that has none in the setting: `8kB`, `ms`."""
    min_val: str | None
    max_val: str | None
    enumvals: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class Searched:
    name: str
    choice: Choice
    is_whole: bool
    """Whether the setting takes whole numbers only."""
    needs_restart: bool


@dataclass(frozen=True, slots=True)
class SpaceProblem:
    """Why a server cannot have a setting or its values."""

    field: str
    message: str
    hint: str


def read_settings(connection: psycopg.Connection[tuple[Any, ...]], names: Sequence[str]) -> dict[str, ServerSetting]:
    """Read those of `names` that the server knows, by name in lower case. Raises psycopg.Error."""
    rows = connection.execute(_QUERY, [[name.lower() for name in names]]).fetchall()
    return {name: ServerSetting(*rest) for name, *rest in rows}


def searched_settings(
    over: Mapping[str, str | Sequence[str]],
    known: Mapping[str, ServerSetting],
    memory_bytes: int | None,
    *,
    by_session: bool,
) -> list[Searched] | list[SpaceProblem]:
    """Return the space, or all that is wrong with it.

    `memory_bytes` is the server's memory, None if it is unknown; `by_session`: only settings of sessions are possible.
    """
    space, problems = [], []
    for name, value in over.items():
        choice, setting = read_choice(value), known.get(name.lower())
        found = list(_problems(name, value, setting, memory_bytes, by_session=by_session))
        problems += found
        if not found and setting is not None:
            needs_restart = setting.context == "postmaster"
            space.append(Searched(name, choice, setting.vartype == "integer", needs_restart))
    return problems or space


def attached_problems(known: Mapping[str, ServerSetting], *, restarts: bool) -> Iterator[SpaceProblem]:
    """Return why a search cannot change some of `known` on a server that pgdyno did not start."""
    for name, setting in known.items():
        field = f"search.over.{name}"
        if setting.context == "postmaster" and not restarts:
            yield SpaceProblem(field, "takes effect when the server starts", "set restart in the target, or remove it")
        elif setting.vartype == "string":
            yield SpaceProblem(field, "is text, which a search changes only on servers that pgdyno starts", "remove it")


def _problems(
    name: str, value: str | Sequence[str], setting: ServerSetting | None, memory_bytes: int | None, *, by_session: bool
) -> Iterator[SpaceProblem]:
    field, choice = f"search.over.{name}", read_choice(value)
    if setting is None:
        yield SpaceProblem(field, "the server has no such setting", "correct the name, or remove it")
        return
    if setting.context == "internal":
        yield SpaceProblem(field, f"cannot be set: {context_refusal('internal')}", "remove it")
    elif by_session and setting.context not in ("user", "superuser"):
        why = context_refusal(setting.context)
        yield SpaceProblem(field, f"cannot be set: {why}", "remove it, or search on a server that pgdyno starts")
    else:
        memory_bytes = memory_bytes if name.lower() in MEMORY else None
        if isinstance(choice, Span):
            yield from _of_range(field, str(value), choice, setting, memory_bytes)
        else:
            yield from _of_list(field, choice, setting, memory_bytes)


def _of_list(
    field: str, values: Sequence[str], setting: ServerSetting, memory_bytes: int | None
) -> Iterator[SpaceProblem]:
    allowed = _BOOLEANS if setting.vartype == "bool" else setting.enumvals
    for value in values:
        if setting.vartype in ("integer", "real"):
            match = _NUMBER.fullmatch(value)
            if match is None:
                yield SpaceProblem(field, f"{value} is not a number", "remove it")
                continue
            number = Decimal(match[1])
            yield from _of_span(field, value, Span(number, number, match[2], is_log=False), setting, memory_bytes)
        elif allowed is not None and value.lower() not in allowed:
            yield SpaceProblem(field, f"{value} is not one of its values", f"use {', '.join(allowed)}")


def _of_range(
    field: str, text: str, span: Span, setting: ServerSetting, memory_bytes: int | None
) -> Iterator[SpaceProblem]:
    if setting.vartype not in ("integer", "real"):
        yield SpaceProblem(field, f"has no range: it is of type {setting.vartype}", "write a list of values")
    elif setting.vartype == "integer" and (span.low % 1 or span.high % 1):
        yield SpaceProblem(field, f"{text} has a fraction, but the setting is an integer", "use a smaller unit")
    else:
        yield from _of_span(field, text, span, setting, memory_bytes)


def _of_span(
    field: str, text: str, span: Span, setting: ServerSetting, memory_bytes: int | None
) -> Iterator[SpaceProblem]:
    size = _size_in(setting.unit, span.unit)
    if size is None:
        unit = f"in {setting.unit}" if setting.unit else "without a unit"
        yield SpaceProblem(
            field, f"{span.unit} is not the right unit: the server counts this setting {unit}", f"write it {unit}"
        )
        return
    low, high = span.low * size, span.high * size
    is_below = setting.min_val is not None and low < Decimal(setting.min_val)
    if is_below or (setting.max_val is not None and high > Decimal(setting.max_val)):
        unit = f" x {setting.unit}" if setting.unit else ""
        message = f"{text} is outside the server's range {setting.min_val}..{setting.max_val}{unit}"
        yield SpaceProblem(field, message, "stay within it")
        return
    if memory_bytes is not None and high * _bytes_of(setting.unit or "B") > memory_bytes:
        message = f"{text} exceeds the memory of the machine, {format_bytes(memory_bytes)}"
        yield SpaceProblem(field, message, "stay below it")


def _size_in(server: str | None, unit: str) -> Decimal | None:
    """Return how many of the `server`'s units one `unit` is; None if they do not convert."""
    if not unit:
        return Decimal(1)
    number, base = _split(server or "")
    family = unit_family(unit)
    if family is None or base not in family:
        return None
    return Decimal(family[unit]) / (number * family[base])


def _bytes_of(server: str) -> Decimal:
    number, base = _split(server)
    return number * Decimal(BYTES.get(base, 1))


def _split(server: str) -> tuple[Decimal, str]:
    """`8kB` as 8 and kB."""
    base = server.lstrip("0123456789")
    return Decimal(server.removesuffix(base) or 1), base
