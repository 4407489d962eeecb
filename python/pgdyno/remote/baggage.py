"""Collects the files that a program's options and libpq's variables name, for another host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.errors import EngineError
from pgdyno.remote.lua_files import lua_files, place_of
from pgdyno.remote.problem import RemoteError

_NAMING = ("--phases=", "--file=")
"""Options whose value is a file."""
LUA = "--lua="
_SEEN_BY_ALL = "PGPASSWORD"
_FILES = ("PGPASSFILE", "PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY", "PGSSLCRL")
_HOSTS = ("PGHOST", "PGHOSTADDR")


@dataclass(slots=True)
class Baggage:
    """Files for one start of a program."""

    options: list[str] = field(default_factory=list)
    """The program's options with paths on the other host."""
    environment: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    """Contents by path in the remote folder."""


def pack(options: Sequence[str], environ: Mapping[str, str], hosts: Mapping[str, str]) -> Baggage:
    """Collects what `options` and libpq's variables in `environ` need; `hosts` maps local server addresses to those of
    the other host.

    Raises RemoteError for an unreadable file, and for a password that other users of the host could see.
    """
    baggage = Baggage()
    for before, option in zip(("", *options), options, strict=False):
        baggage.options.append(_option(option, before, baggage))
    for name, value in environ.items():
        if not name.startswith("PG") or name.startswith("PGDYNO"):
            continue
        if name == _SEEN_BY_ALL:
            message = "a password in the environment would be visible in the other host's process list"
            raise RemoteError(message, hint="use a password file")
        baggage.environment[name] = _variable(name, value, baggage, hosts)
    return baggage


def _variable(name: str, value: str, baggage: Baggage, hosts: Mapping[str, str]) -> str:
    if name in _HOSTS:
        return ",".join(hosts.get(each, each) for each in value.split(","))
    if name in _FILES and value:
        return _take(Path(value), baggage, hosts if name == "PGPASSFILE" else {})
    return value


def _option(option: str, before: str, baggage: Baggage) -> str:
    if before == "-f":
        name, at, weight = option.rpartition("@")
        name = name if at else option
        return _take(Path(name), baggage) + (f"@{weight}" if at else "")
    for naming in _NAMING:
        if option.startswith(naming):
            return naming + _take(Path(option.removeprefix(naming)), baggage)
    if option.startswith(LUA):
        return LUA + _take_lua(option.removeprefix(LUA), baggage)
    return option


def _take_lua(name: str, baggage: Baggage) -> str:
    try:
        found = lua_files(name, Path())
    except (EngineError, OSError) as error:
        raise RemoteError(error.message if isinstance(error, EngineError) else f"cannot read {error}") from error
    baggage.files.update(found.files)
    return found.script


def _take(file: Path, baggage: Baggage, hosts: Mapping[str, str] | None = None) -> str:
    """Adds a file and returns its path relative to the remote folder."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise RemoteError(f"cannot read {file}: {error}") from error
    for ours, theirs in (hosts or {}).items():
        lines = content.splitlines(keepends=True)
        begin = f"{ours}:".encode()
        content = b"".join(_renamed(each, begin, f"{theirs}:".encode()) for each in lines)
    place = place_of(file)
    baggage.files[place] = content
    return place


def _renamed(line: bytes, begin: bytes, instead: bytes) -> bytes:
    return instead + line.removeprefix(begin) if line.startswith(begin) else line
