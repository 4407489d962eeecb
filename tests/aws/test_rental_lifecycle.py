"""Rented servers from creation to removal, in the simulator: what pgdyno creates, journals, refuses and finds again."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from botocore import xform_name
from botocore.session import get_session

from pgdyno.commands.rented.target import down as bring_down
from pgdyno.commands.rented.target import status as show_status
from pgdyno.errors import ExitCode, TargetError
from pgdyno.plan import load_plan
from pgdyno.targets import Home
from pgdyno.targets.aws import removal
from pgdyno.targets.aws import rental as life
from pgdyno.targets.aws.inventory import Kind
from pgdyno.targets.aws.policy import actions
from pgdyno.targets.aws.provider import PROVIDER
from pgdyno.targets.aws.rental import begin
from pgdyno.targets.rented.provider import Wanted
from pgdyno.targets.rented.rental import Load
from tests.aws.account import SAID, Account, kill_at, use_account
from tests.aws.plans import CATALOGUE, HERE, aurora, ec2, generator, rds
from tests.aws.simulator import Simulator, simulated
from tests.present import present


def test_both_kinds_come_up_as_asked_and_go_without_a_trace(amazon: Account) -> None:
    key = {"kms_key": '"alias/mine"'}
    of_rds = rds(parameters='{ shared_buffers = "8GB", autovacuum = "off" }', zones='["eu-central-1b"]', **key)
    serverless = {"instance": '"db.serverless"', "capacity": "{ min = 0.5, max = 64 }"}
    of_aurora = aurora(cluster_parameters='{ autovacuum = "on" }', storage_type='"io-optimized"', **serverless, **key)
    rented = amazon.hold(of_rds, of_aurora)
    *_, changed = amazon.asked("rds:ModifyDBParameterGroup")
    assert {each["ParameterName"]: each["ParameterValue"] for each in changed["Parameters"]} == {
        "shared_buffers": "1048576",
        "autovacuum": "0",
    }
    instance, *_ = (each for each in amazon.asked("rds:CreateDBInstance") if "DBClusterIdentifier" not in each)
    wanted = {
        "DBInstanceClass": "db.m7g.large", "EngineVersion": "18.1", "AllocatedStorage": 20, "MultiAZ": False,
        "AvailabilityZone": "eu-central-1b", "StorageEncrypted": True, "KmsKeyId": "alias/mine",
    }  # fmt: skip
    assert instance.items() >= wanted.items()
    *_, cluster = amazon.asked("rds:CreateDBCluster")
    assert (cluster["StorageType"], cluster["StorageEncrypted"]) == ("aurora-iopt1", True)
    assert cluster["KmsKeyId"] == "alias/mine"
    assert cluster["ServerlessV2ScalingConfiguration"] == {"MinCapacity": 0.5, "MaxCapacity": 64}
    *_, opened = amazon.asked("ec2:AuthorizeSecurityGroupIngress")
    (rule,) = (each for each in opened["IpPermissions"] if "IpRanges" in each)
    assert (rule["FromPort"], rule["IpRanges"]) == (5432, [{"CidrIp": "203.0.113.7/32"}])
    assert rented.journal.ready.keys() == {"rds", "aurora"}
    assert rented.journal.passwords.stat().st_mode & 0o077 == 0
    assert "password" not in rented.connection("rds").dsn
    # everything bears the tags by which another machine finds it
    elsewhere = amazon.reaper("another home").find(Wanted(rented.journal.run))
    assert [each.id for each in elsewhere] == [each.id for each in rented.existing_resources()]
    assert {each.name for each in elsewhere} == set(amazon.left())
    until = datetime.now(UTC) + timedelta(hours=9)
    rented.prolong(until)
    assert {each.expires for each in rented.existing_resources()} == {until.replace(microsecond=0)}
    assert rented.remove_all() == []
    assert list((amazon.home / "aws").iterdir()) == []


def test_a_released_server_goes_first_and_is_paid_no_longer(amazon: Account) -> None:
    rented = amazon.hold(rds(), aurora())
    calls = len(amazon.calls)
    rented.release("aurora")
    asked = amazon.calls[calls:]
    assert asked.count("rds:DeleteDBInstance") == 1
    # what belongs to it goes at the end: nobody waits for its removal
    assert "rds:DeleteDBCluster" not in asked
    assert {each.kind for each in rented.existing_resources()} >= {Kind.DB_CLUSTER, Kind.DB_INSTANCE}
    # the rest is not what a later run could use
    assert amazon.standing(rented) is None
    assert rented.journal.ready.keys() == {"rds", "aurora"}
    released, later = rented.released["aurora"], rented.released["aurora"] + timedelta(hours=10)
    load = Load(released, 3600.0, 0.0)
    both = present(rented.accrued_usd(later, load))
    rented.released.clear()
    unreleased = present(rented.accrued_usd(later, load))
    # ten hours, and an hour of the next trial
    assert both[0] < unreleased[0]
    assert unreleased[1] - both[1] > unreleased[0] - both[0]
    rented.released["aurora"] = released
    assert rented.remove_all() == []


def test_each_instance_of_a_target_is_a_server(amazon: Account) -> None:
    rented = amazon.hold(rds(instances="2"), repeats=2)
    assert rented.journal.ready.keys() == {"rds.1", "rds.2"}
    assert amazon.calls.count("rds:CreateDBInstance") == 2
    assert len({rented.server_id(name) for name in rented.journal.ready}) == 2
    assert rented.remove_all() == []
    assert rented.existing_resources() == []


KILLED: list[tuple[tuple[str, ...], list[tuple[str, int, set[Kind]]]]] = [
    # for each plan the requests that change something in their order, the number of each, and the kinds that it creates
    (
        (rds(parameters='{ work_mem = "64MB" }'),),
        [
            ("scheduler:CreateSchedule", 1, {Kind.SCHEDULE}),
            ("ec2:CreateSecurityGroup", 1, {Kind.SECURITY_GROUP}),
            ("ec2:AuthorizeSecurityGroupIngress", 1, set()),
            ("rds:CreateDBParameterGroup", 1, {Kind.DB_PARAMETERS}),
            ("rds:ModifyDBParameterGroup", 1, set()),
            ("rds:CreateDBInstance", 1, {Kind.DB_INSTANCE}),
        ],
    ),
    (
        (aurora(cluster_parameters='{ autovacuum = "on" }'),),
        [
            ("scheduler:CreateSchedule", 1, {Kind.SCHEDULE}),
            ("ec2:CreateSecurityGroup", 1, {Kind.SECURITY_GROUP}),
            ("rds:CreateDBClusterParameterGroup", 1, {Kind.CLUSTER_PARAMETERS}),
            ("rds:ModifyDBClusterParameterGroup", 1, set()),
            ("rds:CreateDBCluster", 1, {Kind.DB_CLUSTER}),
            ("rds:CreateDBInstance", 1, {Kind.DB_INSTANCE}),
        ],
    ),
    (
        # the group of generators is made before the server's, they after the server and in parallel
        (ec2(instance=f'"{HERE}"'), generator(count="2")),
        [
            ("ec2:CreateSecurityGroup", 1, {Kind.SECURITY_GROUP}),
            ("ec2:AuthorizeSecurityGroupIngress", 1, set()),
            ("ec2:RunInstances", 1, {Kind.INSTANCE, Kind.VOLUME}),
            ("ec2:RunInstances", 2, set()),
            ("ec2:RunInstances", 3, set()),
        ],
    ),
]


@pytest.mark.long
def test_killed_at_any_call_nothing_is_left_that_cannot_be_found(
    amazon: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the checks before the rental create nothing, and would be repeated in every child
    monkeypatch.setattr(life.Rental, "_check_before", lambda _self: None)
    # what is read here need not be read in every child, and its pauses are not those of the account's clock
    assert amazon.reaper().find(Wanted()) == []
    amazon.machines.console_late_s = 0
    killed: dict[str, set[Kind]] = {}
    for targets, calls in KILLED:
        created: set[Kind] = set()
        for call, nth, kinds in calls:
            rented = amazon.rental(*targets)
            rented.journal.release()
            kill_at(amazon, call, rented.up, nth)
            created |= kinds
            killed[rented.journal.run] = set(created)
    for home in ("home", "another home"):
        reaper = amazon.reaper(home)
        for run, kinds in killed.items():
            assert {each.kind for each in reaper.find(Wanted(run))} == kinds
        named = [each.name for each in reaper.find(Wanted()) if each.kind is not Kind.VOLUME]
        assert sorted(named) == sorted(amazon.left())
        assert reaper.find(Wanted(expired=True)) == []
    # groups that let each other in, too
    assert {each.run for each in amazon.reap()} == killed.keys()
    assert (amazon.left(), amazon.journals()) == ([], [])
    # twice without harm
    assert amazon.reap() == []


def test_servers_have_prices(amazon: Account, capsys: pytest.CaptureFixture[str]) -> None:
    rented = begin(amazon.plan(rds()), Home.locate().root, SAID.append, 3600)
    rented.up()
    rented.journal.release()
    file = str(amazon.folder / "plan" / "rented.toml")
    show_status(file)
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"run {rented.journal.run}, until 20")
    assert said[1] == "  rds: db.m7g.large at 127.0.0.1, eu-central-1a"
    assert said[-1] == "this costs 0.2027 USD an hour; public addresses and detailed monitoring are not counted"
    assert bring_down(file) is ExitCode.OK
    assert "all resources removed" in capsys.readouterr().err


def test_reaping_takes_only_what_is_meant(amazon: Account) -> None:
    over = amazon.up(rds(), lasts_s=-5)
    going_on = amazon.rent(rds())
    assert {each.run for each in amazon.reap(expired=True)} == {over.journal.run}
    assert {each.run for each in amazon.reaper().find(Wanted())} == {going_on.journal.run}
    assert amazon.journals() == [going_on.journal.run]


@pytest.mark.usefixtures("amazon")
def test_the_configured_region_is_looked_at_beside_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(removal.Reaper(tmp_path / "home", ["us-east-1"]).clouds) == {"eu-central-1", "us-east-1"}
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    assert set(removal.Reaper(tmp_path / "home", ["us-east-1"]).clouds) == {"us-east-1"}


def test_what_cannot_be_removed_is_named_and_removal_does_not_wait_for_what_it_uses(
    amazon: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    rented = amazon.hold(aurora(parameters='{ work_mem = "4MB" }'))
    amazon.denied = {"rds:DeleteDBCluster"}
    monkeypatch.setattr(removal, "USED_WITHIN_S", 0.1)
    left = {each.resource.kind: str(each.message) for each in rented.remove_all()}
    # the instance went, and with it the use of its parameters
    assert left.keys() == {Kind.DB_CLUSTER, Kind.SECURITY_GROUP}
    assert "permission rds:DeleteDBCluster is missing" in left[Kind.DB_CLUSTER]
    assert left[Kind.SECURITY_GROUP].endswith(": resources that remain may use it")
    amazon.denied = {"ec2:DeleteSecurityGroup"}
    (last,) = rented.remove_all()
    assert "permission ec2:DeleteSecurityGroup is missing" in str(last.message)
    assert amazon.journals() == [rented.journal.run]
    amazon.denied = set()
    amazon.reap(run=rented.journal.run)


def test_the_policy_has_nothing_that_is_never_asked() -> None:
    # the simulator judges every request by the policy
    named = {"servicequotas": "service-quotas"}
    services = ("cloudwatch", "ec2", "iam", "pi", "pricing", "rds", "scheduler", "servicequotas", "ssm", "sts")
    models = {each: get_session().get_service_model(named.get(each, each)) for each in services}
    assert actions() <= {f"{each}:{name}" for each, model in models.items() for name in model.operation_names}
    text = "\n".join(file.read_text() for file in Path(life.__file__).parent.rglob("*.py"))
    for each in actions():
        assert f'"{xform_name(each.partition(":")[2])}"' in text, f"{each} is never asked"


def test_servers_in_another_region_and_of_a_journal_that_was_cut_off_are_not_forgotten(
    amazon: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    rented = amazon.up(rds())
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    said = f"of the plan rented are up in eu-central-1 .run {rented.journal.run}., and it now asks for us-east-1"
    with pytest.raises(TargetError, match=said):
        amazon.standing(rented)
    with pytest.raises(TargetError, match=said):
        PROVIDER.is_standing(rented.plan, amazon.home)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    assert PROVIDER.is_standing(rented.plan, amazon.home)
    # a journal that was cut off is read as far as it goes
    file = rented.journal.path
    file.write_bytes(file.read_bytes() + b'{"at": "2026-01-01T00:00:00Z", "what": "maki')
    (journal,) = PROVIDER.journals(amazon.home)
    assert (journal.noted, journal.ready) == (rented.journal.noted, rented.journal.ready)
    assert json.loads(file.read_bytes().splitlines()[0])["run"] == journal.run
    amazon.reap()


@pytest.mark.long_cases("aurora", "pgbench", "queries")
@pytest.mark.parametrize("name", CATALOGUE)
def test_a_plan_of_the_catalogue_passes(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PGDYNO_ADDRESS", "203.0.113.7")
    monkeypatch.setattr(life, "tls_root", lambda *_: tmp_path / "root.pem")
    with simulated(Simulator(region=CATALOGUE[name])) as simulator:
        use_account(simulator, monkeypatch)
        said: list[str] = []
        rental = begin(load_plan(name).plan, tmp_path, said.append, 24 * 3600)
        rental.up()
        assert {each["zone"] for each in rental.journal.ready.values()} == {f"{CATALOGUE[name]}a"}
        refusals = [each for each in said if "no capacity" in each or "not checked" in each]
        assert refusals == []
        assert rental.remove_all() == []
        assert simulator.left() == []
