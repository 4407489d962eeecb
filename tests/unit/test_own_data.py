"""SQL files of a dataset: psql's rules for statements, variables and other files, and what `plan check` says."""

from pathlib import Path

import pytest

from pgdyno.plan import load_plan
from pgdyno.plan.output.executed_code import executed_lines
from pgdyno.plan.output.plan_output import total
from pgdyno.plan.own_data.psql_reader import Reader, SqlFileError, Statement
from pgdyno.plan.trials import planned_trials
from tests.present import present
from tests.unit.plan_sample import load, loaded, small_plan, the_problem


def read(folder: Path, text: str, **variables: str) -> list[tuple[int, str, str]]:
    """Returns line, text and kind of each statement; the data of COPY follow the kind."""
    (folder / "a.sql").write_text(text)
    return [
        (each.line, each.text.strip(), each.kind + "".join(f" {rows.decode()!r}" for rows in each.data))
        for each in Reader(folder, variables).read("a.sql")
    ]


def texts(folder: Path, text: str, **variables: str) -> list[str]:
    return [each for _, each, _ in read(folder, text, **variables)]


QUOTED = [
    "SELECT ';', 'it''s;'",
    "SELECT E'\\';'",
    "SELECT $$;$$",
    "SELECT $Tag$; $tag$ $$ ;$Tag$",
    'SELECT 1 AS "a;"";"',
    "SELECT 1 /* ; /* ; */ ' */",
    "SELECT 1 -- ; '\n",
    "SELECT 'two\nlines;'",
    "DO $$\nBEGIN\n  PERFORM 1;\nEND;\n$$",
    "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 2 END; END",
    "CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC\nINSERT INTO t VALUES (1);\nEND",
    "CREATE RULE r AS ON INSERT TO t DO (DELETE FROM a; DELETE FROM b)",
    "SELECT a$b$c, date'\\', e'\\';', type$x FROM t",
    "BEGIN",
]


def test_a_semicolon_within_a_statement_does_not_end_it(tmp_path: Path) -> None:
    for statement in QUOTED:
        assert texts(tmp_path, f"{statement};SELECT 2;\nSELECT 3") == [statement.strip(), "SELECT 2", "SELECT 3"]


def test_variables_are_replaced_outside_of_quotes(tmp_path: Path) -> None:
    text = "SELECT :n, :'n', :\"n\", ':n', $$:n$$, 1::int, a[1:m], x := 2, f('a':1) -- :n\n;"
    (found,) = texts(tmp_path, text, n="it's")
    assert found == "SELECT it's, 'it''s', \"it's\", ':n', $$:n$$, 1::int, a[1:m], x := 2, f('a':1) -- :n"
    assert texts(tmp_path, "\\set b 'x\\ty' :a\n\\set c :'b'\nSELECT :'b', :c;", a="z") == ["SELECT 'x\tyz', 'x\tyz'"]
    assert texts(tmp_path, "SELECT :'p'", p="a\\b") == ["SELECT E'a\\\\b'"]


def test_statements_have_their_first_line_and_copy_its_rows(tmp_path: Path) -> None:
    text = "\n-- a comment; not a statement\nSELECT 1;\n\nCOPY t (a) FROM STDIN; SELECT 2;\n1;\n'\n\\.\n  SELECT\n3"
    rows = "copy '1;\\n' \"'\\n\""
    found = read(tmp_path, text)
    # the rows are read before what follows the COPY on its line
    assert found == [
        (3, "SELECT 1", "sql"),
        (5, "COPY t (a) FROM STDIN", rows),
        (8, "SELECT 2", "sql"),
        (9, "SELECT\n3", "sql"),
    ]
    assert Statement("a.sql", 4, "SELECT\n3", "sql").line_at(8) == 5
    assert read(tmp_path, "SELECT 'a' \\gexec\n") == [(1, "SELECT 'a'", "gexec")]


def test_other_files_are_beside_the_file_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "b.sql").write_text("\\copy t(a, b) from 'it''s.csv' with (format csv)\nSELECT :x;")
    (tmp_path / "below" / "it's.csv").write_text("1,2\n")
    found = read(tmp_path, "\\set x 7\n\\ir below/b.sql\nSELECT 8;")
    copy = (1, "COPY t(a, b) FROM STDIN with (format csv)", "copy '1,2\\n'")
    assert found == [copy, (2, "SELECT 7", "sql"), (3, "SELECT 8", "sql")]


WRONG = {
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
}


def test_mistakes_have_file_and_line(tmp_path: Path) -> None:
    for text, message in WRONG.items():
        (tmp_path / "a.sql").write_bytes(text.encode(errors="surrogateescape"))
        with pytest.raises(SqlFileError) as raised:
            [rows for statement in Reader(tmp_path, {}).read("a.sql") for rows in statement.data]
        assert str(raised.value).startswith(message.format(tmp_path))


def plan(sql: str = '["schema.sql"]', variables: str = "{}", sweep: str = "") -> str:
    dataset = f'{{ name = "shop", sql = {sql}, variables = {variables} }}'
    return small_plan(f'scripts = ["read.sql"]\ndataset = {dataset}', f"clients = [1, 2]\n{sweep}")


@pytest.fixture(autouse=True)
def script(tmp_path: Path) -> None:
    (tmp_path / "read.sql").write_text("SELECT 1;\n")


def test_plan_check_says_what_is_wrong_with_the_files(tmp_path: Path) -> None:
    def refused(text: str) -> str:
        problem = the_problem(tmp_path, text)
        return f"{problem.line}: {problem.path}: {problem.message}"

    schema, rows = tmp_path / "schema.sql", "{ rows = 1 }"
    assert refused(plan()).startswith(f"7: workload.dataset.sql: schema.sql: cannot read {schema}: no such file")
    schema.write_text("CREATE TABLE t (a int);\nSELECT :rows;\n")
    assert refused(plan()) == "7: workload.dataset.sql: schema.sql:2: the variable rows is not known"
    unused = refused(plan(variables="{ rows = 1, other = 2 }"))
    assert unused == "7: workload.dataset.variables.other: no file of the dataset uses it"
    for sql in ('"schema.sql"', "[]", "[[]]", "[1]", '[["schema.sql", 1]]'):
        wrong = refused(plan(sql, rows))
        assert wrong.startswith("7: workload.dataset.sql: must be a list of SQL files"), sql
    for name, text in {
        "workload.dataset.name": plan(variables=rows).replace('"shop"', '"pgbench"'),
        "sweep.scale": plan(variables=rows, sweep="scale = [1, 2]"),
        "reset.consistency": plan(variables=rows) + '[reset]\nconsistency = "full"\n',
    }.items():
        assert the_problem(tmp_path, text).path == name


@pytest.fixture
def two(tmp_path: Path) -> str:
    """A plan whose dataset has two variables."""
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
