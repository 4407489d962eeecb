"""Warnings about valid plans that cannot answer their question."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pgdyno.cli import app
from pgdyno.commands.plan import check
from pgdyno.errors import UsageError
from pgdyno.plan import load_plan
from pgdyno.plan.known_settings import why_unknown
from pgdyno.plan.output.new import write_new_plan
from tests.unit.plan_sample import small_plan

ROOT = Path(__file__).parents[2]
TWO = small_plan(sweep="clients = 4", trial='duration = "30s"\nrepeats = 6', pg16="16", pg18="18")


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "two.toml"
    file.write_text(TWO)
    return file


def warned(plan: str | Path, *overrides: str) -> list[tuple[str, str, str]]:
    return [(each.path, each.message, each.hint or "") for each in load_plan(plan, overrides).warnings]


def test_own_tables_are_not_in_a_database_that_pgdyno_creates(plan: Path) -> None:
    for more, warns in (
        ("", True),
        ('database = "app"\nallow_existing = true', False),
        ('[hooks]\nbefore_run = "psql --file tables.sql"', False),
    ):
        (plan.parent / "q.sql").write_text("SELECT * FROM orders;\n")
        text = TWO.replace('scripts = ["select-only"]', 'scripts = ["q.sql"]\ndataset = "none"')
        servers = f'[target.db]\nkind = "dsn"\ndsn = "host=db dbname=app"\n{more}\n'
        plan.write_text(text[: text.index("[target")] + servers + text[text.index("[workload") :])
        message = "the load uses the database pgdyno, which pgdyno creates, without tables"
        remedy = 'to use your own, set database = "app" and allow_existing = true'
        assert (("target.db", message, remedy) in warned(plan)) is warns


def test_a_script_that_overrides_a_setting_of_the_plan_is_named(plan: Path) -> None:
    for statement, warns in (
        ("SET work_mem = '8MB';", True),
        ("BEGIN; set local Work_Mem to '8MB';", True),
        ("SELECT set_config('work_mem', '8MB', false);", True),
        ("-- SET work_mem = '8MB'\nSET jit = off;", False),
    ):
        (plan.parent / "q.sql").write_text(f"{statement}\nSELECT 1;\n")
        plan.write_text(TWO.replace("select-only", "q.sql"))
        found = warned(plan, "sweep.settings.work_mem=['4MB', '64MB']")
        expected = ("sweep.settings.work_mem", "q.sql sets work_mem itself, which overrides this value")
        assert (expected in [each[:2] for each in found]) is warns


def test_only_what_cannot_answer_is_warned_of(plan: Path) -> None:
    for source, overrides, path, message, hint in (
        ("", "trial.duration=30ms", "trial.duration", "30 ms are", ""),
        ("", "workload.scale=10000000", "workload.scale", "the dataset would have about 150 TB, more than any", ""),
        ("", "sweep.scale=[10,10000000]", "sweep.scale", "the dataset would have about 150 TB, more than any", ""),
        ("", "trial.order=as-listed", "trial.order", "", ""),
        ("", "trial.repeats=5", "trial.repeats", "5 pairs are too few for a verdict, which needs at least 6", "6 or"),
        ("quick", 'sweep.settings.work_mem=["4MB","64MB"]', "trial.repeats", "3 pairs are too few", ""),
        ("quick", 'sweep.protocol=["simple","prepared"]', "trial.repeats", "3 pairs are too few", ""),
        ("quick", "trial.repeats=1", "trial.repeats", "", ""),
        (
            "quick",
            "sweep.clients=8",
            "target",
            "one target at one number of clients: there is nothing",
            "second target",
        ),
    ):
        found = warned(source or plan, overrides)
        assert path in [each[0] for each in found]
        assert any(at == path and said.startswith(message) and hint in remedy for at, said, remedy in found)
        assert len(found) == 1 or "scale" in path
    assert warned(plan) == warned("quick", "sweep.scale=[1,10]") == []
    assert warned("quick", 'sweep.settings.max_connections="100 + clients"') == []
    assert warned("quick", "sweep.clients=8", "sweep.rate=1000") == []


def test_a_setting_that_the_older_version_lacks_is_warned_of(plan: Path) -> None:
    ((field, message, hint),) = warned(plan, "target.pg16.settings.io_method=worker")
    assert field == "target.pg16.settings.io_method"
    assert message == "PostgreSQL 16 has no io_method (since 18): trials of target pg16 will fail"
    assert hint.endswith("remove it")
    ((field, message, _),) = warned(plan, "target.pg18.settings.io_method=worker")
    assert field == "target.pg18.settings.io_method"
    assert message.startswith(
        "target pg16, PostgreSQL 16, has no io_method (since 18): a difference between the targets "
    )
    swept = warned(plan, 'sweep.settings.io_method=["sync","worker"]')
    assert [each[0] for each in swept] == ["sweep.settings.io_method"]
    assert warned(plan, "target.pg18.settings.work_mem=8MB") == []
    ((field, message, _),) = warned(plan, "target.pg16.settings.wal_keep_segments=8")
    assert "PostgreSQL 16 has no wal_keep_segments (until 12)" in message
    for setting, major, why in (
        ("io_method", 17, "since 18"), ("io_method", 18, None), ("IO_Method", 10, "since 18"),
        ("wal_keep_segments", 12, None), ("wal_keep_segments", 13, "until 12"), ("work_mem", 10, None),
        ("vacuum_cleanup_index_scale_factor", 10, "since 11"), ("pg_stat_statements.max", 10, None),
    ):  # fmt: skip
        assert why_unknown(setting, major) == why


def test_writes_without_their_checkpoints_are_warned_of(plan: Path) -> None:
    scripts = 'workload.scripts=["tpcb-like"]'
    ((field, message, hint),) = warned(plan, scripts)
    assert field == "trial.duration"
    assert message == ("trials of 30s are shorter than a checkpoint cycle (5m00s): they write without a checkpoint")
    assert "measure 5m00s or longer" in hint
    assert 'do = "checkpoint"' in hint
    assert warned(plan, scripts, "trial.duration=5m") == []
    assert warned(plan, scripts, "sweep.settings.checkpoint_timeout=30s") == []
    assert len(warned(plan, scripts, "target.pg18.settings.checkpoint_timeout=30s")) == 1
    assert warned(plan, scripts, 'event=[{at="5s",do="checkpoint"}]') == []
    own = plan.parent / "own.sql"
    own.write_text("BEGIN;\n  UPDATE t SET a = 1;\nEND;\n")
    assert len(warned(plan, 'workload.scripts=["own.sql"]')) == 1
    own.write_text("SELECT a FROM t;\n")
    assert warned(plan, 'workload.scripts=["own.sql"]') == []


def test_check_and_show_print_field_line_and_remedy(plan: Path) -> None:
    plan.write_text(TWO.replace("repeats = 6", "repeats = 2"))
    for command in ("check", "show"):
        done = CliRunner().invoke(app, ["plan", command, str(plan)])
        assert done.exit_code == 0, done.output
        # a long path is broken where the line ends
        text = "".join(done.output.split())
        assert "warning:" in text
        assert "two.toml:14:trial.repeats:2pairsaretoofewforaverdict,whichneedsatleast6" in text
        assert "settrial.repeats=6ormore" in text
    (warning,) = json.loads(CliRunner().invoke(app, ["plan", "show", str(plan), "--json"]).stdout)["warnings"]
    assert (warning["path"], warning["line"]) == ("trial.repeats", 14)


def test_a_budget_leaves_the_pairs_that_a_verdict_needs(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(str(plan), ["sweep.clients=[1,2,4,8]"], noise=True, runs=plan.parent, budget="3m")
    told = " ".join(capsys.readouterr().out.split())
    assert "instead of 4" in told
    assert "pairs are too few for a verdict" not in told
    with pytest.raises(UsageError, match="a budget of 1 min 10 s is too small"):
        check(str(plan), noise=True, runs=plan.parent, budget="70s")


def test_the_plans_that_people_begin_with_can_answer_their_questions(tmp_path: Path) -> None:
    for name in ("quick", "versions"):
        assert warned(name) == []
    new = tmp_path / "new.toml"
    write_new_plan(new)
    assert warned(new) == []
    (first,) = re.findall(r"```toml\n(name = .*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    file = tmp_path / "first.toml"
    file.write_text(first)
    assert warned(file) == []
    assert load_plan(file).plan.order() == load_plan("versions").plan.order() == "interleaved"
