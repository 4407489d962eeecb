"""Passwords in connection strings and settings of a server appear in no output, record and table of a run."""

import json
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from pgdyno.errors import PlanError
from pgdyno.plan import load_plan
from pgdyno.plan.output.show_plan import show_json
from pgdyno.records import ServerFacts, TargetRecord
from pgdyno.records.secret_values import kept_value, masked_dsn, masked_plan
from pgdyno.report.export import to_json
from pgdyno.report.report_content import NO_EXTRAS, digest
from pgdyno.report.sections.environment import asked_differences
from pgdyno.store import RunFolder, load_run
from tests.present import present
from tests.unit.events_sample import sample_events
from tests.unit.plan_sample import small_plan
from tests.unit.report_sample import SampleRun, add_trial, manifest, render_html
from tests.unit.store_sample import SETTINGS, sample_manifest, sample_record

PLAN = small_plan(far="18").replace(
    'kind = "embedded"\nversion = "18"', """kind = "dsn"\ndsn = "host=db.example.net options='-c app.token=sEcret'\""""
)


def test_options_are_masked_and_nothing_else_is() -> None:
    for dsn in (
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
    ):
        shown = masked_dsn(dsn)
        assert "sEcret" not in shown
        if dsn != "options='sEcret":
            before, after = conninfo_to_dict(dsn), conninfo_to_dict(shown)
            assert "sEcret" in str(before.pop("options"))
            assert after.pop("options") == "***"
            assert before == after
    for dsn in ("", "host=db.example.net user=bench", "service=bench", "postgresql://bench@h/d?a=b"):
        assert masked_dsn(dsn) == dsn


def test_a_plan_and_its_problems_are_shown_without_them(tmp_path: Path) -> None:
    (tmp_path / "far.toml").write_text(PLAN)
    loaded = load_plan(tmp_path / "far.toml")
    assert "sEcret" in str(loaded.plan.as_resolved())
    assert loaded.plan.target["far"].describe().startswith("over the network, host=db.example.net options=***,")
    shown = show_json(loaded)
    assert json.loads(shown)["plan"]["target"]["far"]["dsn"] == "host=db.example.net options=***"
    assert "sEcret" not in shown
    (tmp_path / "far.toml").write_text(PLAN.replace("options='-c app.token=sEcret'", "options=-c sEcret"))
    with pytest.raises(PlanError) as caught:
        load_plan(tmp_path / "far.toml")
    (problem,) = caught.value.problems
    assert problem.message == "is not a connection string"


WITH_SECRETS = {
    "primary_conninfo": "host=a password=sEcret",
    "archive_command": "curl -u me:sEcret http://a",
    "work_mem": "4MB",
}


def test_reports_of_a_run_have_its_secrets_masked() -> None:
    asked = {"kind": "dsn", "dsn": "host=a options=sEcret"}
    targets = [TargetRecord(name=name, kind="dsn", asked={**asked, "database": name}) for name in ("a", "b")]
    run = SampleRun(manifest(("a", "b")))
    own = {"kind": "embedded", "settings": WITH_SECRETS, "session_settings": {"app.token": "sEcret"}}
    plan = {
        **run.manifest.plan,
        "target": {"a": asked, "b": asked, "c": own},
        "sweep": {
            "settings": {name: [value, "x"] for name, value in WITH_SECRETS.items()},
            "points": [{"settings": WITH_SECRETS}],
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


SECRET = "hunter2"


def test_of_a_setting_all_that_may_be_secret_is_masked_also_in_earlier_runs(tmp_path: Path) -> None:
    for name, value, kept in (
        ("primary_conninfo", f"host=db user=repl password={SECRET}", "***"),
        ("primary_conninfo", "", ""),
        ("archive_command", f"env AWS_SECRET_ACCESS_KEY={SECRET} wal-g wal-push %p", "env ***"),
        ("archive_command", f"AWS_SECRET_ACCESS_KEY={SECRET} wal-g wal-push %p", "***"),
        ("archive_command", "/bin/true", "/bin/true"),
        ("archive_command", "", ""),
        ("Restore_Command", f"curl -u me:{SECRET} https://backup/%f -o %p", "curl ***"),
        ("ssl_passphrase_command", f"echo {SECRET}", "echo ***"),
        ("citus.node_conninfo", f"sslmode=require sslkey={SECRET}", "***"),
        ("neon.pageserver_connstring", f"postgresql://x:{SECRET}@host", "***"),
        ("vault.api_token", SECRET, "***"),
        ("some.url", f"https://me:{SECRET}@example.net/", "***"),
        ("some.dsn", f"host=db Password = '{SECRET}'", "***"),
        ("some.dsn", f"host=db oauth_client_secret={SECRET}", "***"),
        ("password_encryption", "scram-sha-256", "scram-sha-256"),
        ("log_line_prefix", "%m [%p] ", "%m [%p] "),
        ("synchronous_standby_names", "FIRST 1 (a, b)", "FIRST 1 (a, b)"),
        ("shared_buffers", "128MB", "128MB"),
    ):
        assert kept_value(name, value) == kept
        facts = ServerFacts(version="18", version_full="18", settings_changed={name: value}, data_checksums=True)
        assert facts.settings_changed == {name: kept}
    # nor takes a long value hours
    value = "://" + 1_000_000 * ":"
    assert kept_value("some.url", value) == value
    # what an earlier version stored is masked when it is read
    folder = RunFolder.create(tmp_path, sample_manifest())
    events = sample_events(4, 2, 500, 900)
    secret = ("primary_conninfo", f"host=db password={SECRET}", None, "configuration file")
    folder.begin_trial(sample_record(1, events).slug).commit(
        sample_record(1, events), events=events, settings=[*SETTINGS, secret]
    )
    run = load_run(folder.path)
    for rows in (run.settings(), run.settings(1), run.settings(1, ["primary_conninfo"])):
        assert [row.setting for row in rows if row.name == "primary_conninfo"] == ["***"]
    assert len(run.settings(1)) == len(SETTINGS) + 1
