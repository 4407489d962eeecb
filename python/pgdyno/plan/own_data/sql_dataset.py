"""The table of a plan that names a dataset's SQL files, and what these files contain."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, NamedTuple, TypeGuard

from pydantic import AfterValidator, BeforeValidator, Field

from pgdyno.errors import InvalidValueError
from pgdyno.plan.own_data.psql_reader import Reader, Statement, read_through
from pgdyno.plan.values import Model, Name, Setting, setting_text

LOADED_BY_PGDYNO = ("none", "pgbench", "sbtest", "tpcc", "tpch")


def _other_name(name: str) -> str:
    if name in LOADED_BY_PGDYNO:
        raise InvalidValueError(f"{name} is the name of a dataset without SQL files", "choose another name")
    return name


def _are_names(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) and each for each in value)


def _check_files(value: object) -> object:
    if not isinstance(value, list) or not value or not all(_are_names([each]) or _are_names(each) for each in value):
        raise InvalidValueError(
            "must be a list of SQL files, or of lists of files that run at the same time",
            'such as sql = ["schema.sql", ["orders.sql", "items.sql"], "indexes.sql"]',
        )
    return value


def _number_text(value: object) -> object:
    # 1e6 is a whole number to the author
    return str(int(value)) if isinstance(value, float) and value.is_integer() else setting_text(value)


class SqlDataset(Model):
    """A dataset that SQL files make, which run once by psql's rules."""

    name: Annotated[Name, AfterValidator(_other_name)]
    sql: Annotated[
        list[str | list[str]], BeforeValidator(_check_files, json_schema_input_type=list[str | list[str]])
    ] = Field(min_length=1)
    """SQL files in order, in one session; those of an inner list run at the same time, each in a session of its own."""
    variables: dict[str, Annotated[Setting, BeforeValidator(_number_text)]] = {}
    """psql's variables in the files, and variables of the scripts; `sweep.variables` gives them other values."""

    def __str__(self) -> str:
        return self.name

    def values(self, swept: Mapping[str, str]) -> dict[str, str]:
        return {name: swept.get(name, value) for name, value in self.variables.items()}


class Contents(NamedTuple):
    """What the files of a dataset are with certain values of its variables."""

    files: Mapping[str, str]
    """SHA-256 of each file, included ones and those of COPY as well, by its path relative to the plan's folder."""
    used: frozenset[str]
    """The variables that the files use."""
    size_bytes: int
    stamps: tuple[tuple[int, int], ...]
    """Size and time of change of each file."""

    def digest(self, dataset: SqlDataset, variables: Mapping[str, str]) -> str:
        """Return a hash of everything that determines the data."""
        said = json.dumps([dataset.sql, dict(self.files), dict(variables)], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()


_known: dict[tuple[str, Path, tuple[tuple[str, str], ...]], Contents] = {}


def read_contents(dataset: SqlDataset, folder: Path, variables: Mapping[str, str]) -> Contents:
    """Read every file of `dataset`, relative to `folder`, again only if one has changed. Raises SqlFileError."""
    key = (dataset.model_dump_json(), folder, tuple(sorted(variables.items())))
    known = _known.get(key)
    if known is None or known.stamps != _stamps(folder, known.files):
        hashes = {}
        reader = Reader(folder, dict(variables))
        for each in readers_in_order(dataset, reader):
            read_through(each)
        hashes = {name: found.hexdigest() for name, found in reader.hashes.items()}
        stamps = _stamps(folder, hashes)
        known = _known[key] = Contents(hashes, frozenset(reader.used), sum(size for size, _ in stamps), stamps)
    return known


def readers_in_order(dataset: SqlDataset, reader: Reader) -> Iterator[Iterator[Statement]]:
    """Yield the statements of each file; a file that runs beside others has variables of its own."""
    for stage in dataset.sql:
        if isinstance(stage, str):
            yield reader.read(stage)
        else:
            yield from (reader.fork().read(name) for name in stage)


def _stamps(folder: Path, files: Mapping[str, str]) -> tuple[tuple[int, int], ...]:
    found = []
    for name in files:
        try:
            stat = (folder / name).stat()
        except OSError:
            return ()
        found.append((stat.st_size, stat.st_mtime_ns))
    return tuple(found)
