"""Whether a load writes: one answer for SQL, for every name, and in every caller."""

import re
from pathlib import Path

import pytest

from pgdyno.audit.subject import Subject
from pgdyno.doctor.needs import needs_of_plan
from pgdyno.effect import BUILTIN_SCRIPTS, TPCC_SCRIPTS, Effect, effect_of_name, effect_of_sql
from pgdyno.errors import PlanError
from pgdyno.plan import catalogue, load_plan
from pgdyno.plan.loaded_plan import LoadedPlan
from pgdyno.plan.workload import effect_of_plan
from pgdyno.records import ImportRecord
from pgdyno.store import RunFolder, load_run
from pgdyno.targets import Home
from pgdyno.workloads.pgbench.consistency import Rule, rule_for
from tests.sql_effects import READING, UNKNOWN, WRITING
from tests.unit import plan_sample
from tests.unit.audit_sample import FakeRun
from tests.unit.plan_sample import small_plan
from tests.unit.store_sample import sample_manifest

CRATES = Path(__file__).parents[2] / "crates"
SYSBENCH = re.findall(r'^    \(\s*"([a-z-]+)",', (CRATES / "lua/src/workloads.rs").read_text(), re.MULTILINE)
READS, WRITES = Effect.READS, Effect.WRITES
ONLY_READ = {"select-only", "oltp-read-only", "oltp-point-select", "select-random-points", "select-random-ranges"}
FILES = {
    "read.sql": ("\\set a random(1, 9)\nSELECT abalance FROM pgbench_accounts WHERE aid = :a;\n", READS),
    "write.sql": ("SELECT 1 \\gset\nUPDATE pgbench_accounts SET abalance = 0;\n", WRITES),
    "call.sql": ("SELECT transfer(1, 2);\n", Effect.UNKNOWN),
}


def test_the_text_of_sql_shows_in_one_pass_whether_it_writes() -> None:
    for text, effect in (
        *((text, READS) for text in READING),
        *((text, WRITES) for text in WRITING),
        *((text, Effect.UNKNOWN) for text in UNKNOWN),
        # these are no statements of one transaction: what they write is no secret
        ("VACUUM t", WRITES),
        ("COMMIT PREPARED 'x'", WRITES),
        ("PREPARE TRANSACTION 'x'", WRITES),
        ("NOTIFY x", WRITES),
        ("COPY t FROM STDIN", WRITES),
        ("SELECT 1\\; UPDATE t SET a = 1", WRITES),
        ("SELECT 'never closed; UPDATE t", READS),
        ("/* never closed */ /* UPDATE t", READS),
    ):
        assert effect_of_sql(text) is effect
        assert effect_of_sql(text.upper() if "\\" not in text and "$" not in text else text) is effect
    # by the square of the length, it would be hours
    for text in ("transaction ", "/*", "\\a\\\n", "'", '"', "$a", "$a$b$", "E'\\", "(", "with x as (", "prepare a as "):
        effect_of_sql(text * 30_000)


def test_every_workload_of_the_engine_has_a_known_effect_and_other_names_have_none() -> None:
    assert len(SYSBENCH) == 11
    builtin = re.findall(r'name: "([a-z-]+)"', (CRATES / "script/src/builtin.rs").read_text())
    assert set(builtin) == set(BUILTIN_SCRIPTS)
    for name in (*builtin, *SYSBENCH, *TPCC_SCRIPTS, "tpcc", "tpch"):
        reads = name in ONLY_READ | {"Order-Status", "Stock-Level"}
        assert effect_of_name(name) is (READS if reads else WRITES)
        assert effect_of_name(name.replace("-", "_")) is effect_of_name(name)
    for name in ("custom", "mine.lua", "oltp", "Lua", "", "select-only-2"):
        assert effect_of_name(name) is Effect.UNKNOWN


WORKLOADS = [
    *((f'scripts = ["{name}"]', effect_of_name(name)) for name in BUILTIN_SCRIPTS),
    *((f'name = "{name}"', effect_of_name(name)) for name in SYSBENCH),
    *((f'name = "{name}"', WRITES) for name in ("tpcc", "tpch")),
    *((f'scripts = ["{name}"]', effect) for name, (_, effect) in FILES.items()),
    ('scripts = ["select-only@3", "tpcb-like@0"]', READS),
    ('scripts = ["select-only", "call.sql"]', Effect.UNKNOWN),
    ('scripts = ["write.sql", "call.sql"]', WRITES),
    ('lua = "mine.lua"', Effect.UNKNOWN),
    ('lua = "oltp_read_only"', READS),
]


