"""HammerDB's text output for TPROC-C: virtual users, results, and the time profile.

Wording: hammerdb's src/postgresql/pgoltp.tcl, and its documentation, "Running the timed workload".
"""

from __future__ import annotations

import re

from pgdyno.importers.found import Output

_RESULT = (
    re.compile(r"System achieved (?P<nopm>\d+) NOPM from (?P<tpm>\d+) PostgreSQL TPM"),
    re.compile(r"System achieved (?P<tpm>\d+) PostgreSQL TPM at (?P<nopm>\d+) NOPM"),
)
_USERS = re.compile(r"(?P<users>\d+) Active Virtual Users configured")
_COUNTER = re.compile(r"^\s*\d+ PostgreSQL tpm\s*$")
_VERSION = re.compile(r"HammerDB CLI v(?P<version>[\d.]+)")
_KNOWN = ("Vuser ", ">>>>> ", "CALLS:", "HammerDB ", "+-", "| ")


class HammerdbParser:
    """Reads outputs line by line; each result line is one."""

    def __init__(self) -> None:
        """Begins before the first line."""
        self.found: list[Output] = []
        self._users: tuple[int, int] | None = None
        self._version: str | None = None
        self._began: int | None = None

    def read(self, text: str, line: int) -> bool:
        """Takes one line; False when it is none of HammerDB's."""
        users = _USERS.search(text)
        version = _VERSION.search(text)
        if version is not None:
            self._version = version["version"]
            return True
        if users is not None:
            self._users, self._began = (line, int(users["users"])), line
            return True
        for pattern in _RESULT:
            match = pattern.search(text)
            if match is not None:
                self._add(match, text, line)
                return True
        return _COUNTER.match(text) is not None or text.startswith("Vuser ")

    def end(self) -> None:
        """Nothing is kept open."""

    def _add(self, match: re.Match[str], text: str, line: int) -> None:
        output = Output("hammerdb", self._began or line, line, version=self._version, workload="tpcc")
        output.put("nopm", float(match["nopm"]), line, text)
        output.put("tpm", float(match["tpm"]), line, text)
        if self._users is not None:
            output.put("clients", self._users[1], self._users[0], f"{self._users[1]} Active Virtual Users")
        self.found.append(output)
        self._users = self._began = None
