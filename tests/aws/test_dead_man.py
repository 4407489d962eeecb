"""Schedules at Amazon remove databases that outlive pgdyno; removal survives errors and expired credentials."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from pgdyno.commands.rented.reap import ReapCommand
from pgdyno.errors import ExitCode, UsageError
from pgdyno.targets.aws import removal
from pgdyno.targets.aws.boto3_clients import AwsError
from pgdyno.targets.aws.databases import dead_man
from pgdyno.targets.aws.inventory import OWNER, Kind, by_key
from pgdyno.targets.aws.policy import dead_man_policy, policy
from pgdyno.targets.aws.rental import begin
from pgdyno.targets.rented.provider import Wanted
from pgdyno.targets.rented.rental import take_down
from tests.aws.account import SAID, Account
from tests.aws.plans import aurora, rds
from tests.aws.simulator import Fault


def test_databases_and_snapshots_are_gone_after_their_expiry_without_pgdyno(amazon: Account) -> None:
    rented = amazon.up(rds(restore='"each-trial"'), aurora(restore='"each-trial"'))
    for kind in ("rds", "aurora"):
        rented.take_snapshot(kind, "Dataset(name='pgbench', scale=1)")
    before = rented.journal.expires
    rented.prolong(datetime.now(UTC) + timedelta(hours=9))
    expires = rented.journal.expires
    assert {each.expires for each in rented.existing_resources()} == {expires.replace(microsecond=0)}
    # the switches have moved with the expiry
    amazon.time_comes(before + timedelta(hours=1))
    amazon.time_comes(expires - timedelta(minutes=1))
    assert {*amazon.rds.databases, *amazon.rds.clusters} == {rented.server_id("rds"), rented.server_id("aurora")}
    elsewhere = amazon.reaper("another home")
    assert {each.kind for each in elsewhere.find(Wanted())} >= {Kind.DB_SNAPSHOT, Kind.CLUSTER_SNAPSHOT}
    assert elsewhere.find(Wanted(expired=True)) == []
    amazon.time_comes(expires + timedelta(minutes=15))
    assert (dict(amazon.rds.databases), dict(amazon.rds.clusters)) == ({}, {})
    # the cluster could go only after its instance, which a single request would not have survived
    assert "InvalidDBClusterStateFault" in amazon.schedules.refused
    amazon.time_comes(expires + dead_man.REPEATS_FOR)
    assert amazon.schedules.all == {}
    assert {each.kind for each in amazon.reap()} == {Kind.SECURITY_GROUP}


def test_without_its_role_nothing_is_rented_unasked(amazon: Account) -> None:
    amazon.schedules.roles = set()
    error = amazon.failed(rds())
    assert "the database gets no dead-man switch" in error.message
    assert error.hint is not None
    assert "pgdyno target dead-man" in error.hint
    assert 'dead_man = "none"' in error.hint
    assert not {"rds:CreateDBInstance", "ec2:CreateSecurityGroup"} & set(amazon.calls)
    assert amazon.left() == []
    rented = amazon.rent(rds(dead_man='"none"', restore='"each-trial"'))
    assert f"{rented.server_id('rds')} has no dead-man switch" in "\n".join(SAID)
    rented.take_snapshot("rds", "Dataset(name='pgbench', scale=1)")
    assert amazon.schedules.all == {}


def test_only_the_role_of_the_policy_may_be_passed_on(amazon: Account) -> None:
    amazon.schedules.roles = {"another-role"}
    other = rds(dead_man='"another-role"')
    assert "not authorized to perform: iam:PassRole" in amazon.failed(other).message
    # the condition names the service that may get it
    amazon.policy = policy(role="another-role")
    given = next(each for each in amazon.policy["Statement"] if each["Sid"] == "PgdynoGiveRoleToScheduler")
    given["Condition"]["StringEquals"]["iam:PassedToService"] = "lambda.amazonaws.com"
    assert "not authorized to perform: iam:PassRole" in amazon.failed(other).message
    assert amazon.left() == []
    amazon.policy = policy(role="another-role")
    amazon.rent(other)


def test_removal_repeats_what_failed_and_goes_on_with_the_rest(amazon: Account) -> None:
    rented = amazon.hold(rds(), aurora())
    amazon.faults = [
        Fault("DeleteDBInstance", "SomethingStrange", times=2),
        Fault("DescribeDBClusters", "SomethingStrange", times=1),
        Fault("DeleteSchedule", "SomethingStrange", times=99, when=lambda asked: asked["Name"].endswith("-cluster")),
    ]
    (left,) = rented.remove_all()
    assert (left.resource.kind, "SomethingStrange" in str(left.message)) == (Kind.SCHEDULE, True)
    assert amazon.left() == [left.resource.id]
    amazon.faults = []
    amazon.reap(run=rented.journal.run)


def test_credentials_come_later(amazon: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in amazon.credentials.environment:
        monkeypatch.delenv(name)
    for name, value in amazon.credentials.profile(amazon.folder / "profile", timedelta(hours=5)).items():
        monkeypatch.setenv(name, value)
    rented = amazon.hold(rds())
    waited: list[str] = []

    def log_in_again(text: str) -> None:
        SAID.append(text)
        if "waiting up to 1 h for others" in text:
            waited.append(text)
            amazon.credentials.renew()
            amazon.credentials.profile(amazon.folder / "profile", timedelta(hours=5))

    amazon.credentials.expire_at("rds:DeleteDBInstance")
    rented.say = log_in_again
    assert rented.remove_all() == []
    assert len(waited) == 1
    assert "the credentials are valid again" in SAID


def test_what_was_not_removed_is_named(amazon: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    rented = amazon.hold(aurora())
    monkeypatch.setattr(removal, "FIXED_WITHIN_S", 0.1)
    amazon.credentials.expire()
    said: list[str] = []
    assert take_down(rented, lambda note: said.append(str(note))) == len(amazon.left())
    for name in amazon.left():
        assert any(line.startswith("still there") and name in line for line in said), name
    assert said[-1] == f"try again: pgdyno reap --run {rented.journal.run}"
    assert amazon.journals() == [rented.journal.run]
    with pytest.raises(AwsError, match="rejects the credentials"):
        amazon.reaper()
    for name, value in amazon.credentials.renew().items():
        monkeypatch.setenv(name, value)
    amazon.reap(run=rented.journal.run)


def test_removing_resources_of_another_identity_needs_confirmation(
    amazon: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    tagged = amazon.plan(rds(), '[cloud]\ntags = { team = "storage" }\n')
    of_another = begin(tagged, amazon.folder / "another home", SAID.append, -5)
    of_another.journal.owner = "user/bob"
    of_another.up()
    tags = by_key(amazon.rds.databases[of_another.server_id("rds")].tags)
    assert (tags[OWNER], tags["team"]) == ("user/bob", "storage")
    asked = ReapCommand(expired=True, all_regions=True)
    with pytest.raises(UsageError, match="of others needs confirmation"):
        asked()
    assert "created by user/bob" in capsys.readouterr().err
    assert amazon.calls.count("ec2:DescribeRegions") == 1
    assert replace(asked, yes=True)() is ExitCode.OK


def test_the_policies_are_as_small_as_they_can_be() -> None:
    statements = {each["Sid"]: each for each in policy()["Statement"]}
    of_ec2 = statements["PgdynoTagNewInEc2"]
    made = ["CreatePlacementGroup", "CreateSecurityGroup", "RunInstances"]
    assert of_ec2["Condition"]["StringEquals"] == {"ec2:CreateAction": made}
    for each in statements.values():
        looks = each["Sid"] in ("PgdynoLook", "PgdynoUseForHosts", "PgdynoUseForGroups", "PgdynoSchedule")
        assert looks or each["Condition"], each["Sid"]
    (removes,) = dead_man_policy()["Statement"]
    assert removes["Condition"] == {"Null": {"aws:ResourceTag/pgdyno:run": "false"}}
    # IAM's limit for a managed policy, without white space
    assert len(json.dumps(policy(), separators=(",", ":"))) < 6144