def loaded(folder: Path, workload: str) -> LoadedPlan:
    for name, (text, _) in FILES.items():
        (folder / name).write_text(text)
    (folder / "mine.lua").write_text("function event() end\n")
    return plan_sample.loaded(folder, small_plan(workload, trial="" if "tpch" in workload else 'duration = "30s"'))


@pytest.mark.parametrize(("workload", "effect"), WORKLOADS)
def test_every_caller_has_the_same_answer(tmp_path: Path, workload: str, effect: Effect) -> None:
    plan = loaded(tmp_path, workload)
    assert effect_of_plan(plan.plan, tmp_path) is effect
    # the doctor judges the disk unless the load only reads; a warning says only what is known
    assert needs_of_plan(plan, Home.locate(tmp_path / "home")).writes is (effect is not READS)
    if not plan.plan.workload.runs_once:
        # whose trials have no duration
        warns = any("they write without a checkpoint" in each.message for each in plan.warnings)
        assert warns is (effect is WRITES)
    # the audit has the run's record, and its copies of scripts
    scripts = [*FILES, "mine.lua"] if ".sql" in workload or ".lua" in workload else []
    manifest = sample_manifest(
        plan=plan.plan.as_resolved(), workload=", ".join(plan.plan.workload.scripts), plan_folder=str(tmp_path)
    )
    subject = Subject(load_run(RunFolder.create(tmp_path / "runs", manifest, scripts=scripts).path))
    assert subject.effect is effect
    assert subject.only_reads is (effect is READS)


def paths_refused(path: Path, text: str) -> list[str]:
    path.write_text(text)
    try:
        load_plan(path)
    except PlanError as error:
        return [each.path for each in error.problems]
    return []


@pytest.mark.parametrize("name", [*BUILTIN_SCRIPTS, *FILES])
def test_ledger_consistency_check_and_standbys_know_which_scripts_write(tmp_path: Path, name: str) -> None:
    effect = effect_of_plan(loaded(tmp_path, f'scripts = ["{name}"]').plan, tmp_path)
    if name in BUILTIN_SCRIPTS:
        reads = effect_of_name(name) is READS
        assert (rule_for({name}) is Rule.NOTHING_CHANGES) is reads
        text = small_plan(f'scripts = ["{name}"]', trial='duration = "30s"') + "ledger = true\n"
        assert paths_refused(tmp_path / "mine.toml", text) == (["trial.ledger"] if reads else [])
    text = small_plan('scripts = ["tpcb-like"]', trial='duration = "30s"')
    text += f'[target.pg18.replicas]\ncount = 1\n[replica_load]\nclients = 1\nscripts = ["select-only", "{name}@2"]\n'
    refused = ["replica_load.scripts[1]"] if effect is WRITES else []
    assert paths_refused(tmp_path / "mine.toml", text) == refused


def test_every_plan_of_the_catalogue_has_a_known_effect() -> None:
    for entry in catalogue():
        plan = load_plan(entry.name)
        assert effect_of_plan(plan.plan, plan.folder) is not Effect.UNKNOWN, entry.name


def test_an_imported_run_has_only_names() -> None:
    for workload, effect in (
        ("<builtin: select only>", READS),
        ("select-only", READS),
        ("TPC-B (sort of)", WRITES),
        ("oltp_read_only.lua", READS),
        ("/usr/share/sysbench/select_random_points.lua", READS),
        ("oltp-read-only, oltp-read-write", WRITES),
        ("oltp-read-only, custom", Effect.UNKNOWN),
        ("workload not told", Effect.UNKNOWN),
    ):
        manifest = sample_manifest(workload=workload, plan={}, host=None, imported=ImportRecord(files=[]))
        assert Subject(FakeRun(manifest, [])).effect is effect


def test_a_mix_of_phases_replaces_the_weights(tmp_path: Path) -> None:
    for mixes, effect in (
        (['{ "Order-Status" = 1, "6" = 2 }'], READS),
        (['{ "Order-Status" = 1 }', '{ "1" = 1 }'], WRITES),
        (['{ "Stock-Level" = 1, "Payment" = 0 }'], READS),
    ):
        path = tmp_path / "mine.toml"
        text = small_plan('name = "tpcc"', trial="")
        for number, mix in enumerate(mixes):
            text += f'[[phase]]\nname = "p{number}"\nduration = "10s"\nmix = {mix}\n'
        path.write_text(text)
        plan = load_plan(path).plan
        assert effect_of_plan(plan, tmp_path) is effect
        manifest = sample_manifest(plan=plan.as_resolved(), workload="tpcc")
        assert Subject(FakeRun(manifest, [])).effect is effect
