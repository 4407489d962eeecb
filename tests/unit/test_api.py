"""`pgdyno.open`: a run as tables for programs and notebooks."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pgdyno
from pgdyno.api import Run
from pgdyno.errors import StoreError, UsageError
from pgdyno.store import RunFolder, load_run
from tests.present import present
from tests.unit.events_sample import sample_events
from tests.unit.store_sample import add_trial, sample_manifest, sample_record

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder.create(tmp_path / "pgdyno-runs", sample_manifest())
    for number in (1, 2):
        add_trial(made, number)
    return made


@pytest.fixture
def run(folder: RunFolder) -> Run:
    return pgdyno.open(folder.path)


def test_a_run_is_found_as_commands_find_it(folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = folder.path.parent
    assert pgdyno.open(folder.name, runs=runs).name == folder.name
    assert pgdyno.open("latest", runs=str(runs)).name == folder.name
    monkeypatch.chdir(runs)
    # a path of one step
    assert pgdyno.open(Path(folder.name)).name == folder.name
    monkeypatch.setenv("PGDYNO_RUNS", str(runs))
    assert pgdyno.open().manifest.workload == "select-only"
    with pytest.raises(StoreError, match="there is no run x"):
        pgdyno.open("x")
    (tmp_path / "config" / "pgdyno").mkdir(parents=True)
    (tmp_path / "config" / "pgdyno" / "config.toml").write_text(f'runs = "{runs}"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path / "config")
    monkeypatch.delenv("PGDYNO_RUNS")
    assert pgdyno.open().name == folder.name
    monkeypatch.setenv("PGDYNO_RUNS", "")
    assert pgdyno.open().name == folder.name
    monkeypatch.setenv("PGDYNO_RUNS", "nothing-here")
    with pytest.raises(StoreError, match="there are no runs in nothing-here"):
        pgdyno.open()


@pytest.mark.long
def test_tables_are_the_same_in_every_form(run: Run) -> None:
    import pandas
    import polars
    import pyarrow

    rows = run.trials.rows()
    assert [(row["trial"], row["target"], row["clients"]) for row in rows] == [(1, "pg18", 4), (2, "pg18", 4)]
    for table in (run.trials, run.seconds, run.series, run.waits, run.statements, run.events, run.settings):
        assert table.columns[:2] == ["run", "trial"]
        frame, other, arrow = table.pandas(), table.polars(), table.arrow()
        assert isinstance(frame, pandas.DataFrame)
        assert isinstance(other, polars.DataFrame)
        assert isinstance(arrow, pyarrow.Table)
        assert len(table) == len(frame) == other.height == arrow.num_rows == len(list(table))
        assert table.columns == list(frame.columns) == other.columns == arrow.column_names
    assert run.trials.pandas()["tps"].tolist() == [row["tps"] for row in rows]
    # any library that knows Arrow's interface
    assert polars.DataFrame(run.seconds).equals(run.seconds.polars())


def test_latencies_are_those_of_the_record(run: Run) -> None:
    [first, _] = run.trials.rows()
    histogram = present(run.histogram(1))
    assert histogram.count == first["succeeded"]
    assert histogram.percentile_ns(99) == pytest.approx(first["p99_ns"], rel=0.002)
    buckets = run.histograms.rows()
    assert sum(row["count"] for row in buckets if row["trial"] == 1) == first["succeeded"]
    counted = run.sql("SELECT trial, sum(count) AS n FROM histograms_by_bucket GROUP BY 1 ORDER BY 1").rows()
    assert counted[0] == {"trial": 1, "n": first["succeeded"]}


def test_a_notebook_shows_runs_tables_and_what_trials_vary(run: Run, folder: RunFolder) -> None:
    assert run.name in run._repr_html_()
    shown = run.sql("SELECT '<b>&' AS text, NULL AS none, 'x'::BLOB AS bytes, MAP {'a': '1'} AS pairs")._repr_html_()
    assert "<td>&lt;b&gt;&amp;</td><td></td><td>1 byte</td><td>a=1</td>" in shown
    assert "20 of 1,000 rows" in run.sql("SELECT * FROM range(1000)")._repr_html_()
    assert repr(run) == f"<pgdyno run {run.name}: 2 trials>"
    assert repr(run.sql("SELECT 1 AS one")) == "<pgdyno table of 1 row: one>"
    first = load_run(folder.path).trials[0].point
    for number, (column, value, cell) in enumerate(
        (
            ("settings", {"work_mem": "64MB"}, "work_mem=64MB"),
            ("variables", {"batch": "10"}, "batch=10"),
            ("protocol", "extended", "extended"),
            ("scale", 100, "100"),
            ("workers", 7, "7"),
        ),
        start=3,
    ):
        path = add_trial(folder, number, point=first.model_copy(update={column: value}))
        shown = pgdyno.open(folder.path)._repr_html_()
        assert f"<th>clients</th><th>{column}</th><th>rate</th>" in shown
        assert f"<td>{cell}</td>" in shown
        shutil.rmtree(path)
    # slow throughput has its digits
    events = sample_events(4, 2, 500, 900, seed=3)
    record = sample_record(3, events)
    slow = record.model_copy(update={"summary": present(record.summary).model_copy(update={"tps": 0.041234})})
    folder.begin_trial(slow.slug).commit(slow, events=events, settings=[])
    assert "<td>0.0412</td>" in pgdyno.open(folder.path)._repr_html_()


def test_wrong_queries_and_missing_libraries_say_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"cannot run the query: .*nothing_there"):
        run.sql("SELECT * FROM nothing_there").rows()
    with pytest.raises(UsageError, match="the query returns several columns named tps"):
        run.sql("SELECT a.tps, b.tps FROM trials a JOIN trials b USING (clients)").rows()
    with pytest.raises(StoreError, match="has no trial 7"):
        run.histogram(7)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match="polars and pyarrow not installed"):
        run.trials.polars()


def test_importing_pgdyno_imports_nothing_else() -> None:
    code = "import sys, pgdyno; print(sorted(name for name in sys.modules if name.startswith('pgdyno')))"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert said.strip() == "['pgdyno']"


def test_the_notebook_of_the_docs_runs(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = json.loads((ROOT / "docs" / "guides" / "notebook.ipynb").read_text())
    monkeypatch.setenv("PGDYNO_RUNS", str(folder.path.parent))
    monkeypatch.chdir(folder.path.parent)
    names: dict[str, object] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 5
    for cell in cells:
        exec(compile("".join(cell["source"]), "notebook.ipynb", "exec"), names)
    assert isinstance(names["run"], Run)
    # in git without results, which would depend on a machine
    assert not any(cell["outputs"] for cell in cells)
