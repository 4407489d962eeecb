"""Translates errors of the schema into messages for authors of plans."""

from collections.abc import Callable, Iterable
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from pgdyno.errors import InvalidValueError, Problem
from pgdyno.plan.kinds import (
    GENERATOR_KINDS,
    TARGET_KINDS,
    WORKLOAD_KINDS,
    alternatives,
    kinds_in_words,
    workload_schema,
)
from pgdyno.plan.model import EventSpec, Hooks, PhaseSpec, Plan, Reset, SearchSpec, TrialSpec
from pgdyno.plan.optional_sections import ProbeSpec
from pgdyno.plan.plan_document import Document, KeyPath, near
from pgdyno.plan.scenario.groups import GroupSpec
from pgdyno.plan.scenario.steps import StepSpec
from pgdyno.plan.sweeps.spec import GROUPS, PointSpec, Sweep
from pgdyno.plan.targets import CloudSpec
from pgdyno.records.price import PriceList
from pgdyno.registry import KINDS, WORKLOADS
from pgdyno.units import format_duration

SECTIONS: dict[str, type[BaseModel]] = {
    **({"generator": next(iter(GENERATOR_KINDS.values()))} if GENERATOR_KINDS else {}),
    "cloud": CloudSpec,
    "sweep": Sweep,
    "trial": TrialSpec,
    "phase": PhaseSpec,
    "event": EventSpec,
    "group": GroupSpec,
    "step": StepSpec,
    "reset": Reset,
    "hooks": Hooks,
    "probe": ProbeSpec,
    "search": SearchSpec,
    "price": PriceList,
}

_EXAMPLES = {
    "name": 'such as name = "quick"',
    "target": 'such as [target.pg18] with kind = "embedded" and version = "18"',
    "kind": kinds_in_words(),
    "source": 'such as source = "/src/postgres"',
    "dsn": 'such as dsn = "host=db.example.net user=bench"',
    "hosts": 'such as hosts = [{ host = "db1.example.net", user = "root" }]',
    "count": "such as count = 1",
    "version": 'such as version = "18"',
    "instance": 'such as instance = "db.m7g.large"',
    "workload": 'such as [workload] with scripts = ["select-only"]',
    "scripts": 'such as scripts = ["select-only"]',
    "sweep": "such as [sweep] with clients = [1, 4, 16]",
    "clients": "such as clients = [1, 4, 16]",
    "trial": 'such as [trial] with duration = "10s" and repeats = 3',
    "duration": 'such as duration = "10s"',
}
_OF_PRICES = {
    "currency": 'such as currency = "EUR"',
    "date": 'such as date = "2026-03-01"',
    "years": "such as years = 3",
    "target": 'such as [price.target.NAME] with hourly = [{ name = "instance", amount = 0.768 }]',
}
_DURATIONS = {"warmup", "duration", "pause", "timeout"}


def schema_problems(error: ValidationError, document: Document) -> list[Problem]:
    return [_translate(dict(each), document) for each in error.errors(include_url=False)]


def _translate(error: dict[str, Any], document: Document) -> Problem:
    kind, context = str(error["type"]), error.get("ctx", {})
    path = _path(document.as_written(error["loc"]), kind, document)
    if kind == "extra_forbidden":
        return _unknown_key(path, document)
    if kind == "missing":
        if path == ("trial",) and workload_schema(document.value_at(("workload",))).own_end is not None:
            return document.problem(path, "is missing", "such as [trial] with repeats = 3")
        examples = _OF_PRICES if path[0] == "price" else _EXAMPLES
        return document.problem(path, "is missing", examples.get(str(path[-1])))
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        return _kind_of_target(path, document)
    if len(path) == 2 and path[0] == "target" and kind in _NOT_A_TABLE:
        # [target] directly contains the keys of a target
        return document.problem(("target",), "must hold a table for each target", "give it a name: [target.pg18]")
    if path == ("format",):
        message = f"this pgdyno reads plans of format 1, not {_as_written(error['input'])}"
        return document.problem(path, message, "use a newer pgdyno, or format = 1")
    translate = _MESSAGES.get(kind)
    if translate is None:
        return document.problem(path, error["msg"][:1].lower() + error["msg"][1:])
    message, hint = translate(context, error["input"], str(path[-1]) if path else "")
    return document.problem(path, message, hint)


def _path(loc: tuple[str | int, ...], kind: str, document: Document) -> KeyPath:
    path: list[str | int] = []
    node: Any = document.data
    for number, part in enumerate(loc, start=1):
        in_table = isinstance(node, dict) and part in node
        in_list = isinstance(node, list) and isinstance(part, int) and part < len(node)
        if in_table or in_list:
            node = node[part]
            path.append(part)
        elif kind == "missing" and number == len(loc):
            path.append(part)
    return tuple(path)


# ---- keys ----


def _unknown_key(path: KeyPath, document: Document) -> Problem:
    key, table = str(path[-1]), path[:-1]
    known = _known_keys(table, document)
    loads = [kind for kind, model in WORKLOAD_KINDS.items() if key in model.model_fields]
    elsewhere = [name for name, model in SECTIONS.items() if key in _keys(model) and (name,) != table]
    elsewhere += ["workload"] if loads else []
    kinds = [name for name, model in TARGET_KINDS.items() if key in model.model_fields]
    meant = near(key, known)
    # [trials] is not the number trials of [search]
    is_section = meant in SECTIONS and isinstance(document.value_at(path), dict)
    if table[:1] == ("target",) and len(table) == 2 and kinds:
        hint = f'{key} belongs to kind = "{kinds[0]}"'
    elif table == ("workload",) and loads:
        chosen = (name if value is None else f'{name} = "{value}"' for name, value in WORKLOADS[loads[0]].keys.items())
        hint = f"{key} belongs to {' or '.join(chosen)}"
    elif elsewhere and not is_section:
        hint = f"{key} belongs in [{elsewhere[0]}]"
    elif meant is not None:
        hint = f"did you mean {meant}?"
    elif table[:1] == ("sweep",):
        hint = _sweepable(key, known)
    else:
        hint = f"known keys: {', '.join(known)}"
    return document.problem(path, "unknown key", hint)


