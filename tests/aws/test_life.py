"""Rented servers, from nothing to nothing, against the simulator: what is made, noted, refused, and found again."""

from __future__ import annotations

import json
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from pgdyno.commands.cost import Consent
from pgdyno.commands.target import down as bring_down
from pgdyno.commands.target import status as show_status
from pgdyno.commands.target import up as bring_up
from pgdyno.errors import ExitCode, TargetError
from pgdyno.plan import Plan, load_plan
from pgdyno.target import Home
from pgdyno.target.aws import cloud, life, patience, vpc
from pgdyno.target.aws.faults import AwsError, CapacityError
from pgdyno.target.aws.journal import journals
from pgdyno.target.aws.kinds import Kind
from pgdyno.target.aws.life import Rental, begin, standing
from pgdyno.target.aws.policy import actions
from pgdyno.target.aws.reaper import Reaper, Wanted
from tests.aws.plans import aurora, rds, write_plan
from tests.aws.simulator import Fault, Simulator, simulated

SAID: list[str] = []
PAUSES: list[float] = []
"""What boto3 wanted to wait before it asks again, seconds."""


@pytest.fixture
def amazon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Simulator]:
    """An account of Amazon's; nothing stands behind its addresses."""
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    with simulated() as simulator:
        for name, value in simulator.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("AWS_PROFILE", raising=False)
        monkeypatch.setattr(life, "wait_until_it_answers", lambda *_: None)
        # the simulator's phases are counted in looks, not in time
        monkeypatch.setattr(patience, "FIRST_S", 0.01)
        monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=PAUSES.append))
        SAID.clear()
        PAUSES.clear()
        yield simulator


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A file of certificates."""
    file = tmp_path / "root.pem"
    file.touch()
    return file


def rental(tmp_path: Path, *targets: str) -> Rental:
    return begin(plan(tmp_path, *targets), tmp_path / "home", SAID.append, 3600)


def plan(tmp_path: Path, *targets: str) -> Plan:
    return load_plan(write_plan(tmp_path / "plan", *targets)).plan


def failed(tmp_path: Path, *targets: str) -> TargetError:
    """How `pgdyno target up` fails; behind it all is gone."""
    error = failed_blindly(tmp_path, *targets)
    assert Reaper(tmp_path / "another home").find(Wanted()) == []
    return error


def failed_blindly(tmp_path: Path, *targets: str) -> TargetError:
    """The same where nobody can look at what is there."""
    with pytest.raises(TargetError) as caught:
        bring_up(str(write_plan(tmp_path / "plan", *targets)), [], "1h", Consent(yes=True))
    assert list(journals(Home.locate().root)) == []
    return caught.value


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
    assert [each.id for each in elsewhere] == [each.id for each in rented.there()]
    assert {each.name for each in elsewhere} == set(amazon.left())
    until = datetime.now(UTC) + timedelta(hours=9)
    rented.prolong(until)
    assert {each.expires for each in rented.there()} == {until.replace(microsecond=0)}
    assert rented.down() == []
    assert amazon.left() == []
    assert list((tmp_path / "home" / "aws").iterdir()) == []


MUTATING = {
    "rds": [
        "ec2:CreateSecurityGroup",
        "ec2:AuthorizeSecurityGroupIngress",
        "rds:CreateDBParameterGroup",
        "rds:ModifyDBParameterGroup",
        "rds:CreateDBInstance",
    ],
    "aurora": [
        "ec2:CreateSecurityGroup",
        "rds:CreateDBClusterParameterGroup",
        "rds:ModifyDBClusterParameterGroup",
        "rds:CreateDBCluster",
        "rds:CreateDBInstance",
    ],
}
MADE_BY = {
    "ec2:CreateSecurityGroup": Kind.SECURITY_GROUP,
    "rds:CreateDBParameterGroup": Kind.DB_PARAMETERS,
    "rds:CreateDBClusterParameterGroup": Kind.CLUSTER_PARAMETERS,
    "rds:CreateDBCluster": Kind.DB_CLUSTER,
    "rds:CreateDBInstance": Kind.DB_INSTANCE,
}


def test_killed_at_any_call_nothing_is_left_that_cannot_be_found(amazon: Simulator, tmp_path: Path, root: Path) -> None:
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
    assert list(journals(tmp_path / "home")) == []
    # twice without harm
    assert Reaper(tmp_path / "home").reap(Wanted(), SAID.append).found == []


def kill_at(amazon: Simulator, call: str, up: Callable[[], None], nth: int = 1) -> None:
    """Runs `up` in a process of its own, and kills that when its nth `call` was carried out, before it hears of it."""
    with warnings.catch_warnings():
        # the simulator's threads are not needed in the child
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            up()
        finally:
            os._exit(0)

    seen: list[str] = []

    def kill(action: str, _number: int) -> None:
        seen.append(action)
        if action == call and seen.count(call) == nth:
            os.kill(pid, signal.SIGKILL)

    amazon.on_call = kill
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), f"it was not killed at {call}"


def test_what_is_up_is_listed_with_its_price(
    amazon: Simulator, tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rented = begin(plan(tmp_path, rds(root)), Home.locate().root, SAID.append, 3600)
    rented.up()
    rented.journal.release()
    show_status(str(write_plan(tmp_path / "plan", rds(root))), [], json=False)
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"run {rented.journal.run}, until 20")
    assert said[1] == "  rds: db.m7g.large at 127.0.0.1, eu-central-1a"
    assert said[-1] == "this costs 0.2027 USD an hour; public addresses are not counted"
    assert bring_down(str(tmp_path / "plan" / "rented.toml"), []) is ExitCode.OK
    assert "all of it is removed" in capsys.readouterr().err
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
    assert [each.run for each in journals(tmp_path / "home")] == [going_on.journal.run]
    assert going_on.down() == []


def test_what_cannot_be_removed_is_named(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    rented = rental(tmp_path, rds(root))
    rented.up()
    amazon.denied = {"ec2:DeleteSecurityGroup"}
    (left,) = rented.down()
    assert left.resource.kind is Kind.SECURITY_GROUP
    assert "permission ec2:DeleteSecurityGroup is missing" in left.why
    assert [each.run for each in journals(tmp_path / "home")] == [rented.journal.run]
    amazon.denied = set()
    assert Reaper(tmp_path / "home").reap(Wanted(rented.journal.run), SAID.append).left == []


# ---- errors ----


def test_no_credentials(amazon: Simulator, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    # what it costs is known without them
    assert "boto3 finds no credentials for Amazon" in failed_blindly(tmp_path, rds(root)).message
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIASOMEBODYELSE")
    assert "Amazon does not take the credentials" in failed_blindly(tmp_path, rds(root)).message
    assert amazon.left() == []


def test_servers_of_another_account_are_let_alone_and_those_that_are_gone_forgotten(
    amazon: Simulator, tmp_path: Path, root: Path
) -> None:
    asked = plan(tmp_path, rds(root))
    home = tmp_path / "home"
    rented = begin(asked, home, SAID.append, 3600)
    rented.up()
    rented.journal.release()
    text = rented.journal.path.read_text()
    rented.journal.path.write_text(text.replace("123456789012", "210987654321"))
    with pytest.raises(AwsError, match="is of account 210987654321, and these credentials of 123456789012"):
        standing(asked, home, SAID.append)
    rented.journal.path.write_text(text)
    found = standing(asked, home, SAID.append)
    assert found is not None
    found.journal.release()
    # by tags alone, from another machine
    assert Reaper(tmp_path / "another home").reap(Wanted(), SAID.append).left == []
    assert amazon.left() == []
    assert standing(asked, home, SAID.append) is None
    assert list(journals(home)) == []


def test_no_region(amazon: Simulator, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    assert "nothing says in which region" in failed_blindly(tmp_path, rds(root)).message
    assert amazon.calls == []


@pytest.mark.parametrize("action", ["ec2:CreateSecurityGroup", "rds:CreateDBInstance"])
def test_a_missing_permission_is_named(amazon: Simulator, tmp_path: Path, root: Path, action: str) -> None:
    amazon.denied = {action}
    error = failed(tmp_path, rds(root))
    assert f"target rds: the permission {action} is missing" in error.message
    assert "pgdyno target policy" in (error.hint or "")
    assert amazon.left() == []


def test_a_quota(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    amazon.faults = [Fault("CreateDBInstance", "InstanceQuotaExceeded", "DB instances: 40")]
    error = failed(tmp_path, rds(root))
    assert "a quota of the account is used up (InstanceQuotaExceeded" in error.message
    assert amazon.left() == []


def test_without_capacity_the_next_zone_and_class_are_tried(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    def taken(parameters: dict[str, object]) -> bool:
        return parameters["DBInstanceClass"] == "db.m7g.large"

    amazon.faults = [Fault("CreateDBInstance", "InsufficientDBInstanceCapacity", times=9, when=taken)]
    zones = '["eu-central-1a", "eu-central-1b"]'
    rented = rental(tmp_path, rds(root, zones=zones, instead='["db.m8g.large"]'))
    rented.up()
    assert sum("no capacity for db.m7g.large in eu-central-1" in each for each in SAID) == 2
    assert rented.journal.ready["rds"]["instance"] == "db.m8g.large"
    assert rented.down() == []
    amazon.faults = [Fault("CreateDBInstance", "InsufficientDBInstanceCapacity", times=9)]
    assert isinstance(failed(tmp_path, rds(root)), CapacityError)


def test_throttling_is_waited_out_and_a_lost_answer_makes_nothing_twice(
    amazon: Simulator, tmp_path: Path, root: Path
) -> None:
    amazon.faults = [
        Fault("CreateDBInstance", "Throttling", "Rate exceeded", times=2),
        Fault("CreateSecurityGroup", "InternalError", status=500, done=True),
        Fault("DescribeDBInstances", "RequestLimitExceeded", status=503),
    ]
    rented = rental(tmp_path, rds(root))
    rented.up()
    assert amazon.calls.count("rds:CreateDBInstance") == 3
    assert amazon.calls.count("ec2:CreateSecurityGroup") == 2
    assert len(amazon.left()) == 2
    assert len(PAUSES) == 4
    assert rented.down() == []


def test_throttling_without_end(amazon: Simulator, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud, "ATTEMPTS", 2)
    amazon.faults = [Fault("CreateDBInstance", "Throttling", "Rate exceeded", times=99)]
    assert "Amazon takes no more requests now" in failed(tmp_path, rds(root)).message


def test_parameters_that_the_service_does_not_take_make_nothing(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    parameters = '{ ssl = "on", no_such = "1", work_mem = "4MB" }'
    error = failed(tmp_path, rds(root, parameters=parameters))
    assert "parameter ssl cannot be changed on postgres18; postgres18 has no parameter no_such" in error.message
    assert not [each for each in amazon.calls if "Create" in each]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (lambda root: rds(root, snapshot='"gone"'), "there is no snapshot gone of an instance in eu-central-1"),
        (lambda root: aurora(root, snapshot='"gone"'), "there is no snapshot gone of a cluster in eu-central-1"),
        (lambda root: aurora(root, clone_of='"gone"'), "there is no database cluster gone in eu-central-1"),
        (lambda root: rds(root, version='"11"'), "the service has no postgres 11 in eu-central-1"),
    ],
)
def test_what_is_not_there_makes_nothing(
    amazon: Simulator, tmp_path: Path, root: Path, target: Callable[[Path], str], said: str
) -> None:
    assert failed(tmp_path, target(root)).message.partition(": ")[2] == said
    assert not [each for each in amazon.calls if "Create" in each]


def test_a_class_without_performance_insights_says_how_to_do_without(
    amazon: Simulator, tmp_path: Path, root: Path
) -> None:
    said = "Performance Insights not supported for this configuration, please disable this feature."
    amazon.faults.append(Fault("CreateDBInstance", "InvalidParameterCombination", said))
    error = failed(tmp_path, rds(root))
    assert said in error.message
    assert error.hint == "leave it out: insights = false"
    rented = rental(tmp_path, rds(root, insights="false"))
    rented.up()
    asked = dict(zip(amazon.calls, amazon.parameters, strict=True))["rds:CreateDBInstance"]
    assert asked["EnablePerformanceInsights"] is False
    assert rented.down() == []


def test_what_takes_too_long_is_given_up(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    error = failed(tmp_path, rds(root, ready_within='"1ms"'))
    assert "is still creating after" in error.message
    assert amazon.left() == []


def test_everything_that_is_asked_stands_in_the_policy(amazon: Simulator, tmp_path: Path, root: Path) -> None:
    rented = rental(tmp_path, rds(root, parameters='{ work_mem = "4MB" }'), aurora(root))
    rented.up()
    assert rented.down() == []
    assert set(amazon.calls) <= actions()
    source = Path(life.__file__).parent
    from botocore.session import get_session

    known = {
        f"{service}:{each}"
        for service in ("rds", "ec2", "ssm", "sts", "pricing", "cloudwatch", "pi")
        for each in get_session().get_service_model(service).operation_names
    }
    assert actions() <= known
    text = "\n".join(file.read_text() for file in source.glob("*.py"))
    for each in actions():
        from botocore import xform_name

        assert f'"{xform_name(each.partition(":")[2])}"' in text, f"{each} is never asked"


def test_this_machines_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(vpc.ADDRESS_VARIABLE, "203.0.113.9\n")
    assert vpc.allowed_networks([]) == ["203.0.113.9/32"]
    monkeypatch.setenv(vpc.ADDRESS_VARIABLE, "2001:db8::1")
    assert vpc.allowed_networks([]) == ["2001:db8::1/128"]
    monkeypatch.setenv(vpc.ADDRESS_VARIABLE, "<html>")
    with pytest.raises(TargetError, match="cannot learn this machine's address"):
        vpc.allowed_networks([])


@pytest.mark.usefixtures("amazon")
def test_a_journal_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path, root: Path) -> None:
    rented = rental(tmp_path, rds(root))
    rented.up()
    file = rented.journal.path
    file.write_bytes(file.read_bytes() + b'{"at": "2026-01-01T00:00:00Z", "what": "maki')
    (journal,) = journals(tmp_path / "home")
    assert (journal.noted, journal.ready) == (rented.journal.noted, rented.journal.ready)
    assert json.loads(file.read_bytes().splitlines()[0])["run"] == journal.run
    rented.journal.release()
    assert Reaper(tmp_path / "home").reap(Wanted(), SAID.append).left == []
