"""Messages about invalid plans: every mistake, with its line; warnings about valid plans that cannot answer."""

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
from tests.unit.plan_sample import load, problems, small_plan, the_problem

GOOD = small_plan(sweep="clients = [1, 4]")
LOCAL = ('"embedded"\nversion = "18"', '"local"')


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


NUL = "contains a NUL character"
MISTAKES = [
    # old, new, path, line, part of the message, part of the hint
    ('name = "mine"\n', "", "name", None, "is missing", 'name = "quick"'),
    ('version = "18"\n', "", "target.pg18.version", 2, "is missing", 'version = "18"'),
    ('kind = "embedded"\n', "", "target.pg18.kind", 2, "is missing", "local"),
    ('"embedded"', '"embeded"', "target.pg18.kind", 3, "is not a kind of target", 'did you mean "embedded"?'),
    ('"embedded"', "[]", "target.pg18.kind", 3, "is not a kind of target", 'kind = "embedded"'),
    ("duration", "duratoin", "trial.duratoin", 10, "unknown key", "did you mean duration?"),
    ("[workload]", "[workload]\nclients = 3", "workload.clients", 6, "unknown key", "belongs in [sweep]"),
    ('"18"\n', '"18"\nbin = "/x"\n', "target.pg18.bin", 5, "unknown key", 'kind = "local"'),
    ("[trial]", "[trials]\n[trial]", "trials", 9, "unknown key", "did you mean trial?"),
    ("[sweep]", "[sweep]\nfoo = 1", "sweep.foo", 8, "unknown key", "known keys: clients, workers"),
    ("[1, 4]", '[1, "4"]', "sweep.clients[1]", 8, "must be a whole number", "without quotes"),
    ("[1, 4]", "[\n1,\n2.5\n]", "sweep.clients[1]", 10, "must be a whole number, not 2.5", None),
    ("[1, 4]", "true", "sweep.clients", 8, "must be a whole number, not true", None),
    ("[1, 4]", "0", "sweep.clients", 8, "must be at least 1, not 0", None),
    ("[1, 4]", "[]", "sweep.clients", 8, "must not be empty", "clients = [1, 4, 16]"),
    ("[1, 4]", '1\nprotocol = "prepard"', "sweep.protocol", 9, '"prepared", not "prepard"', 'did you mean "prepared"?'),
    ('"10s"', '"0s"', "trial.duration", 10, "must be more than 0s", None),
    ('"10s"', '"10 parsecs"', "trial.duration", 10, "is not a duration", "500ms"),
    ('"10s"', '"24856d"', "trial.duration", 10, "'24856d' is too long", "write at most 24855d"),
    ('"10s"', "10", "trial.duration", 10, "a unit", None),
    ('"10s"', '"10s"\ntransactions = 5', "trial", 9, "not both", None),
    ('duration = "10s"', "", "trial", 9, "give either duration or transactions", None),
    ('"10s"', '"10s"\norder = "random"', "trial.order", 11, '"as-listed" or "duet", not "random"', '"randomised"'),
    ('["select-only"]', '"select-only"', "workload.scripts", 6, "must be a list", "brackets"),
    ("[workload]", "[workload]\ndataset = 1", "workload.dataset", 6, '"pgbench", "sbtest" or "none", not 1', None),
    ('"18"', '"18"\nkeep_data = "yes"', "target.pg18.keep_data", 5, "true or false", None),
    ('"18"', "18.6", "target.pg18.version", 4, "as text", None),
    ('"18"', '"eighteen"', "target.pg18.version", 4, "not a PostgreSQL version", None),
    ('"18"', '"18; 19"', "target.pg18.version", 4, "'18; 19' is not a PostgreSQL version", "write a major"),
    ('"18"', '"18"\nsettings.x = []', "target.pg18.settings.x", 5, "must be one value", None),
    ('"18"', '"18"\nsettings = 1', "target.pg18.settings", 5, "must be a table", None),
    ("pg18", '"pg 18"', 'target."pg 18"', 2, "is not a name", "letters"),
    ("pg18", "p" * 65, f"target.{'p' * 65}", 2, "too long", None),
    ("[target.pg18]", "[target]", "target", 2, "a table for each target", "[target.pg18]"),
    ('"mine"', '"mine"\nformat = 2', "format", 2, "format 1, not 2", "newer"),
    ('"mine"', "5", "name", 1, "must be text, not 5", 'name = "5"'),
    ('"select-only"', '"\\u0000"', "workload.scripts[0]", 6, NUL, None),
    ('scripts = ["select-only"]', 'lua = "a\\u0000.lua"', "workload.lua", 6, NUL, None),
    ('"18"\n', '"18"\nsettings."a\\u0000b" = "4MB"\n', "target.pg18.settings", 5, NUL, None),
    ('"18"\n', '"18"\ndata_dir = "\\u0000"\n', "target.pg18.data_dir", 5, NUL, None),
    ('scripts = ["select-only"]', 'name = "tpcc"\nwarehouses = 0', "workload.warehouses", 7, "", None),
    ('scripts = ["select-only"]', 'name = "tpcc"\nwarehouses = "2"', "workload.warehouses", 7, "", None),
    ('"select-only"', '"selct-only"', "workload.scripts[0]", 6, "neither a built-in", "did you mean select-only?"),
    ('"select-only"', '"no.sql"', "workload.scripts[0]", 6, "neither a built-in", "tpcb-like"),
    ('"select-only"', '"select-only@x"', "workload.scripts[0]", 6, "weight of select-only", None),
    ('"select-only"', '"select-only@-1"', "workload.scripts[0]", 6, "weight of select-only", None),
    ('"select-only"', '"select-only@2147483648"', "workload.scripts[0]", 6, "weight of select-only", None),
    ('"select-only"', '"@2"', "workload.scripts[0]", 6, "does not name a script", None),
    ('"select-only"', '"select-only@0"', "workload.scripts", 6, "no script has a weight above 0", None),
    ('"select-only"]', '"select-only"]\ndataset = "none"', "workload.scripts[0]", 6, "dataset is none", "pgbench"),
    ("[sweep]", 'variables = { "a-b" = 1 }\n[sweep]', "workload.variables.a-b", 7, "not a valid name", None),
    ("[sweep]", 'variables.a = ""\n[sweep]', "workload.variables.a", 7, "cannot be empty", None),
    ("[1, 4]", "[1, 4, 1]", "sweep.clients[2]", 8, "1 is listed twice", "repeats"),
    ("[1, 4]", "[4]\nworkers = [1, 8]", "sweep.workers[1]", 9, "8 workers are more than 4 clients", None),
    ("[1, 4]", "1\nworkers = 2", "sweep.workers", 9, "2 workers are more than 1 client:", None),
    ("[1, 4]", "[1, 100]", "sweep.clients[1]", 8, "max_connections is 100", "max_connections = 120"),
    ('duration = "10s"', 'transactions = 5\nwarmup = "1s"', "trial.warmup", 11, "needs duration", None),
    ('"18"', '"18"\nsettings = { Port = 1 }', "target.pg18.settings.Port", 5, "chooses a free one", None),
    ('"18"', '"18"\nsettings = { include_dir = "x" }', "target.pg18.settings.include_dir", 5, "not a valid name", None),
    ('"embedded"\nversion = "18"', '"local"\nbin = "/none"', "target.pg18.bin", 4, "there is no folder /none", "bin"),
]


