"""A Lua script for another host: its file, and those beside it that it may load.

Which files a script loads is known only while it runs. So all scripts of its folder go with it, and those below the
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
"""Where the engine finds scripts by their names, too."""
_LOADS = re.compile(r"""\b(?:require|dofile|loadfile)\b\s*\(?\s*["']([^"'\n]+)["']""")


@dataclass(frozen=True, slots=True)
class LuaFiles:
    """What goes there."""

    script: str
    """Its place, for `--lua`."""
    files: dict[str, bytes]
    """By their places in the folder in which the engine runs."""


def place_of(file: Path) -> str:
    """Where `file`, as somebody here names it, is put in another host's folder."""
    return str(PurePosixPath(*("up" if part == ".." else part for part in file.parts if part != file.anchor)))


def lua_files(name: str, folder: Path) -> LuaFiles:
    """Those of the script that the engine finds for `name` in `folder`. Raises EngineError, OSError."""
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
            message = f"the Lua script {name} lies beside too many others to be copied to another host"
            hint = f"put it with what it needs into a folder of its own: {MOST_FILES} files and 8 MB at most"
            raise EngineError(message, hint=hint)
        waiting += _loaded(name, content.decode(errors="replace"), base, folder)
    return LuaFiles(place_of(script), files)


def _found(name: str, folder: Path) -> Path:
    """As the engine looks for it: here, and, without a folder in its name, where sysbench has its own."""
    places = [Path(), *INSTALLED] if "/" not in name else [Path()]
    for place in places:
        for ending in ("", ".lua"):
            if (folder / place / f"{name}{ending}").is_file():
                return place / f"{name}{ending}"
    raise EngineError(f"there is no Lua script {name}")


def _loaded(name: str, text: str, base: Path, folder: Path) -> Iterator[Path]:
    """Files that `text` names and that are there, as they are found from the folder or from the script's."""
    for named in _LOADS.findall(text):
        module = f"{named.replace('.', '/')}.lua"
        for file in (base / module, base / named, Path(named)):
            if not (folder / file).is_file():
                continue
            if not (folder / file).resolve().is_relative_to((folder / base).resolve()):
                message = f"the Lua script {name} loads {named}, which does not lie beside it"
                raise EngineError(message, hint="only files in its folder and below are copied to another host")
            yield file
