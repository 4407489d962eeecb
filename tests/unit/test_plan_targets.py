"""Targets of a plan, rented ones and pools of hosts too: refusals with line and remedy, cost, hosts given back."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pgdyno.commands.plan import cost
from pgdyno.commands.support.rental_cost import Consent, agree_for_run
from pgdyno.errors import PlanError, Problem, TargetError
from pgdyno.plan import Plan, load_plan
from pgdyno.plan.hosts import SshSpec
from pgdyno.plan.known_settings import NEEDS_RELOAD, NEEDS_START, network_refusal
from pgdyno.targets.aws.databases.parameter_rules import in_own_unit
from pgdyno.targets.pool import provider, rental
from pgdyno.targets.pool.host_script import _quote_value
from pgdyno.targets.pool.schema import PoolTarget
from pgdyno.targets.rented.provider import Wanted, provider_of
from pgdyno.targets.rented.rental_journal import Journal, Place
from tests.aws.plans import aurora, ec2, rds, write_plan
from tests.unit.plan_sample import load, problems, refuse, small_plan, the_problem

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


@pytest.fixture
def root(tmp_path: Path) -> Path:
    file = tmp_path / "root.pem"
    file.touch()
    return file


def refusals(folder: Path, *targets: str, more: str = "") -> list[Problem]:
    with pytest.raises(PlanError) as caught:
        load_plan(write_plan(folder / "plan", *targets, more=more))
    return caught.value.problems


def test_rented_targets_and_generators_are_described_and_survive_a_manifest(tmp_path: Path, root: Path) -> None:
    of_rds = rds(root, zones='["eu-central-1a"]', storage='"100GB"', snapshot='"loaded"', restore='"each-trial"')
    plan = load_plan(write_plan(tmp_path / "plan", of_rds, aurora(root, region='"eu-west-1"'))).plan
    assert plan.target["rds"].describe() == (
        "RDS for PostgreSQL 18, db.m7g.large in eu-central-1a, from loaded, each trial, 100GB of gp3"
    )
    assert plan.target["aurora"].describe() == "Aurora PostgreSQL 18, db.r8g.large in eu-west-1, standard storage"
    assert Plan.from_resolved(plan.as_resolved()).target == plan.target
    hosts = '[generator]\nkind = "ec2"\ninstance = "c7i.large"\ncount = {}\n'
    plan = load_plan(write_plan(tmp_path / "plan", ec2(), more=hosts.format(3))).plan
    assert plan.generator is not None
    assert (plan.generator.count, plan.generators) == (3, [])
    for count in (0, 65):
        (problem,) = refusals(tmp_path, ec2(), more=hosts.format(count))
        assert problem.path == "generator.count"
    (problem,) = refusals(tmp_path, 'generators = ["local:2"]\n', ec2(), more=hosts.format(3))
    assert (problem.path, problem.message) == (
        "generators",
        "are not possible: rented generators cannot be combined with others",
    )


REFUSED_RENTALS = """
rds: parameters.fsync = "off" | parameters.fsync | cannot be set: the service manages it itself
rds: parameters.shared_buffers = "5kB" | parameters.shared_buffers | not a multiple of the unit
rds: parameters.something = "5kB" | parameters.something | pgdyno does not know the unit of something
rds: settings.shared_buffers = "8GB" | settings.shared_buffers | takes effect when the server starts
rds: instance = "db.serverless" | instance | should match
rds: instance = "m7g.large" | instance | pattern
rds: allow = ["0.0.0.0/0"] | allow[0] | would open the server to the internet
rds: allow = ["::/0"] | allow[0] | would open the server to the internet
rds: allow = ["0.0.0.0/7"]; allow_wide = true | allow[0] | would open the server to the internet
rds: allow = ["here"] | allow[0] | is not a network
rds: allow = ["10.0.0.0/12"] | allow[0] | lets in 1,048,576 addresses
rds: allow = ["2001:db8::/31"] | allow[0] | lets in
rds: storage = "5GB" | storage | the minimum is 20GB
rds: storage_type = "io2" | iops | is missing
rds: iops = 9000 | iops | gp3 under 400GB
rds: storage_type = "gp2"; iops = 9000 | iops | cannot be set for gp2
rds: storage_type = "io1"; iops = 9000; throughput = 500 | throughput | is valid only with gp3
rds: region = "eu-west-1"; zones = ["eu-central-1a"] | zones[0] | is not in eu-west-1
rds: tls_root = "/nowhere.pem" | tls_root | there is no file
rds: replicas = { count = 1 } | replicas | unknown key
aurora: parameters.max_wal_size = "30GB" | parameters.max_wal_size | neither WAL files
aurora: parameters.autovacuum = "off" | parameters.autovacuum | belongs to the cluster on Aurora
aurora: cluster_parameters.checkpoint_timeout = "1h" | cluster_parameters.checkpoint_timeout | Aurora
aurora: instance = "db.serverless" | capacity | is missing
aurora: capacity = { min = 1, max = 4 } | capacity | is valid only with db.serverless
aurora: instance = "db.serverless"; capacity = { min = 4, max = 2 } | capacity | above its maximum
aurora: instance = "db.serverless"; capacity = {min = 1, max = 2}; instead = ["db.r8g.large"] | instead | would differ
aurora: kms_key = "alias/mine"; encrypted = false | kms_key | is valid only with encrypted storage
aurora: snapshot = "a"; clone_of = "b" | clone_of | excludes snapshot
ec2: version = "17.4" | version | packages come in their newest minor version
ec2: packages = "distribution" | version | debian-12 has packages of PostgreSQL 15, not 18
ec2: system = "amazon-linux-2023" | packages | the PostgreSQL project has no packages for amazon-linux-2023
ec2: system = "amazon-linux-2023"; packages = "distribution"; version = "14" | version | PostgreSQL 15, 16, 17, not 14
ec2: root = { size = "4GB" } | root.size | the minimum is 8GB
ec2: data = { size = "20GB", mount_options = ["a b"] } | data.mount_options[0] | should match
ec2: data = { size = "20GB", type = "io2" } | data.iops | io2 has the IOPS that you choose and pay for
ec2: data = { size = "80TB" } | data.size | =gp3 has at most 64 TiB
ec2: data = { size = "400GB", iops = 90000 } | data.iops | =gp3 has at most 80,000 IOPS
ec2: data = { size = "20GB", iops = 16000 } | data.iops | =gp3 of 20 GB has at most 10,000 IOPS: 500 for each GiB
ec2: data = { size = "99GB", throughput = 1000 } | data.throughput | =gp3 with 3,000 IOPS has at most 750 MB/s
ec2: data = { size = "99GB", iops = 9000, throughput = 2500 } | data.throughput | =gp3 has at most 2,000 MB/s
ec2: data = { type = "io1", size = "9GB", iops = 6000 } | data.iops | =io1 of 9 GB has at most 450 IOPS: 50 for each GiB
ec2: data = { size = "300GB", type = "io2", iops = 300000 } | data.iops | =io2 has at most 256,000 IOPS
ec2: parameters.port = "1" | parameters.port | use the target's key port
ec2: huge_pages = true; version = "14" | huge_pages | PostgreSQL 14 does not report how many it needs
ec2: allow = ["0.0.0.0/0"] | allow[0] | would open the server to the internet
"""


def target(kind: str, root: Path, keys: str) -> str:
    more = dict(each.split(" = ", 1) for each in keys.split("; "))
    return ec2(**more) if kind == "ec2" else {"rds": rds, "aurora": aurora}[kind](root, **more)


def test_wrong_rentals_are_refused_and_the_largest_possible(tmp_path: Path, root: Path) -> None:
    for row in REFUSED_RENTALS.strip().splitlines():
        kind, _, rest = row.partition(": ")
        keys, path, said = rest.split(" | ")
        (problem,) = refusals(tmp_path, target(kind, root, keys))
        assert problem.path == f"target.{kind}.{path}"
        assert problem.message == said[1:] if said.startswith("=") else said in problem.message
        assert problem.line is not None
    for kind, keys in (
        # if the plan insists, a wide network is let in
        ("rds", 'allow = ["10.0.0.0/12"]; allow_wide = true'),
        ("ec2", 'data = { size = "1GB", iops = 3000 }'),
        ("ec2", 'data = { size = "160GB", iops = 80000, throughput = 2000 }'),
        ("ec2", 'data = { size = "256GB", type = "io2", iops = 256000 }'),
    ):
        plan = load_plan(write_plan(tmp_path / "plan", target(kind, root, keys))).plan
        assert kind == "ec2" or plan.target["rds"].model_dump()["allow"] == ["10.0.0.0/12"]


def test_values_as_the_service_takes_them_and_resets_that_it_does_not_take(tmp_path: Path, root: Path) -> None:
    for name, value, taken in (
        ("shared_buffers", "8GB", "1048576"),
        ("work_mem", "64MB", "65536"),
        ("max_wal_size", "30GB", "30720"),
        ("checkpoint_timeout", "15min", "900"),
        ("deadlock_timeout", "500ms", "500"),
        ("max_connections", "2000", "2000"),
        ("shared_buffers", "{DBInstanceClassMemory/32768}", "{DBInstanceClassMemory/32768}"),
    ):
        assert in_own_unit(name, value) == taken
    (problem,) = refusals(tmp_path, rds(root), more="[reset]\nrestart = true\n")
    assert "reached only over the network" in problem.message


def test_tags_that_hosts_or_no_resource_can_have(tmp_path: Path, root: Path) -> None:
    for key in ("cost centre", "team/storage", "équipe", "..", "_index"):
        tags = f'[cloud]\ntags = {{ team = "storage", "{key}" = "4711" }}\n'
        generator = '[generator]\nkind = "ec2"\ninstance = "c7i.large"\n'
        for target, more in ((ec2(), ""), (ec2(), generator), (rds(root), generator)):
            (problem,) = refusals(tmp_path, target, more=more + tags)
            assert (problem.path, problem.message) == (
                f"cloud.tags.{key}" if key == "_index" else f'cloud.tags."{key}"',
                f"the key {key!r} is not possible for hosts at EC2",
            )
            assert problem.hint == "use the letters A to Z, digits and +-=.,_:@ in it"
        # databases can have them
        load_plan(write_plan(tmp_path / "plan", rds(root), more=tags))
    longest = "k" * 128
    most = ", ".join(f'k{each} = "v"' for each in range(46))
    for wrong, said in (
        ('"AWS:team" = "a"', "the tag AWS:team is reserved"),
        (f'{longest} = "{"v" * 257}"', f"the tag '{longest}' is not valid"),
        (f'{longest}k = "v"', f"the tag '{longest}k' is not valid"),
        (most, "has 46 tags"),
    ):
        (problem,) = refusals(tmp_path, rds(root), more=f"[cloud]\ntags = {{ {wrong} }}\n")
        assert problem.path == "cloud.tags"
        assert said in problem.message
        assert problem.hint
    load_plan(write_plan(tmp_path / "plan", ec2(), more=f'[cloud]\ntags = {{ {longest} = "{"v" * 256}" }}\n'))


PLAN = small_plan(db="17").replace(
    '"embedded"\nversion = "17"', '"pool"\nversion = "17"\nhosts = [{ host = "db1" }, { host = "db2" }]'
)


def plan_with(more: str) -> str:
    return PLAN.replace("[workload]", f"{more}\n[workload]")


def test_impossible_keys_of_a_host_and_arguments_of_initdb_are_refused(tmp_path: Path) -> None:
    for more, said in (
        ('folder = "pgdyno"', "target.db.folder: pgdyno is not an absolute path"),
        ('allow = ["192.0.2.1/24"]', "target.db.allow[0]: 192.0.2.1/24 has host bits set"),
        ('parameters = { port = "5433" }', "target.db.parameters.port: cannot be set: use the target's key port"),
        ('parameters = { include_dir = "x" }', "target.db.parameters.include_dir: is not the name of a setting"),
        ('ready_within = "0s"', "target.db.ready_within: must be more than 0s"),
        ('settings = { shared_buffers = "1GB" }', "put it under parameters"),
        ('[target.b]\nkind = "pool"\nversion = "17.2"\nhosts = [{ host = "a" }]', "come in their newest minor version"),
        (
            "".join(f'[target.{each}]\nkind = "pool"\nversion = "16"\nhosts = [{{ host = "db1" }}]\n' for each in "ab"),
            "3 targets need as many hosts, but the plan names 2",
        ),
        ("instances = 3", "3 servers, instances included, need as many hosts"),
    ):
        found = [f"{each.path}: {each.message}; {each.hint}" for each in problems(tmp_path, plan_with(more))]
        assert said.replace("[0]", "") in "\n".join(found).replace("[0]", "").replace(".0:", ":")
    # initdb makes nothing that the clean-up would not find
    for argument in ("--waldir=/nvme/wal", "-D", "-kX/x", "--auth=trust"):
        plan = load(tmp_path, plan_with(f'initdb = ["--wal-segsize=64", "{argument}"]'))
        with pytest.raises(TargetError, match=f"target db: cannot pass {argument} to initdb"):
            provider.PROVIDER.preflight(plan, tmp_path, print, 60)
        assert list(provider.PROVIDER.journals(tmp_path)) == []


def test_your_host_is_free_and_texts_reach_it_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    plan = load(tmp_path, PLAN)
    assert provider_of(plan) is provider.PROVIDER
    # nothing is asked, though standard input is no terminal
    assert agree_for_run(plan, Consent()) == (None, None)
    cost(str(tmp_path / "mine.toml"))
    assert capsys.readouterr().out.startswith("the pool of hosts has no prices")
    spec = PoolTarget(kind="pool", version="17", hosts=[SshSpec(host="a")], parameters={"search_path": "a'b, \\c"})
    assert "search_path = 'a''b, \\\\c'\n" in rental._settings(spec, "/srv/x")
    assert _quote_value(["--a b", "$(x)"]) == "('--a b' '$(x)')"
    assert _quote_value([]) == "()"
    assert _quote_value("it's") == "'it'\"'\"'s'"


def borrow_hosts(home: Path, *hosts: str) -> Journal:
    """The journal of a run that has these hosts, each for a target of the same name."""
    expires = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    journal = Journal.begin(home / "pool", "rack", "digest", expires)
    for host in hosts:
        journal.note_intent("host", host, "", host, ssh=SshSpec(host=host).model_dump(mode="json"))
        journal.is_ready(host, Place(host, 5432, "pgdyno", "the pool", host, "17"))
    return journal


def test_a_host_that_is_given_back_is_neither_taken_for_up_nor_given_back_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = borrow_hosts(tmp_path, "db1", "db2")
    asked = []
    monkeypatch.setattr(rental, "on_host", lambda ssh, command, *_, **__: asked.append((ssh.host, command)))
    rental.Rental(load(tmp_path, PLAN), journal, print).release("db1")
    assert asked == [("db1", "give-back")]
    # the run still records what it was
    assert list(journal.ready) == ["db1", "db2"]
    (read,) = provider.PROVIDER.journals(tmp_path)
    assert (read.run, read.plan, read.digest, read.expires) == (journal.run, "rack", "digest", journal.expires)
    assert (read.noted, read.ready) == (journal.noted, {"db2": journal.ready["db2"]})
    assert [rental.ssh_of(each) for each in read.noted] == [SshSpec(host="db2")]
    assert abs(read.begun - datetime.now(UTC)) < timedelta(minutes=1)
    assert not read.hold()
    reaper = provider.PROVIDER.reaper(tmp_path, [])
    said: list[str] = []
    assert reaper.places == ["db2"]
    assert reaper.reap(Wanted(journal.run), said.append).found == []
    assert said == [f"another pgdyno process uses run {journal.run}"]
    journal.close()
    assert list(provider.PROVIDER.journals(tmp_path)) == []
    assert not read.hold()


def test_a_host_that_has_returned_itself_is_not_prolonged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = load(tmp_path, PLAN)
    journal = borrow_hosts(tmp_path, "db1", "db2", "db3")
    expires = journal.expires
    asked = []

    def answer(ssh: SshSpec, command: str, *_: str) -> str:
        asked.append((ssh.host, command))
        return "borrowed\n" if ssh.host == "db1" else "free\n"

    monkeypatch.setattr(rental, "on_host", answer)
    said = f"the run {journal.run} no longer has db2 and db3: it expired there"
    with pytest.raises(TargetError, match=said):
        rental.Rental(plan, journal, lambda _: None).prolong(expires + timedelta(hours=8))
    assert asked == [("db1", "prolong"), ("db2", "prolong"), ("db3", "prolong")]
    assert journal.expires == expires
