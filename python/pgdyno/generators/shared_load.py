"""A load as its generators receive it: the engine's options, and the files that they name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.remote.program_files import LUA, lua_files

CLIENTS, PHASES = "--client=", "--phases="
OURS = frozenset({"--parent-lease"})
"""Options that each generator sets itself."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one engine needs."""

    options_here: list[str]
    """With the files of `folder`."""
    folder: Path
    options_there: list[str]
    """With the names in `files`, for an engine of another host."""
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Shared:
    """What all generators of a load have in common."""

    clients: int
    whole: Share
    names: Mapping[str, str]
    """The user's names of its files."""

    def part(self, number: int, of: int) -> Share:
        """Return the share of generator `number`, counted from 1."""
        part, whole = f"--part={number}/{of}", self.whole
        return Share([part, *whole.options_here], whole.folder, [part, *whole.options_there], whole.files)


def shared_out(options: Sequence[str], folder: Path) -> Shared:
    """Return what generators need for the engine's `options`; read files from `folder`. Raises OSError, EngineError."""
    there: list[str] = []
    files: dict[str, bytes] = {}
    names: dict[str, str] = {}
    clients = 1

    def sent(path: str) -> str:
        name = f"{len(files)}-{Path(path).name}"
        files[name] = (folder / path).read_bytes()
        names[name] = path
        return name

    here = [option for option in options if option not in OURS]
    rest = iter(here)
    for option in rest:
        if option == "-f":
            path, at, weight = next(rest).rpartition("@")
            path, weight = (path, f"@{weight}") if at else (weight, "")
            there += ["-f", sent(path) + weight]
        elif option.startswith(PHASES):
            there.append(PHASES + sent(option.removeprefix(PHASES)))
        elif option.startswith(LUA):
            name = option.removeprefix(LUA)
            lua = lua_files(name, folder)
            files.update(lua.files)
            names[lua.script] = name
            there.append(LUA + lua.script)
        else:
            there.append(option)
            if option.startswith(CLIENTS):
                clients = int(option.removeprefix(CLIENTS))
    return Shared(clients, Share(here, folder, there, files), names)
