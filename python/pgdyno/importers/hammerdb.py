"""Parses HammerDB's text output for TPROC-C: virtual users, results, and the time profile.

Wording: hammerdb's src/postgresql/pgoltp.tcl, and its documentation, "Running the timed workload".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.importers.parsed import Output, OutputParser, Statement
from pgdyno.records.tpcc_profile import UnusedItem, profile_of_release, unused_item

_RESULT = (
    re.compile(r"System achieved (?P<nopm>\d{1,15}) NOPM from (?P<tpm>\d{1,15}) PostgreSQL TPM"),
    re.compile(r"System achieved (?P<tpm>\d{1,15}) PostgreSQL TPM at (?P<nopm>\d{1,15}) NOPM"),
)
_USERS = re.compile(r"(?P<users>\d{1,9}) Active Virtual Users configured")
_COUNTER = re.compile(r"\s*\d{1,15} PostgreSQL tpm(?: @ .{1,60})?\s*$")
_VERSION = re.compile(r"HammerDB CLI v(?P<version>[\d.]{1,20})")
_WORD, _NUMBER, _SWITCH = r"[^\s{}\"',()=]{1,200}", r"\d{1,9}", "true|false"
_VALUES = {
    "host": _WORD, "port": _NUMBER, "dbase": _WORD, "sslmode": _WORD, "count_ware": _NUMBER, "rampup": _NUMBER,
    "duration": _NUMBER, "storedprocs": _SWITCH, "keyandthink": _SWITCH, "allwarehouse": _SWITCH,
    "connect_pool": _SWITCH, "async_scale": _SWITCH, "async_client": _NUMBER,
}  # fmt: skip
_SERVER = ("host", "port", "dbase")
_LOAD = {
    "sslmode": "sslmode", "rampup": "rampup_min", "storedprocs": "storedprocs", "keyandthink": "keyandthink",
    "allwarehouse": "allwarehouse", "connect_pool": "connect_pool", "async_scale": "async_scale",
    "async_client": "async_client",
}  # fmt: skip
"""Settings that change the load, and their names in `Output.load`."""
_SETTING = re.compile(
    rf"\bpg_(?P<set>{'|'.join(_VALUES)})\b(?: from (?P<before>\S{{0,200}}))?(?: to\b)?[\s=,{{\"']{{1,60}}"
    rf"(?P<value>{_WORD})|\bValue (?P<same>\S{{1,200}}) for \w{{1,40}}:pg_(?P<kept>{'|'.join(_VALUES)})\b"
)
_STATES_WORD = re.compile(r"diset|Changed |Value |[={]")
_RAMPUP = re.compile(r"Beginning rampup time of (?P<minutes>\d{1,9}) minutes")
NOT_SET = "not set"
"""The value of a setting before the first line that sets it."""
_MINUTES = re.compile(r"Timing test period of (?P<minutes>\d{1,9}) in minutes")
_PROCEDURE = re.compile(r">>>>> PROC: (?P<name>\w{1,60})")
_CALLS = re.compile(r"CALLS: (?P<calls>\d{1,15})\s.{0,80}?AVG: (?P<ms>\d{1,12}(?:\.\d{1,6})?)ms")
_SET_USERS = re.compile(r"(?:^|[\s>%;])vuset\s{1,4}vu\s{1,4}(?P<users>\d{1,6})\b")
_STARTED = re.compile(r"\bVuser 1(?::RUNNING| created)")
_FAILED = re.compile(r"\bError in Virtual User (?P<error>\d{1,9}):|\bVuser (?P<user>\d{1,9}):FINISHED FAILED")
MOST_PROCEDURES = 100
"""Procedures of a time profile that are kept; TPROC-C has five."""
_KNOWN = ("Vuser ", ">>>>> ", "CALLS:", "P99:", "HammerDB ", "+-")


@dataclass(frozen=True, slots=True)
class Setting:
    value: str
    before: str = NOT_SET
    """The value that it replaced."""


def settings_in(text: str) -> dict[str, Setting]:
    """Return the settings that `text` states, by their names without `pg_`."""
    found = {}
    states_word = _STATES_WORD.search(text) is not None
    for match in _SETTING.finditer(text):
        name, value = match["set"] or match["kept"], (match["value"] or match["same"]).rstrip(".;")
        # prose may follow the name of a setting whose value is any word
        if re.fullmatch(_VALUES[name], value) and (_VALUES[name] is not _WORD or states_word):
            found[name] = Setting(value, match["same"] or match["before"] or NOT_SET)
    return found


def put_settings(output: Output, settings: Mapping[str, str]) -> None:
    """Keep the server, the kind of routines and the load that `settings` select."""
    if "storedprocs" in settings:
        output.variant = {"true": "procedures", "false": "functions"}.get(settings["storedprocs"])
    output.server = ":".join(settings[name] for name in _SERVER if name in settings)
    output.shown |= {shown: settings[name] for name, shown in _LOAD.items() if name in settings}


def unused_item_of(output: Output) -> UnusedItem | None:
    """Return what the release that printed `output` did with an unused item; None if the output leaves it open."""
    profile = None if output.tool != "hammerdb" or output.version is None else profile_of_release(output.version)
    if profile is None:
        return None
    variants = [output.variant] if output.variant is not None else ["functions", "procedures"]
    found = {unused_item(profile, variant) for variant in variants}
    return found.pop() if len(found) == 1 else None


class HammerdbParser(OutputParser):
    def __init__(self) -> None:
        super().__init__()
        self._set_users: tuple[int, int] | None = None
        self._shown: dict[str, tuple[float, int, str]] = {}
        self._settings: dict[str, tuple[int, str]] = {}
        self._session: list[tuple[Output, dict[str, str]]] = []
        self._unsettled: dict[str, int] = {}
        """By name of a setting that was stated: how many of these results, from the first, may not have it."""
        self._version: str | None = None
        self._began: int | None = None
        self._procedure: str | None = None
        self._in_totals = False
        self._failed: set[str] = set()
        self._has_result = False
        """The current run printed its result: what follows up to the next run belongs to it."""

    def read(self, text: str, line: int) -> bool:
        version, set_users = _VERSION.search(text), _SET_USERS.search(text)
        if version is not None:
            # settings after the last result may belong to the new session
            last = self.found[-1].last_line if self.found else 0
            self._settings = {name: setting for name, setting in self._settings.items() if setting[0] >= last}
            self._version, self._session, self._unsettled = version["version"], [], {}
            self._begin_run()
            return True
        if self._takes_end_of_user(text, line):
            return True
        if set_users is not None:
            self._set_users = (line, int(set_users["users"]))
            return True
        if self._takes_settings(text, line):
            return text.startswith(_KNOWN)
        result = next((match for pattern in _RESULT if (match := pattern.search(text))), None)
        if result is not None:
            self._add(result, text, line)
            return True
        if self._takes_length(text, line) or self._takes_profile(text, line) or _COUNTER.match(text):
            return True
        # a result of another database is listed
        return text.startswith(_KNOWN) and "System achieved" not in text

    def _takes_length(self, text: str, line: int) -> bool:
        minutes, users = _MINUTES.search(text), _USERS.search(text)
        if minutes is not None:
            self._shown["duration_s"] = (60.0 * int(minutes["minutes"]), line, minutes[0])
        elif users is not None:
            self._shown["clients"] = (int(users["users"]), line, users[0].removesuffix(" configured"))
            self._began = line
        else:
            return False
        if self._has_result:
            self._begin_run()
        return True

    def _begin_run(self) -> None:
        self._failed, self._has_result = set(), False

    def _takes_end_of_user(self, text: str, line: int) -> bool:
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

    def _takes_settings(self, text: str, line: int) -> bool:
        rampup = _RAMPUP.search(text)
        if rampup is not None:
            self._settings["rampup"] = (line, rampup["minutes"])
        found = settings_in(text) if "pg_" in text else {}
        for name, setting in found.items():
            self._settings[name] = (line, setting.value)
            is_first = name not in self._unsettled
            count = self._unsettled.setdefault(name, len(self._session))
            for output, settings in self._session[:count] if is_first or setting.before != NOT_SET else ():
                if settings.get(name, NOT_SET) == NOT_SET:
                    settings[name] = setting.before
                    put_settings(output, settings)
            if setting.before != NOT_SET:
                self._unsettled[name] = 0
        return bool(found)

    def _takes_profile(self, text: str, line: int) -> bool:
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
        settings = {name: value for name, (_, value) in self._settings.items()}
        put_settings(output, settings)
        self._session.append((output, settings))
        output.put("nopm", float(match["nopm"]), line, text)
        output.put("tpm", float(match["tpm"]), line, text)
        stated: dict[str, tuple[float, int, str]] = {}
        if self._set_users is not None:
            stated["clients"] = (self._set_users[1], self._set_users[0], f"vuset vu {self._set_users[1]}")
        for name, setting, factor in (("warehouses", "count_ware", 1), ("duration_s", "duration", 60.0)):
            if setting in self._settings:
                at, value = self._settings[setting]
                stated[name] = (int(value) * factor, at, f"pg_{setting} {value}")
        for name, (figure, at, printed) in (stated | self._shown).items():
            output.put(name, figure, at, printed)
        output.last_line = line
        output.clients_aborted = len(self._failed)
        self.found.append(output)
        self._has_result = True
        self._began, self._shown = None, {}
        self._in_totals = False
