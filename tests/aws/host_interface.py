"""The interface between the simulator and real servers at the addresses of simulated ones."""

from tests.aws.ec2 import Machine


class Hosts:
    """Implements no real servers, so that connections to simulated servers fail."""

    host, port = "127.0.0.1", 1

    def made(self, name: str, user: str, password: str | None, origin: str | None, parameters: dict[str, str]) -> None:
        """Is called when a server has been created with the `parameters` of its group, or restored from `origin`."""

    def configured(self, name: str, user: str, parameters: dict[str, str]) -> None:
        """Is called when the writer of a cluster has been created with the `parameters` of its group."""

    def changed(self, name: str, user: str, password: str) -> None:
        """Is called when the password of the first user has been changed."""

    def copied(self, name: str, snapshot: str) -> None:
        """Is called when a snapshot of the server is taken."""

    def copy_removed(self, snapshot: str) -> None:
        """Is called when a snapshot has been deleted."""

    def removed(self, name: str) -> None:
        """Is called when the server has been removed."""

    def log(self) -> str:
        return ""

    def booted(self, machine: Machine) -> str:
        return f"198.51.100.{machine.number}"

    def console(self, machine: Machine) -> str:
        """Returns what the host has printed on its console."""
        return machine.console("ssh-ed25519 " + "A" * 68)

    def ended(self, machine: Machine) -> None:
        """Is called when the host has been terminated."""
