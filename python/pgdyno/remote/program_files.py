"""Collects the files that a program needs on another host, as named by its options, variables and Lua scripts.

Which files a script loads is known only at run time. Therefore all scripts of its folder are copied, and the files
below the folder that one of them names in `require`, `dofile` or `loadfile`.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath

from pgdyno.errors import EngineError
from pgdyno.mounts import is_file
from pgdyno.remote.remote_host import RemoteError

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
    return str(PurePosixPath(*("up" if part == ".." else part for part in file.parts if part != file.anchor)))


def lua_files(name: str, folder: Path) -> LuaFiles:
    """Collect the files of the script that the engine finds for `name` in `folder`. Raises EngineError, OSError."""
    script = _find_script(name, folder)
    base = script.parent
    first = [script, *sorted(base / each.name for each in (folder / base).glob("*.lua"))]
    files: dict[str, bytes] = {}
    size = 0
    for file, content in _follow_files(first, folder, lambda text: _list_loaded(name, text, base, folder)):
        files[place_of(file)] = content
        size += len(content)
        if len(files) > MOST_FILES or size > MOST_BYTES:
            message = f"the folder of the Lua script {name} has too many files to copy to another host"
            hint = f"move it with the files that it needs into a separate folder: {MOST_FILES} files and 8 MB at most"
            raise EngineError(message, hint=hint)
    return LuaFiles(place_of(script), files)


def _follow_files(
    first: Sequence[Path], folder: Path, loaded: Callable[[str], Iterable[Path]]
) -> Iterator[tuple[Path, bytes]]:
    waiting = deque(first)
    seen: set[str] = set()
    while waiting:
        file = waiting.popleft()
        place = place_of(file)
        if place in seen:
            continue
        seen.add(place)
        content = (folder / file).read_bytes()
        yield file, content
        waiting += loaded(content.decode(errors="replace"))


def _find_script(name: str, folder: Path) -> Path:
    places = [Path(), *INSTALLED] if "/" not in name else [Path()]
    for place in places:
        for ending in ("", ".lua"):
            if (folder / place / f"{name}{ending}").is_file():
                return place / f"{name}{ending}"
    raise EngineError(f"Lua script {name} does not exist")


def _list_loaded(name: str, text: str, base: Path, folder: Path) -> Iterator[Path]:
    """Return the files that `text` names. Raises EngineError for one outside of the script's folder."""
    for named, file in _list_named(text, base, folder):
        if not (folder / file).resolve().is_relative_to((folder / base).resolve()):
            message = f"the Lua script {name} loads {named}, which is outside of its folder"
            raise EngineError(message, hint="only files in its folder and below are copied to another host")
        yield file


