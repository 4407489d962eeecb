"""Targets of a plan: impossible ones are refused immediately, with the line and a remedy."""

import os
from pathlib import Path

import pytest

from pgdyno.plan.known_settings import NEEDS_RELOAD, NEEDS_START, network_refusal
from tests.unit.plan_sample import load, refuse, small_plan, the_problem

REST = "[workload]" + small_plan(sweep="clients = 200").partition("[workload]")[2]
HEAD = 'name = "mine"\n[target.far]\n'
FIRST = HEAD.count("\n") + 1
"""Line of the first key of the target."""
DSN = 'kind = "dsn"\ndsn = "host=db.example.net user=bench"\n'
EMBEDDED = 'kind = "embedded"\nversion = "18"\nsettings = { max_connections = 300 }\n'


def plan_on(target: str, reset: str = "") -> str:
    return HEAD + target + REST + ("[reset]\n" + reset if reset else "")


def test_a_server_over_the_network_and_its_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASSWORD", "pw1")
    given = 'password_env = "MY_PASSWORD"\nsettings = { work_mem = "7MB" }\nssh = { host = "db1", port = 2222 }\n'
    plan = load(tmp_path, plan_on(DSN + given))
    assert plan.as_resolved()["target"]["far"] == {
        "kind": "dsn", "dsn": "host=db.example.net user=bench", "password_env": "MY_PASSWORD", "database": "pgdyno",
        "allow_existing": False, "settings": {"work_mem": "7MB"},
        "ssh": dict.fromkeys(("user", "config", "known_hosts", "data"))
        | {"host": "db1", "port": 2222, "folder": "~/.cache/pgdyno"},
    }  # fmt: skip
    words = plan.target["far"].describe()
    where = "over the network, host=db.example.net user=bench, database pgdyno"
    assert words == f"{where}, its host db1 over SSH"
    bare = load(tmp_path, plan_on(DSN))
    assert bare.target["far"].describe() == where
    assert "ssh" not in bare.as_resolved()["target"]["far"]


def dsn(text: str) -> str:
    return f'kind = "dsn"\ndsn = "{text}"\n'


REFUSED = [
    # keys of the target, field, line counted from its first key, part of the message, part of the hint
    (dsn("host=x password=pw1"), "dsn", 1, "password is not allowed here: the results would contain it", "PGPASSWORD"),
    (dsn("postgresql://me:pw1@x/db"), "dsn", 1, "password is not allowed here", "password_env"),
    (dsn("host=x sslpassword=pw1"), "dsn", 1, "sslpassword is not allowed here", "remove it"),
    (dsn("host=x sslpassword = pw1 pw2"), "dsn", 1, "is not a connection string", "such as"),
    (dsn("hst=x"), "dsn", 1, 'is not a connection string: invalid connection option "hst"', "such as"),
    (dsn("host=x keepalives=1"), "dsn", 1, "keepalives cannot be passed to the engine", "remove keepalives"),
    (DSN + 'password_env = "NOT_SET_ANYWHERE"\n', "password_env", 2, "has no variable NOT_SET_ANYWHERE", "set it"),
    (DSN + "allow_existing = true\n", "", -1, "needs the name of the database", "add database"),
    (DSN + f'database = "{"x" * 55}"\n', "", -1, "name is too long", "54 bytes at most"),
    (DSN + 'settings = { shared_buffers = "1GB" }\n', "settings.shared_buffers", 2, "when the server starts", "remove"),
    (DSN + 'settings = { max_wal_size = "1GB" }\n', "settings.max_wal_size", 2, "configuration file", "remove"),
    (DSN + 'version = "18"\n', "version", 2, "unknown key", 'kind = "embedded"'),
    (DSN + "keep_data = true\n", "keep_data", 2, "unknown key", 'kind = "embedded"'),
]


def test_wrong_targets_and_hosts_over_ssh_are_refused_and_settings_in_any_case(tmp_path: Path) -> None:
    for target, field, line, said, hint in REFUSED:
        found = refuse(tmp_path, plan_on(target), f"target.far{'.' if field else ''}{field}", said, hint, FIRST + line)
        assert "pw1" not in f"{found.message} {found.hint}"
    assert not NEEDS_START & NEEDS_RELOAD
    assert "when the server starts" in str(network_refusal("Shared_Buffers"))
    assert network_refusal("work_mem") is None
    assert network_refusal("some.extension") is None
    for key, value, message in (
        ("user", "-l", "'-l' is not a user"),
        ("config", "ssh.conf", "ssh.conf is not an absolute path"),
        ("known_hosts", "/nowhere/known", "cannot read the file /nowhere/known"),
        ("folder", "cache", "cache is neither an absolute path nor one below the home directory of that host"),
        ("data", "~/data", "~/data is not an absolute path"),
        *(("host", host, "is not a host") for host in ("-oProxyCommand=sh", "me@db1", "a b", "ssh://db1")),
    ):
        host = "" if key == "host" else 'host = "db1"\n'
        text = plan_on(f'{DSN}[target.far.ssh]\n{host}{key} = "{value}"\n')
        found = refuse(tmp_path, text, f"target.far.ssh.{key}", message, line=FIRST + (3 if key == "host" else 4))
        assert found.message == message or key == "host"
    # only a server over the network has one
    refuse(tmp_path, plan_on(EMBEDDED + '[target.far.ssh]\nhost = "db1"\n'), "target.far.ssh", "")


THEIRS = DSN + 'database = "theirs"\nallow_existing = true\n'


