"""Workloads in plans (Lua, sbtest, TPC-C, SQL files, replays): keys, mistakes with their lines, options."""

from pathlib import Path

import pytest

from pgdyno.plan import Plan, load_plan, planned_trials, time_needed_s
from pgdyno.plan.output.executed_code import executed_lines
from pgdyno.plan.output.plan_output import before_each_trial, total
from pgdyno.plan.output.show_plan import show_json
from pgdyno.plan.own_data.psql_reader import Reader, SqlFileError, Statement
from pgdyno.plan.reading.replayed_capture import read_replayed
from pgdyno.plan.time_budget.time_and_disk import dataset_bytes, needed_s
from pgdyno.run.engine import trial_options
from tests.present import present
from tests.unit.capture_sample import write_capture
from tests.unit.plan_sample import load, loaded, problems, refuse, small_plan, the_problem

LUA = small_plan("", "clients = 2\nvariables.range_size = [10, 20]").replace("[workload]\n", "") + "[workload]\n"


def test_a_lua_workload_has_its_tables_and_its_options(tmp_path: Path) -> None:
    given = 'name = "oltp-read-write"\ntables = 4\noptions = { skip_trx = true, point_selects = 3 }\n'
    plan = load(tmp_path, LUA + given)
    assert plan.workload.dataset == "sbtest"
    assert plan.workload.engine_options() == [
        "--workload=oltp-read-write", "--lua-opt=skip_trx=on", "--lua-opt=point_selects=3",
    ]  # fmt: skip
    second = planned_trials(plan)[1]
    options = trial_options(plan, second.point, 1, tmp_path)
    assert {"--lua-opt=tables=4", "--lua-opt=table_size=10000", "--lua-opt=range_size=20"} <= set(options)
    assert "--report-per-command" in options
    assert not any(option.startswith(("--define", "--protocol")) for option in options)
    script = load(tmp_path, LUA + 'lua = "mine.lua"\n').workload
    assert (script.dataset, script.engine_options()) == ("none", ["--lua=mine.lua"])


def test_keys_that_do_not_fit_lua_are_refused(tmp_path: Path) -> None:
    for workload, message in (
        ('lua = "a.lua"\nname = "oltp-insert"\n', "give one of scripts, lua and name"),
        ('lua = "a.lua"\nscripts = ["select-only"]\n', "give one of scripts, lua and name"),
        ('scripts = ["select-only"]\noptions = { a = 1 }\n', "unknown key"),
        ('lua = "a.lua"\nvariables = { a = 1 }\n', "a Lua script takes options"),
        ('lua = "a.lua"\noptions = { pgsql_host = "a" }\n', "pgsql_host names a server, which [target] does"),
        ('name = "oltp-insert"\noptions = { "pgsql-db" = "a" }\n', "pgsql-db names a server, which [target] does"),
        ('lua = "a.lua"\n[[sweep.points]]\nclients = 2\nvariables.pgsql_port = 1\n', "pgsql_port names a server"),
        ('name = "select-only"\nscale = 3\n', '"select-only" is a script, not a workload'),
        ('lua = "a.lua"\n[[sweep.points]]\nclients = 4\nprotocol = "simple"\n', "a Lua script itself decides how to"),
    ):
        assert any(message in problem.message for problem in problems(tmp_path, LUA + workload))
    # a script decides how statements are sent, and has no ledger
    for workload in ('lua = "mine.lua"\n', 'name = "oltp-insert"\n'):
        text = (LUA + workload).replace("[trial]", 'protocol = "prepared"\n[trial]')
        refuse(tmp_path, text, "sweep.protocol", "a Lua script itself decides how to send", "db_ps_mode", line=9)
    hint = the_problem(tmp_path, LUA + 'name = "select-only"\nscale = 3\n').hint
    assert hint == 'set scripts = ["select-only"] instead'
    (tmp_path / "a.lua").write_text("function event() end -- :ledger_seq\n")
    assert the_problem(tmp_path, LUA + 'lua = "a.lua"\n', "trial.ledger=true").path == "trial.ledger"


SBTEST = small_plan('scripts = ["point.sql"]\ndataset = "sbtest"\ntables = 10\ntable_size = 100000', "clients = 2")


