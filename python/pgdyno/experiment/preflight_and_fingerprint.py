"""The conditions of a run: the preflight, and the fingerprint, which grows as servers start."""

from collections.abc import Callable

from pgdyno.doctor import environments, needs_of_plan, preflight
from pgdyno.doctor.all_checks import report_problems
from pgdyno.experiment.resources import Resources
from pgdyno.fingerprint.collect import take_fingerprint, with_indexes, with_mark
from pgdyno.messages import Message
from pgdyno.plan import LoadedPlan
from pgdyno.prepare import Dataset
from pgdyno.records import Check, Fingerprint
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


def keep_stamp(folder: RunFolder, target: str, server: Server, dataset: Dataset | None) -> None:
    """Add the server's dataset and indexes to the fingerprint. Raises TargetError, StoreError, psycopg.Error."""
    update_fingerprint(folder, lambda taken: with_indexes(with_mark(taken, target, server, dataset), target, server))


def update_fingerprint(folder: RunFolder, change: Callable[[Fingerprint], Fingerprint]) -> None:
    taken = folder.manifest.fingerprint
    # a run that an earlier version began has none
    if taken is not None and (changed := change(taken)) is not taken:
        folder.update_manifest(fingerprint=changed)
