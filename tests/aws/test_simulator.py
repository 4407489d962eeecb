"""The simulator of AWS, while tests kill its clients."""

import socket
import struct
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pgdyno.targets.aws.boto3_clients import AwsError, Cloud
from tests.aws.simulator import REGION, simulated


def test_a_request_that_was_cut_off_is_none() -> None:
    with simulated() as simulator:
        address = urlsplit(simulator.url)
        with socket.create_connection((address.hostname or "", address.port or 0)) as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: ec2\r\nContent-Length: 100\r\n\r\nAction=Run")
            client.shutdown(socket.SHUT_WR)
            assert client.recv(100) == b""
    assert simulator.problems == []


def test_a_client_that_is_killed_before_its_response_is_no_error(capfd: pytest.CaptureFixture[str]) -> None:
    with simulated() as simulator:
        address = urlsplit(simulator.url)
        with socket.create_connection((address.hostname or "", address.port or 0)) as client:
            # the kernel resets the connection, as at the end of a process that leaves data unread
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(b"POST / HTTP/1.1\r\nHost: ec2\r\n")
        simulator.settle()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("service", "operation"), [("sts", "get_caller_identity"), ("ec2", "describe_vpcs"), ("pricing", "get_products")]
)
def test_credentials_expire_at_any_call_and_are_renewed(
    service: str, operation: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with simulated() as simulator:
        for name, value in simulator.environment.items():
            monkeypatch.setenv(name, value)
        more = {"ServiceCode": "AmazonEC2"} if service == "pricing" else {}
        simulator.credentials.expire_at("*", 2)
        Cloud(REGION).identity()
        for _ in range(2):
            with pytest.raises(AwsError, match=r"Amazon rejects the credentials: .* expired"):
                Cloud(REGION).call(service, operation, **more)
        simulator.credentials.renew()
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        for name, value in simulator.credentials.profile(tmp_path / "aws", timedelta(hours=1)).items():
            monkeypatch.setenv(name, value)
        assert Cloud(REGION).identity()
