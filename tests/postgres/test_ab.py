"""`pgdyno ab` on an existing server: the answer, and what the comparison leaves on the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdyno.commands.ab import How, ab
from pgdyno.commands.run import Output
from pgdyno.errors import ExitCode, TargetError
from pgdyno.plan.ab_plan import Question
from pgdyno.store import load_run
from pgdyno.targets import Home, Server, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget

LEFT = """
    SELECT (SELECT count(*) FROM pg_namespace), (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_database),
           (SELECT count(*) FROM pg_db_role_setting), (SELECT count(*) FROM pg_file_settings)
"""


@pytest.fixture(scope="module")
def theirs(home: Home) -> Iterator[Server]:
    spec = EmbeddedTarget(kind="embedded", version="18", settings={"fsync": "off"}, connect="tcp")
    with open_target("theirs", spec, home=home, progress=SilentProgress()) as server:
        yield server


@pytest.fixture
def dsn(theirs: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    for name, value in theirs.environment().items():
        monkeypatch.setenv(name, value)
    return f"host={theirs.host} port={theirs.port} user={theirs.user} dbname={theirs.dbname}"


def how(tmp_path: Path, **more: object) -> How:
    output = Output(html=None, csv=None, quiet=True, json=True)
    return How(tmp_path / "runs", output, check_first=False, **more)  # type: ignore[arg-type]


def test_answers_with_session_settings_and_leaves_nothing(
    theirs: Server, dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "q.sql").write_text("SELECT current_setting('work_mem');\n")
    with theirs.connect() as connection:
        before = connection.execute(LEFT).fetchone()
    asked = Question(
        dsn=[dsn],
        settings=["work_mem=4MB,64MB"],
        scripts=["q.sql"],
        clients=1,
        duration="500ms",
        warmup="0s",
        pairs="6",
    )
    code = ab(asked, how(tmp_path, save=tmp_path / "plan.toml"))
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (code, found["trials"], found["failed"]) == (ExitCode.OK, 12, 0)
    assert found["answer"][0].startswith("64MB vs 4MB: ")
    assert found["comparisons"][0]["points"][0]["pairs"] == 6
    run = load_run(Path(found["run"]))
    for trial in run.trials:
        assert trial.prepare is not None
        assert trial.prepare.method == "none"
        assert trial.session_settings == {
            "default_transaction_read_only": "on",
            "work_mem": trial.point.settings["work_mem"],
        }
    rows = {(row.trial, row.name): (row.setting, row.source) for row in run.settings(names=["work_mem"])}
    assert {trial.number: rows[trial.number, "work_mem"] for trial in run.trials} == {
        trial.number: ("4096" if trial.point.settings["work_mem"] == "4MB" else "65536", "client")
        for trial in run.trials
    }
    facts = run.manifest.targets[0].facts
    assert facts is not None
    assert facts.settings_changed["default_transaction_read_only"] == "on"
    assert json.loads(json.dumps(run.manifest.plan))["sweep"]["session_settings"] == {"work_mem": ["4MB", "64MB"]}
    with theirs.connect() as connection:
        assert connection.execute(LEFT).fetchone() == before


def test_a_script_that_writes_fails_once_and_names_the_option(
    theirs: Server, dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with theirs.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT 1 AS x")
    (tmp_path / "w.sql").write_text("UPDATE kept SET x = 2;\n")
    asked = Question(dsn=[dsn], settings=["work_mem=4MB,64MB"], scripts=["w.sql"], clients=1, duration="500ms")
    shown = Output(html=None, csv=None, quiet=True, json=False)
    code = ab(asked, How(tmp_path / "runs", shown, check_first=False))
    said = capsys.readouterr().out
    assert code is ExitCode.TRIALS_FAILED
    assert "to allow that, in transactions that commit: --writes" in said
    with theirs.connect() as connection:
        assert connection.execute("SELECT x FROM kept").fetchone() == (1,)


def test_a_setting_that_the_server_does_not_know_is_corrected_not_run_again(
    dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "q.sql").write_text("SELECT 1;\n")
    asked = Question(dsn=[dsn], settings=["wrk_mem=4MB,64MB"], scripts=["q.sql"], clients=1, duration="500ms")
    shown = Output(html=None, csv=None, quiet=True, json=False)
    assert ab(asked, How(tmp_path / "runs", shown, check_first=False)) is not ExitCode.OK
    said = capsys.readouterr().out
    assert "hint: correct --set, and run the command again" in said
    assert "redo-failed" not in said


def test_a_value_that_the_server_refuses_is_reported_before_any_trial(theirs: Server) -> None:
    with pytest.raises(TargetError, match='cannot set work_mem = 4XB for a session: invalid value for parameter "work'):
        theirs.check_session({"work_mem": "4XB"})
    with pytest.raises(TargetError, match="unrecognized configuration parameter"):
        theirs.check_session({"work_mm": "4MB"})
    theirs.check_session({"search_path": "a, pg_catalog", "app.note": "it's  a\\b"})
