"""Errors while servers are rented: each has its own message, and leaves no resource behind."""

from datetime import UTC, datetime, timedelta

import pytest

from pgdyno.commands.rented.target import up as bring_up
from pgdyno.errors import TargetError
from pgdyno.experiment.rented_servers import MARGIN_S, Renting, lasts_s, rent_servers
from pgdyno.plan import load_plan
from pgdyno.targets import Home
from pgdyno.targets.aws import boto3_clients
from pgdyno.targets.aws.boto3_clients import AwsError, NotThereError
from pgdyno.targets.aws.provider import PROVIDER
from pgdyno.targets.aws.removal import Reaper
from pgdyno.targets.aws.rental import begin
from pgdyno.targets.rented.provider import Wanted
from pgdyno.targets.rented.rental_journal import stamp
from tests.aws.account import PAUSES, SAID, Account
from tests.aws.plans import aurora, ec2, rds, write_plan
from tests.aws.simulator import REGION, Fault
from tests.present import present


def test_no_credentials_no_region_and_a_wrong_configuration(amazon: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert "no AWS region is set" in amazon.failed(rds()).message
    assert amazon.calls == []
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    # what it costs is known without them
    assert "boto3 finds no credentials for Amazon" in amazon.failed(rds()).message
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIASOMEBODYELSE")
    assert "Amazon rejects the credentials" in amazon.failed(rds()).message
    for name, value in (("AWS_ENDPOINT_URL", "nonsense"), ("AWS_PROFILE", "nosuch")):
        monkeypatch.setenv(name, value)
        with pytest.raises(AwsError, match=f"boto3 cannot use its configuration: .*{value}"):
            boto3_clients.Cloud().identity()


def test_servers_of_another_account_are_let_alone_and_lost_ones_forgotten(amazon: Account) -> None:
    rented = amazon.up(rds())
    text = rented.journal.path.read_text()
    rented.journal.path.write_text(text.replace("123456789012", "210987654321"))
    with pytest.raises(AwsError, match="belongs to account 210987654321, but these credentials belong to 123456789012"):
        amazon.standing(rented)
    rented.journal.path.write_text(text)
    present(amazon.standing(rented)).journal.release()
    # by tags alone, from another machine
    amazon.reap("another home")
    assert amazon.left() == []
    # the costs of new servers need consent, which is_standing decides first
    assert not PROVIDER.is_standing(rented.plan, amazon.home)
    assert amazon.standing(rented) is None
    assert amazon.journals() == []


def test_an_expired_server_is_not_taken_for_one_that_is_up(amazon: Account) -> None:
    rented = amazon.up(rds())
    assert PROVIDER.is_standing(rented.plan, amazon.home)
    # as its dead-man switch does, which leaves what costs nothing
    rented.release("rds")
    rented.journal.path.write_text("".join(rented.journal.path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(TargetError, match=f"servers of run {rented.journal.run} no longer exist") as caught:
        amazon.standing(rented)
    assert caught.value.hint == f"remove them: pgdyno reap --run {rented.journal.run}"
    rented.remove_all()


def test_expired_credentials_are_named_and_renewed_ones_used(amazon: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    amazon.credentials.expire()
    for service, operation, more in (
        ("sts", "get_caller_identity", {}),
        ("ec2", "describe_vpcs", {}),
        ("pricing", "get_products", {"ServiceCode": "AmazonEC2"}),
    ):
        with pytest.raises(AwsError, match=r"Amazon rejects the credentials: .* expired"):
            boto3_clients.Cloud(REGION).call(service, operation, **more)
    for name in amazon.credentials.renew():
        monkeypatch.delenv(name)
    for name, value in amazon.credentials.profile(amazon.folder / "aws", timedelta(hours=1)).items():
        monkeypatch.setenv(name, value)
    assert boto3_clients.Cloud(REGION).identity()


def test_a_removal_that_cannot_be_looked_at_names_the_run_and_hides_no_reason(
    amazon: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    amazon.denied = {"rds:CreateDBInstance", "ec2:DescribeSnapshots"}
    with pytest.raises(TargetError, match="target rds: the permission rds:CreateDBInstance is missing") as caught:
        bring_up(str(write_plan(amazon.folder, rds())), lasts="1h", yes=True)
    assert "pgdyno target policy" in str(caught.value.hint)
    home = Home.locate().root
    (journal,) = PROVIDER.journals(home)
    said = capsys.readouterr().err
    assert "the permission ec2:DescribeSnapshots is missing" in said
    assert f"try again: pgdyno reap --run {journal.run}" in said
    amazon.denied = set()
    assert Reaper(home).reap(Wanted(journal.run), SAID.append).left == []


def note(message: object) -> None:
    SAID.append(str(message))


def test_servers_that_stay_shorter_than_asked_for_say_so(amazon: Account) -> None:
    with rent_servers(amazon.plan(rds()), amazon.home, SAID.append, note, Renting(keep_s=48 * 3600.0)) as found:
        until = stamp(present(found).journal.expires)
        amazon.denied = {"rds:AddTagsToResource"}
    assert f"the servers stay only until {until}, not for 48 h" in SAID[-1]
    assert "the permission rds:AddTagsToResource is missing" in SAID[-1]
    assert f"pgdyno reap --run {present(found).journal.run}" in SAID[-1]
    # the journal promises no more than the tags
    (journal,) = PROVIDER.journals(amazon.home)
    assert stamp(journal.expires) == until
    amazon.reap()


def test_a_run_prolongs_servers_that_would_expire_before_its_end(amazon: Account) -> None:
    there = amazon.up(rds(), repeats=60, lasts_s=20)
    before, began = stamp(there.journal.expires), datetime.now(UTC)
    asked = (there.plan, amazon.home, SAID.append, note)
    with rent_servers(*asked, Renting()) as found:
        until = present(found).journal.expires
        assert {each.expires for each in present(found).existing_resources()} == {until.replace(microsecond=0)}
    assert until - began >= timedelta(seconds=lasts_s(there.plan) - MARGIN_S)
    assert f"the servers expire at {stamp(until)}, not at {before}: the run may take that long" in SAID[-1]
    there.prolong(datetime.now(UTC) + timedelta(hours=1))
    SAID.clear()
    prolonged = len(amazon.asked("rds:AddTagsToResource"))
    with rent_servers(*asked, Renting()) as found:
        assert found is not None
    assert len(amazon.asked("rds:AddTagsToResource")) == prolonged
    assert not any("expire" in each for each in SAID)
    # on request they stay for longer
    began = datetime.now(UTC)
    with rent_servers(*asked, Renting(keep_s=48 * 3600.0)) as found:
        assert found is not None
    assert "the servers stay for 48 h; remove them: pgdyno reap" in SAID[-1]
    until = found.journal.expires
    assert until - began >= timedelta(hours=48)
    assert {each.expires for each in found.existing_resources()} == {until.replace(microsecond=0)}
    # --keep never shortens what `target up --for` agreed
    with rent_servers(*asked, Renting(keep_s=3600.0)) as found:
        assert found is not None
    assert stamp(found.journal.expires) == stamp(until)
    assert there.journal.hold()
    assert found.remove_all() == []


def test_a_run_refuses_servers_that_expire_before_its_end(amazon: Account) -> None:
    there = amazon.up(rds(), repeats=60, lasts_s=20)
    amazon.denied = {"rds:AddTagsToResource"}
    renting = rent_servers(there.plan, amazon.home, SAID.append, note, Renting())
    until = stamp(there.journal.expires)
    said = f"the servers of run {there.journal.run} expire at {until}, before the run's planned end"
    with pytest.raises(TargetError, match=said) as caught, renting:
        pytest.fail("it began")
    assert "the permission rds:AddTagsToResource is missing" in caught.value.message
    assert caught.value.hint == "rent them again for longer: pgdyno target down, then pgdyno target up --for DURATION"
    amazon.denied = set()
    # nothing holds them any longer
    assert there.journal.hold()
    assert there.remove_all() == []


def test_a_run_of_unknown_length_says_when_servers_expire(amazon: Account) -> None:
    file = write_plan(amazon.folder, rds())
    file.write_text(file.read_text().replace('duration = "1s"', "transactions = 10"))
    there = begin(load_plan(file).plan, amazon.home, SAID.append, 3600)
    there.up()
    there.journal.release()
    with rent_servers(there.plan, amazon.home, SAID.append, note, Renting()) as found:
        assert stamp(present(found).journal.expires) in SAID[-1]
    assert "the plan does not say how long the run takes" in SAID[-1]
    assert present(found).remove_all() == []


def test_a_run_that_cannot_rent_leaves_nothing(amazon: Account) -> None:
    """As `pgdyno run` does it, at each kind of request."""
    plan = amazon.plan(rds(parameters='{ work_mem = "4MB" }'))
    for at in ("CreateDBInstance", "CreateDBParameterGroup", "AuthorizeSecurityGroupIngress"):
        amazon.faults = [Fault(at, "InstanceQuotaExceeded", "DB instances: 40")]
        renting = rent_servers(plan, amazon.home, SAID.append, note, Renting())
        with pytest.raises(TargetError, match="a quota of the account is used up"), renting:
            pytest.fail("it was rented")
        assert amazon.journals() == []


def test_throttling_is_waited_out_and_makes_nothing_twice(amazon: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    amazon.faults = [
        Fault("CreateDBInstance", "Throttling", "Rate exceeded", times=2),
        Fault("CreateSecurityGroup", "InternalError", status=500, done=True),
        Fault("DescribeDBInstances", "RequestLimitExceeded", status=503),
    ]
    rented = amazon.hold(rds())
    assert len(amazon.asked("rds:CreateDBInstance")) == 3
    assert len(amazon.asked("ec2:CreateSecurityGroup")) == 2
    # the server, its security group, its dead-man switch
    assert len(amazon.left()) == 3
    assert len(PAUSES) == 4
    assert rented.remove_all() == []
    # but not without end
    monkeypatch.setattr(boto3_clients, "ATTEMPTS", 2)
    amazon.faults = [Fault("CreateDBInstance", "Throttling", "Rate exceeded", times=99)]
    assert "Amazon still throttles " in amazon.failed(rds()).message


def test_a_class_without_performance_insights_says_so(amazon: Account) -> None:
    said = "Performance Insights not supported for this configuration, please disable this feature."
    amazon.faults.append(Fault("CreateDBInstance", "InvalidParameterCombination", said))
    error = amazon.failed(rds())
    assert said in error.message
    assert error.hint == "leave it out: insights = false"
    amazon.rent(rds(insights="false"))
    *_, asked = amazon.asked("rds:CreateDBInstance")
    assert asked["EnablePerformanceInsights"] is False


def test_a_rental_that_takes_too_long_is_abandoned(amazon: Account) -> None:
    assert "is still creating after" in amazon.failed(rds(ready_within='"3s"')).message


def test_an_invisible_resource_is_requested_again(amazon: Account) -> None:
    parameters = {"parameters": '{ work_mem = "4MB" }'}
    for target, made in (
        (ec2(), "ec2:RunInstances"),
        (rds(**parameters), "rds:CreateDBInstance"),
        (aurora(**parameters), "rds:CreateDBCluster"),
    ):
        amazon.calls.clear()
        amazon.parameters.clear()
        amazon.visibility.hidden_s = 30.0
        rented = amazon.hold(target)
        assert amazon.calls.count("ec2:AuthorizeSecurityGroupIngress") > 1
        assert amazon.calls.count(made) == 1, "the group is visible when it has been opened"
        assert (amazon.calls.count("rds:ModifyDBParameterGroup") > 1) == made.startswith("rds")
        assert rented.remove_all() == []
    assert amazon.dry_runs == ["ec2:RunInstances"]
    assert max(amazon.clock.pauses) <= 15.0


def test_a_resource_that_stays_invisible_is_an_error(amazon: Account) -> None:
    amazon.visibility.hidden_s = 150.0
    assert isinstance(amazon.failed(rds()), NotThereError)
    assert amazon.clock.now_s >= boto3_clients.SETTLES_S