def _sweepable(key: str, known: Iterable[str]) -> str:
    group, dot, name = key.partition(".")
    meant = near(group, GROUPS)
    if dot and meant is not None:
        return f"did you mean {meant}.{name}?"
    name = name or key
    places = f"settings.{name} or session_settings.{name}"
    return f"known keys: {', '.join(known)}; a setting is {places}, a script's variable variables.{name}"


def _known_keys(table: KeyPath, document: Document) -> list[str]:
    if not table:
        model: type[BaseModel] = Plan
    elif table[0] == "target" and len(table) > 2:
        field = TARGET_KINDS[str(document.value_at((*table[:2], "kind")))].model_fields[str(table[2])]
        # the model of a table may be optional
        kinds = (field.annotation, *get_args(field.annotation))
        model = next(each for each in kinds if isinstance(each, type) and issubclass(each, BaseModel))
    elif table[0] == "target":
        model = TARGET_KINDS[str(document.value_at((*table, "kind")))]
    elif table == ("workload",):
        model = workload_schema(document.value_at(table))
    elif table[:2] == ("sweep", "points"):
        model = PointSpec
    else:
        # the section that is none of today is `replica_load`, a group
        model = SECTIONS.get(str(table[0]), GroupSpec)
    return _keys(model)


def _keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _kind_of_target(path: KeyPath, document: Document) -> Problem:
    path = (*path, "kind")
    value = document.value_at(path)
    if value is None:
        return document.problem(path, "is missing", _EXAMPLES["kind"])
    meant = near(value, TARGET_KINDS) if isinstance(value, str) else None
    if isinstance(value, str) and value in KINDS:
        message = f"the package for targets of kind {_as_written(value)} is not installed"
        hint = f"available: {_listing(TARGET_KINDS)}; to add it, install the whole of pgdyno"
        return document.problem(path, message, hint)
    message = f"{_as_written(value)} is not a kind of target; available: {_listing(TARGET_KINDS)}"
    return document.problem(path, message, f'did you mean "{meant}"?' if meant else _EXAMPLES["kind"])


# ---- values ----

_Translator = Callable[[dict[str, Any], object, str], tuple[str, str | None]]


def _must_be(what: str, example: str | None = None) -> _Translator:
    return lambda _context, value, _key: (f"must be {what}, not {_as_written(value)}", example)


def _wanted_text(_context: dict[str, Any], value: object, key: str) -> tuple[str, str | None]:
    if isinstance(value, (dict, list)):
        return f"must be one value, not {_as_written(value)}", None
    hint = f'put text in quotes: {key} = "{value}"' if isinstance(value, (int, float)) else None
    return f"must be text, not {_as_written(value)}", hint


def _wanted_whole(_context: dict[str, Any], value: object, key: str) -> tuple[str, str | None]:
    hint = None
    if isinstance(value, str) and value.strip().isdigit():
        hint = f"write numbers without quotes: {key if not key.isdigit() else '...'} = {value.strip()}"
    return f"must be a whole number, not {_as_written(value)}", hint


def _bound(words: str, name: str) -> _Translator:
    def translate(context: dict[str, Any], value: object, key: str) -> tuple[str, str | None]:
        limit = format_duration(context[name]) if key in _DURATIONS else context[name]
        return f"must be {words} {limit}, not {_as_written(value)}", None

    return translate


def _one_of(context: dict[str, Any], value: object, _key: str) -> tuple[str, str | None]:
    # pydantic lists them as 'simple', 'extended' or 'prepared'
    allowed = context["expected"].replace(" or ", ", ").replace("'", "").split(", ")
    meant = near(value, allowed) if isinstance(value, str) else None
    what = _listing(allowed) if len(allowed) > 1 else f'"{allowed[0]}", the only possible value'
    return f"must be {what}, not {_as_written(value)}", f'did you mean "{meant}"?' if meant else None


def _own_message(context: dict[str, Any], _value: object, _key: str) -> tuple[str, str | None]:
    error = context["error"]
    return (error.message, error.hint) if isinstance(error, InvalidValueError) else (str(error), None)


_NOT_A_TABLE = ("dict_type", "model_type", "model_attributes_type")
_MESSAGES: dict[str, _Translator] = {
    **dict.fromkeys(_NOT_A_TABLE, _must_be("a table")),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), _wanted_whole),
    "int_parsing_size": _must_be("a smaller number"),
    "string_type": _wanted_text,
    "list_type": _must_be("a list", 'put a list in brackets: ["a", "b"]'),
    "bool_type": _must_be("true or false"),
    "float_type": _must_be("a number"),
    "greater_than": _bound("more than", "gt"),
    "greater_than_equal": _bound("at least", "ge"),
    "literal_error": _one_of,
    "too_short": lambda _context, _value, key: ("must not be empty", _EXAMPLES.get(key)),
    "value_error": _own_message,
}


def _as_written(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 60 else f'"{value[:57]}..."'
    return str(value)


def _listing(words: Iterable[str]) -> str:
    return alternatives([f'"{word}"' for word in words])
