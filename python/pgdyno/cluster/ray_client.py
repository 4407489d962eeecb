"""The way into a cluster that is there already (`ray://`), looked at first: Ray itself tries for half a minute."""

from __future__ import annotations

import socket
from importlib import import_module
from typing import Any

from pgdyno.errors import EngineError

SCHEME = "ray://"
ANSWER_S = 10.0
"""For a connection, and for an answer."""
_LISTENING = "its port is --ray-client-server-port of `ray start --head` (10001 by default); look at routes, too"
_LET_IN = "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to what that cluster was started with"


def look(address: str) -> None:
    """Asks whoever listens at `address` for a sign of life. Raises EngineError."""
    host, _, port = address.removeprefix(SCHEME).rpartition(":")
    try:
        # gRPC would try again, and not say why
        socket.create_connection((host, int(port)), ANSWER_S).close()
    except (OSError, OverflowError) as error:
        raise _none(address, f"no process listens there: {error}", _LISTENING) from error
    _ping(address, f"{host}:{port}")


def _ping(address: str, where: str) -> None:
    try:
        import grpc
        from ray._private.grpc_utils import init_grpc_channel
        from ray.exceptions import AuthenticationError

        # made by protoc, without types
        messages, calls = (
            import_module(f"ray.core.generated.{name}") for name in ("ray_client_pb2", "ray_client_pb2_grpc")
        )
    except ImportError as error:
        raise _none(
            address, f"Ray's client is not installed on this machine ({error.name})", "pip install 'ray[client]'"
        ) from error
    channel = init_grpc_channel(where)
    try:
        request = messages.ClusterInfoRequest(type=messages.ClusterInfoType.PING)
        calls.RayletDriverStub(channel).ClusterInfo(request, timeout=ANSWER_S)
    except grpc.RpcError as error:
        # what a call raises is a call as well, which the type does not say
        call: Any = error
        if call.code() == grpc.StatusCode.UNAUTHENTICATED:
            raise _none(address, f"it refuses access: {call.details()}", _LET_IN) from error
        raise _none(address, f"no server of Ray's clients answers: {call.details()}", _LISTENING) from error
    except AuthenticationError as error:
        raise _none(address, "RAY_AUTH_MODE is token, but no token is set", _LET_IN) from error
    finally:
        channel.close()


def _none(address: str, why: str, hint: str) -> EngineError:
    return EngineError(f"cannot join the Ray cluster at {address}: {why}", hint=hint)
