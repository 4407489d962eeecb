"""Hosts as network namespaces of this machine, whose connections can be cut. Only root can create them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import PATIENCE_S

NETWORK = "198.51.100"
"""TEST-NET-2 (RFC 5737), which no network uses."""


def namespace(stack: ExitStack) -> int | None:
    """Yields a process that keeps a new namespace; None if namespaces are not permitted."""
    if os.geteuid() != 0:
        return None
    process = subprocess.Popen(["unshare", "-n", "sleep", "1800"], stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.kill)
    ours = Path("/proc/self/ns/net").readlink()
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None:
        assert time.monotonic() < deadline
        # it is there when the namespace is another, and the program is no longer unshare
        try:
            if Path(f"/proc/{process.pid}/ns/net").readlink() != ours:
                return process.pid
        except OSError:
            continue
        time.sleep(0.01)
    return None


def ip(*args: str, within: tuple[str, ...] = ()) -> None:
    subprocess.run([*within, "ip", *args], check=True)


@dataclass(frozen=True)
class LanHost:
    """A host in its own network namespace."""

    address: str
    pid: int
    """The process that keeps the namespace."""

    @property
    def within(self) -> tuple[str, ...]:
        """The command prefix that runs a program in the namespace."""
        return ("nsenter", "-t", str(self.pid), "-n")

    def cut(self, other: LanHost) -> None:
        """Drops all packets from this host to the other, including responses, until `heal`."""
        ip("route", "add", "blackhole", other.address, within=self.within)

    def heal(self, other: LanHost) -> None:
        ip("route", "del", "blackhole", other.address, within=self.within)

    @contextmanager
    def impatient(self) -> Iterator[None]:
        """Makes TCP on this host give up after 1 s of silence, instead of a quarter of an hour, until the block
        ends.
        """
        # of its own namespace, as all of /proc/sys/net
        tries = [*self.within, "tee", "/proc/sys/net/ipv4/tcp_retries2"]
        before = subprocess.run([*self.within, "cat", tries[-1]], capture_output=True, check=True).stdout
        subprocess.run(tries, input=b"2", stdout=subprocess.DEVNULL, check=True)
        try:
            yield
        finally:
            subprocess.run(tries, input=before, stdout=subprocess.DEVNULL, check=True)

    def processes(self) -> dict[int, str]:
        """Returns the processes on this host by name, without the one that keeps the namespace."""
        mine = Path(f"/proc/{self.pid}/ns/net").readlink()
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                is_here = (folder / "ns/net").readlink() == mine and int(folder.name) != self.pid
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                if is_here and state != "Z":
                    found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ").strip()
            except OSError:
                continue
        return found


def lan(stack: ExitStack, count: int) -> list[LanHost]:
    """Yields that many hosts on one switch, each with its own address; none if namespaces are not permitted."""
    pids = [namespace(stack) for _ in range(count)]
    known = [pid for pid in pids if pid is not None]
    if len(known) < count:
        return []
    hosts = [LanHost(f"{NETWORK}.{number}", pid) for number, pid in enumerate(known, start=1)]
    switch = hosts[0].within
    ip("link", "add", "switch", "type", "bridge", within=switch)
    for number, host in enumerate(hosts):
        end, port = ("switch", "") if number == 0 else ("eth0", f"port{number}")
        if port:
            pair = ("link", "add", port, "type", "veth", "peer", "name", end, "netns", str(host.pid))
            ip(*pair, within=switch)
            ip("link", "set", port, "master", "switch", "up", within=switch)
        ip("addr", "add", f"{host.address}/24", "dev", end, within=host.within)
        for link in (end, "lo"):
            ip("link", "set", link, "up", within=host.within)
    return hosts
