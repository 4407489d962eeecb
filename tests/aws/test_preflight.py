"""Checks before the first create, and those of a selftest: all problems are reported, with remedies, at no cost."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from moto.ec2.models import ec2_backends

import cloud_page
from pgdyno.commands.rented.selftest import keys_of
from pgdyno.errors import TargetError, UsageError
from pgdyno.targets.aws.selftest import ALL, CHECKS, Tally, checks_of, plan_of
from pgdyno.targets.rented.provider import Tried
from tests.aws.account import SAID, Account
from tests.aws.identity import ACCOUNT
from tests.aws.offers import IO2, STANDARD, STANDARD_SPOT
from tests.aws.plans import ELSEWHERE, HERE, aurora, ec2, generator, rds
from tests.aws.simulator import REGION

OURS = ec2(instance=f'"{HERE}"')


def preflight_error(amazon: Account, *targets: str, repeats: int = 1) -> TargetError:
    error = amazon.failed(*targets, repeats=repeats)
    creates = [each for each in amazon.calls if ":Create" in each or each == "ec2:RunInstances"]
    assert not [each for each in creates if not each.startswith("iam:")]
    return error


def test_all_problems_are_reported_at_once_with_their_remedies(amazon: Account) -> None:
    amazon.offers.quotas |= {STANDARD: 3.0, IO2: 1000.0}
    amazon.offers.databases = amazon.snapshots.most = 1
    error = preflight_error(
        amazon,
        rds(instance='"db.x2g.large"', restore='"each-trial"'),
        aurora(parameters='{ no_such = "1" }', restore='"each-trial"', instances="2"),
        ec2(data='{ size = "100GB", type = "io2", iops = 2000 }'),
        generator(),
        repeats=2,
    )
    lines = error.message.splitlines()
    assert lines[0] == "Amazon would refuse this plan, 7 problems; nothing was created"
    assert "  target rds: Amazon does not offer db.x2g.large for postgres 18.1 with gp3 in eu-central-1" in lines
    for each in ("aurora.1", "aurora.2"):
        assert f"  target {each}: aurora-postgresql18 has no parameter no_such" in lines
    said = "  the plan needs 4 vCPU of On-Demand instances, and 3 of the quota L-1216C47A are free (3 in eu-central-1)"
    assert said in lines
    assert "and 1,000 of the quota L-8D977E7E are free" in error.message
    # each instance of a target counts
    assert "  the plan needs 3 database instances, and 0 of 1 are used in eu-central-1" in lines
    assert "the plan needs 2 manual snapshots of Aurora, and 0 of 1 are used" in error.message
    increase = "aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-1216C47A"
    assert increase in error.message


def test_running_instances_and_spot_instances_count_towards_quotas_of_their_own(amazon: Account) -> None:
    amazon.offers.quotas |= {STANDARD: 3.0, STANDARD_SPOT: 2.0}
    amazon.rent(OURS, generator(spot="true"))
    for targets, said in (
        ((ec2(),), "needs 2 vCPU of On-Demand instances, and 1 of the quota"),
        ((rds(), generator(spot="true")), "needs 2 vCPU of Spot instances, and 0 of the quota L-34B43A08 are free"),
    ):
        with pytest.raises(TargetError, match=said):
            amazon.rental(*targets).up()
    assert len(amazon.machines.all) == 2


def test_limits_of_storage(amazon: Account) -> None:
    error = preflight_error(amazon, rds(storage='"100GB"', storage_type='"io1"', iops="6000"))
    assert "iops = 6,000 is too much: db.m7g.large with io1 has at most 50 IOPS a GB" in error.message
    amazon.rent(ec2(data='{ size = "200GB", type = "io2", iops = 50_000 }'))
    assert any("provides 50,000 IOPS, but m7g.large uses at most 40,000: you pay for the rest" in each for each in SAID)
    # two volumes share the instance's bandwidth
    half = '{ size = "200GB", iops = 6_000, throughput = 1_000 }'
    SAID.clear()
    amazon.rent(ec2(data=half, wal=half))
    (said,) = [each for each in SAID if "MB/s" in each]
    assert said.startswith("the volumes of ec2 together provide 2,000 MB/s, but m7g.large uses at most 1,250: ")
    assert said.endswith("choose a larger instance, or provision less")


def test_servers_and_the_generator_share_a_zone(amazon: Account) -> None:
    amazon.offers.missing = {("db.m7g.large", f"{REGION}a"), (HERE, f"{REGION}b"), (HERE, f"{REGION}c")}
    error = preflight_error(amazon, rds(), generator())
    assert "no zone offers all servers and the generator (the generator: eu-central-1a; target rds: " in error.message
    error = preflight_error(amazon, rds(zones=f'["{REGION}a"]'))
    assert "Amazon offers it in eu-central-1b, eu-central-1c of its network, and not eu-central-1a" in error.message
    amazon.offers.missing.remove((HERE, f"{REGION}c"))
    rented = amazon.rent(rds(), aurora(), generator())
    assert {each["zone"] for each in rented.journal.ready.values()} == {f"{REGION}c"}


def test_networks_of_a_subnet_group_and_a_generator(amazon: Account) -> None:
    network = ec2_backends[ACCOUNT][REGION]
    vpc = network.create_vpc("10.9.0.0/16")
    subnets = [
        network.create_subnet(vpc.id, f"10.9.{at}.0/24", availability_zone=f"{REGION}{each}")
        for at, each in enumerate("ab")
    ]
    amazon.rds.create_subnet_group("mine", "mine", subnets, [])
    error = preflight_error(amazon, rds(subnet_group='"mine"'), generator())
    assert "the servers and the generator are in different networks: the generator in vpc-" in error.message
    assert f"target rds in {vpc.id}" in error.message
    for each in network.vpcs.values():
        each.is_default = False
    error = preflight_error(amazon, rds())
    assert "the account has no default network (VPC) in eu-central-1" in error.message
    assert "subnet_group" in (error.hint or "")


def test_credentials_must_last(amazon: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a token")
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", (datetime.now(UTC) + timedelta(minutes=90)).isoformat())
    error = preflight_error(amazon, rds())
    assert "the credentials expire within" in error.message
    assert "log in again" in (error.hint or "")
    monkeypatch.delenv("AWS_CREDENTIAL_EXPIRATION")
    amazon.rent(rds())
    assert any("the credentials are temporary" in each for each in SAID)


def test_the_role_of_a_fresh_account(amazon: Account) -> None:
    amazon.role = False
    amazon.denied = {"iam:CreateServiceLinkedRole"}
    error = preflight_error(amazon, rds())
    assert "the account has no role for RDS yet" in error.message
    assert "aws iam create-service-linked-role" in (error.hint or "")
    # who may not even ask leaves it to RDS, which refuses the first request for a server all the same
    amazon.denied = {"iam:GetRole"}
    amazon.rent(rds())
    assert amazon.calls.count("rds:CreateDBInstance") == 2


def test_a_request_that_the_policy_does_not_allow_is_tried_dry(amazon: Account) -> None:
    amazon.policy = json.loads(json.dumps(amazon.policy).replace("spot-instances-request", "no-such-kind"))
    said = "the generator: the permission ec2:RunInstances is missing"
    assert said in preflight_error(amazon, OURS, generator(spot="true")).message
    amazon.denied = {"ec2:RunInstances"}
    assert "target ec2: the permission ec2:RunInstances is missing" in preflight_error(amazon, ec2()).message


def test_a_generator_of_another_architecture_wants_programs_for_it(
    amazon: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDYNO_ENGINES", str(tmp_path / "none"))
    error = preflight_error(amazon, OURS, generator(instance=f'"{ELSEWHERE}"'))
    assert f"the generator {ELSEWHERE} is" in error.message
    assert "has no pgdrive for it" in error.message
    assert "make engines" in (error.hint or "")


def test_a_missing_permission_of_a_check_alone_is_a_note(amazon: Account) -> None:
    amazon.denied = {"servicequotas:GetServiceQuota", "rds:DescribeOrderableDBInstanceOptions"}
    rented = amazon.rent(rds(), ec2())
    assert any("not checked before renting: which classes Amazon offers" in each for each in SAID)
    assert any("the permission servicequotas:GetServiceQuota is missing" in each for each in SAID)
    # the run keeps them
    assert {each.parameters["what_id"] for each in rented.notes} == {"offered-classes", "quota"}
    assert [str(each) for each in rented.notes] == [each for each in SAID if each.startswith("not checked")]


def test_what_does_not_exist_or_does_not_fit_creates_nothing(amazon: Account) -> None:
    small, together = ec2(instance='"t4g.large"'), '[cloud]\nplacement = "cluster"\n'
    for target, said in (
        (rds(snapshot='"gone"'), "there is no database snapshot gone in eu-central-1"),
        (aurora(snapshot='"gone"'), "there is no cluster snapshot gone in eu-central-1"),
        (aurora(clone_of='"gone"'), "there is no database cluster gone in eu-central-1"),
        (rds(version='"11"', extended_support="true"), "the service has no postgres 11 in eu-central-1"),
    ):
        assert preflight_error(amazon, target).message.partition(": ")[2] == said
    for target, said in (
        (ec2(instead='["c7i.large"]'), "c7i.large is x86_64, and m7g.large is arm64"),
        (ec2(architecture='"x86_64"'), "m7g.large is arm64, and the plan says x86_64"),
        (ec2(instance='"x9z.large"'), "types do not exist: [x9z.large]"),
        (ec2(zones='["eu-central-1z"]'), "the default network has no subnet in eu-central-1z"),
        (ec2(subnet='"subnet-0"'), "subnet-0"),
        (ec2(system='"ubuntu-24.04"'), "Amazon has no image of ubuntu-24.04 for arm64"),
        (ec2(parameters=f'{{ search_path = "{"x" * 16_000}" }}'), "EC2 accepts at most 16,384"),
        (small + small.replace(".ec2", ".b") + together, "t4g.large cannot be in a cluster placement group"),
        (ec2() + together, "fewer than two"),
    ):
        assert said in preflight_error(amazon, target).message


def test_parameters_at_the_wrong_level_and_with_wrong_values_create_nothing(
    amazon: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a name that is known only to the service
    monkeypatch.setattr("pgdyno.targets.aws.databases.schema.CLUSTER_LEVEL", frozenset())
    error = preflight_error(amazon, aurora(parameters='{ autovacuum = "off", work_mem = "4MB" }'))
    assert "has no parameter autovacuum" in error.message
    assert "put those of the cluster under cluster_parameters" in (error.hint or "")
    error = preflight_error(amazon, rds(parameters='{ checkpoint_timeout = "2h", work_mem = "1kB", autovacuum = "2" }'))
    assert "work_mem = 1 is outside of 64 to 2147483647; autovacuum = 2 is not one of 0, 1" in error.message
    error = preflight_error(amazon, rds(parameters='{ ssl = "on", no_such = "1", work_mem = "4MB" }'))
    assert "parameter ssl cannot be changed on postgres18; postgres18 has no parameter no_such" in error.message


# ---- checks of a selftest: the reference lists them; a failed one skips those that depend on it ----


def test_the_reference_lists_what_is_tried() -> None:
    section = cloud_page.page().partition("## Checks of the selftest")[2]
    listed = re.findall(r"^\| `(\w+)` \| .+ \| ([\w, ]+) \|$", section, re.MULTILINE)
    kinds = {each.key: "all" if tuple(each.kinds) == ALL else ", ".join(each.kinds) for each in CHECKS}
    assert listed == list(kinds.items())


def test_a_failed_check_has_a_reason_and_skips_the_rest() -> None:
    said: list[str] = []
    tally = Tally("ec2", said.append)
    with tally.try_checks("ssh", "volumes", "insights", "expiry"):
        tally.tell("ssh", True, "reached")
        raise TargetError("it has gone", hint="look again")
    tally.leave_out((each.key for each in CHECKS[:-2]), "it is over")
    assert said[:3] == [
        "ok: ssh: reached",
        "WRONG: volumes: it has gone (look again)",
        "left out: expiry: volumes is wrong",
    ]
    assert tally.wrong == ["volumes"]
    assert tally.said.keys() | {"removed", "gone"} == {each.key for each in checks_of("ec2")}


def test_mistakes_are_said_before_anything_is_rented() -> None:
    with pytest.raises(UsageError, match="--set login: there is no value"):
        keys_of(["login"])
    version = {"version": "18"}
    with pytest.raises(UsageError, match=r"snapshot: extra inputs"):
        plan_of(Tried("ec2", version | {"snapshot": "mine"}))
    with pytest.raises(UsageError, match=r"generator\.nothing: extra inputs"):
        plan_of(Tried("rds", version | keys_of(["generator.nothing=1"])))
    plan = plan_of(Tried("rds", version | {"snapshot": "mine"} | keys_of(["public=false"])))
    assert plan.target["rds"].model_dump()["snapshot"] == "mine"
    assert plan.generator is not None
