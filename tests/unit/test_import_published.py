"""Published figures, and outputs whose trials and unread lines were counted by hand; what a throughput counts."""

import json
import re
import tomllib
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from pgdyno.audit import Severity, audit
from pgdyno.errors import StoreError
from pgdyno.importers.postgresbench import read_results
from pgdyno.importers.write import import_files
from pgdyno.published import COLUMNS, published, published_names
from pgdyno.records import Outcome, TrialRecord
from pgdyno.records.rate_unit import QUERIES, TRANSACTIONS, WITH_CONNECTING, in_one_unit, rate_unit
from pgdyno.report.full_report import whole_report
from pgdyno.report.translation import Language
from pgdyno.store import load_run
from tests.present import present
from tests.unit.import_sample import imported_run

GOLDEN = Path(__file__).parents[1] / "golden"
PUBLISHED, SMALL = GOLDEN / "published-outputs", GOLDEN / "small-outputs"
PUBLISHED_CASES, SMALL_CASES = (
    tomllib.loads((folder / "cases.toml").read_text(encoding="utf-8"))["case"] for folder in (PUBLISHED, SMALL)
)
POINT = ("clients", "workers", "scale", "protocol", "variables")


def test_every_file_is_a_case() -> None:
    for folder, cases in ((PUBLISHED, PUBLISHED_CASES), (SMALL, SMALL_CASES)):
        files = {path.name for path in folder.iterdir()} - {"README.md", "cases.toml"}
        assert {case["file"] for case in cases} == files
    assert len(PUBLISHED_CASES) >= 30


@pytest.mark.parametrize("case", PUBLISHED_CASES, ids=lambda case: case["file"])
def test_a_published_output_has_the_trials_that_a_reader_counts(case: dict[str, Any], tmp_path: Path) -> None:
    file = PUBLISHED / case["file"]
    if case["trials"] == 0:
        with pytest.raises(StoreError, match="no output of a known tool") as caught:
            import_files([file], tmp_path)
        assert f"{case['unread']} line with figures not understood, first {file.name}:" in str(caught.value.hint)
        return
    result = import_files([file], tmp_path)
    run = load_run(result.run)
    assert (len(run.trials), len(result.left_out), len(result.unread)) == (
        case["trials"], case.get("left_out", 0), case.get("unread", 0),
    ), result.unread  # fmt: skip
    assert len(run.manifest.targets) == case["targets"], [target.name for target in run.manifest.targets]
    first = present(run.trials[0].imported)
    if "tps" in case:
        assert first.figures["tps"] == case["tps"]
    for trial in run.trials:
        # every figure says where it stood
        assert set(present(trial.imported).figures) <= set(present(trial.imported).printed)


def value(trial: TrialRecord, name: str, statements: list[float]) -> object:
    imported = present(trial.imported)
    if name in POINT:
        return getattr(trial.point, name)
    if name in ("target", "repeat"):
        return getattr(trial, name)
    if name in ("words", "load", "line"):
        return getattr(imported, name)
    return statements if name == "statements" else imported.figures.get(name)


@pytest.mark.parametrize("case", SMALL_CASES, ids=lambda case: case["file"])
def test_a_small_output_is_read_right(case: dict[str, Any], tmp_path: Path) -> None:
    file = SMALL / case["file"]
    if not case["trials"]:
        with pytest.raises(StoreError) as caught:
            import_files([file], tmp_path)
        assert f"{file.name}:{case['unread'][0]}: " in str(caught.value.hint)
        return
    result = import_files([file], tmp_path)
    assert [line.line for line in result.left_out] == case.get("left_out", [])
    assert [line.line for line in result.unread] == case.get("unread", []), result.unread
    run = load_run(result.run)
    assert len(run.trials) == len(case["trials"])
    for trial, right in zip(run.trials, case["trials"], strict=True):
        rows = [row for row in run.statements() if row.trial == trial.number]
        means = [round((row.latency_mean_ns or 0) / 1e6, 6) for row in rows]
        failure = right.pop("failure", None)
        assert trial.outcome is (Outcome.FINISHED if failure is None else Outcome.FAILED)
        assert failure is None or failure in present(trial.failure).message
        for name, wanted in (case.get("same", {}) | right).items():
            found = value(trial, name, means)
            if isinstance(wanted, dict) and wanted:
                assert isinstance(found, dict)
                found = {key: found.get(key) for key in wanted}
            assert found == wanted, (name, trial.imported)


