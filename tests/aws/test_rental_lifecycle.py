"""Rented servers from creation to removal, in the simulator: what pgdyno creates, journals, refuses and finds again."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pgdyno.commands.rented.target import down as bring_down
from pgdyno.commands.rented.target import status as show_status
from pgdyno.errors import ExitCode, TargetError
from pgdyno.targets import Home
from pgdyno.targets.aws import network, removal
from pgdyno.targets.aws import rental as life
from pgdyno.targets.aws.inventory import Kind
from pgdyno.targets.aws.policy import actions
from pgdyno.targets.aws.provider import PROVIDER
from pgdyno.targets.aws.removal import Reaper
from pgdyno.targets.aws.rental import begin
from pgdyno.targets.rented.provider import Wanted
from pgdyno.targets.rented.rental import Load
from tests.aws.account import SAID, Rent, kill_at, plan, rental
from tests.aws.plans import aurora, ec2, rds, write_plan
from tests.aws.simulator import Simulator
from tests.present import present


def test_both_kinds_come_up_as_asked_and_go_without_a_trace(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    of_rds = rds(root, parameters='{ shared_buffers = "8GB", autovacuum = "off" }', zones='["eu-central-1b"]')
    of_aurora = aurora(root, cluster_parameters='{ autovacuum = "on" }', storage_type='"io-optimized"')
    rented = rental(tmp_path, of_rds, of_aurora)
    rented.up()
    asked = dict(zip(amazon.calls, amazon.parameters, strict=True))
    changed = asked["rds:ModifyDBParameterGroup"]["Parameters"]
    assert {each["ParameterName"]: each["ParameterValue"] for each in changed} == {
        "shared_buffers": "1048576",
        "autovacuum": "0",
    }
    made = [each for name, each in zip(amazon.calls, amazon.parameters, strict=True) if name == "rds:CreateDBInstance"]
    assert (
        made[0]
        | {
            "DBInstanceClass": "db.m7g.large",
            "EngineVersion": "18.1",
            "AllocatedStorage": 20,
            "MultiAZ": False,
            "AvailabilityZone": "eu-central-1b",
        }
        == made[0]
    )
    assert asked["rds:CreateDBCluster"]["StorageType"] == "aurora-iopt1"
    (rule,) = [each for each in asked["ec2:AuthorizeSecurityGroupIngress"]["IpPermissions"] if "IpRanges" in each]
    assert (rule["FromPort"], rule["IpRanges"]) == (5432, [{"CidrIp": "203.0.113.7/32"}])
    assert rented.journal.ready.keys() == {"rds", "aurora"}
    assert rented.journal.passwords.stat().st_mode & 0o077 == 0
    assert "password" not in rented.connection("rds").dsn
    # everything bears the tags by which another machine finds it
    elsewhere = Reaper(tmp_path / "another home").find(Wanted(rented.journal.run))
    assert [each.id for each in elsewhere] == [each.id for each in rented.existing()]
    assert {each.name for each in elsewhere} == set(amazon.left())
    until = datetime.now(UTC) + timedelta(hours=9)
    rented.prolong(until)
    assert {each.expires for each in rented.existing()} == {until.replace(microsecond=0)}
    assert rented.down() == []
    assert amazon.left() == []
    assert list((tmp_path / "home" / "aws").iterdir()) == []


def test_a_released_server_goes_first_and_is_paid_no_longer(
    amazon: Simulator, tmp_path: Path, root: Path, rent: Rent
) -> None:
    rented = rent(rds(root), aurora(root))
    calls = len(amazon.calls)
    rented.release("aurora")
    asked = amazon.calls[calls:]
    assert asked.count("rds:DeleteDBInstance") == 1
    # what belongs to it goes at the end: nobody waits for its removal
    assert "rds:DeleteDBCluster" not in asked
    assert {each.kind for each in rented.existing()} >= {Kind.DB_CLUSTER, Kind.DB_INSTANCE}
    # the rest is not what a later run could use
    assert PROVIDER.standing(rented.plan, tmp_path / "home", SAID.append) is None
    assert rented.journal.ready.keys() == {"rds", "aurora"}
    released, later = rented.released["aurora"], rented.released["aurora"] + timedelta(hours=10)
    load = Load(released, 3600.0, 0.0)
    both = present(rented.accrued(later, load))
    rented.released.clear()
    unreleased = present(rented.accrued(later, load))
    # ten hours, and an hour of the next trial
    assert both[0] < unreleased[0]
    assert unreleased[1] - both[1] > unreleased[0] - both[0]
    rented.released["aurora"] = released


MUTATING = {
    "rds": [
        "scheduler:CreateSchedule",
        "ec2:CreateSecurityGroup",
        "ec2:AuthorizeSecurityGroupIngress",
        "rds:CreateDBParameterGroup",
        "rds:ModifyDBParameterGroup",
        "rds:CreateDBInstance",
    ],
    "aurora": [
        "scheduler:CreateSchedule",
        "ec2:CreateSecurityGroup",
        "rds:CreateDBClusterParameterGroup",
        "rds:ModifyDBClusterParameterGroup",
        "rds:CreateDBCluster",
        "rds:CreateDBInstance",
    ],
}
MADE_BY = {
    "scheduler:CreateSchedule": Kind.SCHEDULE,
    "ec2:CreateSecurityGroup": Kind.SECURITY_GROUP,
    "rds:CreateDBParameterGroup": Kind.DB_PARAMETERS,
    "rds:CreateDBClusterParameterGroup": Kind.CLUSTER_PARAMETERS,
    "rds:CreateDBCluster": Kind.DB_CLUSTER,
    "rds:CreateDBInstance": Kind.DB_INSTANCE,
}


def test_each_instance_of_a_target_is_a_server(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    rented = rental(tmp_path, rds(root, instances="2"), repeats=2)
    rented.up()
    assert rented.journal.ready.keys() == {"rds.1", "rds.2"}
    assert amazon.calls.count("rds:CreateDBInstance") == 2
    assert len({rented.server_id(name) for name in rented.journal.ready}) == 2
    assert rented.down() == []
    assert rented.existing() == []


@pytest.mark.long
def test_killed_at_any_call_nothing_is_left_that_cannot_be_found(
    amazon: Simulator, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the checks before the rental create nothing, and would be repeated in every child
    monkeypatch.setattr(life.Rental, "_check_before", lambda _self: None)
    # what is read here need not be read in every child
    assert Reaper(tmp_path / "home").find(Wanted()) == []
    killed: dict[str, set[Kind]] = {}
    targets = {
        "rds": rds(root, parameters='{ work_mem = "64MB" }'),
        "aurora": aurora(root, cluster_parameters='{ autovacuum = "on" }'),
    }
    for kind, calls in MUTATING.items():
        for place, call in enumerate(calls):
            rented = rental(tmp_path, targets[kind])
            rented.journal.release()
            kill_at(amazon, call, rented.up)
            killed[rented.journal.run] = {MADE_BY[each] for each in calls[: place + 1] if each in MADE_BY}
    amazon.on_call = lambda _action, _number: None
    for home in ("home", "another home"):
        reaper = Reaper(tmp_path / home)
        for run, kinds in killed.items():
            assert {each.kind for each in reaper.find(Wanted(run))} == kinds
        everything = reaper.find(Wanted())
        assert sorted(each.name for each in everything) == sorted(amazon.left())
        assert reaper.find(Wanted(expired=True)) == []
    done = Reaper(tmp_path / "home").reap(Wanted(), SAID.append)
    assert (done.left, amazon.left()) == ([], [])
    assert {each.run for each in done.found} == killed.keys()
    assert list(PROVIDER.journals(tmp_path / "home")) == []
    # twice without harm
    assert Reaper(tmp_path / "home").reap(Wanted(), SAID.append).found == []


def test_a_serverless_instance_has_the_capacity_of_the_plan(amazon: Simulator, root: Path, rent: Rent) -> None:
    rent(aurora(root, instance='"db.serverless"', capacity="{ min = 0.5, max = 64 }"))
    asked = dict(zip(amazon.calls, amazon.parameters, strict=True))
    assert asked["rds:CreateDBCluster"]["ServerlessV2ScalingConfiguration"] == {"MinCapacity": 0.5, "MaxCapacity": 64}
    assert asked["rds:CreateDBInstance"]["DBInstanceClass"] == "db.serverless"


def test_the_plans_key_encrypts(amazon: Simulator, root: Path, rent: Rent) -> None:
    key = {"kms_key": '"alias/mine"'}
    rent(rds(root, **key), aurora(root, **key), ec2(**key))
    asked = dict(zip(amazon.calls, amazon.parameters, strict=True))
    for name, given in zip(amazon.calls, amazon.parameters, strict=True):
        if name in ("rds:CreateDBCluster", "rds:CreateDBInstance") and given.get("DBClusterIdentifier") is None:
            assert (given["StorageEncrypted"], given["KmsKeyId"]) == (True, "alias/mine")
    assert asked["rds:CreateDBCluster"]["KmsKeyId"] == "alias/mine"
    volumes = [each["Ebs"] for each in asked["ec2:RunInstances"]["BlockDeviceMappings"]]
    assert {(each["Encrypted"], each["KmsKeyId"]) for each in volumes} == {(True, "alias/mine")}


def test_servers_have_prices(amazon: Simulator, tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rented = begin(plan(tmp_path, rds(root)), Home.locate().root, SAID.append, 3600)
    rented.up()
    rented.journal.release()
    show_status(str(write_plan(tmp_path / "plan", rds(root))))
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"run {rented.journal.run}, until 20")
    assert said[1] == "  rds: db.m7g.large at 127.0.0.1, eu-central-1a"
    assert said[-1] == "this costs 0.2027 USD an hour; public addresses and detailed monitoring are not counted"
    assert bring_down(str(tmp_path / "plan" / "rented.toml")) is ExitCode.OK
    assert "all resources removed" in capsys.readouterr().err
    assert amazon.left() == []


@pytest.mark.usefixtures("amazon")
def test_reaping_takes_only_what_is_meant(tmp_path: Path, root: Path) -> None:
    over = begin(plan(tmp_path, rds(root)), tmp_path / "home", SAID.append, -5)
    over.up()
    over.journal.release()
    going_on = rental(tmp_path, rds(root))
    going_on.up()
    done = Reaper(tmp_path / "home").reap(Wanted(expired=True), SAID.append)
    assert {each.run for each in done.found} == {over.journal.run}
    assert {each.run for each in Reaper(tmp_path / "home").find(Wanted())} == {going_on.journal.run}
    assert [each.run for each in PROVIDER.journals(tmp_path / "home")] == [going_on.journal.run]
    assert going_on.down() == []


@pytest.mark.usefixtures("amazon")
def test_the_configured_region_is_looked_at_beside_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    assert set(Reaper(tmp_path / "home", ["us-east-1"]).clouds) == {"eu-central-1", "us-east-1"}
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    assert set(Reaper(tmp_path / "home", ["us-east-1"]).clouds) == {"us-east-1"}


def test_a_resource_that_cannot_be_removed_is_named(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    rented = rental(tmp_path, rds(root))
    rented.up()
    amazon.denied = {"ec2:DeleteSecurityGroup"}
    (left,) = rented.down()
    assert left.resource.kind is Kind.SECURITY_GROUP
    assert "permission ec2:DeleteSecurityGroup is missing" in str(left.message)
    assert [each.run for each in PROVIDER.journals(tmp_path / "home")] == [rented.journal.run]
    amazon.denied = set()
    assert Reaper(tmp_path / "home").reap(Wanted(rented.journal.run), SAID.append).left == []


def test_removal_does_not_wait_for_resources_that_a_remaining_one_uses(
    amazon: Simulator, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rented = rental(tmp_path, aurora(root, parameters='{ work_mem = "4MB" }'))
    rented.up()
    amazon.denied = {"rds:DeleteDBCluster"}
    monkeypatch.setattr(removal, "USED_WITHIN_S", 0.1)
    left = {each.resource.kind: str(each.message) for each in rented.down()}
    # the instance went, and with it the use of its parameters
    assert left.keys() == {Kind.DB_CLUSTER, Kind.SECURITY_GROUP}
    assert "permission rds:DeleteDBCluster is missing" in left[Kind.DB_CLUSTER]
    assert left[Kind.SECURITY_GROUP].endswith(": resources that remain may use it")
    amazon.denied = set()
    assert Reaper(tmp_path / "home").reap(Wanted(rented.journal.run), SAID.append).left == []
    assert amazon.left() == []


def test_the_policy_has_nothing_that_is_never_asked() -> None:
    # the simulator judges every request by the policy
    source = Path(life.__file__).parent
    from botocore.session import get_session

    services = {each: each for each in ("cloudwatch", "ec2", "iam", "pi", "pricing", "rds", "scheduler", "ssm", "sts")}
    services["servicequotas"] = "service-quotas"
    known = {
        f"{service}:{each}"
        for service, in_botocore in services.items()
        for each in get_session().get_service_model(in_botocore).operation_names
    }
    assert actions() <= known
    text = "\n".join(file.read_text() for file in source.rglob("*.py"))
    for each in actions():
        from botocore import xform_name

        assert f'"{xform_name(each.partition(":")[2])}"' in text, f"{each} is never asked"


def test_this_machines_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(network.ADDRESS_VARIABLE, "203.0.113.9\n")
    assert network.allowed_networks([]) == ["203.0.113.9/32"]
    monkeypatch.setenv(network.ADDRESS_VARIABLE, "2001:db8::1")
    assert network.allowed_networks([]) == ["2001:db8::1/128"]
    monkeypatch.setenv(network.ADDRESS_VARIABLE, "<html>")
    with pytest.raises(TargetError, match="cannot determine this machine's address"):
        network.allowed_networks([])


@pytest.mark.usefixtures("amazon")
def test_a_journal_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path, root: Path) -> None:
    rented = rental(tmp_path, rds(root))
    rented.up()
    file = rented.journal.path
    file.write_bytes(file.read_bytes() + b'{"at": "2026-01-01T00:00:00Z", "what": "maki')
    (journal,) = PROVIDER.journals(tmp_path / "home")
    assert (journal.noted, journal.ready) == (rented.journal.noted, rented.journal.ready)
    assert json.loads(file.read_bytes().splitlines()[0])["run"] == journal.run
    rented.journal.release()
    assert Reaper(tmp_path / "home").reap(Wanted(), SAID.append).left == []


def test_servers_in_another_region_than_the_configured_one_are_not_forgotten(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch, rent: Rent
) -> None:
    rented = rent(rds(root))
    rented.journal.release()
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    said = (
        f"servers of the plan rented are up in eu-central-1 .run {rented.journal.run}., and it now asks for us-east-1"
    )
    with pytest.raises(TargetError, match=said):
        PROVIDER.standing(rented.plan, tmp_path / "home", SAID.append)
    with pytest.raises(TargetError, match=said):
        PROVIDER.is_standing(rented.plan, tmp_path / "home")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    assert PROVIDER.is_standing(rented.plan, tmp_path / "home")
