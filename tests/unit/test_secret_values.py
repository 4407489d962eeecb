"""Server settings that may contain passwords: neither records nor tables of a run have them."""

from pathlib import Path

import pytest

from pgdyno.records import ServerFacts
from pgdyno.records.secret_values import kept_value
from pgdyno.store import RunFolder, load_run
from tests.unit.events_sample import sample_events
from tests.unit.store_sample import SETTINGS, sample_manifest, sample_record

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
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
    ],
)
def test_of_a_setting_all_that_may_be_secret_is_masked(name: str, value: str, kept: str) -> None:
    assert kept_value(name, value) == kept
    facts = ServerFacts(version="18", version_full="18", settings_changed={name: value}, data_checksums=True)
    assert facts.settings_changed == {name: kept}


def test_a_long_value_of_a_hostile_server_takes_no_hours() -> None:
    value = "://" + 1_000_000 * ":"
    assert kept_value("some.url", value) == value


def test_what_an_earlier_version_stored_is_masked_when_it_is_read(tmp_path: Path) -> None:
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