def test_each_mistake_is_one_problem_and_scripts_are_found_from_the_folder_of_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for old, new, path, line, message, hint in MISTAKES:
        problem = the_problem(tmp_path, changed(old, new))
        assert (problem.path, problem.line) == (path, line)
        assert message in problem.message
        assert (hint or "") in (problem.hint or "")
        assert "Input should" not in problem.message
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a@b.sql").write_text("SELECT 1;")
    monkeypatch.chdir("/")
    load(tmp_path, changed('"select-only"', '"sub/a@b.sql@2"'))
    assert load_plan(tmp_path / "mine.toml").folder == tmp_path


def test_settings_of_any_form_and_trials_of_tpch_bring_no_further_problems(tmp_path: Path) -> None:
    text = changed("[1, 4]", "200").replace('"18"', '"18"\nsettings.MAX_CONNECTIONS = 300')
    assert load(tmp_path, text).sweep.clients == [200]
    text = changed("[1, 4]", "200").replace('"18"', '"18"\nsettings = { max_connections = 300, jit = [] }')
    assert the_problem(tmp_path, text).path == "target.pg18.settings.jit"
    text = changed('scripts = ["select-only"]', 'name = "tpch"').replace('[trial]\nduration = "10s"\n', "")
    problem = the_problem(tmp_path, text)
    assert (problem.path, problem.message, problem.hint) == ("trial", "is missing", "such as [trial] with repeats = 3")
    for factor in ("0.004", "0"):
        sized = text.replace('"tpch"', f'"tpch"\nscale_factor = {factor}') + "[trial]\nrepeats = 1\n"
        assert the_problem(tmp_path, sized).path == "workload.scale_factor"


