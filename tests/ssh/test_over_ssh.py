"""A probe on another host: its lines arrive, its clock is known, and it ends when nobody reads it any more."""

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgdyno.doctor.remote import check_host, reach_host
from pgdyno.experiment.trials.probing import worth_knowing
from pgdyno.plan.hosts import SshSpec
from pgdyno.probe import ProbeOutput, over_ssh
from pgdyno.probe.over_ssh import OverSsh, look, measure_ahead
from pgdyno.probe.placed_lines import with_far
from pgdyno.records import CheckVerdict, ClockRecord, OverSshRecord, PlacedLines
from pgdyno.remote import RemoteError
from pgdyno.remote.connect import Connection
from pgdyno.remote.install import Installed, install
from tests.postgres.probe_process import program
from tests.postgres.relay import Relay
from tests.present import present
from tests.processes import find_processes
from tests.ssh.sshd import Sshd
from tests.waiting import PATIENCE_S, wait_until


def over(spec: SshSpec, folder: Path) -> OverSsh:
    return OverSsh(spec, ["--no-server"], folder / "lines", folder / "log")


def samples(file: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]
    return [line for line in lines if line["event"] == "sample"]


def last_file(probe: OverSsh, number: int = 1) -> bool:
    return len(probe.sessions) >= number and probe.sessions[-1].lines.exists() and bool(probe.sessions[-1].rounds)


def probes_of(sshd: Sshd) -> list[int]:
    """Processes that run from its folder of programs."""
    return find_processes(lambda each: (each / "exe").readlink().is_relative_to(sshd.cache))


def seconds(probe: OverSsh) -> float:
    """Returns the time from the first sample to the last one so far."""
    times = [line["t_us"] for line in samples(probe.sessions[0].lines)]
    return (times[-1] - times[0]) / 1e6 if times else 0.0


def placed_us(file: PlacedLines, t_us: int) -> float:
    """Returns this machine's time since 1970 of a time of the probe."""
    return file.offset_us + file.rate * t_us + present(file.epoch_us)


def the_clock(said: ProbeOutput) -> ClockRecord:
    assert present(said.record.over_ssh).message is None
    return present(present(said.record.over_ssh).clock)


def test_lines_come_and_the_clock_is_known(sshd: Sshd, tmp_path: Path) -> None:
    with over(sshd.spec(), tmp_path) as probe:
        (pid,) = probes_of(sshd)
        wait_until(lambda: len(samples(probe.sessions[0].lines)) > 3)
        # nothing of the connection is in the list of processes
        assert b"127.0.0.1" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert probe.problem is None
    assert not probes_of(sshd)
    said = with_far(None, probe, [])
    record = present(said.record.over_ssh)
    assert (record.host, record.connections, record.message) == ("127.0.0.1", 1, None)
    assert (said.record.host, said.record.gaps) == (True, 0)
    assert (record.cpu_us or 0) > 0
    assert (said.events[0]["event"], said.events[-1]["event"]) == ("probe_start", "probe_end")
    clock = present(record.clock)
    # the same clock, read over the wire
    assert abs(clock.offset_us) <= clock.uncertainty_us
    assert clock.round_trip_us <= 2 * clock.uncertainty_us
    # at the beginning, at the end, and where it takes long every ten seconds
    assert clock.rounds >= 2


def test_a_connection_that_is_cut_is_a_gap_and_made_anew(sshd: Sshd, tmp_path: Path) -> None:
    with Relay(sshd.port) as relay:
        sshd.know(relay.port)
        with over(sshd.spec(port=relay.port), tmp_path) as probe:
            wait_until(lambda: last_file(probe))
            (first,) = probes_of(sshd)
            relay.cut()
            wait_until(lambda: last_file(probe, 2))
            # by the lease, without an order
            wait_until(lambda: first not in probes_of(sshd))
            wait_until(lambda: samples(probe.sessions[1].lines))
    said = with_far(None, probe, [])
    record = present(said.record.over_ssh)
    assert record.connections == 2
    assert "lost the connection" in (record.message or "")
    assert record.cpu_us is None
    (gap,) = [event for event in said.events if event["event"] == "probe_gap"]
    starts = [event for event in said.events if event["event"] == "probe_start"]
    assert gap["t_us"] == starts[1]["t_us"]
    assert len(said.files) == 2
    assert not probes_of(sshd)


def test_a_probe_that_dies_is_said_with_its_code_and_not_started_again(sshd: Sshd, tmp_path: Path) -> None:
    with over(sshd.spec(), tmp_path) as probe:
        (pid,) = probes_of(sshd)
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: probe.problem)
    said = with_far(None, probe, [])
    assert "the probe ended with exit code 0" in (present(said.record.over_ssh).message or "")
    assert said.record.gaps == 1
    assert len(probe.sessions) == 1


