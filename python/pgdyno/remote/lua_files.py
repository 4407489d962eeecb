"""Collects the files of a Lua script for another host.

Which files a script loads is known only at run time: so all scripts of its folder are copied, and those below the
folder that one of them names in `require`, `dofile` or `loadfile`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pgdyno.errors import EngineError

MOST_FILES, MOST_BYTES = 200, 8_000_000
INSTALLED = (Path("/usr/share/sysbench"), Path("/usr/local/share/sysbench"))
"""Folders in which the engine also searches scripts by name."""
_LOADS = re.compile(r"""\b(?:require|dofile|loadfile)\b\s*\(?\s*["']([^"'\n]+)["']""")


@dataclass(frozen=True, slots=True)
class LuaFiles:
    """The files to copy."""

    script: str
    """The path for `--lua`."""
    files: dict[str, bytes]
    """Contents by path in the folder in which the engine runs."""


def place_of(file: Path) -> str:
    """Returns the remote path of the local `file`."""
    return str(PurePosixPath(*("up" if part == ".." else part for part in file.parts if part != file.anchor)))


def lua_files(name: str, folder: Path) -> LuaFiles:
    """Collects the files of the script that the engine finds for `name` in `folder`. Raises EngineError, OSError."""
    script = _found(name, folder)
    base = script.parent
    waiting = [script, *sorted(base / each.name for each in (folder / base).glob("*.lua"))]
    files: dict[str, bytes] = {}
    size = 0
    while waiting:
        file = waiting.pop(0)
        place = place_of(file)
        if place in files:
            continue
        content = files[place] = (folder / file).read_bytes()
        size += len(content)
        if len(files) > MOST_FILES or size > MOST_BYTES:
            message = f"the folder of the Lua script {name} has too many files to copy to another host"
            hint = f"move it with the files that it needs into a separate folder: {MOST_FILES} files and 8 MB at most"
            raise EngineError(message, hint=hint)
        waiting += _loaded(name, content.decode(errors="replace"), base, folder)
    return LuaFiles(place_of(script), files)


def _found(name: str, folder: Path) -> Path:
    """Searches as the engine does: in the folder and, for a bare name, in sysbench's own folders."""
    places = [Path(), *INSTALLED] if "/" not in name else [Path()]
    for place in places:
        for ending in ("", ".lua"):
            if (folder / place / f"{name}{ending}").is_file():
                return place / f"{name}{ending}"
    raise EngineError(f"Lua script {name} does not exist")


def _loaded(name: str, text: str, base: Path, folder: Path) -> Iterator[Path]:
    """Returns existing files that `text` names, relative to the folder or the script's folder."""
    for named in _LOADS.findall(text):
        module = f"{named.replace('.', '/')}.lua"
        for file in (base / module, base / named, Path(named)):
            if not (folder / file).is_file():
                continue
            if not (folder / file).resolve().is_relative_to((folder / base).resolve()):
                message = f"the Lua script {name} loads {named}, which is outside of its folder"
                raise EngineError(message, hint="only files in its folder and below are copied to another host")
            yield file
