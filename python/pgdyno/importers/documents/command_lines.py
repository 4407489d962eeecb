"""Command lines in documents."""

import re
import shlex
from collections.abc import Sequence
from contextlib import suppress

from pgdyno.importers.documents.command_prefixes import Prefix, program_folder, read_prefix
from pgdyno.importers.documents.passwords import connection_options, server_parts
from pgdyno.importers.parsed import Output, number

_PROMPT = r"(?:^|[$#>%]\s{0,8}|\s|`)"
_DATABASE = r"(?:'[^'`]{1,300}'|\"[^\"`]{1,300}\"|[\w.$:/{}@?&=%*,+\[\]~-]{1,300})"
_PGBENCH = re.compile(
    _PROMPT + rf"(?P<command>(?:[^\s`]{{0,200}}/)?pgbench(?:-?\d{{1,2}}(?:\.\d)?)?(?:\s+{_DATABASE})?\s+-\S.{{0,8000}})"
)
_SYSBENCH = re.compile(_PROMPT + r"(?P<command>(?:[^\s`]{0,200}/)?sysbench\s+\S.{0,8000})")
_ENDS = frozenset(["|", ">", ">>", "2>", "2>&1", "&>", "&", "&&", "||", ";", "<"])

_WITH_VALUE = {"c": "clients", "j": "workers", "s": "scale", "T": "duration_s", "t": "transactions_per_client",
               "R": "rate"}  # fmt: skip
_FRACTIONS = ("duration_s", "rate")
_LONG = {"client": "c", "jobs": "j", "scale": "s", "time": "T", "transactions": "t", "protocol": "M", "rate": "R",
         "file": "f", "builtin": "b", "define": "D", "select-only": "S", "skip-some-updates": "N", "host": "h",
         "port": "p", "dbname": "d", "connect": "C", "latency-limit": "L", "progress": "P",
         "initialize": "i"}  # fmt: skip
_TAKES = "cjsTtMRfbDLPFhpUd"
_KNOWN_APART = frozenset("cjsTtMRDPhpdUrnvlW") | {
    "progress-timestamp", "log-prefix", "sampling-rate", "aggregate-interval", "username", "report-latencies",
    "report-per-command", "no-vacuum", "vacuum-all", "log", "debug", "show-script", "failures-detailed",
    "verbose-errors", "random-seed",
}  # fmt: skip
_HOST = re.compile(
    r"(?:^|\s)host(?:addr)?\s{0,4}=\s{0,4}'?(?P<key>[^\s']{1,300})|"
    r"^postgres(?:ql)?://(?:[^@/]{0,200}@)?(?P<uri>[^:/?,]{1,300})"
)
_BUILTIN = {"S": "select-only", "N": "simple-update"}


LONGEST_PREFIX = 300
_NO_PREFIX = re.compile(r"[\s\-*•+|]*[$#%>]?\s*")


def pgbench_command(text: str) -> str | None:
    """Return pgbench's command line in `text` with what precedes it, such as `ssh db1`; None without one."""
    return _find_command(_PGBENCH, text) if "pgbench" in text else None


def sysbench_command(text: str) -> str | None:
    """Return sysbench's command line of a run in `text` with what precedes it, such as `ssh db1`; None without one."""
    command = _find_command(_SYSBENCH, text) if "sysbench" in text else None
    return command if command is not None and re.search(r"\brun\b", without_prefix(command)) else None