def test_all_mistakes_come_at_once_in_the_order_of_the_file_and_those_of_overrides_without_a_line(
    tmp_path: Path,
) -> None:
    text = (
        'nmae = "x"\n[target.a]\nkind = "embedded"\nversion = 18.6\nsettings = { port = 1 }\n'
        '[workload]\nscripts = ["tpcb"]\nscale = "10"\n[sweep]\nclients = 2\nworkers = 3\n[trial]\nduration = 5\n'
    )
    assert [(problem.line, problem.path) for problem in problems(tmp_path, text)] == [
        (1, "nmae"), (4, "target.a.version"), (7, "workload.scripts[0]"), (8, "workload.scale"), (11, "sweep.workers"),
        (13, "trial.duration"), (None, "name"),
    ]  # fmt: skip
    assert {problem.path: problem.message for problem in problems(tmp_path, "")} == dict.fromkeys(
        ("name", "target", "workload", "sweep", "trial"), "is missing"
    )
    for override, path in [
        ("sweep.clients=[1,1]", "sweep.clients[1]"),
        ("trial.duration=x", "trial.duration"),
        ("target.pg81.version=18", "target.pg81.kind"),
    ]:
        problem = the_problem(tmp_path, GOOD, override)
        assert (problem.path, problem.line) == (path, None)
        assert "given by --set" in (problem.hint or "")
    problem = the_problem(tmp_path, changed("[1, 4]", "0"), "trial.repeats=2")
    assert (problem.path, problem.line) == ("sweep.clients", 8)


def test_script_files_without_a_script(tmp_path: Path) -> None:
    for content, message in ((b"", "is empty"), (b" \n", "is empty"), (b"a\n\xff", "not UTF-8 in line 2")):
        (tmp_path / "a.sql").write_bytes(content)
        assert message in the_problem(tmp_path, changed('"select-only"', '"a.sql@2"')).message
    (tmp_path / "b.sql").mkdir()
    assert "is a directory" in the_problem(tmp_path, changed('"select-only"', '"b.sql@2"')).message


def test_a_local_target_needs_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = changed(LOCAL[0], f'"local"\nbin = "{tmp_path}"')
    (tmp_path / "initdb").write_text("")
    assert [problem.message for problem in problems(tmp_path, text)] == [
        f"there is no program initdb in {tmp_path}",
        f"there is no program postgres in {tmp_path}",
    ]
    monkeypatch.setenv("PATH", str(tmp_path))
    found = the_problem(tmp_path, changed(*LOCAL))
    assert (found.path, found.line) == ("target.pg18.bin", 2)
    assert "no pg_config on the PATH" in found.message
    for name in ("initdb", "postgres", "pg_config"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    for each in (text, changed(*LOCAL)):
        assert load(tmp_path, each).target["pg18"].kind == "local"


ROOT = Path(__file__).parents[2]
TWO = small_plan(sweep="clients = 4", trial='duration = "30s"\nrepeats = 6', pg16="16", pg18="18")


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "two.toml"
    file.write_text(TWO)
    return file


def warnings_of(plan: str | Path, *overrides: str) -> list[tuple[str, str, str]]:
    return [(each.path, each.message, each.hint or "") for each in load_plan(plan, overrides).warnings]


def test_empty_databases_and_settings_that_a_script_overrides_are_warned_of(plan: Path) -> None:
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
        assert (("target.db", message, remedy) in warnings_of(plan)) is warns
    # a script that overrides a setting of the plan is named
    for statement, warns in (
        ("SET work_mem = '8MB';", True),
        ("BEGIN; set local Work_Mem to '8MB';", True),
        ("SELECT set_config('work_mem', '8MB', false);", True),
        ("-- SET work_mem = '8MB'\nSET jit = off;", False),
    ):
        (plan.parent / "q.sql").write_text(f"{statement}\nSELECT 1;\n")
        plan.write_text(TWO.replace("select-only", "q.sql"))
        found = warnings_of(plan, "sweep.settings.work_mem=['4MB', '64MB']")
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
            "quick", "sweep.clients=8", "target", "one target at one number of clients: there is nothing",
            "second target",
        ),
    ):  # fmt: skip
        found = warnings_of(source or plan, overrides)
        assert path in [each[0] for each in found]
        assert any(at == path and said.startswith(message) and hint in remedy for at, said, remedy in found)
        assert len(found) == 1 or "scale" in path
    assert warnings_of(plan) == warnings_of("quick", "sweep.scale=[1,10]") == []
    assert warnings_of("quick", 'sweep.settings.max_connections="100 + clients"') == []
    assert warnings_of("quick", "sweep.clients=8", "sweep.rate=1000") == []


