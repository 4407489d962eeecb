"""Writes the plan of `pgdyno ab`: the arms of one question, as text that `pgdyno run` reads, too."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from pgdyno.errors import UsageError
from pgdyno.plan.model import BUILTIN_SCRIPTS
from pgdyno.plan.optional_sections import checked_margin
from pgdyno.plan.values import NAME, repeats
from pgdyno.plan.workload import parse_script

FEWEST_PAIRS = 6
"""Pairs that a claim needs."""
READ_ONLY = "default_transaction_read_only"
_ONE_OF = "give several values to one of --set NAME=A,B, --version A,B, --dsn (twice) and --bin (twice)"


@dataclass(frozen=True, slots=True)
class Question:
    """The options of `pgdyno ab`, as given."""

    dsn: Sequence[str] = ()
    versions: Sequence[str] = ()
    bins: Sequence[str] = ()
    settings: Sequence[str] = ()
    """`NAME=A,B` each."""
    scripts: Sequence[str] = ()
    clients: int = 8
    rate: float | None = None
    duration: str = "20s"
    warmup: str = "5s"
    pairs: str = "6..20"
    """A number, or a range to stop when decided."""
    margin: str | None = None
    """Differences within it count as none; only with a range."""
    scale: int | None = None
    """Of pgbench's tables on servers that pgdyno starts; None: 10."""
    writes: bool = False
    """Whether scripts may write on a server of the user's."""


def ab_plan(asked: Question, folder: Path) -> str:
    """Returns the TOML text of the plan, whose scripts are relative to `folder`.

    A setting applies per connection on a server that exists, and to the whole server on one that pgdyno starts. Raises
    UsageError if the options ask no question or several.
    """
    settings = _settings(asked.settings)
    targets = _targets(asked)
    several = [name for name, values in settings.items() if len(values) > 1]
    if len(several) + (len(targets) > 1) != 1:
        raise UsageError(_refused(targets, several), hint=_ONE_OF)
    pairs = _number_of_pairs(asked)
    if asked.scale is not None and asked.dsn:
        raise UsageError(
            "--scale applies to servers that pgdyno starts: it loads nothing into yours", hint="remove --scale"
        )
    if asked.dsn and not asked.scripts:
        raise UsageError("no --script", hint="name a file with the statements to measure: --script query.sql")
    if asked.writes and not asked.dsn:
        raise UsageError("--writes applies only to --dsn: on servers that pgdyno starts, scripts may write anyway")
    lines = ["# written by pgdyno ab", 'name = "ab"', f"description = {_text(_question(settings, targets))}"]
    for name, table in targets.items():
        lines += ["", f"[target.{name}]", *_pairs(table)]
        if asked.dsn and not asked.writes:
            lines += ["", f"[target.{name}.session_settings]", f'{READ_ONLY} = "on"']
    lines += ["", "[workload]", f"scripts = {_list(_scripts(asked, folder))}"]
    lines.append('dataset = "none"' if asked.dsn else f"scale = {asked.scale or 10}")
    lines += ["", "[sweep]", f"clients = {asked.clients}"]
    lines += [] if asked.rate is None else [f"rate = {asked.rate!r}"]
    if settings:
        lines += ["", f"[sweep.{'session_settings' if asked.dsn else 'settings'}]"]
        lines += [f"{_key(name)} = {_list(values)}" for name, values in settings.items()]
    lines += ["", "[trial]", f"warmup = {_text(asked.warmup)}", f"duration = {_text(asked.duration)}"]
    lines += [f"repeats = {json.dumps(pairs)}", *([f"margin = {_text(asked.margin)}"] if asked.margin else [])]
    lines += ['order = "interleaved"', 'on_failure = "stop"']
    if asked.dsn:
        lines += ["", "[reset]", "checkpoint = false      # a server in use makes its own checkpoints"]
    return "\n".join(lines) + "\n"


def _number_of_pairs(asked: Question) -> int | str:
    """Returns the pairs as a plan has them. Raises UsageError."""
    pairs: int | str = int(asked.pairs) if asked.pairs.isdecimal() else asked.pairs
    if isinstance(pairs, int) and pairs < FEWEST_PAIRS:
        raise UsageError(f"{pairs} pairs are too few for a verdict", hint=f"use --pairs {FEWEST_PAIRS} or more")
    try:
        repeats(pairs)
    except ValueError as error:
        raise UsageError(f"--pairs: {error}") from error
    try:
        checked_margin(asked.margin)
    except ValueError as error:
        raise UsageError(f"--margin: {error}") from error
    if asked.margin is not None and isinstance(pairs, int):
        raise UsageError("--margin is valid only with a range of pairs", hint="such as --pairs 6..20")
    return pairs


def _refused(targets: Mapping[str, object], several: Sequence[str]) -> str:
    if not several:
        return "nothing to compare"
    compared = [*(f"--set {name}" for name in several), *([f"{len(targets)} servers"] if len(targets) > 1 else [])]
    return f"several questions at once: {', '.join(compared)}"


