"""The checks of a selftest: the reference lists them; a failed one has a reason and skips those that depend on it."""

import re

import pytest

import cloud_page
from pgdyno.commands.rented.selftest import keys_of
from pgdyno.errors import TargetError, UsageError
from pgdyno.targets.aws.selftest import ALL, CHECKS, Tally, checks_of, plan_of
from pgdyno.targets.rented.provider import Tried


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
