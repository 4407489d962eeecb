"""Nodes end with the process that started them, here and over SSH; pgdyno repeats trials after it lost a generator."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdyno.errors import EngineError
from pgdyno.experiment.generators import MAX_REPEATS, GeneratorLostError, Generators
from pgdyno.generators.ray_node import GO, wanted_versions
from pgdyno.generators.ray_start import Node, local_command, order, ray_command, refusal, ssh_command
from pgdyno.plan import PlannedTrial
from pgdyno.plan.hosts import SshNode, generators
from pgdyno.records import Failure, FailureId, Outcome, Stage
from pgdyno.run import TrialResult
from tests.present import present
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

RAY = """
trap '' TERM
# a session of its own, whose parent is gone: as Ray's daemons may be
( setsid sleep 600 & echo $! > child )
echo "$RAY_AUTH_MODE $RAY_AUTH_TOKEN $$ $(cat child) $0" > told.new
mv told.new told
sleep 600
"""
"""In place of `ray`: notes what it was given, and does not end when it is asked to."""


def an_order(**changes: object) -> bytes:
    told = json.loads(order(Node("generator-1", "192.0.2.7:6379", None, is_head=True, makes_load=True), "secret"))
    return json.dumps(told | {"command": ["sh", "-c", RAY, "{folder}"]} | changes).encode() + b"\n"


@contextmanager
def begun(**changes: object) -> Iterator[subprocess.Popen[bytes]]:
    folder = changes.pop("cwd")
    with subprocess.Popen(
        local_command(), cwd=str(folder), stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        present(process.stdin).write(an_order(**changes) + GO)
        present(process.stdin).flush()
        yield process


def lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(file: Path) -> list[str]:
    wait_until(file.exists)
    return file.read_text().split()


@pytest.mark.parametrize("why", ["closed", "over", "frozen", "signal"])
def test_an_abandoned_node_leaves_nothing(tmp_path: Path, why: str) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    with begun(cwd=tmp_path, logs=str(logs), lease_s=5 if why == "over" else 600) as process:
        mode, token, pid, child, folder = wait_for(tmp_path / "told")
        assert (mode, token) == ("token", "secret")
        assert folder.startswith("/tmp/pgdyno-ray-")
        if why == "frozen":
            os.kill(int(pid), signal.SIGSTOP)
        if why == "signal":
            process.terminate()
        if why in ("closed", "frozen"):
            present(process.stdin).close()
        process.wait(PATIENCE_S)
    # one that takes no notice of SIGTERM, and what it left without a parent
    wait_until(lambda: not lives(pid) and not lives(child))
    assert not Path(folder).exists()
    # a driver that is there reads them
    assert logs.exists() == (why == "signal")


def test_a_node_that_ends_by_itself_is_noticed(tmp_path: Path) -> None:
    with begun(cwd=tmp_path) as process:
        os.kill(int(wait_for(tmp_path / "told")[2]), signal.SIGKILL)
        assert process.wait(PATIENCE_S) == 1


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        (
            {"wants": wanted_versions() | {"python": "3.99"}},
            "Python is {python} there, and 3.99 here",
            "install Python 3.99 there",
        ),
        (
            {"wants": wanted_versions() | {"pgdyno": "9.9"}},
            "pgdyno is {pgdyno} there, and 9.9 here",
            "install pgdyno 9.9 there",
        ),
        ({"wants": wanted_versions() | {"ray": "9.9"}}, "Ray is {ray} there, and 9.9 here", "install Ray 9.9 there"),
        ({"reach": "127.0.0.1:1"}, "it does not reach this machine at 127.0.0.1:1: ", "check routes and firewalls"),
    ],
)
def test_a_host_that_does_not_suit_says_why(tmp_path: Path, changes: dict[str, Any], message: str, hint: str) -> None:
    with begun(cwd=tmp_path, **changes) as process:
        said = process.communicate(timeout=PATIENCE_S)[1].decode()
    node = Node(
        "generator-1", "192.0.2.7:6379", None, is_head=False, makes_load=True, host=SshNode("load1", None, None)
    )
    why = present(refusal(node, process.returncode, said))
    assert f"load1 cannot be a generator: {message.format(**wanted_versions())}" in why.message
    assert hint in (why.hint or "")
    assert not (tmp_path / "told").exists()


def test_the_command_for_another_host() -> None:
    command = ssh_command(SshNode("load1", "bench", 2222))
    assert command[-6:-1] == ["-p", "2222", "-l", "bench", "load1"]
    assert "BatchMode=yes" in command
    node = Node("generator-2", "192.0.2.7:6379", None, is_head=False, makes_load=True, host=SshNode("a", None, None))
    assert b"secret" in order(node, "secret")
    assert "secret" not in " ".join([*command, *ray_command(node)])


@pytest.mark.parametrize(("tasks", "said"), [(0, {"--num-cpus=0"}), (1, {"--num-cpus=1"}), (None, set())])
def test_how_much_a_node_does_at_once(tasks: int | None, said: set[str]) -> None:
    command = ray_command(Node("generator-1", "192.0.2.7:6379", None, is_head=False, makes_load=True, tasks=tasks))
    assert {each for each in command if each.startswith("--num-cpus")} == said


def test_lists_of_generators() -> None:
    found = generators(["local:2", "ssh://a,u@b:22"])
    assert (found.local, found.ssh) == (2, (SshNode("a", None, None), SshNode("b", "u", 22)))
    assert generators(["ray://head:10001"]).ray == "ray://head:10001"


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (["remote:3"], "'remote:3' is not a host for generators"),
        (["local:0"], "'local:0' is not a number of nodes"),
        (["local:²"], "'local:²' is not a number of nodes"),
        (["local:64", "local:1"], "65 nodes on this machine are too many"),
        (["ray://head"], "'ray://head' lacks the port"),
        (["ray://head:99999"], "'ray://head:99999' lacks the port"),
        (["ssh://"], "names no host"),
        (["ssh://a:65536"], "is not a host"),
        (["ray://head:1", "local:2"], "cannot be combined with other hosts"),
        (["ssh://a,a"], "names a host twice"),
        (["ssh://-oProxyCommand=x"], "is not a host"),
        (["ssh://a b"], "is not a host"),
    ],
)
def test_malformed_lists_of_generators(texts: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        generators(texts)


LOST = TrialResult(
    Outcome.FAILED,
    [{"event": "end", "lost_generator": 2}],
    None,
    None,
    Failure(stage=Stage.RUN, message="generator 2 of 3 (b) was lost: it did not answer within 3 s"),
)


def of_run(cluster: object = "some") -> Generators:
    return Generators(cast(Any, None), cast(Any, cluster), [])


TRIAL = cast(PlannedTrial, SimpleNamespace(number=7, target="a"))


def test_a_trial_is_done_again_twice_and_has_then_failed() -> None:
    generators = of_run()
    for _ in range(MAX_REPEATS):
        with pytest.raises(GeneratorLostError, match="generator 2 of 3"):
            generators.run(TRIAL, lambda: LOST)
    assert generators.run(TRIAL, lambda: LOST) is LOST


def test_generators_that_cannot_be_had_fail_the_trial() -> None:
    def load() -> TrialResult:
        raise EngineError("only 2 of 3 generators are available", hint="look")

    result = of_run().run(TRIAL, load)
    message = "only 2 of 3 generators are available"
    assert result.failure == Failure(stage=Stage.RUN, id=FailureId.NO_GENERATORS, message=message, hint="look")
    with pytest.raises(EngineError):
        of_run(cluster=None).run(TRIAL, load)


def test_other_failures_are_results_of_their_own() -> None:
    failed: Any = TrialResult(Outcome.FAILED, [{"event": "end"}], None, None, LOST.failure)
    assert of_run().run(TRIAL, lambda: failed) is failed
