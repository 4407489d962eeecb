"""Reports settings that nobody changed and that differ between compared targets: by version, build or machine."""

from collections.abc import Iterator, Mapping

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity
from pgdyno.audit.rules.settings_differ import ITS_OWN
from pgdyno.audit.setting_values import rows_of_targets, with_session_settings
from pgdyno.audit.subject import AuditRun, Subject
from pgdyno.fingerprint.differences import HEAVY_SETTINGS
from pgdyno.messages import Message
from pgdyno.store.trial_tables import SettingRow
from pgdyno.units import first_names, setting_size, setting_value

CHANGE_SPEED = HEAVY_SETTINGS | frozenset(
    [
        "autovacuum_work_mem", "block_size", "debug_assertions", "default_toast_compression",
        "effective_cache_size", "effective_io_concurrency", "enable_eager_aggregate", "hash_mem_multiplier",
        "huge_pages_status", "io_combine_limit", "io_max_workers", "io_min_workers", "io_workers", "lc_collate",
        "maintenance_io_concurrency", "maintenance_work_mem", "max_parallel_workers_per_gather", "random_page_cost",
        "ssl", "timing_clock_source", "track_io_timing", "vacuum_buffer_usage_limit", "wal_buffers",
        "wal_compression", "work_mem",
    ]
)  # fmt: skip
REPORTS = frozenset(
    ["application_name", "in_hot_standby", "server_version", "server_version_num", "shared_memory_size"]
)
"""What a server reports among its settings although nobody can set it, or what follows from others."""
ABSENT = "absent"
MOST_NAMED = 10
"""The largest number of settings that a finding names."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    kept = {} if subject.imported else _settings(subject.run)
    if not kept:
        raise MissingError(Message("no-settings", "no settings are reported"))
    facts = [target.facts for target in subject.manifest.targets if target.facts is not None]
    trials = subject.run.trials
    changed = {
        name
        for target in subject.manifest.targets
        if target.facts is not None
        for name in with_session_settings(trials, target.name, target.facts.settings_changed)
    }
    names = sorted(set().union(*kept.values()) - changed - ITS_OWN - REPORTS)
    differing = {name: found for name in names if len(set((found := _values(name, kept)).values())) > 1}
    # a version that does not report it says nothing about it
    if ABSENT in differing.get("huge_pages_status", {}).values():
        del differing["huge_pages_status"]
    heavy, others = ([name for name in differing if (name in CHANGE_SPEED) is of] for of in (True, False))
    if heavy:
        yield RuleFinding(
            Severity.NOTE if len({each.version_full for each in facts}) > 1 else Severity.CAUTION,
            Message(
                "default-differs",
                "a default that can change speed differs: {settings}",
                "defaults that can change speed differ: {settings}",
                count=len(heavy),
                settings=", ".join(heavy),
            ),
            (),
            [Evidence(at="settings", figures={"setting": name, **differing[name]}) for name in heavy],
            "set them to the same values, unless the version or the build is what is compared",
        )
    if others:
        yield RuleFinding(
            Severity.NOTE,
            Message(
                "default-differs-others",
                "{count} other default differs: {settings}",
                "{count} other defaults differ: {settings}",
                count=len(others),
                settings=first_names(others, MOST_NAMED),
            ),
            (),
            [Evidence(at="settings", figures={"setting": name, **differing[name]}) for name in others],
            "none needed if the version is what is compared",
        )


def _settings(run: AuditRun) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for target, row in rows_of_targets(run):
        found.setdefault(target, {}).setdefault(row.name, _text(row))
    return found


def _text(row: SettingRow) -> str:
    setting, unit = str(row.setting), row.unit or ""
    value = setting_value(setting, unit)
    if unit.endswith("B") and isinstance(value, float) and value > 0:
        return setting_size(int(value))
    return setting + (unit if setting not in ("0", "-1") else "")


def _values(name: str, kept: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    return {target: values.get(name, ABSENT) for target, values in kept.items()}


RULE = Rule(
    "default-differs",
    "settings whose source is the default, between targets: those that can change speed, and the others. In a "
    "comparison of versions or builds they belong to what is compared, and the answer names them; else those that can "
    "change speed are confounders",
    Severity.CAUTION,
    "audit.rules.default_differs",
    _check,
    place=145,
)