def _settings(given: Sequence[str]) -> dict[str, list[str]]:
    """Returns the values of each setting; one that is given several times keeps commas in its values."""
    found: dict[str, list[str]] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--set {each} is not NAME=VALUE", hint="such as --set work_mem=4MB,64MB")
        found.setdefault(name.strip(), []).append(value.strip())
    split = {
        name: [part.strip() for part in values[0].split(",")] if len(values) == 1 else values
        for name, values in found.items()
    }
    for name, values in split.items():
        if len(set(values)) < len(values):
            raise UsageError(f"--set {name} has a value twice", hint="give each value once")
    return split


def _targets(asked: Question) -> dict[str, dict[str, object]]:
    """Returns the tables of the targets by name."""
    given = [name for name in ("dsn", "versions", "bins") if getattr(asked, name)]
    if len(given) != 1:
        hint = 'name your server, --dsn "host=db dbname=app", or let pgdyno start one: --version 18, or --bin FOLDER'
        raise UsageError("no server to measure" if not given else "servers of several kinds", hint=hint)
    if asked.dsn:
        return _existing(asked.dsn)
    if asked.versions:
        return {
            "pg" + re.sub(r"[^A-Za-z0-9]+", "-", each): {"kind": "embedded", "version": each}
            for each in _once("--version", asked.versions)
        }
    bins = [str(Path(each).expanduser().absolute()) for each in asked.bins]
    names = _names([{str(at): part for at, part in enumerate(PurePath(each).parts)} for each in _once("--bin", bins)])
    return {name: {"kind": "local", "bin": each} for name, each in zip(names, bins, strict=True)}


def _once(option: str, values: Sequence[str]) -> Sequence[str]:
    if len(set(values)) < len(values):
        raise UsageError(f"{option} names one server twice", hint="give each value once")
    return values


def _existing(given: Sequence[str]) -> dict[str, dict[str, object]]:
    # loading libpq takes time, and other questions do not need it
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    parsed = []
    for each in given:
        text = each if "=" in each or "://" in each else make_conninfo(dbname=each)
        try:
            parameters = {name: str(value) for name, value in conninfo_to_dict(text).items()}
        except psycopg.ProgrammingError as error:
            # libpq quotes the text that it could not parse, which may contain a password; an option's name is safe
            is_name = str(error).startswith("invalid connection option") and "password" not in text.lower()
            said = f": {str(error).strip()}" if is_name else ""
            raise UsageError(
                f"--dsn is not a connection string{said}", hint='such as "host=db dbname=app" or postgresql://db/app'
            ) from error
        if "password" in parameters:
            raise UsageError(
                "--dsn has a password, which other users could see",
                hint="remove it there, and set PGPASSWORD or use ~/.pgpass",
            )
        database = parameters.pop("dbname", None) or os.environ.get("PGDATABASE")
        if not database:
            raise UsageError("--dsn names no database", hint='such as --dsn "host=db dbname=app"')
        parsed.append((make_conninfo(**parameters, dbname=database), database, parameters))
    _once("--dsn", [text for text, _, _ in parsed])
    names = _names([parameters | {"dbname": database} for _, database, parameters in parsed])
    return {
        name: {"kind": "dsn", "dsn": text, "database": database, "allow_existing": True}
        for name, (text, database, _) in zip(names, parsed, strict=True)
    }


def _names(parameters: Sequence[Mapping[str, str]]) -> list[str]:
    """Returns a name for each of several servers: their first parameter that differs, if it makes one."""
    if len(parameters) == 1:
        return ["server"]
    for key in dict.fromkeys(key for each in parameters for key in each):
        names = [re.sub(r"[^A-Za-z0-9]+", "-", each.get(key, "")).strip("-") for each in parameters]
        if len(set(names)) == len(names) and all(NAME.fullmatch(name) for name in names):
            return names
    return [f"server{number}" for number in range(1, len(parameters) + 1)]


def _scripts(asked: Question, folder: Path) -> list[str]:
    """Returns the scripts relative to `folder`, with their weights."""
    found = []
    for each in asked.scripts or ["select-only"]:
        try:
            choice = parse_script(each)
        except ValueError as error:
            raise UsageError(f"--script {each}: {error}") from error
        if choice.builtin and asked.dsn:
            raise UsageError(
                f"--script {choice.name} needs pgbench's tables, and pgdyno ab loads none into your own server",
                hint="name a file with statements for your own tables",
            )
        if not choice.builtin and not Path(choice.name).exists():
            raise UsageError(
                f"--script {each}: it is neither a built-in script nor a file",
                hint=f"write the statements into a file, and name it; built-in scripts: {', '.join(BUILTIN_SCRIPTS)}",
            )
        name = choice.name if choice.builtin else os.path.relpath(choice.name, folder)
        found.append(name if choice.weight == 1 and "@" not in name else f"{name}@{choice.weight}")
    return found


def _question(settings: Mapping[str, Sequence[str]], targets: Mapping[str, object]) -> str:
    swept = [f"{name} = {' or '.join(values)}" for name, values in settings.items()]
    return "; ".join(swept + ([" or ".join(targets)] if len(targets) > 1 else []))


def _pairs(table: Mapping[str, object]) -> list[str]:
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in table.items()]


def _list(values: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, values))}]"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(text: str) -> str:
    # JSON's strings are valid TOML
    return json.dumps(text, ensure_ascii=False)