@pytest.fixture(autouse=True)
def scripts(tmp_path: Path) -> None:
    (tmp_path / "read.sql").write_text("SELECT 1;\n")
    (tmp_path / "point.sql").write_text("\\set id random(1, :table_size)\nSELECT c FROM sbtest1 WHERE id = :id;\n")


def test_the_size_of_sbtest_is_tables_and_rows_in_each_and_other_keys_are_refused(tmp_path: Path) -> None:
    plan = load(tmp_path, SBTEST)
    resolved = plan.as_resolved()["workload"]
    assert (resolved["tables"], resolved["table_size"]) == (10, 100_000)
    assert "scale" not in resolved
    (trial,) = planned_trials(plan)
    assert trial.point.scale == 100_000
    assert before_each_trial(plan) == "before each trial: vacuum every table; checkpoint"
    options = trial_options(plan, trial.point, 1, tmp_path)
    assert {"--define=tables=10", "--define=table_size=100000"} <= set(options)
    assert not any(option.startswith("--scale") for option in options)
    # sysbench's 10 tables of 100,000 rows took 254,795,776 bytes when they were loaded
    assert dataset_bytes(plan, 100_000) == pytest.approx(254_795_776, rel=0.05)
    swept = load(tmp_path, SBTEST, "sweep.scale=[500, 5000]")
    assert [trial.point.scale for trial in planned_trials(swept)] == [500, 5000]
    assert "--define=table_size=5000" in trial_options(swept, planned_trials(swept)[1].point, 1, tmp_path)
    for old, new, said in (
        ("tables = 10", "tables = 10\nscale = 3", "workload.scale: does not apply to sbtest"),
        ('"sbtest"', '"pgbench"', "workload.tables: is valid only with dataset"),
        ('"sbtest"', '"none"', "workload.table_size: is valid only with dataset"),
        ("point.sql", "tpcb-like", "needs pgbench's tables, but dataset is sbtest"),
        ("tables = 10", "tables = 0", "workload.tables: "),
        ("100000", "2147483648", "workload.table_size: "),
        ("clients = 2", "clients = 2\nscale = 2147483648", "sweep.scale: scale sets the rows of each sbtest table, at"),
    ):
        found = [f"{each.path}: {each.message}" for each in problems(tmp_path, SBTEST.replace(old, new))]
        assert any(said in each for each in found), found


def tpcc(workload: str = "") -> str:
    return small_plan(f'name = "tpcc"\nwarehouses = 3\n{workload}', "clients = 4")


def test_tpcc_says_scripts_dataset_reset_and_release(tmp_path: Path) -> None:
    read = load(tmp_path, tpcc('variant = "sql"'))
    workload = read.workload
    assert (workload.scripts, workload.dataset, workload.scale) == (["tpcc"], "tpcc", 3)
    assert read.reset.method == "template"
    assert read.points()[0].scale == 3
    assert workload.engine_options() == ["--workload=tpcc", "--tpcc-profile=hammerdb-6.1.1", "--tpcc-variant=sql"]
    options = trial_options(read, read.points()[0], seed=1, phases=tmp_path)
    assert not any(option.startswith("--protocol") for option in options)
    assert read.as_resolved()["workload"]["name"] == "tpcc"
    # hammerdb is the newest release, and of an earlier run the one that rolled back
    for profile in ("", 'profile = "hammerdb"', 'profile = "hammerdb-6.1.1"'):
        resolved = load(tmp_path, tpcc(profile)).as_resolved()
        assert resolved["workload"]["profile"] == "hammerdb-6.1.1"
    resolved["workload"]["profile"] = "hammerdb"
    assert Plan.from_resolved(resolved).workload.dataset_options["profile"] == "hammerdb-6.1"
    assert load(tmp_path, tpcc('profile = "spec"')).workload.dataset_options["profile"] == "spec"