def first(name: str, tmp_path: Path) -> TrialRecord:
    return load_run(import_files([SMALL / name], tmp_path).run).trials[0]


def test_a_rate_says_what_it_counts_in_figures_and_reports(tmp_path: Path) -> None:
    for name, unit in (
        ("rates-13-and-16.md", TRANSACTIONS),
        ("rates-of-two-kinds.md", WITH_CONNECTING),
        ("rates-with-reconnecting.txt", TRANSACTIONS),
        ("qps-only.md", QUERIES),
        ("clients-with-words.md", TRANSACTIONS),
    ):
        assert rate_unit(first(name, tmp_path)) == unit
    run = load_run(import_files([SMALL / "qps-only.md"], tmp_path).run)
    for language, told in ((Language.ENGLISH, "queries a second"), (Language.JAPANESE, "クエリ")):
        page = whole_report([run], language=language)
        assert told in page.markdown()
        assert told in page.html()
        assert "transactions a second" not in page.markdown()


def test_a_run_of_an_earlier_version_is_compared_without_connecting(tmp_path: Path) -> None:
    trial = first("rates-13-and-16.md", tmp_path)
    figures = dict(present(trial.imported).figures)
    with_connecting = figures["tps"] = figures.pop("tps_including_connections")
    earlier = trial.model_copy(
        update={
            "imported": present(trial.imported).model_copy(update={"figures": figures}),
            "summary": present(trial.summary).model_copy(update={"tps": with_connecting}),
        }
    )
    assert rate_unit(earlier) == WITH_CONNECTING
    ((converted,), _) = in_one_unit([[earlier], [trial]])
    assert present(converted.summary).tps == present(trial.summary).tps == 1002.57637