def test_a_host_that_cannot_be_had_is_no_obstacle(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with over(sshd.spec(known_hosts=str(tmp_path / "empty")), tmp_path) as unknown:
        pass
    with over(sshd.spec(port=1), tmp_path) as closed:
        pass
    for probe, message in ((unknown, "unknown host key"), (closed, "cannot reach 127.0.0.1 over SSH")):
        said = with_far(None, probe, [])
        assert message in (present(said.record.over_ssh).message or "")
        assert (said.files, said.record.host) == ([], False)


def test_a_way_with_slow_replies_is_said_to_be_none_for_10_ms(sshd: Sshd, tmp_path: Path) -> None:
    class SlowWay(Relay):
        def answer(self, data: bytes, client: socket.socket) -> None:
            time.sleep(0.1)
            client.sendall(data)

    with SlowWay(sshd.port) as relay:
        sshd.know(relay.port)
        with over(sshd.spec(port=relay.port), tmp_path) as probe:
            wait_until(lambda: seconds(probe) > 1)
    said = with_far(None, probe, [])
    clock = the_clock(said)
    # half of the way back that takes longer is taken for the clock's: the uncertainty knows
    assert clock.offset_us < -5_000
    assert abs(clock.offset_us) <= clock.uncertainty_us
    assert not clock.aligned
    (file,) = said.files
    for line in samples(file.path):
        assert abs(placed_us(file, line["t_us"]) - line["wall_us"]) <= clock.uncertainty_us + 100


def test_a_lease_that_is_not_renewed_and_lines_that_nobody_takes_end_a_probe(tmp_path: Path) -> None:
    with (tmp_path / "lines").open("wb") as lines:
        process = subprocess.Popen([program(), "--no-server", "--lease=1"], stdin=subprocess.PIPE, stdout=lines)
        assert process.wait(PATIENCE_S) == 0
    assert json.loads((tmp_path / "lines").read_text().splitlines()[-1])["event"] == "end"
    present(process.stdin).close()
    # lines that nobody takes
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    process = subprocess.Popen([program(), "--no-server", "--lease=5"], stdin=subprocess.PIPE, stdout=write)
    assert b'"start"' in os.read(read, 4096)
    # opened again: whether writes block belongs to the open file description, and the probe's must block
    filling = os.open(f"/proc/self/fd/{write}", os.O_WRONLY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(filling, b"x")
    assert process.wait(PATIENCE_S) == 1
    os.close(filling)
    present(process.stdin).close()
    os.close(read)
    os.close(write)


def test_a_look_tells_how_far_clocks_differ_and_that_a_connection_is_lost(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = sshd.spec(folder=str(tmp_path / "cache"))
    first, second = look(spec), look(spec)
    assert (first.copied, second.copied) == (True, False)
    assert abs(first.clock.ahead_us) <= first.clock.uncertainty_us
    with pytest.raises(RemoteError, match="cannot reach"):
        look(sshd.spec(port=1))

    async def lost(connection: Connection, program: Path, folder: str, host: str) -> Installed:
        installed = await install(connection, program, folder, host)
        connection.abort()
        return installed

    monkeypatch.setattr(over_ssh, "install", lost)
    for ask in (look, measure_ahead):
        with pytest.raises(RemoteError, match="lost the connection to") as caught:
            ask(sshd.spec())
        assert caught.value.passing


DRIFTING = """\
#!{python}
import json, subprocess, sys

with subprocess.Popen([{probe!r}, *sys.argv[1:]], stdout=subprocess.PIPE) as probe:
    if "--version" in sys.argv:
        sys.exit(probe.wait())
    for line in probe.stdout:
        said = json.loads(line)
        said |= {{"true_us": said["wall_us"], "t_us": round(said["t_us"] * {rate}), "wall_us": 0}}
        print(json.dumps(said, separators=(",", ":")), flush=True)
"""
"""A probe on a host whose clock goes too fast, or too slowly."""


def test_samples_of_a_drifting_clock_are_placed(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drifting = tmp_path / "pgprobe"
    drifting.write_text(DRIFTING.format(python=sys.executable, probe=program(), rate=1.02))
    drifting.chmod(0o755)
    monkeypatch.setenv("PGDYNO_PGPROBE", str(drifting))
    with over(sshd.spec(), tmp_path) as probe:
        wait_until(lambda: seconds(probe) > 3)
    said = with_far(None, probe, [])
    clock = the_clock(said)
    assert abs(present(clock.drift_ppm) - 20_000) <= (clock.drift_uncertainty_ppm or 0) + 1
    (file,) = said.files
    lines = samples(file.path)
    for line in lines:
        assert abs(placed_us(file, line["t_us"]) - line["true_us"]) <= clock.uncertainty_us + 100
    assert 0.02 * (lines[-1]["true_us"] - lines[0]["true_us"]) > 40_000


# ---- what the doctor finds out about such a host, and notes of a run ----


def test_a_host_is_good_as_it_should_be_and_its_problem_is_a_warning(sshd: Sshd, tmp_path: Path) -> None:
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
    (tmp_path / "known").touch()
    check = reach_host("prod", sshd.spec(known_hosts=str(tmp_path / "known")))
    assert check.verdict is CheckVerdict.WARNING
    assert "unknown host key of" in check.found
    assert "ssh-keyscan" in check.change


def test_a_run_says_when_seconds_do_not_line_up() -> None:
    note = "trial 3: the clock of db1 is aligned with the load's only to within 15 ms"
    for uncertainty_us, aligned, said in ((9_000, True, []), (15_400, False, [note])):
        clock = ClockRecord(
            offset_us=5, uncertainty_us=uncertainty_us, round_trip_us=2 * uncertainty_us, rounds=2, aligned=aligned
        )
        assert list(map(str, worth_knowing(OverSshRecord(host="db1", clock=clock), 3))) == said
