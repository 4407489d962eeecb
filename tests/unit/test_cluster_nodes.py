"""Nodes end with whoever started them, here and over SSH; trials are done again when a generator was lost."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdyno.cluster.local_nodes import started_here, started_over_ssh
from pgdyno.cluster.node_script import Node, held_script, ray_command
from pgdyno.errors import EngineError
from pgdyno.experiment.redo import DONE_AGAIN, GeneratorLostError, with_generators
from pgdyno.experiment.state import RunState
from pgdyno.plan import PlannedTrial
from pgdyno.plan.generators import SshNode, generators
from pgdyno.records import Failure, Outcome, Stage
from pgdyno.run import TrialResult

HEAD = Node("generator-1", "192.0.2.7:6379", "192.0.2.7", is_head=True, makes_load=True, folder="/tmp/x")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A `ray` that notes what it was given and has a child, and an `ssh` that takes this machine for the other."""
    scripts = {
        "ray": 'echo "$@" > args; echo "$RAY_AUTH_MODE $RAY_AUTH_TOKEN" > token; sleep 600 & echo $! > child; '
        "echo $$ > pid; trap '' TERM; wait; wait",
        "ssh": 'while [ $# -gt 1 ]; do echo "$1" >> ssh-args; shift; done; exec sh -c "$1"',
    }
    for name, script in scripts.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    return tmp_path


def begin(command: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.PIPE, start_new_session=True)
    assert process.stdin is not None
    process.stdin.write(b"secret\n")
    process.stdin.flush()
    return process


def lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(file: Path) -> str:
    deadline = time.monotonic() + 60
    while not (file.exists() and file.read_text().strip()):
        assert time.monotonic() < deadline, file
        time.sleep(0.02)
    return file.read_text().strip()


@pytest.mark.parametrize("over_ssh", [False, True])
def test_a_node_ends_with_the_pipe_that_holds_it(programs: Path, over_ssh: bool) -> None:
    script = held_script(ray_command(HEAD), [str(programs)])
    node = SshNode("load1", "bench", 2222)
    process = begin(started_over_ssh(script, node) if over_ssh else started_here(script), programs)
    child, pid = wait_for(programs / "child"), wait_for(programs / "pid")
    assert wait_for(programs / "token") == "token secret"
    assert "--head --port=6379" in wait_for(programs / "args")
    assert "secret" not in (programs / "args").read_text()
    assert lives(child)
    assert process.stdin is not None
    process.stdin.close()
    process.wait(60)
    # one that takes no notice of SIGTERM is killed, and its children with it
    assert not lives(pid)
    assert not lives(child)
    if over_ssh:
        given = (programs / "ssh-args").read_text().split()
        assert given[-5:] == ["-p", "2222", "-l", "bench", "load1"]
        assert "BatchMode=yes" in given


def test_a_node_that_ends_by_itself_is_noticed(programs: Path) -> None:
    (programs / "ray").write_text("#!/bin/sh\nexit 1\n")
    process = begin(started_here(held_script(ray_command(HEAD), [str(programs)])), programs)
    process.wait(60)
    assert process.stdin is not None
    process.stdin.close()


def test_places() -> None:
    found = generators(["local:2", "ssh://a,u@b:22"])
    assert (found.local, found.ssh) == (2, (SshNode("a", None, None), SshNode("b", "u", 22)))
    assert generators(["ray://head:10001"]).ray == "ray://head:10001"


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (["remote:3"], "'remote:3' is no place for generators"),
        (["local:0"], "'local:0' is no place for generators"),
        (["ray://head:1", "local:2"], "stands alone"),
        (["ssh://a,a"], "names a host twice"),
        (["ssh://-oProxyCommand=x"], "is no host"),
        (["ssh://a b"], "is no host"),
    ],
)
def test_what_is_no_place(texts: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        generators(texts)


LOST = TrialResult(
    Outcome.FAILED,
    [{"event": "end", "lost_generator": 2}],
    None,
    None,
    Failure(stage=Stage.RUN, message="generator 2 of 3 (b) was lost: it did not answer within 3 s"),
)


def state(cluster: object = "some") -> tuple[RunState, list[str]]:
    forgotten: list[str] = []
    preparer = SimpleNamespace(forget=lambda: forgotten.append("a"))
    ground = SimpleNamespace(cluster=cluster)
    return cast(RunState, SimpleNamespace(ground=ground, done_again={}, preparers={"a": preparer})), forgotten


TRIAL = cast(PlannedTrial, SimpleNamespace(number=7, target="a"))


def test_a_trial_is_done_again_twice_and_has_then_failed() -> None:
    run, forgotten = state()
    for _ in range(DONE_AGAIN):
        with pytest.raises(GeneratorLostError, match="generator 2 of 3"):
            with_generators(run, TRIAL, lambda: LOST)
    assert with_generators(run, TRIAL, lambda: LOST) is LOST
    assert forgotten == ["a"] * DONE_AGAIN


def test_generators_that_cannot_be_had_fail_the_trial() -> None:
    def load() -> TrialResult:
        raise EngineError("only 2 of 3 generators are there", hint="look")

    result = with_generators(state()[0], TRIAL, load)
    assert result.failure == Failure(stage=Stage.RUN, message="only 2 of 3 generators are there", hint="look")
    with pytest.raises(EngineError):
        with_generators(state(cluster=None)[0], TRIAL, load)


def test_other_failures_are_results_of_their_own() -> None:
    failed: Any = TrialResult(Outcome.FAILED, [{"event": "end"}], None, None, LOST.failure)
    assert with_generators(state()[0], TRIAL, lambda: failed) is failed
