"""Passwords in `options` of a connection string appear in no output."""

import json
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from pgdyno.errors import PlanError
from pgdyno.plan import load_plan
from pgdyno.plan.output.show_plan import show_json
from pgdyno.records import TargetRecord
from pgdyno.records.secret_values import masked_dsn, masked_plan
from pgdyno.report.export import to_json
from pgdyno.report.report_content import NO_EXTRAS, digest
from pgdyno.report.sections.environment import asked_differences
from tests.present import present
from tests.unit.report_sample import SampleRun, add_trial, manifest, render_html

PLAN = """\
name = "far"
[target.far]
kind = "dsn"
dsn = "host=db.example.net options='-c app.token=sEcret'"
[workload]
scripts = ["select-only"]
[sweep]
clients = 2
[trial]
duration = "10s"
"""

SHAPES = [
    "options=sEcret",
    "options = 'sEcret'",
    "options='-c app.token=sEcret' host=h",
    r"host=h options='it\'s sEcret' user=u",
    r"user=u options=-c\ app.token=sEcret",
    "application_name='options=' options='-c app.token=sEcret'",
    r"application_name='it\'s options=' host = h options = -csEcret",
    "options='sEcret",
    "postgresql://u@h/d?options=-c%20app.token%3DsEcret&sslmode=require",
    "postgres://u@h:5432/d?sslmode=require&%6fptions=sEcret",
]


@pytest.mark.parametrize("dsn", SHAPES)
def test_options_are_masked_and_nothing_else_is(dsn: str) -> None:
    shown = masked_dsn(dsn)
    assert "sEcret" not in shown
    if dsn != "options='sEcret":
        before, after = conninfo_to_dict(dsn), conninfo_to_dict(shown)
        assert "sEcret" in str(before.pop("options"))
        assert after.pop("options") == "***"
        assert before == after


@pytest.mark.parametrize("dsn", ["", "host=db.example.net user=bench", "service=bench", "postgresql://bench@h/d?a=b"])
def test_a_connection_string_without_options_is_as_it_was(dsn: str) -> None:
    assert masked_dsn(dsn) == dsn


def test_a_plan_is_shown_without_them(tmp_path: Path) -> None:
    (tmp_path / "far.toml").write_text(PLAN)
    loaded = load_plan(tmp_path / "far.toml")
    assert "sEcret" in str(loaded.plan.as_resolved())
    assert loaded.plan.target["far"].describe().startswith("over the network, host=db.example.net options=***,")
    shown = show_json(loaded)
    assert json.loads(shown)["plan"]["target"]["far"]["dsn"] == "host=db.example.net options=***"
    assert "sEcret" not in shown


def test_a_problem_does_not_repeat_them(tmp_path: Path) -> None:
    (tmp_path / "far.toml").write_text(PLAN.replace("options='-c app.token=sEcret'", "options=-c sEcret"))
    with pytest.raises(PlanError) as caught:
        load_plan(tmp_path / "far.toml")
    (problem,) = caught.value.problems
    assert problem.message == "is not a connection string"


SETTINGS = {
    "primary_conninfo": "host=a password=sEcret",
    "archive_command": "curl -u me:sEcret http://a",
    "work_mem": "4MB",
}


def test_reports_of_a_run_have_its_secrets_masked() -> None:
    asked = {"kind": "dsn", "dsn": "host=a options=sEcret"}
    targets = [TargetRecord(name=name, kind="dsn", asked={**asked, "database": name}) for name in ("a", "b")]
    run = SampleRun(manifest(("a", "b")))
    own = {"kind": "embedded", "settings": SETTINGS, "session_settings": {"app.token": "sEcret"}}
    plan = {
        **run.manifest.plan,
        "target": {"a": asked, "b": asked, "c": own},
        "sweep": {
            "settings": {name: [value, "x"] for name, value in SETTINGS.items()},
            "points": [{"settings": SETTINGS}],
        },
        "workload": {"scripts": ["select-only"], "variables": {"password": "sEcret", "range": "50"}},
    }
    run.manifest = run.manifest.model_copy(update={"targets": targets, "plan": plan})
    for name in ("a", "b"):
        add_trial(run, name, 2, 100.0, 900, seconds=2)
    shown = [to_json(digest(run), NO_EXTRAS), render_html(run, "somewhere"), str(masked_plan(plan))]
    assert not any("sEcret" in each for each in (*shown, str(present(asked_differences(targets)))))
    for expected in ("options=***", "curl ***", "4MB"):
        assert all(expected in each for each in shown), expected
    # the folder keeps what a resume needs
    assert "sEcret" in str(run.manifest.plan)
    assert masked_plan(plan)["workload"]["variables"] == {"password": "***", "range": "50"}
    of_groups: dict[str, Any] = {"sweep": {"group": {"orders.variables.password": ["secret"], "orders.clients": ["1"]}}}
    assert masked_plan(of_groups)["sweep"]["group"] == {"orders.variables.password": ["***"], "orders.clients": ["1"]}
