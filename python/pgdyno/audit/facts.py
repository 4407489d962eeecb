"""What is known of two arms besides their figures, and how it differs: one list, which `compare` and the audit read.

A fact is a field of the fingerprint (`fingerprint.differences.RULES`: name, whether it can change speed, words), a
field of the trials' records (`OF_TRIALS`), or what a rule with a topic finds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pgdyno.audit.arms import Side
from pgdyno.audit.load_differences import worker_differences
from pgdyno.audit.setting_values import alike, values_at, with_session_settings
from pgdyno.audit.subject import AuditRun
from pgdyno.fingerprint.differences import UNKNOWN, Difference, Weight, comparable, print_of, topic_of
from pgdyno.messages import Message
from pgdyno.records import Fingerprint

CLASS = "network_path.instance"
"""The field of differences between the classes of rented servers."""
OF_TRIALS = (
    ("instance", Message("other-class", "different server classes")),
    ("cpu_model", Message("other-server-processor", "different server processors")),
)
"""Fields of the network path of trials that can change speed, and the words for a difference."""
CHANGED = ".settings_changed."
STANDBY = "standby"
"""The topic of differences between primaries and standbys, and the state of the latter."""


def target_differences(base: Side, other: Side) -> list[Difference]:
    """Return what the fingerprints and the trials' records of two targets of a run say that differs."""
    a, b = (_of_target(fingerprint_of_run(side.run), side.target) for side in (base, other))
    of_prints = without_alike(comparable(a, b), [(base, other)]) if a is not None and b is not None else []
    # the plan chose the servers, but a DSN does not say which one is a standby
    of_prints = [_name_standby(each, base, other) for each in of_prints if topic_of(each.field) != "server"]
    return [*of_prints, *server_differences(base, other), *worker_differences(base.trials(), other.trials())]


def _name_standby(difference: Difference, base: Side, other: Side) -> Difference:
    if topic_of(difference.field) != STANDBY or difference.why == UNKNOWN:
        return difference
    standby = base.target if difference.a == STANDBY else other.target
    return replace(difference, why=Message("standby-of-two", "{target} is a standby", target=standby))


def server_differences(base: Side, other: Side) -> Iterator[Difference]:
    """Yield what the trials' records say of rented servers that differs."""
    seen = [[trial.network_path for trial in side.trials() if trial.network_path is not None] for side in (base, other)]
    for name, why in OF_TRIALS:
        known = [sorted({str(value) for path in paths if (value := getattr(path, name)) is not None}) for paths in seen]
        if all(known) and known[0] != known[1]:
            yield Difference(f"network_path.{name}", ", ".join(known[0]), ", ".join(known[1]), Weight.CONFOUNDER, why)


def without_alike(differences: Sequence[Difference], sides: Sequence[tuple[Side, Side]]) -> list[Difference]:
    """Return `differences` without settings of equal value: a default and its explicit value, 1GB and 1024MB.

    `sides` are the matched targets; the first of a pair gives its name to the fields.
    """
    names = {topic_of(each.field) for each in differences if CHANGED in each.field}
    kept = [[values_at(side.run, names).get(side.target, {}) for side in pair] for pair in sides]

    def is_alike(each: Difference) -> bool:
        target, changed, name = each.field.removeprefix("servers.").partition(CHANGED)
        return bool(changed) and any(
            alike([each.a, each.b], [values.get(name) for values in of])
            for pair, of in zip(sides, kept, strict=True)
            if pair[0].target == target
        )

    return [each for each in differences if not is_alike(each)]


def words_of(difference: Difference) -> Message:
    if difference.of_file is not None:
        return difference.of_file
    is_setting = "settings" in difference.field
    absent = Message("default-value", "default") if is_setting else Message("no-value", "none")
    a, b = (absent if text is None else text for text in (difference.a, difference.b))
    return Message("difference", "{field}: {a} vs {b}: {why}", field=difference.field, a=a, b=b, why=difference.why)


def fingerprint_of_run(run: AuditRun) -> Fingerprint | None:
    """Return the fingerprint of a run with the settings of the load's sessions."""
    taken = print_of(run.manifest)
    if taken is None:
        return None
    servers = {
        name: server.model_copy(
            update={"settings_changed": with_session_settings(run.trials, name, server.settings_changed)}
        )
        for name, server in taken.servers.items()
    }
    return taken.model_copy(update={"servers": servers})


def _of_target(taken: Fingerprint | None, name: str) -> Fingerprint | None:
    if taken is None or name not in taken.servers:
        return None
    disks = {role: disk for role, disk in taken.host.disks.items() if role.endswith(f" of {name}")}
    host = taken.host.model_copy(update={"disks": disks})
    return taken.model_copy(update={"host": host, "servers": {name: taken.servers[name]}})
