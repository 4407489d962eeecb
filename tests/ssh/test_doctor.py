"""Findings of the doctor, and notes of a run, about a host over SSH."""

from dataclasses import replace
from pathlib import Path

import pytest

from pgdyno.doctor.remote import check_host, reach_host
from pgdyno.experiment.trials.probing import worth_knowing
from pgdyno.probe.over_ssh import look
from pgdyno.records import CheckVerdict, ClockRecord, OverSshRecord
from tests.ssh.sshd import Sshd


def test_a_host_that_is_as_it_should_be(sshd: Sshd, tmp_path: Path) -> None:
    spec = sshd.spec(folder=str(tmp_path / "cache"))
    check = reach_host("prod", spec)
    assert check.found.startswith("prod: 127.0.0.1 reached as ")
    assert "its host key is known, pgprobe was copied there and runs; its clock is " in check.found
    assert {"connect_s", "ahead_us", "uncertainty_us", "round_trip_us"} == check.measured.keys()
    looked = look(spec)
    sure = replace(looked, clock=replace(looked.clock, uncertainty_us=10_000.0))
    assert check_host("prod", spec, sure).verdict is CheckVerdict.GOOD
    unsure = check_host("prod", spec, replace(looked, clock=replace(looked.clock, uncertainty_us=10_001.0)))
    assert (unsure.verdict, "10 ms" in unsure.means) == (CheckVerdict.WARNING, True)


def test_a_problem_of_a_host_is_a_warning(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "known").touch()
    check = reach_host("prod", sshd.spec(known_hosts=str(tmp_path / "known")))
    assert check.verdict is CheckVerdict.WARNING
    assert "unknown host key of" in check.found
    assert "ssh-keyscan" in check.change


@pytest.mark.parametrize(("uncertainty_us", "aligned"), [(9_000, True), (15_400, False)])
def test_a_run_says_when_seconds_do_not_line_up(uncertainty_us: int, aligned: bool) -> None:
    clock = ClockRecord(
        offset_us=5, uncertainty_us=uncertainty_us, round_trip_us=2 * uncertainty_us, rounds=2, aligned=aligned
    )
    said = worth_knowing(OverSshRecord(host="db1", clock=clock), 3)
    assert list(map(str, said)) == (
        [] if aligned else ["trial 3: the clock of db1 is aligned with the load's only to within 15 ms"]
    )
