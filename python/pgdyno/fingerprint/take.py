"""Takes a fingerprint during a run: the machine first, each server when it has started, each dataset after its load."""

from __future__ import annotations

import hashlib

import psycopg

from pgdyno import __version__
from pgdyno.doctor import Needs
from pgdyno.fingerprint.host import host_print
from pgdyno.host import describe_host
from pgdyno.plan import LoadedPlan
from pgdyno.plan.scripts import script_files
from pgdyno.prepare.mark import Dataset, read_comment, read_mark
from pgdyno.programs import Engine
from pgdyno.records import Fingerprint, ServerFacts, ServerPrint
from pgdyno.targets import Server

HERE, ELSEWHERE = "the same machine", "another machine"
"""Origin of the load, relative to the servers."""


def take_fingerprint(loaded: LoadedPlan, engine: Engine, seed: int, needs: Needs) -> Fingerprint:
    """Return what is known before any server runs."""
    resolved = loaded.plan.as_resolved()
    workload = resolved["workload"] | {"files": _script_hashes(loaded)}
    if "replica_load" in resolved:
        workload["replica_load"] = resolved["replica_load"]
    return Fingerprint(
        host=host_print(describe_host(), needs.places),
        pgdyno=__version__,
        pgdrive=engine.version,
        generator=_generator(needs, len(loaded.plan.target)),
        seed=seed,
        workload=workload,
        reset=resolved["reset"],
    )


def _generator(needs: Needs, targets: int) -> str:
    if needs.targets_here == targets:
        return HERE
    return f"{HERE}, or another" if needs.targets_here else ELSEWHERE


def with_server(taken: Fingerprint, name: str, server: Server, facts: ServerFacts) -> Fingerprint:
    """Return `taken` with the running server `name`, which reported `facts`. Raises TargetError."""
    known = taken.servers.get(name)
    printed = ServerPrint(
        version=facts.version,
        version_full=facts.version_full,
        configure=_configure(server),
        settings_changed=facts.settings_changed,
        data_checksums=facts.data_checksums,
        dataset_marks=known.dataset_marks if known else [],
        loaded_without_wal=known.loaded_without_wal if known else [],
    )
    return taken.model_copy(update={"servers": {**taken.servers, name: printed}})


def with_mark(taken: Fingerprint, name: str, server: Server, dataset: Dataset | None) -> Fingerprint:
    """Return `taken` with the dataset stamp of the server `name`; unchanged if `dataset` is in it, or None.

    Raises TargetError.
    """
    printed = taken.servers.get(name)
    if dataset is None or printed is None or _title(dataset) in printed.dataset_marks:
        return taken
    mark = read_mark(read_comment(server))
    found = "unmarked" if mark is None else _title(mark.dataset)
    if found in printed.dataset_marks:
        return taken
    without = [found] if mark is not None and mark.wal_level == "minimal" else []
    marked = printed.model_copy(
        update={
            "dataset_marks": [*printed.dataset_marks, found],
            "loaded_without_wal": [*printed.loaded_without_wal, *without],
        }
    )
    return taken.model_copy(update={"servers": {**taken.servers, name: marked}})


def _title(dataset: Dataset) -> str:
    return f"{dataset.name} scale {dataset.scale}"


def _configure(server: Server) -> str | None:
    """Return the arguments of configure, which only some roles may read (view pg_config, PostgreSQL 9.6)."""
    try:
        with server.connect() as connection:
            row = connection.execute("SELECT setting FROM pg_config WHERE name = 'CONFIGURE'").fetchone()
    except psycopg.Error:
        return None
    return row[0] if row else None


def _script_hashes(loaded: LoadedPlan) -> dict[str, str]:
    """Return the SHA-256 of each script that is a file."""
    found = {}
    for name in script_files(loaded.plan):
        try:
            found[name] = hashlib.sha256((loaded.folder / name).read_bytes()).hexdigest()
        except OSError:
            # the engine has just read it, and will report the error
            continue
    return found
