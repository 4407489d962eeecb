"""pgdrive against servers that misbehave: it may fail, but must not hang, crash or grow without bound.

Rust's tests have more of it for single messages and connections (crates/connect/tests/scripted.rs, crates/wire/tests).
"""

import json
import time
from pathlib import Path

import pytest

from tests.cli.hostile import Drive, Misdeed, Peer, answering, hostile, pouring
from tests.cli.messages import DONE, READY, auth, columns, message, parameter, refusal, row

SHORT = ("-T", "1", "--drain-limit=1")
ONCE = ("-t", "1")
PEAK_MIB = 200


@pytest.fixture
def drive(tmp_path: Path) -> Drive:
    return Drive(tmp_path)


def in_the_load(misdeed: Misdeed) -> Misdeed:
    """Misbehaves on all connections but the one for the set-up."""
    return lambda peer: misdeed(peer) if peer.number else answering(DONE)(peer)


ROWS = row(b"1") * 8000
RESULTS = (columns("a", "b") + row(b"x" * 1000, b"x" * 1000) + message("C", b"SELECT 1\0")) * 20
COPIES = message("G", b"\0\0\0") * 100_000
ROW_OF_1_GB = b"D\x3f\xff\xff\xff" + bytes(1_000_000)
NOT_DONE = "client 0 aborted in command 0 (SQL) of script 0; not done 1 s after the end of the run"


@pytest.mark.long_cases("epoll")
@pytest.mark.parametrize(
    ("misdeed", "io", "script"),
    [
        (pouring(ROWS), "epoll", "SELECT 1;\n"),
        (pouring(ROWS), "auto", "SELECT 1;\n"),
        (pouring(RESULTS), "auto", "SELECT 1 AS a, 2 AS b \\aset\nSELECT :a;\n"),
        (answering(ROW_OF_1_GB), "auto", "SELECT 1 AS a \\gset\n"),
        # pgdrive answers every CopyInResponse, and the server never reads the answers
        (in_the_load(pouring(COPIES, rushes_s=9.0)), "auto", "COPY t FROM STDIN;\n"),
    ],
)
def test_an_answer_without_an_end_ends_with_the_run(drive: Drive, misdeed: Misdeed, io: str, script: str) -> None:
    with hostile(misdeed) as server:
        done = drive(server, *SHORT, f"--io={io}", script=script)
    assert done.code == 2
    assert NOT_DONE in done.said
    assert done.peak_mib < PEAK_MIB


def test_endless_rows_end_by_ctrl_c(drive: Drive) -> None:
    with hostile(pouring(ROWS)) as server:
        done = drive(server, "-T", "1", "-c", "2", interrupted=True)
    assert done.code == 130
    assert done.peak_mib < PEAK_MIB


def test_endless_rows_for_the_first_question_are_refused(drive: Drive) -> None:
    def misdeed(peer: Peer) -> None:
        peer.greet()
        peer.socket.recv(65536)
        while True:
            peer.send(ROWS)

    with hostile(misdeed) as server:
        done = drive(server, "-S", script=None)
    assert done.code == 1
    assert "could not ask whether it is a connection pooler: could not take the answer: it is longer" in done.said
    assert done.peak_mib < PEAK_MIB


STORMS = {
    "notices": lambda: message("N", b"SNOTICE\0VNOTICE\0C00000\0Mhello\0\0") * 200_000,
    "parameters": lambda: b"".join(parameter(f"name{number}") for number in range(300_000)),
    "notifications": lambda: message("A", bytes(4) + b"channel\0payload\0") * 200_000,
}


@pytest.mark.parametrize("storm", STORMS)
def test_storms_are_weathered(drive: Drive, storm: str) -> None:
    with hostile(answering(STORMS[storm]() + columns("count") + row(b"3") + DONE)) as server:
        load = drive(server, *ONCE)
        # the next question of the set-up gets the same answer: no table is partitioned 3 times
        set_up = drive(server, *ONCE, "-S", script=None)
    for done in (load, set_up):
        assert done.code == 0, done.said
        assert done.peak_mib < PEAK_MIB
    assert "scaling factor: 3" in set_up.stdout.decode()


