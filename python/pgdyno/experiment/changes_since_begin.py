"""What a resumed run finds changed: its machine, its workload, its data, and each server when it has started."""

from pgdyno.doctor import needs_of_plan
from pgdyno.experiment.preflight_and_fingerprint import update_fingerprint
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.fingerprint import Difference, Weight, comparable
from pgdyno.fingerprint.collect import take_fingerprint, with_server
from pgdyno.messages import Message
from pgdyno.plan import LoadedPlan
from pgdyno.plan.own_data.psql_reader import SqlFileError
from pgdyno.plan.workload import data_files
from pgdyno.records import Host, ServerFacts, TargetRecord
from pgdyno.store import RunFolder
from pgdyno.targets import Server

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


def keep_server(
    folder: RunFolder, progress: RunProgress, target: str, name: str, server: Server, facts: ServerFacts
) -> None:
    """Store the facts of a server that has started, add it to the fingerprint, and note how it differs from before.

    It does so at once, so that a run that is killed later has them, too. Of several instances, the record of the
    target has those of the last one to start; `name` is the instance's. Raises TargetError, StoreError.
    """
    records, before = folder.manifest.targets, folder.manifest.fingerprint
    was, now = ("" if each is None else each.program_words for each in (known_facts(records).get(target), facts))
    if was and was != now:
        progress.note(
            Message(
                "target-version-changed",
                "target {target} is {now} now, and was {was} in earlier trials",
                target=name,
                now=now,
                was=was,
            )
        )
    folder.update_manifest(
        targets=[each.model_copy(update={"facts": facts}) if each.name == target else each for each in records]
    )
    update_fingerprint(folder, lambda taken: with_server(taken, target, server, facts))
    after = folder.manifest.fingerprint
    if before is None or after is None or target not in before.servers:
        return
    only = [each.model_copy(update={"servers": {target: each.servers[target]}}) for each in (before, after)]
    for each in comparable(*only):
        # versions are noted above
        if not each.field.endswith((".version", ".version_full")):
            progress.note(_words(each))


def known_facts(targets: list[TargetRecord]) -> dict[str, ServerFacts]:
    """Return the facts of those `targets` that have been started, by name."""
    return {target.name: target.facts for target in targets if target.facts is not None}


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