def test_unknown_clients_are_null_and_those_of_earlier_versions_too(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("tps = 100.5 (without initial connection time)\n")
    run = import_files([tmp_path / "out.txt"], tmp_path / "runs").run
    (record,) = run.glob("trials/*/trial.json")
    told = record.read_text()
    assert '"clients": null' in told
    record.write_text(told.replace('"clients": null', '"clients": 0'))
    assert load_run(run).trials[0].point.clients is None


SETS = published_names()


def test_the_published_sets_are_there_and_every_column_and_target_is_described() -> None:
    assert SETS == [
        "aurora-sysbench", "graviton-pgbench", "hundred-billion", "pgecons-tprocc", "postgresbench",
        "power8-select-only",
    ]  # fmt: skip
    page = (Path(__file__).parents[2] / "docs/reference/published.md").read_text()
    for name in SETS:
        found = published(name)
        for row in found.rows:
            assert {column for column in row if not column.startswith("variables.")} <= COLUMNS.keys()
        assert {row["target"] for row in found.rows} == set(found.source.target)
        assert found.rows
        # the reference has their number
        assert re.search(rf"^\| `{name}` \|.* {len(found.rows)} \|$", page, re.MULTILINE)
    with pytest.raises(KeyError):
        published("nonsense")


def test_published_figures_are_consistent_or_flawed_as_their_source_is() -> None:
    for name in ("graviton-pgbench", "hundred-billion", "postgresbench"):
        for row in published(name).rows:
            clients = float(row["tps"]) * float(row["latency_mean_ms"]) / 1000
            assert clients == pytest.approx(float(row["clients"]), rel=0.02)
    for row in published("aurora-sysbench").rows:
        statements = sum(float(row[name]) for name in ("reads", "writes", "others"))
        assert float(row["qps"]) == pytest.approx(statements / float(row["duration_s"]), rel=0.001)
    # the copied row of the Aurora report is kept as it was printed
    last = {
        row["target"]: {name: row[name] for name in row if name != "target"}
        for row in published("aurora-sysbench").rows
        if row["clients"] == 1024
    }
    assert last["r5-4xlarge"] == last["r6g-4xlarge"]
    assert last["r5-8xlarge"] != last["r6g-8xlarge"]


WHOLE = (PUBLISHED / "postgresbench-three-runs.json").read_text()
KEYS = {
    "tps": "tps", "transactions": "transactions", "latency_mean_ms": "latency_avg_ms",
    "latency_stddev_ms": "latency_stddev_ms", "latency_p95_ms": "latency_p95_ms", "latency_p99_ms": "latency_p99_ms",
}  # fmt: skip


def page() -> str:
    """Return the page's file of all services, from the published figures."""
    services = []
    rows = published("postgresbench").rows
    for at, ((target, scale), runs) in enumerate(groupby(rows, key=lambda row: (row["target"], row["scale"]))):
        service = json.loads(WHOLE) | {"source": f"results/{target}_{scale:.0f}.json"}
        service["benchmark"]["scale_factor"] = int(scale)
        service["load"]["load_time_seconds"] = at
        service["results"] = [
            {"run": number}
            | {key: int(run[name]) if name == "transactions" else run[name] for name, key in KEYS.items()}
            for number, run in enumerate(runs, 1)
        ]
        services.append(json.dumps(service))
    return "const data = [\n" + "\n,".join(services) + "\n];\n"


def test_the_audit_finds_what_is_wrong_with_the_published_figures(tmp_path: Path) -> None:
    run = imported_run(tmp_path, page(), names=["data.generated.js"])
    want = [{name: row[name] for name in KEYS} for row in published("postgresbench").rows]
    assert [{name: present(trial.imported).figures[name] for name in KEYS} for trial in run.trials] == want
    assert {trial.repeat for trial in run.trials} == {1, 2, 3}
    assert [target.name for target in run.manifest.targets] == list(published("postgresbench").source.target)
    found = {each.id: each for each in audit(run) if each.checked}
    assert {name for name, each in found.items() if each.severity is not Severity.NOTE} == {
        "drift-in-order", "one-instance", "repeats-spread", "repeats-spread-rank",
    }  # fmt: skip
    assert found["no-repeats-few"].parameters["trials"] == 3
    order = found["drift-in-order"].parameters
    assert {name: order[name] for name in ("rising", "falling", "slowest", "all")} == {
        "rising": 9, "falling": 2, "slowest": 11, "all": 15,
    }  # fmt: skip
    # 11 or more of 15, each with a chance of a third
    assert order["chance"] == pytest.approx(0.001807, abs=1e-6)
    assert found["repeats-spread"].parameters["points"] == 6
    assert found["repeats-spread"].parameters["spread"] == pytest.approx(0.2657, abs=1e-4)
    rank = found["repeats-spread-rank"].parameters
    assert (rank["changed"], rank["all"]) == (2, 55)
    assert {each.figures["target"] for each in found["repeats-spread-rank"].evidence} == {
        "aurora-16cpu-128gb", "crunchy-16cpu-64gb", "aurora-4cpu-32gb", "neon-4cpu-16gb",
    }  # fmt: skip


def test_repeats_in_no_order_are_no_finding(tmp_path: Path) -> None:
    result = json.loads(WHOLE)
    result["results"][0], result["results"][1] = result["results"][1], result["results"][0]
    found = {each.id for each in audit(imported_run(tmp_path, json.dumps(result), names=["result.json"]))}
    assert not found & {"drift-in-order", "drift-not-checked"}


def test_intervals_are_the_course_of_a_run_without_the_last_which_is_not_whole() -> None:
    first, *others = read_results((PUBLISHED / "postgresbench-intervals.json").read_text()).outputs
    assert [(moment.at_s, moment.tps) for moment in (first.progress[0], first.progress[-1])] == [
        (30, 9087), (600, 13037.9667),
    ]  # fmt: skip
    assert [output.progress for output in others] == [[]]


def test_a_file_that_is_cut_short_or_wrong_is_refused_with_line_and_reason(tmp_path: Path) -> None:
    for text, line, error in (
        (WHOLE[:-200], 55, "Unterminated string"),
        (WHOLE.replace('"results"', '"result"'), 1, "results is missing"),
        (WHOLE.replace("14789.893466", '"fast"'), 30, "'fast' is not a number"),
        (WHOLE.replace("8864734", "1e999999999"), 30, "is not a number"),
        (WHOLE.replace('"threads": 16', '"threads": null'), 30, "'None' is not a number"),
        ("const data = [" + WHOLE, 63, "Expecting"),
        (WHOLE.replace('"instance": {', '"instance": 5, "x": {'), 30, "has no attribute"),
    ):
        with pytest.raises(StoreError, match="no output of a known tool") as caught:
            imported_run(tmp_path, text, names=["result.json"])
        assert f"first result.json:{line}: a PostgresBench result that pgdyno cannot read: " in str(caught.value.hint)
        assert error in str(caught.value.hint)
