"""The conditions of a run: the preflight, and the fingerprint, which grows as servers start."""

from collections.abc import Callable

from pgdyno.doctor import environments, needs_of_plan, preflight
from pgdyno.doctor.all_checks import report_problems
from pgdyno.experiment.resources import Resources
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.fingerprint import Difference, Weight, comparable
from pgdyno.fingerprint.collect import take_fingerprint, with_indexes, with_mark, with_server
from pgdyno.messages import Message
from pgdyno.plan import LoadedPlan
from pgdyno.plan.own_data.psql_reader import SqlFileError
from pgdyno.plan.workload import data_files
from pgdyno.prepare import Dataset
from pgdyno.records import Check, Fingerprint, Host, ServerFacts
from pgdyno.store import RunFolder
from pgdyno.targets import Server


def check_conditions(loaded: LoadedPlan, resources: Resources, seed: int, *, check_first: bool) -> dict[str, object]:
    """Return the manifest's `preflight` (empty without `check_first`) and `fingerprint`. Raises PreflightError."""
    needs = needs_of_plan(loaded, resources.home)
    engine, progress, servers = resources.engine, resources.progress, environments(resources.found)
    checks = []

    def note(check: Check) -> None:
        progress.note(
            Message(
                "preflight-check",
                "{verdict}: {check}: {found}: {means}",
                verdict=check.verdict.value,
                check=check.id,
                found=check.state,
                means=check.consequence,
            )
        )

    if engine.through:
        # the checks would examine this machine, where no part of the load runs
        progress.note(
            Message("load-elsewhere", "the load comes from another host: pgdyno skips the checks of this machine")
        )
    elif check_first:
        checks = preflight(needs, engine, servers, note, progress.set_up)
    if resources.cluster is not None and check_first:
        from pgdyno.generators.ceiling import look

        progress.set_up("measuring the ceiling of every generator")
        checks += report_problems(needs, look(resources.cluster, needs, servers), note)
    return {"preflight": checks, "fingerprint": take_fingerprint(loaded, engine, seed, needs)}


FIELDS_OF_ATTEMPTS = frozenset(["pgdyno", "pgdrive", *(f"host.{name}" for name in Host.model_fields)])


def changed_since(context: RunContext) -> list[Message]:
    """Return what differs from the machine, storage and workload that the run began with.

    Without the fields that attempts record; empty for a run of an earlier version, which has no fingerprint.
    """
    before = context.folder.manifest.fingerprint
    if before is None:
        return []
    needs = needs_of_plan(context.loaded, context.home)
    now = take_fingerprint(context.loaded, context.engine, context.seed, needs)
    # each server is compared when it has started
    found = comparable(before.model_copy(update={"servers": {}}), now)
    return [_words(each) for each in found if each.field not in FIELDS_OF_ATTEMPTS]


def keep_server(folder: RunFolder, progress: RunProgress, target: str, server: Server, facts: ServerFacts) -> None:
    """Add a server that has started to the fingerprint, and note how it differs from earlier attempts.

    Raises TargetError, StoreError.
    """
    before = folder.manifest.fingerprint
    _update(folder, lambda taken: with_server(taken, target, server, facts))
    now = folder.manifest.fingerprint
    if before is None or now is None or target not in before.servers:
        return
    only = [each.model_copy(update={"servers": {target: each.servers[target]}}) for each in (before, now)]
    for each in comparable(*only):
        # the target's facts have a note of their own for versions
        if not each.field.endswith((".version", ".version_full")):
            progress.note(_words(each))


def changed_data(folder: RunFolder, loaded: LoadedPlan) -> Message | None:
    """Return which file of the dataset is no longer what the run has loaded; None if all are."""
    try:
        now = data_files(loaded.plan, loaded.folder)
    except SqlFileError as error:
        return Message("data-unreadable", "the dataset can no longer be loaded: {error}", error=str(error))
    taken = folder.manifest.fingerprint
    before = (taken.workload.get("files") or {}) if taken is not None and now else {}
    for name, digest in now.items():
        if before.get(name, digest) != digest:
            return Message("data-changed", "the dataset's file {file} has changed since the run began", file=name)
    return None


def keep_stamp(folder: RunFolder, target: str, server: Server, dataset: Dataset | None) -> None:
    """Add the server's dataset and indexes to the fingerprint. Raises TargetError, StoreError, psycopg.Error."""
    _update(folder, lambda taken: with_indexes(with_mark(taken, target, server, dataset), target, server))


def _words(difference: Difference) -> Message:
    values: dict[str, str | Message] = {
        "field": difference.field,
        "now": "absent" if difference.b is None else difference.b,
        "was": "absent" if difference.a is None else difference.a,
        "why": difference.why,
    }
    if difference.severity in (Weight.REFUSED, Weight.CONFOUNDER):
        return Message(
            "changed-incomparable",
            "{field} is {now} now, and was {was} in earlier trials: {why}; these cannot be compared with later ones",
            **values,
        )
    return Message("changed", "{field} is {now} now, and was {was} in earlier trials: {why}", **values)


def _update(folder: RunFolder, change: Callable[[Fingerprint], Fingerprint]) -> None:
    taken = folder.manifest.fingerprint
    # a run that an earlier version began has none
    if taken is not None and (changed := change(taken)) is not taken:
        folder.update_manifest(fingerprint=changed)
