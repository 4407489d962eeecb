"""What stands behind the addresses of simulated servers."""

from __future__ import annotations

from tests.aws.ec2 import Machine


class Hosts:
    """What stands behind the addresses of fake servers; here nothing does."""

    host, port = "127.0.0.1", 1

    def made(self, name: str, user: str, password: str | None, origin: str | None, parameters: dict[str, str]) -> None:
        """A server was made with the `parameters` of its group, or restored from `origin`."""

    def configured(self, name: str, user: str, parameters: dict[str, str]) -> None:
        """The writer of a cluster has come, with the `parameters` of its group."""

    def changed(self, name: str, user: str, password: str) -> None:
        """Its first user has another password."""

    def removed(self, name: str) -> None:
        """It is gone."""

    def log(self) -> str:
        """What they have written into their logs."""
        return ""

    def booted(self, machine: Machine) -> str:
        """A host has started; its address. Here none is behind it."""
        return f"198.51.100.{machine.number}"

    def ended(self, machine: Machine) -> None:
        """The host is gone."""