def test_keys_that_do_not_fit_tpcc_are_refused_and_phases_name_its_transactions(tmp_path: Path) -> None:
    for place, keys, where, said, hint in (
        ("[sweep]", 'scripts = ["tpcb-like"]\n[sweep]', "workload.scripts", "defines scripts and dataset itself", ""),
        ("[sweep]", 'profile = "tpc"\n[sweep]', "workload.profile", "hammerdb", ""),
        ("[sweep]", "variables = { x = 1 }\n[sweep]", "workload.variables", "has no scripts", ""),
        ("[sweep]", "scale = 4\n[sweep]", "workload.scale", "", "remove one"),
        ("[sweep]", '[sweep]\nprotocol = ["simple", "prepared"]', "sweep.protocol", "", "workload.variant"),
        ("[sweep]", "[sweep]\nvariables.x = [1, 2]", "sweep.variables", "", ""),
        ("[trial]", '[[sweep.points]]\nprotocol = "prepared"\n[trial]', "sweep.points[0].protocol", "variant", ""),
        ("[trial]", '[reset]\nmethod = "vacuum"\n[trial]', "reset.method", "as the previous trial left them", ""),
        ("[trial]", "[trial]\nledger = true", "trial.ledger", "", "tpcb-like"),
    ):
        refuse(tmp_path, tpcc().replace(place, keys), where, said, hint)
    phase = '[[phase]]\nname = "a"\nduration = "5s"\nmix = { "New-Order" = 1, "Payment" = 1 }'
    read = load(tmp_path, tpcc().replace('duration = "10s"', "repeats = 1") + phase)
    assert read.phase[0].mix == {"New-Order": 1, "Payment": 1}


def read(folder: Path, text: str, **variables: str) -> list[tuple[int, str, str]]:
    """Returns line, text and kind of each statement; the data of COPY follow the kind."""
    (folder / "a.sql").write_text(text)
    return [
        (each.line, each.text.strip(), each.kind + "".join(f" {rows.decode()!r}" for rows in each.data))
        for each in Reader(folder, variables).read("a.sql")
    ]


def texts(folder: Path, text: str, **variables: str) -> list[str]:
    return [each for _, each, _ in read(folder, text, **variables)]


def test_what_a_file_says_is_read_by_psql_s_rules_and_mistakes_have_file_and_line(tmp_path: Path) -> None:
    for statement in (
        "SELECT ';', 'it''s;'", "SELECT E'\\';'", "SELECT $$;$$", "SELECT $Tag$; $tag$ $$ ;$Tag$",
        'SELECT 1 AS "a;"";"', "SELECT 1 /* ; /* ; */ ' */", "SELECT 1 -- ; '\n", "SELECT 'two\nlines;'",
        "DO $$\nBEGIN\n  PERFORM 1;\nEND;\n$$",
        "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 2 END; END",
        "CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC\nINSERT INTO t VALUES (1);\nEND",
        "CREATE RULE r AS ON INSERT TO t DO (DELETE FROM a; DELETE FROM b)",
        "SELECT a$b$c, date'\\', e'\\';', type$x FROM t", "BEGIN",
    ):  # fmt: skip
        assert texts(tmp_path, f"{statement};SELECT 2;\nSELECT 3") == [statement.strip(), "SELECT 2", "SELECT 3"]
    text = "SELECT :n, :'n', :\"n\", ':n', $$:n$$, 1::int, a[1:m], x := 2, f('a':1) -- :n\n;"
    (found,) = texts(tmp_path, text, n="it's")
    assert found == "SELECT it's, 'it''s', \"it's\", ':n', $$:n$$, 1::int, a[1:m], x := 2, f('a':1) -- :n"
    assert texts(tmp_path, "\\set b 'x\\ty' :a\n\\set c :'b'\nSELECT :'b', :c;", a="z") == ["SELECT 'x\tyz', 'x\tyz'"]
    assert texts(tmp_path, "SELECT :'p'", p="a\\b") == ["SELECT E'a\\\\b'"]
    for text, message in {
        "SELECT 1;\n\\connect x\n": "a.sql:2: \\connect is not supported",
        "\\! rm -rf x\n": "a.sql:1: \\! is not supported",
        "SELECT\n:n;": "a.sql:2: the variable n is not known",
        "\n\\i b.sql": "a.sql:2: cannot read {}/b.sql: no such file or directory",
        "\\copy t from c.csv": "a.sql:1: cannot read {}/c.csv: no such file or directory",
        "\\copy t from program 'id'": "a.sql:1: \\copy reads a file",
        "\\copy t to 'x'": "a.sql:1: \\copy reads a file",
        "\\set x `id`": "a.sql:1: cannot read the argument at `",
        "\\set x 1 \\\\ SELECT 1;": "a.sql:1: cannot read the argument at \\",
        "SELECT 1;\nSELECT 'x\n;": "a.sql:2: ' is not closed",
        "\\i a.sql": "a.sql:1: more than 32 files include each other",
        "\\gexec": "a.sql:1: \\gexec needs a query",
        "SELECT 1;\n\udcff": "a.sql:2: is not UTF-8",
    }.items():
        (tmp_path / "a.sql").write_bytes(text.encode(errors="surrogateescape"))
        with pytest.raises(SqlFileError) as raised:
            [rows for statement in Reader(tmp_path, {}).read("a.sql") for rows in statement.data]
        assert str(raised.value).startswith(message.format(tmp_path))


