"""Certificates of a Ray cluster on several hosts."""

import json
import socket
import ssl
import threading
from pathlib import Path

import pytest

from pgdyno.generators.ray_start import Node, order, own_address
from pgdyno.generators.ray_tls import Authority, addresses, is_in_the_clear

CA, CERTIFICATE, KEY = "RAY_TLS_CA_CERT", "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY"


def handshake(server: dict[str, str], client: dict[str, str]) -> bytes:
    """Returns what a client gets from a server that both verify each other. Raises SSLError."""
    sides = []
    for protocol, files in ((ssl.PROTOCOL_TLS_SERVER, server), (ssl.PROTOCOL_TLS_CLIENT, client)):
        context = ssl.SSLContext(protocol)
        context.load_verify_locations(files[CA])
        context.load_cert_chain(files[CERTIFICATE], files[KEY])
        context.verify_mode = ssl.CERT_REQUIRED
        sides.append(context)
    accepting, asking = sides
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            try:
                with accepting.wrap_socket(connection, server_side=True) as secured:
                    secured.sendall(b"hello")
            except (ssl.SSLError, OSError):
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with (
                socket.create_connection(listening.getsockname()) as plain,
                asking.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
            ):
                return secured.recv(5)
        finally:
            thread.join()


def test_hosts_of_one_run_know_each_other_and_no_others(tmp_path: Path) -> None:
    ours = Authority.new()
    one, two = (ours.environment(tmp_path / name, "127.0.0.1") for name in ("one", "two"))
    other = Authority.new().environment(tmp_path / "other", "127.0.0.1")
    assert one["RAY_USE_TLS"] == "1"
    assert all(each.stat().st_mode & 0o077 == 0 for each in (tmp_path / "one").iterdir())
    assert handshake(one, two) == b"hello"
    with pytest.raises(ssl.SSLError):
        handshake(other, two)
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        assert handshake(one, other | {CA: two[CA]}) == b"hello"


def test_the_authority_reaches_a_node_in_its_order() -> None:
    authority, node = Authority.new(), Node("generator-1", "192.0.2.1:6379", None, is_head=False, makes_load=True)
    told = json.loads(order(node, "token", None, authority))["tls"]
    assert told == {"head": "192.0.2.1", "certificate": authority.certificate, "key": authority.key}
    assert json.loads(order(node, "token"))["tls"] is None


def test_a_host_has_a_certificate_for_its_address_in_the_cluster() -> None:
    own = own_address("192.0.2.1")
    for head in (own, "127.0.0.1"):
        found = addresses(head)
        assert head in found
        assert len(found) == len(set(found))


def test_unencrypted_connections_over_a_network_are_detected() -> None:
    assert is_in_the_clear("ray://head:10001", {})
    assert is_in_the_clear("ray://192.0.2.7:10001", {"RAY_USE_TLS": "0"})
    assert not is_in_the_clear("ray://head:10001", {"RAY_USE_TLS": "1"})
    for here in ("127.0.0.1", "localhost", "[::1]"):
        assert not is_in_the_clear(f"ray://{here}:10001", {})