def _find_command(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    if match is None:
        return None
    command = match["command"].partition("`")[0].strip()
    before = text[: match.start("command")].rpartition("`")[2]
    before = before[_NO_PREFIX.match(before).end() :].lstrip()  # type: ignore[union-attr]
    return f"{before[-LONGEST_PREFIX:].lstrip()}{command}"


def without_prefix(command: str) -> str:
    """Return `command` from its program on."""
    return command[_program_at(command) :]


def prefix_of(command: str) -> Prefix:
    """Return what precedes the program in `command`, with the program's folder if the line shows it."""
    at = _program_at(command)
    prefix = read_prefix(command[:at])
    prefix.folder = program_folder(prefix, command[at:].split(maxsplit=1)[0])
    return prefix


def _program_at(command: str) -> int:
    found = [match.start("command") for each in (_PGBENCH, _SYSBENCH) if (match := each.search(command))]
    return min(found, default=0)


def is_initialization(command: str) -> bool:
    return any(option == "i" for option, _ in _options(_words(without_prefix(command))[1:]))


def read_options(output: Output, command: str, line: int) -> None:
    """Keep what a pgbench command line shows and the summary may not: scale, variables, rate, script."""
    prefix = prefix_of(command)
    server = dict(prefix.server)
    scripts: list[str] = []
    others = list(prefix.options)
    for option, value in _options(_words(without_prefix(command))[1:]):
        if option == "D" and value and "=" in value:
            name, _, text = value.partition("=")
            output.variables[name] = text
        elif option == "M" and value in ("simple", "extended", "prepared"):
            output.put("protocol", value, line, f"-M {value}")
        elif option in _BUILTIN or (option in ("f", "b") and value):
            scripts.append(_BUILTIN.get(option) or (value or "").rsplit("/", 1)[-1])
        elif option in ("h", "p", "d") and value:
            server |= server_parts(value) if option == "d" else {option: value}
            others += connection_options(value) if option == "d" else []
        elif option in _WITH_VALUE:
            name = _WITH_VALUE[option]
            with suppress(ValueError):
                figure = number(value or "")
                output.put(name, figure if name in _FRACTIONS else int(figure), line, f"-{option} {value}")
        elif option not in _KNOWN_APART:
            others.append(f"-{option}" if value is None else f"-{option} {value}")
    output.server = ":".join(server[part] for part in ("h", "p", "d") if part in server)
    output.options = " ".join([*sorted(scripts), *sorted(others)])
    output.asked = {name: getattr(output, name) for name in (*_WITH_VALUE.values(), "protocol")}
    if scripts:
        output.words["script"] = scripts[0].partition("@")[0]
        output.workload = scripts[0].partition("@")[0] if len(scripts) == 1 else "multiple scripts"


def host_of(command: str) -> str | None:
    """Return the host that `command`, of pgbench or sysbench, connects to.

    Empty if it names none; None if it is a variable, and for another database's driver.
    """
    words = _words(without_prefix(command))
    options = _options(words[1:])
    if words and words[0].rsplit("/", 1)[-1].startswith("sysbench"):
        host = next((value for option, value in options if option == "pgsql-host"), "localhost")
        if not any(option.startswith("pgsql") or value == "pgsql" for option, value in options):
            return None
    else:
        named = prefix_of(command).server.get("h", "")
        host = next((value for option, value in options if option == "h"), named)
        for match in (_HOST.search(value) for option, value in options if option == "d" and value):
            host = (match["key"] or match["uri"]) if match is not None else host
    return None if host is None or "$" in host or "{" in host else host


def is_local(host: str) -> bool:
    """Return whether a server at `host` is on its client's machine: a loopback address, or a socket's folder."""
    host = host.strip().strip("'\"")
    return host in ("", "localhost", "::1") or host.startswith(("127.", "/", "@"))


def contradicts_command(output: Output) -> bool:
    """Return whether the summary differs from the command above it, which then belongs to another run."""
    names = ("clients", "duration_s", "transactions_per_client", "protocol")
    return any(output.asked.get(name) is not None and getattr(output, name) != output.asked[name] for name in names)


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        words = command.split()
    for at, word in enumerate(words):
        if word in _ENDS or word.startswith(("2>", "&>")):
            return words[:at]
    return words


def _options(words: Sequence[str]) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    at = 0
    while at < len(words):
        word = words[at].rstrip(";")
        at += 1
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            name = _LONG.get(name, name)
            if not equals and name in _TAKES and at < len(words) and not words[at].startswith("-"):
                value = words[at]
                at += 1
            found.append((name, value or None))
        elif word.startswith("-") and len(word) > 1:
            letters = word[1:]
            # switches may be combined, the last of them with its value: -nSc 8
            while len(letters) > 1 and letters[0] not in _TAKES and letters[0].isalpha():
                found.append((letters[0], None))
                letters = letters[1:]
            letter, value = letters[0], letters[1:]
            if letter in _TAKES and not value and at < len(words) and not words[at].startswith("-"):
                value = words[at]
                at += 1
            found.append((letter, value or None))
        elif word:
            found.append(("d", word))
    return found