def test_a_setting_that_the_older_version_lacks_is_warned_of(plan: Path) -> None:
    ((field, message, hint),) = warnings_of(plan, "target.pg16.settings.io_method=worker")
    assert field == "target.pg16.settings.io_method"
    assert message == "PostgreSQL 16 has no io_method (since 18): trials of target pg16 will fail"
    assert hint.endswith("remove it")
    ((field, message, _),) = warnings_of(plan, "target.pg18.settings.io_method=worker")
    assert field == "target.pg18.settings.io_method"
    assert message.startswith(
        "target pg16, PostgreSQL 16, has no io_method (since 18): a difference between the targets "
    )
    swept = warnings_of(plan, 'sweep.settings.io_method=["sync","worker"]')
    assert [each[0] for each in swept] == ["sweep.settings.io_method"]
    assert warnings_of(plan, "target.pg18.settings.work_mem=8MB") == []
    ((field, message, _),) = warnings_of(plan, "target.pg16.settings.wal_keep_segments=8")
    assert "PostgreSQL 16 has no wal_keep_segments (until 12)" in message
    for setting, major, why in (
        ("io_method", 17, "since 18"), ("io_method", 18, None), ("IO_Method", 10, "since 18"),
        ("wal_keep_segments", 12, None), ("wal_keep_segments", 13, "until 12"), ("work_mem", 10, None),
        ("vacuum_cleanup_index_scale_factor", 10, "since 11"), ("pg_stat_statements.max", 10, None),
    ):  # fmt: skip
        assert why_unknown(setting, major) == why


def test_writes_without_their_checkpoints_are_warned_of(plan: Path) -> None:
    scripts = 'workload.scripts=["tpcb-like"]'
    ((field, message, hint),) = warnings_of(plan, scripts)
    assert field == "trial.duration"
    assert message == ("trials of 30s are shorter than a checkpoint cycle (5m00s): they write without a checkpoint")
    assert "measure 5m00s or longer" in hint
    assert 'do = "checkpoint"' in hint
    assert warnings_of(plan, scripts, "trial.duration=5m") == []
    assert warnings_of(plan, scripts, "sweep.settings.checkpoint_timeout=30s") == []
    assert len(warnings_of(plan, scripts, "target.pg18.settings.checkpoint_timeout=30s")) == 1
    assert warnings_of(plan, scripts, 'event=[{at="5s",do="checkpoint"}]') == []
    own = plan.parent / "own.sql"
    own.write_text("BEGIN;\n  UPDATE t SET a = 1;\nEND;\n")
    assert len(warnings_of(plan, 'workload.scripts=["own.sql"]')) == 1
    own.write_text("SELECT a FROM t;\n")
    assert warnings_of(plan, 'workload.scripts=["own.sql"]') == []


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
    new = tmp_path / "new.toml"
    write_new_plan(new)
    assert warnings_of(new) == []
    (first,) = re.findall(r"```toml\n(name = .*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    file = tmp_path / "first.toml"
    file.write_text(first)
    assert warnings_of(file) == []
    assert load_plan(file).plan.order() == load_plan("versions").plan.order() == "interleaved"