def _list_named(text: str, base: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    for named in _LOADS.findall(text):
        module = f"{named.replace('.', '/')}.lua"
        for file in (base / module, base / named, Path(named)):
            if is_file(folder / file):
                yield named, file


def loaded_lua(name: str, folder: Path) -> dict[Path, bytes]:
    """Return the script that the engine finds for `name` in `folder`, and all files that it and these load by name.

    The paths are relative to `folder`, unless the script is installed with sysbench. Raises EngineError, OSError.
    """
    script = _find_script(name, folder)
    reached = _follow_files(
        [script], folder, lambda text: (file for _, file in _list_named(text, script.parent, folder))
    )
    return dict(islice(reached, MOST_FILES))


_NAMING = ("--phases=", "--file=")
"""Options whose value is a file."""
LUA = "--lua="
_SEEN_BY_ALL = "PGPASSWORD"
_FILES = ("PGPASSFILE", "PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY", "PGSSLCRL")
_HOSTS = ("PGHOST", "PGHOSTADDR")


@dataclass(slots=True)
class Baggage:
    options: list[str] = field(default_factory=list)
    """The program's options with paths on the other host."""
    environment: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    """Contents by path in the remote folder."""
    names: dict[str, str] = field(default_factory=dict)
    """The names that the options have for the scripts, by path in the remote folder."""


def pack(
    options: Sequence[str], environ: Mapping[str, str], hosts: Mapping[str, str], folder: Path = Path()
) -> Baggage:
    """Collect what `options`, whose paths begin in `folder`, and libpq's variables in `environ` need.

    `hosts` maps local server addresses to those of the other host. A password becomes a file, because users of that
    host could see a variable. Raises RemoteError for an unreadable file.
    """
    baggage = Baggage()
    for before, option in zip(("", *options), options, strict=False):
        baggage.options.append(_option(option, before, baggage, folder))
    for name, value in environ.items():
        if not name.startswith("PG") or name.startswith("PGDYNO"):
            continue
        if name != _SEEN_BY_ALL:
            baggage.environment[name] = _variable(name, value, baggage, environ, hosts)
    if password := environ.get(_SEEN_BY_ALL):
        # of one server, the only one that the program connects to
        baggage.environment["PGPASSFILE"] = place = ".pgdyno-password"
        baggage.files[place] = b"*:*:*:*:" + _escape_password(password) + b"\n"
    return baggage


def _variable(name: str, value: str, baggage: Baggage, environ: Mapping[str, str], hosts: Mapping[str, str]) -> str:
    if name in _HOSTS:
        return ",".join(hosts.get(each, each) for each in value.split(","))
    if name == "PGPASSFILE" and value:
        place = _take(Path(value), baggage)
        baggage.files[place] = b"".join(_entries(baggage.files[place], environ, hosts))
        return place
    if name in _FILES and value:
        return _take(Path(value), baggage)
    return value


_ENTRY = {0: "PGHOST", 1: "PGPORT", 2: "PGDATABASE", 3: "PGUSER"}
"""libpq's variables by the field of a password file."""


def _entries(content: bytes, environ: Mapping[str, str], hosts: Mapping[str, str]) -> Iterator[bytes]:
    """Yield the lines of a password file that the connection in `environ` can need, with the addresses of the other
    host: it must not learn the passwords of other servers.
    """
    for line in content.splitlines():
        fields = [
            each.replace(b"\\:", b":").replace(b"\\\\", b"\\").decode(errors="replace") for each in _FIELD.split(line)
        ]
        if line.startswith(b"#") or len(fields) <= len(_ENTRY):
            continue
        wanted = all(_fits(fields[at], environ.get(name)) for at, name in _ENTRY.items())
        if wanted:
            begin = _FIELD.split(line)[0]
            theirs = hosts.get(fields[0])
            yield (line if theirs is None else _escape_password(theirs) + line.removeprefix(begin)) + b"\n"


_FIELD = re.compile(rb"(?<!\\):")


def _fits(field_: str, given: str | None) -> bool:
    # Without a variable, libpq's default or a service file decides; a list has one value per host. A socket is looked
    # up under the name localhost.
    is_socket = given is not None and given.startswith(("/", "@")) and field_ == "localhost"
    return given is None or field_ == "*" or field_ in given.split(",") or is_socket


def _escape_password(text: str) -> bytes:
    return text.replace("\\", "\\\\").replace(":", "\\:").encode()


def _option(option: str, before: str, baggage: Baggage, folder: Path) -> str:
    if before == "-f":
        name, at, weight = option.rpartition("@")
        name = name if at else option
        place = _take(Path(name), baggage, folder)
        baggage.names[place] = name
        return place + (f"@{weight}" if at else "")
    for naming in _NAMING:
        if option.startswith(naming):
            return naming + _take(Path(option.removeprefix(naming)), baggage, folder)
    if option.startswith(LUA):
        return LUA + _take_lua(option.removeprefix(LUA), baggage, folder)
    return option


def _take_lua(name: str, baggage: Baggage, folder: Path) -> str:
    try:
        found = lua_files(name, folder)
    except (EngineError, OSError) as error:
        raise RemoteError(error.message if isinstance(error, EngineError) else f"cannot read {error}") from error
    baggage.files.update(found.files)
    baggage.names[found.script] = name
    return found.script


def _take(file: Path, baggage: Baggage, folder: Path = Path()) -> str:
    try:
        content = (folder / file).read_bytes()
    except OSError as error:
        raise RemoteError(f"cannot read {file}: {error}") from error
    place = place_of(file)
    baggage.files[place] = content
    return place
