"""Schedules at Amazon remove databases that outlive pgdyno; removal survives errors and expired credentials."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pgdyno.commands.rented.reap import ReapCommand
from pgdyno.errors import ExitCode, UsageError
from pgdyno.plan import Plan, load_plan
from pgdyno.targets.aws import removal
from pgdyno.targets.aws.boto3_clients import AwsError
from pgdyno.targets.aws.databases import dead_man
from pgdyno.targets.aws.inventory import OWNER, Kind, by_key
from pgdyno.targets.aws.policy import dead_man_policy, policy
from pgdyno.targets.aws.provider import PROVIDER
from pgdyno.targets.aws.removal import Reaper
from pgdyno.targets.aws.rental import begin
from pgdyno.targets.rented.provider import Wanted
from pgdyno.targets.rented.rental import take_down
from tests.aws.account import SAID, Rent, failed_blindly, rental
from tests.aws.plans import aurora, rds, write_plan
from tests.aws.simulator import Fault, Simulator


def test_databases_are_gone_after_their_expiry_without_pgdyno(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    rented = rental(tmp_path, rds(root), aurora(root))
    rented.up()
    rented.journal.release()
    expires = rented.journal.expires
    amazon.time_comes(expires - timedelta(minutes=1))
    assert {*amazon.rds.databases, *amazon.rds.clusters} == {rented.server_id("rds"), rented.server_id("aurora")}
    amazon.time_comes(expires + timedelta(minutes=15))
    assert (dict(amazon.rds.databases), dict(amazon.rds.clusters)) == ({}, {})
    # the cluster could go only after its instance, which a single request would not have survived
    assert "InvalidDBClusterStateFault" in amazon.schedules.refused
    amazon.time_comes(expires + dead_man.REPEATS_FOR)
    assert amazon.schedules.all == {}
    done = Reaper(tmp_path / "home").reap(Wanted(expired=False), SAID.append)
    assert ({each.words.partition(" pgdyno")[0] for each in done.found}, done.left) == ({Kind.SECURITY_GROUP}, [])


def test_a_switch_moves_with_the_expiry(amazon: Simulator, tmp_path: Path, root: Path, rent: Rent) -> None:
    rented = rent(rds(root))
    before = rented.journal.expires
    rented.prolong(datetime.now(UTC) + timedelta(hours=9))
    amazon.time_comes(before + timedelta(hours=1))
    assert list(amazon.rds.databases) == [rented.server_id("rds")]
    assert Reaper(tmp_path / "another home").find(Wanted(expired=True)) == []
    amazon.time_comes(rented.journal.expires + timedelta(minutes=1))
    assert dict(amazon.rds.databases) == {}


def test_without_its_role_nothing_is_rented_unasked(amazon: Simulator, tmp_path: Path, root: Path, rent: Rent) -> None:
    amazon.schedules.roles = set()
    error = failed_blindly(tmp_path, rds(root))
    assert "the database gets no dead-man switch" in error.message
    assert error.hint is not None
    assert "pgdyno target dead-man" in error.hint
    assert 'dead_man = "none"' in error.hint
    assert not {"rds:CreateDBInstance", "ec2:CreateSecurityGroup"} & set(amazon.calls)
    assert amazon.left() == []
    rented = rent(rds(root, dead_man='"none"'))
    assert f"{rented.server_id('rds')} has no dead-man switch" in "\n".join(SAID)
    assert amazon.schedules.all == {}


def test_only_the_role_of_the_policy_may_be_passed_on(
    amazon: Simulator, tmp_path: Path, root: Path, rent: Rent
) -> None:
    amazon.schedules.roles = {"another-role"}
    other = rds(root, dead_man='"another-role"')
    assert "not authorized to perform: iam:PassRole" in failed_blindly(tmp_path, other).message
    assert amazon.left() == []
    # the condition names the service that may get it
    amazon.policy = policy(role="another-role")
    given = next(each for each in amazon.policy["Statement"] if each["Sid"] == "PgdynoGiveRoleToScheduler")
    given["Condition"]["StringEquals"]["iam:PassedToService"] = "lambda.amazonaws.com"
    assert "not authorized to perform: iam:PassRole" in failed_blindly(tmp_path, other).message
    amazon.policy = policy(role="another-role")
    rent(other)


def test_removal_repeats_what_failed_and_goes_on_with_the_rest(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    rented = rental(tmp_path, rds(root), aurora(root))
    rented.up()
    amazon.faults = [
        Fault("DeleteDBInstance", "SomethingStrange", times=2),
        Fault("DescribeDBClusters", "SomethingStrange", times=1),
        Fault("DeleteSchedule", "SomethingStrange", times=99, when=lambda asked: asked["Name"].endswith("-cluster")),
    ]
    (left,) = rented.down()
    assert (left.resource.kind, "SomethingStrange" in str(left.message)) == (Kind.SCHEDULE, True)
    assert amazon.left() == [left.resource.id]
    amazon.faults = []
    assert Reaper(tmp_path / "home").reap(Wanted(rented.journal.run), SAID.append).left == []


def test_credentials_come_later(amazon: Simulator, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in amazon.credentials.environment:
        monkeypatch.delenv(name)
    for name, value in amazon.credentials.profile(tmp_path / "profile", timedelta(hours=5)).items():
        monkeypatch.setenv(name, value)
    rented = rental(tmp_path, rds(root))
    rented.up()
    waited: list[str] = []

    def log_in_again(text: str) -> None:
        SAID.append(text)
        if "waiting up to 1 h for others" in text:
            waited.append(text)
            amazon.credentials.renew()
            amazon.credentials.profile(tmp_path / "profile", timedelta(hours=5))

    amazon.credentials.expire_at("rds:DeleteDBInstance")
    rented.say = log_in_again
    assert rented.down() == []
    assert len(waited) == 1
    assert "the credentials are valid again" in SAID
    assert amazon.left() == []


def test_what_was_not_removed_is_named(
    amazon: Simulator, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rented = rental(tmp_path, aurora(root))
    rented.up()
    monkeypatch.setattr(removal, "FIXED_WITHIN_S", 0.1)
    amazon.credentials.expire()
    said: list[str] = []
    assert take_down(rented, lambda note: said.append(str(note))) == len(amazon.left())
    for name in amazon.left():
        assert any(line.startswith("still there") and name in line for line in said), name
    assert said[-1] == f"try again: pgdyno reap --run {rented.journal.run}"
    assert [each.run for each in PROVIDER.journals(tmp_path / "home")] == [rented.journal.run]
    with pytest.raises(AwsError, match="rejects the credentials"):
        Reaper(tmp_path / "home")
    for name, value in amazon.credentials.renew().items():
        monkeypatch.setenv(name, value)
    assert Reaper(tmp_path / "home").reap(Wanted(rented.journal.run), SAID.append).left == []


def test_removing_resources_of_another_identity_needs_confirmation(
    amazon: Simulator, tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_another = begin(tagged(tmp_path, root), tmp_path / "another home", SAID.append, -5)
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
    assert amazon.left() == []


def tagged(tmp_path: Path, root: Path) -> Plan:
    file = write_plan(tmp_path / "plan", rds(root), '[cloud]\ntags = { team = "storage" }\n')
    return load_plan(file).plan


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
