"""Checks before the first create: all that Amazon would refuse is reported at once, with remedies, at no cost."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from moto.ec2.models import ec2_backends

from pgdyno.errors import TargetError
from tests.aws.account import SAID, Rent, failed, rental
from tests.aws.identity import ACCOUNT
from tests.aws.offers import IO2, STANDARD, STANDARD_SPOT
from tests.aws.plans import aurora, ec2, generator, rds
from tests.aws.simulator import REGION, Simulator

HERE = "c7i.large"


@pytest.fixture(autouse=True)
def no_hosts(monkeypatch: pytest.MonkeyPatch, amazon: Simulator) -> None:
    """No real host answers at the addresses, and this machine has programs for each of them."""
    del amazon
    monkeypatch.setattr("pgdyno.targets.aws.hosts.generator_hosts.check_reach", lambda *_: None)
    monkeypatch.setattr("pgdyno.targets.aws.hosts.generator_hosts._check_programs", lambda *_: None)


def refused(amazon: Simulator, tmp_path: Path, *targets: str) -> TargetError:
    error = failed(tmp_path, *targets)
    assert not [each for each in amazon.calls if ":Create" in each and not each.startswith("iam:")]
    assert amazon.machines.all == {}
    return error


def test_all_problems_are_reported_at_once_with_their_remedies(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    amazon.offers.quotas |= {STANDARD: 3.0, IO2: 1000.0}
    amazon.offers.databases = 1
    volume = '{ size = "100GB", type = "io2", iops = 2000 }'
    error = refused(
        amazon,
        tmp_path,
        rds(root, instance='"db.x2g.large"'),
        aurora(root, parameters='{ no_such = "1" }'),
        ec2(data=volume),
        generator(instance=f'"{HERE}"'),
    )
    lines = error.message.splitlines()
    assert lines[0] == "Amazon would refuse this plan, 5 problems; nothing was created"
    assert "  target rds: Amazon does not offer db.x2g.large for postgres 18.1 with gp3 in eu-central-1" in lines
    assert "  target aurora: aurora-postgresql18 has no parameter no_such" in lines
    said = "  the plan needs 4 vCPU of On-Demand instances, and 3 of the quota L-1216C47A are free (3 in eu-central-1)"
    assert said in lines
    assert "and 1,000 of the quota L-8D977E7E are free" in error.message
    assert "  the plan needs 2 database instances, and 0 of 1 are used in eu-central-1" in lines
    assert (
        "aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-1216C47A" in error.message
    )


def test_each_instance_of_a_target_needs_its_share_of_a_quota(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    amazon.offers.databases = 2
    with pytest.raises(TargetError, match="the plan needs 3 database instances, and 0 of 2 are used"):
        rental(tmp_path, rds(root, instances="3"), repeats=3).up()


def test_running_instances_count_towards_the_quota(amazon: Simulator, tmp_path: Path) -> None:
    amazon.offers.quotas[STANDARD] = 3.0
    first = rental(tmp_path, ec2())
    first.up()
    with pytest.raises(TargetError, match="needs 2 vCPU of On-Demand instances, and 1 of the quota"):
        rental(tmp_path, ec2()).up()
    assert len(amazon.machines.all) == 1
    assert first.down() == []


def test_spot_instances_have_a_quota_of_their_own(amazon: Simulator, tmp_path: Path, root: Path, rent: Rent) -> None:
    amazon.offers.quotas |= {STANDARD: 2.0, STANDARD_SPOT: 2.0}
    hosts = generator(instance=f'"{HERE}"', spot="true")
    rent(ec2(instance=f'"{HERE}"'), hosts)
    with pytest.raises(TargetError, match="needs 2 vCPU of Spot instances, and 0 of the quota L-34B43A08 are free"):
        rental(tmp_path, rds(root), hosts).up()


def test_limits_of_storage(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    volume = {"storage": '"100GB"', "storage_type": '"io1"', "iops": "6000"}
    error = refused(amazon, tmp_path, rds(root, **volume))
    assert "iops = 6,000 is too much: db.m7g.large with io1 has at most 50 IOPS a GB" in error.message
    rented = rental(tmp_path, ec2(data='{ size = "200GB", type = "io2", iops = 50_000 }'))
    rented.up()
    assert any("provides 50,000 IOPS, but m7g.large uses at most 40,000: you pay for the rest" in each for each in SAID)
    assert rented.down() == []
    # two volumes share the instance's bandwidth
    half = '{ size = "200GB", iops = 6_000, throughput = 1_000 }'
    SAID.clear()
    rented = rental(tmp_path, ec2(data=half, wal=half))
    rented.up()
    (said,) = [each for each in SAID if "MB/s" in each]
    assert said.startswith("the volumes of ec2 together provide 2,000 MB/s, but m7g.large uses at most 1,250: ")
    assert said.endswith("choose a larger instance, or provision less")
    assert rented.down() == []


def test_servers_and_the_generator_share_a_zone(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    amazon.offers.missing = {("db.m7g.large", f"{REGION}a"), (HERE, f"{REGION}b")}
    rented = rental(tmp_path, rds(root), aurora(root), generator(instance=f'"{HERE}"'))
    rented.up()
    assert {each["zone"] for each in rented.journal.ready.values()} == {f"{REGION}c"}
    assert rented.down() == []
    amazon.calls.clear()
    amazon.machines.all.clear()
    amazon.offers.missing.add((HERE, f"{REGION}c"))
    error = refused(amazon, tmp_path, rds(root), generator(instance=f'"{HERE}"'))
    assert "no zone offers all servers and the generator (the generator: eu-central-1a; target rds: " in error.message


def test_a_zone_that_does_not_offer_the_class(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    amazon.offers.missing = {("db.m7g.large", f"{REGION}a")}
    error = refused(amazon, tmp_path, rds(root, zones=f'["{REGION}a"]'))
    assert "Amazon offers it in eu-central-1b, eu-central-1c of its network, and not eu-central-1a" in error.message


def test_networks_of_a_subnet_group_and_a_generator(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    network = ec2_backends[ACCOUNT][REGION]
    vpc = network.create_vpc("10.9.0.0/16")
    subnets = [
        network.create_subnet(vpc.id, f"10.9.{at}.0/24", availability_zone=f"{REGION}{each}")
        for at, each in enumerate("ab")
    ]
    amazon.rds.create_subnet_group("mine", "mine", subnets, [])
    error = refused(amazon, tmp_path, rds(root, subnet_group='"mine"'), generator(instance=f'"{HERE}"'))
    assert "the servers and the generator are in different networks: the generator in vpc-" in error.message
    assert f"target rds in {vpc.id}" in error.message


def test_without_a_default_network(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    network = ec2_backends[ACCOUNT][REGION]
    for each in network.vpcs.values():
        each.is_default = False
    error = refused(amazon, tmp_path, rds(root))
    assert "the account has no default network (VPC) in eu-central-1" in error.message
    assert "subnet_group" in (error.hint or "")


def test_credentials_must_last(
    amazon: Simulator, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch, rent: Rent
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a token")
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", (datetime.now(UTC) + timedelta(minutes=90)).isoformat())
    error = refused(amazon, tmp_path, rds(root))
    assert "the credentials expire within" in error.message
    assert "log in again" in (error.hint or "")
    monkeypatch.delenv("AWS_CREDENTIAL_EXPIRATION")
    rent(rds(root))
    assert any("the credentials are temporary" in each for each in SAID)


def test_the_role_of_a_fresh_account(amazon: Simulator, tmp_path: Path, root: Path, rent: Rent) -> None:
    amazon.role = False
    amazon.denied = {"iam:CreateServiceLinkedRole"}
    error = refused(amazon, tmp_path, rds(root))
    assert "the account has no role for RDS yet" in error.message
    assert "aws iam create-service-linked-role" in (error.hint or "")
    # who may not even ask leaves it to RDS, which refuses the first request for a server all the same
    amazon.denied = {"iam:GetRole"}
    rent(rds(root))
    assert amazon.calls.count("rds:CreateDBInstance") == 2


def test_a_request_that_the_policy_does_not_allow_is_tried_dry(amazon: Simulator, tmp_path: Path) -> None:
    amazon.denied = {"ec2:RunInstances"}
    assert "target ec2: the permission ec2:RunInstances is missing" in refused(amazon, tmp_path, ec2()).message


def test_a_spot_generator_is_tried_dry_as_one(amazon: Simulator, tmp_path: Path) -> None:
    amazon.policy = json.loads(json.dumps(amazon.policy).replace("spot-instances-request", "no-such-kind"))
    hosts = ec2(instance=f'"{HERE}"'), generator(instance=f'"{HERE}"', spot="true")
    said = "the generator: the permission ec2:RunInstances is missing"
    assert said in refused(amazon, tmp_path, *hosts).message


def test_a_missing_permission_of_a_check_alone_is_a_note(amazon: Simulator, root: Path, rent: Rent) -> None:
    amazon.denied = {"servicequotas:GetServiceQuota", "rds:DescribeOrderableDBInstanceOptions"}
    rented = rent(rds(root), ec2())
    assert any("not checked before renting: which classes Amazon offers" in each for each in SAID)
    assert any("the permission servicequotas:GetServiceQuota is missing" in each for each in SAID)
    # the run keeps them
    assert {each.parameters["what_id"] for each in rented.notes} == {"offered-classes", "quota"}
    assert [str(each) for each in rented.notes] == [each for each in SAID if each.startswith("not checked")]
