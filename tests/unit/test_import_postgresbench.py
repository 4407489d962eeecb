"""PostgresBench's results: what the audit finds in the published ones without help, and files that are not whole."""

import json
from itertools import groupby
from pathlib import Path

import pytest

from pgdyno.audit import Severity, audit
from pgdyno.errors import StoreError
from pgdyno.importers.postgresbench import read_results
from pgdyno.published import published
from tests.present import present
from tests.unit.import_sample import imported_run

GOLDEN = Path(__file__).parents[1] / "golden" / "published-outputs"
WHOLE = (GOLDEN / "postgresbench-three-runs.json").read_text()
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
    first, *others = read_results((GOLDEN / "postgresbench-intervals.json").read_text()).outputs
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