def test_statements_have_their_first_line_copy_its_rows_and_files_their_folder(tmp_path: Path) -> None:
    text = "\n-- a comment; not a statement\nSELECT 1;\n\nCOPY t (a) FROM STDIN; SELECT 2;\n1;\n'\n\\.\n  SELECT\n3"
    rows = "copy '1;\\n' \"'\\n\""
    found = read(tmp_path, text)
    # the rows are read before what follows the COPY on its line
    assert found == [
        (3, "SELECT 1", "sql"), (5, "COPY t (a) FROM STDIN", rows), (8, "SELECT 2", "sql"), (9, "SELECT\n3", "sql"),
    ]  # fmt: skip
    assert Statement("a.sql", 4, "SELECT\n3", "sql").line_at(8) == 5
    assert read(tmp_path, "SELECT 'a' \\gexec\n") == [(1, "SELECT 'a'", "gexec")]
    # a path is relative to the file that names it
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "b.sql").write_text("\\copy t(a, b) from 'it''s.csv' with (format csv)\nSELECT :x;")
    (tmp_path / "below" / "it's.csv").write_text("1,2\n")
    found = read(tmp_path, "\\set x 7\n\\ir below/b.sql\nSELECT 8;")
    copy = (1, "COPY t(a, b) FROM STDIN with (format csv)", "copy '1,2\\n'")
    assert found == [copy, (2, "SELECT 7", "sql"), (3, "SELECT 8", "sql")]


def plan(sql: str = '["schema.sql"]', variables: str = "{}", sweep: str = "") -> str:
    dataset = f'{{ name = "shop", sql = {sql}, variables = {variables} }}'
    return small_plan(f'scripts = ["read.sql"]\ndataset = {dataset}', f"clients = [1, 2]\n{sweep}")


def test_plan_check_says_what_is_wrong_with_the_files(tmp_path: Path) -> None:
    def problem_line(text: str) -> str:
        problem = the_problem(tmp_path, text)
        return f"{problem.line}: {problem.path}: {problem.message}"

    schema, rows = tmp_path / "schema.sql", "{ rows = 1 }"
    assert problem_line(plan()).startswith(f"7: workload.dataset.sql: schema.sql: cannot read {schema}: no such file")
    schema.write_text("CREATE TABLE t (a int);\nSELECT :rows;\n")
    assert problem_line(plan()) == "7: workload.dataset.sql: schema.sql:2: the variable rows is not known"
    unused = problem_line(plan(variables="{ rows = 1, other = 2 }"))
    assert unused == "7: workload.dataset.variables.other: no file of the dataset uses it"
    for sql in ('"schema.sql"', "[]", "[[]]", "[1]", '[["schema.sql", 1]]'):
        wrong = problem_line(plan(sql, rows))
        assert wrong.startswith("7: workload.dataset.sql: must be a list of SQL files"), sql
    for name, text in {
        "workload.dataset.name": plan(variables=rows).replace('"shop"', '"pgbench"'),
        "sweep.scale": plan(variables=rows, sweep="scale = [1, 2]"),
        "reset.consistency": plan(variables=rows) + '[reset]\nconsistency = "full"\n',
    }.items():
        assert the_problem(tmp_path, text).path == name


