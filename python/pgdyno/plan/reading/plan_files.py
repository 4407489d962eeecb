"""Finds and reads plan files."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from pgdyno.errors import PlanError, Problem, UsageError
from pgdyno.mounts import expand_home, is_file, is_folder, read_within
from pgdyno.plan.plan_document import near
from pgdyno.registry import WORKLOADS

# importlib.resources would read zip archives, too, which an installed wheel never is, and takes 3 ms of each start
_CATALOGUE = [
    Path(__file__).parents[3].joinpath(*package.split("."))
    for package in ("pgdyno.plans", *(kind.package for kind in WORKLOADS.values()))
]
_LOOKED_AT_BYTES = 65_536
_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_IN_PLAIN_WORDS = (
    (re.compile("Invalid value"), "invalid value", 'put text in quotes: name = "quick"'),
    (re.compile(r"Illegal character '\\n'"), "a quoted text does not end on this line", None),
    (re.compile("Cannot overwrite a value"), "the key has a value above", "keep one of the two lines"),
    (re.compile(r"Cannot declare \((.+?),?\) twice"), "the table is above already: {}", "write all its keys there"),
)
"""tomllib's messages of frequent mistakes: what to say instead, and the remedy."""


class CatalogueEntry(NamedTuple):
    name: str
    description: str


class PlanFile(NamedTuple):
    source: str
    """The path or name that the user gave."""
    path: Path
    content: bytes

    @property
    def folder(self) -> Path:
        """Script files are relative to it."""
        return self.path.parent


def catalogue() -> list[CatalogueEntry]:
    entries = []
    for file in (each for folder in _CATALOGUE for each in folder.glob("*.toml")):
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        entries.append(CatalogueEntry(file.stem, data.get("description", "")))
    return sorted(entries, key=lambda entry: entry.name)


def find_plan(source: str) -> PlanFile:
    """Find the plan in the file `source` or in the catalogue. Raises UsageError, PlanError."""
    path = expand_home(source)
    try:
        return PlanFile(source, path.resolve(), read_within(path))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        if "/" not in source:
            for listed in (folder / f"{source}.toml" for folder in _CATALOGUE):
                if is_file(listed):
                    return PlanFile(source, listed, listed.read_bytes())
        if isinstance(error, IsADirectoryError):
            raise UsageError(f"{source} is a folder, not a plan", hint=_what_there_is(path)) from error
        raise UsageError(
            f"plan {source} does not exist, neither as a file nor in the catalogue", hint=_what_there_is(path)
        ) from error
    except (OSError, ValueError, RuntimeError) as error:
        # ValueError: a NUL in the name; RuntimeError: symbolic links that form a loop
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise PlanError(source, [Problem("", f"cannot be read: {reason}")]) from error


def _what_there_is(path: Path) -> str:
    names = [entry.name for entry in catalogue()]
    folder = path if is_folder(path) else path.parent
    try:
        files = sorted(file for file in folder.glob("*.toml") if _looks_like_a_plan(file))
    except OSError:
        files = []
    shown = [str(file) for file in files]
    meant = near(path.name.removesuffix(".toml"), [*(file.stem for file in files), *names])
    hint = f"catalogue: {', '.join(names)}"
    if shown:
        more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
        hint += f"; files here: {', '.join(shown[:5])}{more}"
    if meant is None:
        return hint
    likely = next((str(file) for file in files if file.stem == meant), meant)
    return f"did you mean {likely}? {hint}"


def _looks_like_a_plan(file: Path) -> bool:
    with file.open("rb") as opened:
        start = opened.read(_LOOKED_AT_BYTES)
    return all(section in start for section in (b"target", b"workload", b"sweep"))


def decode(file: PlanFile) -> str:
    """Decode the plan's text. Raises PlanError."""
    try:
        # editors on Windows write a byte order mark, which TOML does not have
        return file.content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = file.content.count(b"\n", 0, error.start) + 1
        raise PlanError(file.source, [Problem("", "is not UTF-8", line, "save the file as UTF-8")]) from error


def parse(source: str, text: str) -> dict[str, Any]:
    """Parse the TOML `text` of the plan `source`. Raises PlanError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = _PLACE.search(message)
        line = text.rstrip("\n").count("\n") + 1
        if place is not None:
            message = message[: place.start()]
            line = int(place[1]) if place[1] else line
        message, hint = _plain_message(message)
        if source.endswith((".sql", ".lua")):
            quoted = shlex.quote(source)
            hint = f"a script is not a plan; measure it with: pgdyno ab --script {quoted}, or name it in a plan"
        problem = Problem("", f"is invalid TOML: {message}", line, hint)
        raise PlanError(source, [problem]) from error
    except ValueError as error:
        # Python converts at most 4,300 digits
        raise PlanError(source, [Problem("", "is invalid TOML: a number has too many digits")]) from error
    except RecursionError as error:
        raise PlanError(source, [Problem("", "is nested too deeply")]) from error


def _plain_message(message: str) -> tuple[str, str | None]:
    for pattern, words, hint in _IN_PLAIN_WORDS:
        found = pattern.fullmatch(message)
        if found is not None:
            return words.format(*(each.replace("'", "").replace(", ", ".") for each in found.groups())), hint
    return message[:1].lower() + message[1:], None
