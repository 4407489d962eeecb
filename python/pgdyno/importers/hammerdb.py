"""Parses HammerDB's text output for TPROC-C: virtual users, results, and the time profile.

Wording: hammerdb's src/postgresql/pgoltp.tcl, and its documentation, "Running the timed workload".
"""

from __future__ import annotations

import re

from pgdyno.importers.parsed import Output, Statement, Unread
from pgdyno.records.tpcc_profile import UnusedItem, profile_of_release, unused_item

_RESULT = (
    re.compile(r"System achieved (?P<nopm>\d{1,15}) NOPM from (?P<tpm>\d{1,15}) PostgreSQL TPM"),
    re.compile(r"System achieved (?P<tpm>\d{1,15}) PostgreSQL TPM at (?P<nopm>\d{1,15}) NOPM"),
)
_USERS = re.compile(r"(?P<users>\d{1,9}) Active Virtual Users configured")
_COUNTER = re.compile(r"\s*\d{1,15} PostgreSQL tpm(?: @ .{1,60})?\s*$")
_VERSION = re.compile(r"HammerDB CLI v(?P<version>[\d.]{1,20})")
_WAREHOUSES = re.compile(
    r"\bpg_count_ware(?: from \d{1,9} to)?\s{1,4}(?:=\s?)?(?P<set>\d{1,9})\b"
    r"|Value (?P<kept>\d{1,9}) for tpcc:pg_count_ware\b"
)
_PROCEDURES = re.compile(
    r"Value (?P<kept>true|false) for tpcc:pg_storedprocs\b"
    r"|\bpg_storedprocs(?: from (?:true|false))?(?: to)?[\s={\"]{1,4}(?P<set>true|false)\b"
)
_MINUTES = re.compile(r"Timing test period of (?P<minutes>\d{1,9}) in minutes")
_PROCEDURE = re.compile(r">>>>> PROC: (?P<name>\w{1,60})")
_CALLS = re.compile(r"CALLS: (?P<calls>\d{1,15})\s.{0,80}?AVG: (?P<ms>\d{1,12}(?:\.\d{1,6})?)ms")
_STARTED = re.compile(r"\bVuser 1(?::RUNNING| created)")
_FAILED = re.compile(r"\bError in Virtual User (?P<error>\d{1,9}):|\bVuser (?P<user>\d{1,9}):FINISHED FAILED")
MOST_PROCEDURES = 100
"""Procedures of a time profile that are kept; TPROC-C has five."""
_KNOWN = ("Vuser ", ">>>>> ", "CALLS:", "P99:", "HammerDB ", "+-")


def variant_in(text: str) -> str | None:
    """Return the kind of routines that a setting in `text` selects; None without the setting."""
    found = _PROCEDURES.search(text)
    return None if found is None else "procedures" if "true" in found.groups() else "functions"


def unused_item_of(output: Output) -> UnusedItem | None:
    """Return what the release that printed `output` did with an unused item; None if the output leaves it open."""
    profile = None if output.tool != "hammerdb" or output.version is None else profile_of_release(output.version)
    if profile is None:
        return None
    variants = [output.variant] if output.variant is not None else ["functions", "procedures"]
    found = {unused_item(profile, variant) for variant in variants}
    return found.pop() if len(found) == 1 else None