@pytest.fixture
def two(tmp_path: Path) -> str:
    (tmp_path / "schema.sql").write_text("SELECT :rows, :parts;\n")
    return plan(variables="{ rows = 1e6, parts = 1 }")


def test_swept_variables_are_another_dataset_whose_trials_follow_each_other(tmp_path: Path, two: str) -> None:
    sweep = "variables.parts = [1, 16]\nsettings.work_mem = ['1MB', '2MB']\n[trial]\nrepeats = 2\n"
    found = load(tmp_path, two.replace("[trial]\n", sweep))
    trials = planned_trials(found)
    assert [trial.point.variables["parts"] for trial in trials] == ["1"] * 8 + ["16"] * 8
    assert found.workload.data_at(trials[-1].point) == (1, (("rows", "1000000"), ("parts", "16")))
    options = found.workload.value_options(trials[-1].point)
    assert options == ["--define=rows=1000000", "--define=parts=16"]
    # one load for each server and value
    assert "loading (2 datasets)" in total(found)
    stored = load(tmp_path, two).as_resolved()
    assert stored["workload"]["dataset"]["variables"] == {"rows": "1000000", "parts": "1"}


def test_plan_check_lists_programs_that_the_files_start(tmp_path: Path, two: str) -> None:
    found = loaded(tmp_path, two)
    (tmp_path / "schema.sql").write_text("SELECT :rows, :parts;\nCOPY t\nFROM PROGRAM 'id';\nSELECT 1;\n")
    where = f"{tmp_path / 'mine.toml'}:7: workload.dataset.sql"
    assert executed_lines(found)[1:] == [f"  {where}: schema.sql:3: PROGRAM 'id'"]
    # an extended plan finds the files where they are
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "other.toml").write_text('extends = "../mine.toml"\n')
    below = load_plan(tmp_path / "below" / "other.toml").plan
    assert present(below.workload.own_data).sql == ["../schema.sql"]


