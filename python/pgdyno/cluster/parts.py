"""One engine's command line as that of several: each with its part, and the files that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.remote.lua_files import lua_files

CLIENTS, PHASES, LUA = "--client=", "--phases=", "--lua="
OURS = frozenset({"--parent-lease"})
"""What generators do in another way."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What every generator is told."""

    clients: int
    options: list[str]
    files: dict[str, bytes]
    """By the place, seen from the engine, where each is put."""
    names: Mapping[str, str]
    """What the user calls them."""

    def part(self, number: int, of: int) -> list[str]:
        """Options of generator `number`, from 1."""
        return [f"--part={number}/{of}", *self.options]


def shared_out(options: Sequence[str], folder: Path) -> Shared:
    """Of the engine's `options`; files are read from `folder`. Raises OSError, EngineError."""
    told: list[str] = []
    files: dict[str, bytes] = {}
    names: dict[str, str] = {}
    clients = 1

    def sent(path: str) -> str:
        name = f"{len(files)}-{Path(path).name}"
        files[name] = (folder / path).read_bytes()
        names[name] = path
        return name

    rest = iter(options)
    for option in rest:
        if option == "-f":
            path, at, weight = next(rest).rpartition("@")
            path, weight = (path, f"@{weight}") if at else (weight, "")
            told += ["-f", sent(path) + weight]
        elif option.startswith(PHASES):
            told.append(PHASES + sent(option.removeprefix(PHASES)))
        elif option.startswith(LUA):
            name = option.removeprefix(LUA)
            lua = lua_files(name, folder)
            files.update(lua.files)
            names[lua.script] = name
            told.append(LUA + lua.script)
        elif option not in OURS:
            told.append(option)
            if option.startswith(CLIENTS):
                clients = int(option.removeprefix(CLIENTS))
    return Shared(clients, told, files, names)
