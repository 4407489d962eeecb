"""Plans with servers rented from Amazon: whatever the service would refuse is refused immediately."""

from pathlib import Path

import pytest

from pgdyno.errors import PlanError, Problem
from pgdyno.plan import Plan, load_plan
from pgdyno.targets.aws.databases.parameter_rules import in_own_unit
from tests.aws.plans import aurora, ec2, rds, write_plan


@pytest.fixture
def root(tmp_path: Path) -> Path:
    file = tmp_path / "root.pem"
    file.touch()
    return file


def problems(folder: Path, *targets: str, more: str = "") -> list[Problem]:
    with pytest.raises(PlanError) as caught:
        load_plan(write_plan(folder / "plan", *targets, more=more))
    return caught.value.problems


def test_rented_targets_are_described_and_survive_a_manifest(tmp_path: Path, root: Path) -> None:
    of_rds = rds(root, zones='["eu-central-1a"]', storage='"100GB"', snapshot='"loaded"', restore='"each-trial"')
    plan = load_plan(write_plan(tmp_path / "plan", of_rds, aurora(root, region='"eu-west-1"'))).plan
    assert plan.target["rds"].describe() == (
        "RDS for PostgreSQL 18, db.m7g.large in eu-central-1a, from loaded, each trial, 100GB of gp3"
    )
    assert plan.target["aurora"].describe() == "Aurora PostgreSQL 18, db.r8g.large in eu-west-1, standard storage"
    assert Plan.from_resolved(plan.as_resolved()).target == plan.target


def test_several_generators_are_rented_or_named(tmp_path: Path) -> None:
    hosts = '[generator]\nkind = "ec2"\ninstance = "c7i.large"\ncount = {}\n'
    plan = load_plan(write_plan(tmp_path / "plan", ec2(), more=hosts.format(3))).plan
    assert plan.generator is not None
    assert (plan.generator.count, plan.generators) == (3, [])
    for count in (0, 65):
        (problem,) = problems(tmp_path, ec2(), more=hosts.format(count))
        assert problem.path == "generator.count"
    (problem,) = problems(tmp_path, 'generators = ["local:2"]\n', ec2(), more=hosts.format(3))
    assert (problem.path, problem.message) == (
        "generators",
        "are not possible: rented generators cannot be combined with others",
    )


REFUSED = """
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


@pytest.mark.parametrize("row", REFUSED.strip().splitlines())
def test_wrong_rentals_are_refused(tmp_path: Path, root: Path, row: str) -> None:
    kind, _, rest = row.partition(": ")
    keys, path, said = rest.split(" | ")
    (problem,) = problems(tmp_path, target(kind, root, keys))
    assert problem.path == f"target.{kind}.{path}"
    assert problem.message == said[1:] if said.startswith("=") else said in problem.message
    assert problem.line is not None


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        # if the plan insists, a wide network is let in
        ("rds", 'allow = ["10.0.0.0/12"]; allow_wide = true'),
        ("ec2", 'data = { size = "1GB", iops = 3000 }'),
        ("ec2", 'data = { size = "160GB", iops = 80000, throughput = 2000 }'),
        ("ec2", 'data = { size = "256GB", type = "io2", iops = 256000 }'),
    ],
)
def test_the_largest_rentals_are_possible(tmp_path: Path, root: Path, kind: str, keys: str) -> None:
    plan = load_plan(write_plan(tmp_path / "plan", target(kind, root, keys))).plan
    assert kind == "ec2" or plan.target["rds"].model_dump()["allow"] == ["10.0.0.0/12"]


def test_a_reset_that_needs_the_machine(tmp_path: Path, root: Path) -> None:
    (problem,) = problems(tmp_path, rds(root), more="[reset]\nrestart = true\n")
    assert "reached only over the network" in problem.message


def test_values_as_the_service_takes_them() -> None:
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


@pytest.mark.parametrize("key", ["cost centre", "team/storage", "équipe", "..", "_index"])
def test_tags_that_hosts_cannot_have(tmp_path: Path, root: Path, key: str) -> None:
    tags = f'[cloud]\ntags = {{ team = "storage", "{key}" = "4711" }}\n'
    generator = '[generator]\nkind = "ec2"\ninstance = "c7i.large"\n'
    for target, more in ((ec2(), ""), (ec2(), generator), (rds(root), generator)):
        (problem,) = problems(tmp_path, target, more=more + tags)
        assert (problem.path, problem.message) == (
            f"cloud.tags.{key}" if key == "_index" else f'cloud.tags."{key}"',
            f"the key {key!r} is not possible for hosts at EC2",
        )
        assert problem.hint == "use the letters A to Z, digits and +-=.,_:@ in it"
    # databases can have them
    load_plan(write_plan(tmp_path / "plan", rds(root), more=tags))


def test_tags_that_no_resource_can_have(tmp_path: Path, root: Path) -> None:
    longest = "k" * 128
    most = ", ".join(f'k{each} = "v"' for each in range(46))
    for tags, said in (
        ('"AWS:team" = "a"', "the tag AWS:team is reserved"),
        (f'{longest} = "{"v" * 257}"', f"the tag '{longest}' is not valid"),
        (f'{longest}k = "v"', f"the tag '{longest}k' is not valid"),
        (most, "has 46 tags"),
    ):
        (problem,) = problems(tmp_path, rds(root), more=f"[cloud]\ntags = {{ {tags} }}\n")
        assert problem.path == "cloud.tags"
        assert said in problem.message
        assert problem.hint
    load_plan(write_plan(tmp_path / "plan", ec2(), more=f'[cloud]\ntags = {{ {longest} = "{"v" * 256}" }}\n'))