HEAD = small_plan('replay = "."').partition("[sweep]")[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_capture(tmp_path)
    return tmp_path


def problem_texts(folder: Path, text: str = HEAD) -> list[str]:
    return [f"{each.path}: {each.message}" for each in problems(folder, text)]


def test_clients_length_rate_and_pace_come_from_the_capture(folder: Path) -> None:
    plan = load(folder, HEAD)
    assert (plan.workload.dataset, plan.workload.scripts) == ("none", ["replay"])
    assert plan.trial.duration == 600
    (trial,) = planned_trials(plan)
    assert (trial.point.clients, trial.point.rate) == (2, 0.003333)
    assert time_needed_s(plan) == 600
    assert plan.workload.engine_options() == []
    assert "allow_captured" not in plan.as_resolved()["workload"]
    assert load(folder, HEAD, "trial.duration=5m").trial.duration == 300
    swept = load(folder, HEAD + '[sweep]\nsettings.work_mem = ["4MB", "64MB"]\n')
    assert [trial.point.clients for trial in planned_trials(swept)] == [2, 2]
    # the pace divides the length
    plan = load(folder, HEAD + "pace = 4\n")
    assert plan.trial.duration == 150
    capture = read_replayed(folder)
    assert plan.workload.replay_options(capture, Path("/r"), 7, 2, plan.trial.duration) == [
        "--events=-", "--parent-lease", "--replay=/r", "--pace=4", "--random-seed=7", "--jobs=2",
    ]  # fmt: skip
    assert "--time=10" in (plan.workload.replay_options(capture, Path("/r"), 7, 2, 10.0) or [])
    # at the highest pace, the server decides the length
    of = loaded(folder, HEAD + 'pace = "max"\n')
    assert of.plan.trial.duration is None
    assert planned_trials(of.plan)[0].point.rate is None
    assert needed_s(of.plan, of.plan.points()) is None
    assert "the last statement of its capture" in total(of.plan)
    assert '"pace": "max"' in show_json(of)


def test_what_a_replay_excludes_is_named(folder: Path) -> None:
    for more, message in (
        ('scripts = ["select-only"]\n', "workload.scripts: cannot be combined with workload.replay: it sends"),
        ('lua = "a.lua"\n', "workload.lua: unknown key"),
        ('name = "tpcc"\n', "workload.name: unknown key"),
        ('captured = "capture.json"\n', "workload.captured: cannot be combined with workload.replay: it sends"),
        ("variables = { a = 1 }\n", "workload.variables: cannot be combined with workload.replay: it sends"),
        ("pace = 0\n", "workload.pace: is invalid"),
        ('pace = "fast"\n', "workload.pace: is invalid"),
        ("pace = true\n", "workload.pace: is invalid"),
        ("[sweep]\nclients = 4\n", "sweep.clients: a replay has as many clients as the capture had sessions"),
        ("[sweep]\nrate = 100\n", "sweep.rate: cannot be combined with workload.replay: it has the times"),
        ('connect = "each"\n', "workload.connect: cannot be combined with workload.replay"),
        ('[sweep]\nprotocol = "prepared"\n', "sweep.protocol: cannot be combined with workload.replay"),
        ("[sweep]\nvariables.a = [1]\n", "sweep.variables: cannot be combined with workload.replay"),
        ("[[sweep.points]]\nclients = 2\n", "sweep.points: cannot be combined with workload.replay"),
        ('[trial]\nduration = "11m"\n', "trial.duration: is longer than the capture at this pace, 10m"),
        ('[trial]\nwarmup = "1s"\n', "trial.warmup: cannot be combined with workload.replay: a warm-up would"),
        ("[trial]\ntransactions = 5\n", "trial.transactions: cannot be combined with workload.replay"),
        ("[trial]\nledger = true\n", "trial.ledger: cannot be combined with workload.replay"),
        ("[trial]\nmax_errors = 3\n", "trial.max_errors: cannot be combined with workload.replay"),
        ('[[phase]]\nname = "a"\nduration = "5s"\n', "phase: cannot be combined with workload.replay"),
        ('[search]\nfind = "peak"\n', "search: cannot be combined with workload.replay"),
    ):
        found = problem_texts(folder, HEAD + more)
        assert any(each.startswith(message) for each in found), found
    found = problem_texts(folder, 'generators = ["10.0.0.1", "10.0.0.2"]\n' + HEAD)
    assert any("one engine replays all sessions" in each for each in found)
    assert load(folder, HEAD + "allow_captured = true\n").workload.allow_captured
    found = problem_texts(folder, HEAD.replace('replay = "."', 'scripts = ["select-only"]\nallow_captured = true'))
    assert any("allow_captured needs a capture" in each for each in found)
    problem = the_problem(folder, small_plan('scripts = ["select-only"]\npace = 2'))
    assert (problem.path, problem.hint) == ("workload.pace", "pace belongs to replay")


def test_a_capture_must_be_complete_and_readable_and_may_be_only_compared(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "none").mkdir()
    assert problem_texts(tmp_path / "none") == [f"workload.replay: there is no {tmp_path / 'none' / 'capture.json'}"]
    write_capture(tmp_path / "cut")
    cut = tmp_path / "cut" / "capture.parquet"
    cut.write_bytes(cut.read_bytes()[:-10])
    assert problem_texts(tmp_path / "cut") == [f"workload.replay: {cut} is cut off or not a Parquet file"]
    cut.unlink()
    assert problem_texts(tmp_path / "cut") == [
        f"workload.replay: {tmp_path / 'cut'} is incomplete: it has no capture.parquet"
    ]
    (tmp_path / "cut" / "capture.json").write_text('{"format": 1')
    assert "is damaged" in problem_texts(tmp_path / "cut")[0]
    write_capture(tmp_path / "views", source="pg_stat_statements")
    assert "which has no single statements to replay" in problem_texts(tmp_path / "views")[0]
    write_capture(tmp_path / "newer", format=2)
    assert "is of format 2" in problem_texts(tmp_path / "newer")[0]
    write_capture(tmp_path / "empty", rows=(), calls=0, most_sessions=0)
    assert "has no statements" in problem_texts(tmp_path / "empty")[0]
    text = small_plan('scripts = ["select-only"]\ncaptured = "capture.json"')
    assert load(folder, text).workload.capture == "capture.json"
    problem = the_problem(folder, text.replace("capture.json", "other.json"))
    assert problem.message == f"there is no {folder / 'other.json'}"
