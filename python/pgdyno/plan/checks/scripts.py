"""Checks of the scripts that a workload, a group of clients or a load on standbys names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pgdyno.effect import BUILTIN_SCRIPTS
from pgdyno.errors import Problem
from pgdyno.mounts import exists, is_file, is_folder
from pgdyno.plan.plan_document import Document, KeyPath, near
from pgdyno.plan.workload import ScriptChoice, parse_script


def check_scripts(
    section: KeyPath, scripts: Sequence[str], dataset: str, document: Document, folder: Path
) -> Iterator[Problem]:
    """Yield problems of the `scripts` of a section on `dataset`."""
    choices: list[ScriptChoice] = []
    key = "queries" if document.at((*section, "queries")) is not None else "scripts"
    for place, text in enumerate(scripts):
        path = (*section, key, place)
        try:
            choice = parse_script(text)
        except ValueError as error:
            yield document.problem(path, str(error), 'such as "select-only@3"')
            continue
        choices.append(choice)
        if not choice.builtin:
            yield from _script_file(choice.name, folder, document, path)
        elif dataset != "pgbench":
            message = f"{choice.name} needs pgbench's tables, but dataset is {dataset}"
            yield document.problem(path, message, 'set dataset = "pgbench"')
    if scripts and len(choices) == len(scripts) and sum(choice.weight for choice in choices) == 0:
        yield document.problem((*section, "scripts"), "no script has a weight above 0, so nothing would run")


def _script_file(name: str, folder: Path, document: Document, path: tuple[str | int, ...]) -> Iterator[Problem]:
    file = folder / name
    if exists(file) and not is_file(file) and not is_folder(file):
        # reading a pipe would wait for its writer, and a second reader would find it empty
        yield document.problem(path, f"{file} is not a regular file", "write the statements into a file")
        return
    try:
        text = file.read_text(encoding="utf-8")
        if text.startswith("\ufeff"):
            hint = "save it as UTF-8 without a byte order mark"
            yield document.problem(path, f"{file} begins with a byte order mark, which the server would read", hint)
    except FileNotFoundError:
        meant = near(name, BUILTIN_SCRIPTS) if "/" not in name else None
        hint = f"did you mean {meant}?" if meant else f"built-in scripts: {', '.join(BUILTIN_SCRIPTS)}"
        yield document.problem(path, f"{name} is neither a built-in script nor a file in {folder}", hint)
    except UnicodeDecodeError as error:
        line = file.read_bytes().count(b"\n", 0, error.start) + 1
        yield document.problem(path, f"{file} is not UTF-8 in line {line}", "save the file as UTF-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        yield document.problem(path, f"cannot read the script {file}: {reason}")
    else:
        if not text.strip():
            yield document.problem(path, f"the script {file} is empty")