@pytest.mark.parametrize("unasked", [READY * 1000, message("G", b"\0\0\0") * 1000, DONE + READY])
def test_answers_to_nothing_end_the_run_one_way_or_the_other(drive: Drive, unasked: bytes) -> None:
    def misdeed(peer: Peer) -> None:
        peer.greet()
        peer.receive()
        peer.send(DONE)
        while True:
            peer.send(unasked)
            time.sleep(0.01)

    with hostile(in_the_load(misdeed)) as server:
        done = drive(server, *SHORT)
    assert done.code in (0, 2), done.said


def trickling(peer: Peer, encrypted: bytes) -> None:
    peer.receive()
    for byte in encrypted or auth(0) + parameter("name", "v" * 10_000):
        peer.send(bytes([byte]))
        time.sleep(0.01)
    peer.hear()


@pytest.mark.parametrize(("mode", "encrypted"), [("disable", b""), ("require", b"S")])
def test_connect_timeout_ends_a_start_that_does_not_come_on(drive: Drive, mode: str, encrypted: bytes) -> None:
    with hostile(lambda peer: trickling(peer, encrypted)) as server:
        done = drive(server, *ONCE, env={"PGSSLMODE": mode, "PGCONNECT_TIMEOUT": "1"})
    assert done.code == 1
    assert "timeout expired" in done.said


@pytest.mark.parametrize("place", ["handshake", "start of a client", "load", "initialization"])
def test_ctrl_c_ends_the_wait_for_a_silent_server(drive: Drive, place: str) -> None:
    def misdeed(peer: Peer) -> None:
        if place == "handshake" or (place == "start of a client" and peer.number):
            peer.receive()
            peer.send(b"S" * (place == "handshake"))
        else:
            peer.greet()
            if place == "initialization" or peer.number:
                peer.receive()
        if place in ("handshake", "initialization") or peer.number:
            peer.busy.set()
        peer.hear()

    with hostile(misdeed) as server:
        env = {"PGSSLMODE": "require"} if place == "handshake" else {}
        args, script = (["-i"], None) if place == "initialization" else (["-T", "1"], "SELECT 1;\n")
        done = drive(server, *args, script=script, interrupted=True, env=env)
    assert done.code == 130, done.said


STEERING = b"\x1b]0;owned\x07\x1b[2J\rover\x08\x7f \xc2\x9b2J \xff\xfe end\nnext\tline"


def steers(text: bytes) -> list[str]:
    decoded = text.decode()
    return [c for c in decoded if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160]


def refusing(peer: Peer) -> None:
    peer.receive()
    peer.send(refusal(STEERING, "FATAL"))


def refusing_the_load(peer: Peer) -> None:
    peer.receive()
    peer.send(auth(0) + parameter("server_version", "17\x1b[2J") + READY)
    while True:
        peer.receive()
        peer.send(refusal(STEERING) + READY if peer.number else DONE)


@pytest.mark.parametrize(("misdeed", "code"), [(refusing, 1), (refusing_the_load, 2)])
def test_messages_of_a_server_cannot_control_the_terminal(drive: Drive, misdeed: Misdeed, code: int) -> None:
    with hostile(misdeed) as server:
        done = drive(server, *ONCE, "--events=events.jsonl")
    assert done.code == code
    assert steers(done.stderr) == steers(done.stdout) == []
    assert r"\u{1b}]0;owned\u{7}" in done.said
    assert "end\nnext\tline" in done.said
    events = [json.loads(line) for line in (drive.folder / "events.jsonl").read_text().splitlines()]
    assert events[-1]["event"] == "end"


def test_a_reset_in_the_midst(drive: Drive) -> None:
    def misdeed(peer: Peer) -> None:
        peer.greet()
        peer.receive()
        peer.send(row(b"1") * 100 + b"D\0")
        peer.reset()

    with hostile(in_the_load(misdeed)) as server:
        done = drive(server, *ONCE)
    assert done.code == 2
    assert "perhaps the backend died while processing" in done.said