def test_resets_and_pairs_that_are_impossible_over_the_network(tmp_path: Path) -> None:
    for reset, field, said in (
        ('method = "snapshot"', "method", "its data directory cannot be copied"),
        ("restart = true", "restart", "it cannot be restarted"),
        ('drop_cache = "files"', "drop_cache", "the page cache belongs to its host"),
    ):
        found = the_problem(tmp_path, plan_on(DSN, reset))
        assert found.path == f"reset.{field}"
        assert "target far is reached only over the network" in found.message
        assert said in found.message
    found = the_problem(tmp_path, plan_on(THEIRS, 'method = "template"'))
    assert (found.path, found.hint) == ("reset.method", 'set method = "reload", or remove allow_existing')
    # only an existing database may be compared with itself
    found = the_problem(tmp_path, plan_on(DSN + f"[target.near]\n{DSN}"))
    assert (found.path, found.message) == ("target.near", "target far has the same database on the same server")
    plan = load(tmp_path, plan_on(THEIRS + f"[target.near]\n{THEIRS}", 'method = "none"'))
    assert list(plan.target) == ["far", "near"]


def test_environments_that_cannot_be_had_kept_or_reset(tmp_path: Path) -> None:
    for lines, field, said, hint in (
        ('data = "{folder}/none"', "data", "does not exist", "mount"),
        ('data = "nvme"', "data", "nvme is not an absolute path", "/mnt/nvme"),
        ('wal = "{folder}/none"', "wal", "does not exist", "mount"),
        ('tmpfs_size = "1GB"', "tmpfs_size", 'is valid only with data = "tmpfs"', "remove it"),
        ('data = "tmpfs"\ntmpfs_size = "9000TB"', "tmpfs_size", "exceed this machine's memory", ""),
        ('data = "tmpfs"\ntmpfs_size = "9 sacks"', "tmpfs_size", "is not a size", "512MB"),
        ("variables = { PGDATA = 1 }", "variables.PGDATA", "an option of its own", "settings"),
        ('variables = { "a-b" = 1 }', "variables.a-b", "is not a valid name of an environment variable", "letters"),
        ("dta = 1", "dta", "unknown key", "did you mean data?"),
    ):
        text = EMBEDDED + "[target.far.environment]\n" + lines.replace("{folder}", str(tmp_path)) + "\n"
        refuse(tmp_path, plan_on(text), f"target.far.environment.{field}", said, hint)
    for keys, reset, path, said in (
        (f"environment = {{ wal = '{tmp_path}' }}", 'method = "snapshot"', "reset.method", ""),
        ("environment = { data = 'tmpfs' }", 'drop_cache = "files"', "reset.drop_cache", ""),
        (
            f"keep_data = true\nenvironment = {{ data = '{tmp_path}' }}",
            "",
            "target.far.environment.data",
            "cannot be combined with keep_data",
        ),
    ):
        refuse(tmp_path, plan_on(f"{EMBEDDED}{keys}\n", reset), path, said)


SUBSCRIBER = EMBEDDED + "subscriber = {}\n"


def test_subscribers_and_replicas_of_a_new_cluster_alone(tmp_path: Path) -> None:
    target = load(tmp_path, plan_on(SUBSCRIBER)).target["far"]
    assert target.describe() == "PostgreSQL 18, embedded, a logical subscriber"
    assert target.settings == {"max_connections": "300", "wal_level": "logical"}
    for text, reset, says in (
        (SUBSCRIBER + "keep_data = true\n", "", "cannot be combined with keep_data"),
        (SUBSCRIBER + "replicas = { count = 1 }\n", "", "cannot be combined with replicas"),
        (SUBSCRIBER.replace("300", "300, wal_level = 'replica'"), "", "needs wal_level = logical"),
        (SUBSCRIBER, 'method = "snapshot"', "cannot follow a restored cluster"),
    ):
        assert says in the_problem(tmp_path, plan_on(text, reset)).message
    plan = load(tmp_path, plan_on(EMBEDDED + "[target.far.replicas]\ncount = 2\n"))
    assert plan.target["far"].describe() == "PostgreSQL 18, embedded, 2 replicas"
    found = the_problem(tmp_path, plan_on(EMBEDDED + "replicas = { count = 1 }\n", 'method = "snapshot"'))
    assert "cannot follow a restored cluster" in found.message
    found = the_problem(tmp_path, plan_on(EMBEDDED + "replicas = { synchronous = 'on' }\n"))
    assert (found.path, found.message) == ("target.far.replicas.count", "is missing")
    text = EMBEDDED.replace("max_", "synchronous_standby_names = '*', max_") + "replicas = { count = 1 }\n"
    found = the_problem(tmp_path, plan_on(text))
    assert found.path == "target.far.settings.synchronous_standby_names"


def test_prepared_statements_need_a_pgbouncer_that_keeps_them_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version, settings, refused in (
        ("1.18.0", "", True), ("1.21.0", "", False), ("1.24", "settings = { max_prepared_statements = 0 }", True),
    ):  # fmt: skip
        program = tmp_path / "pgbouncer"
        program.write_text(f"#!/bin/sh\necho 'PgBouncer {version}'\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        text = plan_on(EMBEDDED + f'[target.far.pooler]\nkind = "pgbouncer"\n{settings}\n')
        text = text.replace("[sweep]", "[sweep]\nprotocol = 'prepared'")
        if not refused:
            load(tmp_path, text)
            continue
        assert the_problem(tmp_path, text).path == "sweep.protocol"
