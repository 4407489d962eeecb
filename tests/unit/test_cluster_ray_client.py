"""Connecting to an existing cluster: errors are reported immediately, by pgdyno itself."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pgdyno.errors import EngineError, ExitCode
from pgdyno.generators import ray_actors, ray_start
from pgdyno.generators.generator_lifecycle import open_cluster
from pgdyno.generators.ray_tasks import open_task_pool
from pgdyno.plan.hosts import generators
from tests.run_program import run_program

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    import grpc


def made(name: str) -> Any:  # noqa: ANN401 - by protoc, without types
    """Returns a module of Ray, imported late: every test process reads this file, and would load Ray."""
    return import_module(f"ray.core.generated.{name}")


class Proxy:
    """Answers as Ray's server for clients does."""

    def __init__(self, *, lets_in: bool) -> None:
        self.lets_in = lets_in

    def __getattr__(self, name: str) -> None:
        """Answers all other calls of Ray."""

    def ClusterInfo(self, request: Any, context: grpc.ServicerContext) -> object:  # noqa: ANN401, N802 - Ray's
        import grpc
        from ray._private.authentication import grpc_authentication_server_interceptor as theirs

        messages = made("ray_client_pb2")
        if not self.lets_in:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, theirs._UNAUTHENTICATED_MESSAGE)
        assert request.type == messages.ClusterInfoType.PING
        return messages.ClusterInfoResponse(json="{}")


@contextmanager
def proxy(*, lets_in: bool) -> Iterator[str]:
    import grpc

    server = grpc.server(ThreadPoolExecutor(2))
    made("ray_client_pb2_grpc").add_RayletDriverServicer_to_server(Proxy(lets_in=lets_in), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"ray://127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@contextmanager
def another(says: bytes) -> Iterator[str]:
    """A service that is not Ray, and closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:

        def serve() -> None:
            while True:
                try:
                    other, _ = listener.accept()
                except OSError:
                    return
                with other:
                    other.sendall(says)

        pool.submit(serve)
        yield f"ray://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def closed() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"ray://127.0.0.1:{listener.getsockname()[1]}"


def refused(address: str) -> EngineError:
    """Returns the error for a load, which is also that for tasks."""
    said = []
    for way in (open_cluster, open_task_pool):
        with pytest.raises(EngineError) as raised, way(generators([address]), lambda _text: None):
            pass
        said.append((raised.value.message, raised.value.hint))
    assert said[0] == said[1]
    assert raised.value.exit_code is ExitCode.ENGINE
    assert raised.value.message.startswith(f"cannot join the Ray cluster at {address}: ")
    return raised.value


def test_nothing_listens_at_the_address() -> None:
    error = refused(closed())
    assert "no process listens there: " in error.message
    assert "--ray-client-server-port" in (error.hint or "")


def test_another_service_answers() -> None:
    with another(b"SSH-2.0-OpenSSH_9.2\r\n") as address:
        error = refused(address)
    assert "no server of Ray's clients answers: " in error.message
    assert "--ray-client-server-port" in (error.hint or "")


def test_a_token_that_is_not_theirs() -> None:
    with proxy(lets_in=False) as address:
        error = refused(address)
    assert "it refuses access: Invalid or missing authentication token" in error.message
    assert "RAY_AUTH_TOKEN" in (error.hint or "")


def test_a_token_that_is_nowhere(tmp_path: Path) -> None:
    # Ray reads it once a process
    with proxy(lets_in=False) as address:
        done = run_program(
            [
                sys.executable,
                "-c",
                f"from pgdyno.generators import ray_start as ray_client\nray_client.look({address!r})",
            ],
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "RAY_AUTH_MODE": "token"},
        )
    assert "EngineError: cannot join the Ray cluster at " in done.stderr
    assert ": RAY_AUTH_MODE is token, but no token is set" in done.stderr


def test_ray_without_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    with proxy(lets_in=True) as address:
        monkeypatch.setitem(sys.modules, "grpc", None)
        error = refused(address)
    assert "Ray's client is not installed on this machine (grpc)" in error.message
    assert error.hint == "pip install 'ray[client]'"


def test_a_cluster_that_answers_is_joined() -> None:
    with proxy(lets_in=True) as address:
        ray_start.look(address)


def test_ray_that_was_loaded_before_there_was_a_token_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    native: Any = import_module("ray._raylet")
    read = []
    monkeypatch.setattr("ray.init", lambda **_: read.append(native.get_authentication_mode()))
    assert native.get_authentication_mode() is not native.AuthenticationMode.TOKEN
    with ray_actors.join_cluster("192.0.2.7:6379", is_ours=True):
        pass
    assert read == [native.AuthenticationMode.TOKEN]


@pytest.mark.parametrize("comes_up", [True, False])
def test_our_token_is_in_the_environment_only_meanwhile(monkeypatch: pytest.MonkeyPatch, *, comes_up: bool) -> None:
    def init(**_: object) -> None:
        if not comes_up:
            raise ConnectionError("nobody")

    monkeypatch.setattr("ray.init", init)
    with (
        nullcontext() if comes_up else pytest.raises(ray_actors.NotStartedError, match="nobody"),
        ray_actors.join_cluster("192.0.2.7:6379", is_ours=True),
    ):
        assert os.environ["RAY_AUTH_TOKEN"] == ray_actors.own_token()
    assert not {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN"} & os.environ.keys()


def test_a_cluster_in_which_nobody_makes_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_actors, "join_cluster", lambda *_args, **_is_ours: nullcontext())
    monkeypatch.setattr(ray_actors, "nodes", list)
    cluster = open_cluster(generators(["ray://head:10001"]), lambda _text: None)
    with pytest.raises(EngineError, match="no node of ray://head:10001 generates load") as raised, cluster:
        pass
    assert '"loadgen": 1' in (raised.value.hint or "")