class HammerdbParser:
    """Reads outputs line by line; each result line is one output."""

    def __init__(self) -> None:
        self.found: list[Output] = []
        self.unread: list[Unread] = []
        self._users: tuple[int, int] | None = None
        self._warehouses: tuple[int, int] | None = None
        self._minutes: tuple[int, int] | None = None
        self._version: str | None = None
        self._variant: tuple[int, str] | None = None
        self._began: int | None = None
        self._procedure: str | None = None
        self._in_totals = False
        self._failed: set[str] = set()
        """Virtual users of the current run that failed."""
        self._has_result = False
        """The current run printed its result: what follows up to the next run belongs to it."""

    def read(self, text: str, line: int) -> bool:
        """Process one line; False if it is not HammerDB's."""
        version = _VERSION.search(text)
        if version is not None:
            self._version = version["version"]
            self._begin_session()
            return True
        if self._takes_end_of_user(text, line):
            return True
        variant = variant_in(text)
        if variant is not None:
            self._variant = (line, variant)
        warehouses, minutes, users = _WAREHOUSES.search(text), _MINUTES.search(text), _USERS.search(text)
        if warehouses is not None:
            self._warehouses = (line, int(warehouses["set"] or warehouses["kept"]))
            return False
        if minutes is not None:
            self._minutes = (line, int(minutes["minutes"]))
            self._leave_result()
            return True
        if users is not None:
            self._users, self._began = (line, int(users["users"])), line
            self._leave_result()
            return True
        for pattern in _RESULT:
            match = pattern.search(text)
            if match is not None:
                self._add(match, text, line)
                return True
        if self._takes_profile(text, line):
            return True
        return _COUNTER.match(text) is not None or (text.startswith(_KNOWN) and "System achieved" not in text)

    def end(self) -> None: ...

    def _begin_session(self) -> None:
        """Forget the settings of the session before; those after its last result may belong to the new one."""
        last = self.found[-1].last_line if self.found else 0
        if self._warehouses is not None and self._warehouses[0] < last:
            self._warehouses = None
        if self._variant is not None and self._variant[0] < last:
            self._variant = None
        self._begin_run()

    def _begin_run(self) -> None:
        self._failed, self._has_result = set(), False

    def _leave_result(self) -> None:
        """Begin a run if the result of the last one was printed; before it, these lines belong to its run."""
        if self._has_result:
            self._begin_run()

    def _takes_end_of_user(self, text: str, line: int) -> bool:
        """Count virtual users that failed, which HammerDB prints before and after the result, maybe in two lines."""
        failed = _FAILED.search(text)
        if failed is None:
            if _STARTED.search(text):
                self._begin_run()
            return False
        self._failed.add(failed["error"] or failed["user"])
        if self._has_result:
            self.found[-1].clients_aborted = len(self._failed)
            self.found[-1].last_line = line
        return True

    def _takes_profile(self, text: str, line: int) -> bool:
        """Read the time profile after the result: the means of all virtual users, not those of each."""
        if text.startswith(">>>>>"):
            procedure = _PROCEDURE.match(text)
            if procedure is None:
                self._in_totals = "COMBINED METRICS" in text or "SUMMARY OF" in text
            self._procedure = procedure["name"] if procedure else None
            return True
        calls = _CALLS.match(text)
        if calls is None or self._procedure is None:
            return False
        statements = self.found[-1].statements if self.found else []
        is_new = len(statements) < MOST_PROCEDURES and all(each.text != self._procedure for each in statements)
        if self._in_totals and self.found and is_new:
            statements.append(Statement(self._procedure, float(calls["ms"])))
            self.found[-1].last_line = line
        return True

    def _add(self, match: re.Match[str], text: str, line: int) -> None:
        output = Output("hammerdb", self._began or line, line, version=self._version, workload="tpcc")
        output.variant = None if self._variant is None else self._variant[1]
        output.put("nopm", float(match["nopm"]), line, text)
        output.put("tpm", float(match["tpm"]), line, text)
        if self._users is not None:
            output.put("clients", self._users[1], self._users[0], f"{self._users[1]} Active Virtual Users")
        if self._warehouses is not None:
            at, warehouses = self._warehouses
            output.put("warehouses", warehouses, at, f"pg_count_ware {warehouses}")
        if self._minutes is not None:
            at, minutes = self._minutes
            output.put("duration_s", 60.0 * minutes, at, f"Timing test period of {minutes} in minutes")
        output.last_line = line
        output.clients_aborted = len(self._failed)
        self.found.append(output)
        self._has_result = True
        self._users = self._began = self._minutes = None
        self._in_totals = False
