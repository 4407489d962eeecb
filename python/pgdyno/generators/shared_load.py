"""A load as its generators receive it: the engine's options, and the files that they name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.remote.program_files import pack

CLIENTS = "--client="
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
    """The user's names of its scripts."""

    def part(self, number: int, of: int) -> Share:
        """Return the share of generator `number`, counted from 1."""
        part, whole = f"--part={number}/{of}", self.whole
        return Share([part, *whole.options_here], whole.folder, [part, *whole.options_there], whole.files)


def shared_out(options: Sequence[str], folder: Path) -> Shared:
    """Return what generators need for the engine's `options`; read files from `folder`. Raises RemoteError."""
    here = [option for option in options if option not in OURS]
    there = pack(here, {}, {}, folder)
    clients = next((int(each.removeprefix(CLIENTS)) for each in here if each.startswith(CLIENTS)), 1)
    return Shared(clients, Share(here, folder, there.options, there.files), there.names)
