"""What precedes a benchmark's command on its line: a prompt, variables, programs that run it here or elsewhere."""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import PurePosixPath

_PROMPT = re.compile(r"(?P<prompt>[^$#%>]{0,200}?)[$#%>](?:\s|$)")
_USER_AT_HOST = re.compile(r"[\w.+-]{1,60}@(?P<host>[\w.-]{1,100})(?P<folder>.*)")
_CONTAINER = re.compile(r"[0-9a-f]{12}")
"""The host name of a container is its ID, which differs after each start."""
_NO_NAME = re.compile(
    r"[\W\d_]*(?:[AaPp][Mm]|UTC|GMT|CES?T|Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)?"
    r"[\W\d_]*"
)
"""Clocks, dates, counters and punctuation of a prompt or of a log, which differ between repeats."""
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w{0,60})=(?P<value>.*)", re.DOTALL)
_COUNTER = re.compile(r"[a-z]\w{0,20}=(?:\d{1,6}|\$.*)?")
_VARIABLE = re.compile(r"\$\{?\w+\}?")
_SEPARATORS = frozenset(["&&", "||", "|", ";", "do", "then", "else", "(", "{", "$(", "!"])
_SERVER = {"PGSERVICE": "h", "PGHOSTADDR": "h", "PGHOST": "h", "PGPORT": "p", "PGDATABASE": "d"}
"""Variables of libpq, and the options of pgbench for the same; a later one replaces an earlier one."""
_NEEDLESS = re.compile(
    r"PG(?:USER|PASSWORD|PASSFILE|APPNAME|CONNECT_TIMEOUT|DATA)|\w*(?:PASS|PASSWORD|PWD)|LANG|LC_\w+|TZ"
)
_ROUTES = frozenset([
    "ssh", "docker", "docker-compose", "podman", "nerdctl", "kubectl", "oc", "microk8s", "lxc", "incus", "crictl",
    "nsenter", "chroot", "machinectl", "gcloud", "az", "aws", "vagrant", "toolbox", "distrobox", "srun",
])  # fmt: skip
_FLAGS = frozenset(["-i", "-t", "-it", "-ti", "-tt", "-T", "-q", "--interactive", "--tty", "--rm", "--", "exec", "run"])
_LOAD = frozenset([
    "numactl", "taskset", "nice", "ionice", "chrt", "cgexec", "systemd-run", "cpulimit", "prlimit", "perf", "strace",
    "ltrace", "valgrind", "faketime",
])  # fmt: skip
"""Programs that change how fast the command runs."""
_SILENT = frozenset([
    "time", "nohup", "sudo", "doas", "su", "runuser", "gosu", "setsid", "timeout", "stdbuf", "unbuffer", "script",
    "watch", "bash", "sh", "echo", "date", "sleep", "sync", "clear", "for", "while", "caffeinate",
])  # fmt: skip
"""Programs that change neither; the words after them are theirs."""
_SKIPPED = frozenset(["env", "exec", "command", "export", "declare", "set", "-x", "-e"])


@dataclass(slots=True)
class Prefix:
    server: dict[str, str] = field(default_factory=dict)
    """From variables, by pgbench's options `h`, `p` and `d`."""
    options: list[str] = field(default_factory=list)
    """Variables and programs that may change the load: `PGOPTIONS=-c work_mem=4MB`, `taskset -c 0-3`."""
    route: str = ""
    """The programs that run it elsewhere, with the place: `ssh db1`."""
    host: str = ""
    folder: str = ""
    """The current folder, from the prompt or `cd`."""
    text: str = ""


def read_prefix(before: str) -> Prefix:
    """Return what `before`, the beginning of a line up to the command, shows."""
    prefix = Prefix()
    words: list[str] = []
    prompt = _PROMPT.match(before)
    if prompt is not None:
        words += _read_prompt(prefix, prompt["prompt"])
        before = before[prompt.end() :]
    words += _read_words(prefix, _shell_words(before))
    prefix.text = " ".join(words)
    return prefix


def program_folder(prefix: Prefix, program: str) -> str:
    """Return the folder of `program`, the first word of a command; empty if the line does not show it."""
    folder = program.rpartition("/")[0]
    if not folder:
        return ""
    if not folder.startswith(("/", "~")):
        folder = f"{prefix.folder}/{folder}" if prefix.folder else folder
    shown = str(PurePosixPath(folder))
    return "" if shown == "." else shown


def _read_prompt(prefix: Prefix, prompt: str) -> list[str]:
    at = _USER_AT_HOST.search(prompt)
    if at is not None:
        prefix.host = "" if _CONTAINER.fullmatch(at["host"]) else at["host"]
        folders = [word for word in re.split(r"[\s:\])]+", at["folder"]) if not _NO_NAME.fullmatch(word) or "~" in word]
        prefix.folder = folders[0] if folders else ""
        return []
    words = [word for word in re.split(r"[\s\[\]():,]+", prompt) if not _NO_NAME.fullmatch(word) or "~" in word]
    folders = [word for word in words if word.startswith(("~", "/"))]
    prefix.folder = folders[0] if folders else ""
    return [word for word in words if word not in folders]


def _read_words(prefix: Prefix, words: list[str]) -> list[str]:
    others: list[str] = []
    route: list[str] = []
    loads: list[list[str]] = []
    sink: list[str] = others
    for at, word in enumerate(words):
        name = word.rpartition("/")[2].lstrip("\\")
        assignment = _ASSIGNMENT.fullmatch(word)
        if word in _SEPARATORS:
            sink = others
        elif sink is others and word == "cd" and at + 1 < len(words):
            prefix.folder = words[at + 1]
            sink = []
        elif assignment is not None and not word.startswith("-"):
            _read_variable(prefix, assignment["name"], assignment["value"])
        elif name in _ROUTES:
            sink = route
            route.append(name)
        elif name in _LOAD:
            sink = [name]
            loads.append(sink)
        elif name in _SILENT:
            sink = []
        elif word not in _SKIPPED and not (sink is route and word in _FLAGS):
            sink.append(word)
    prefix.options += [" ".join(load) for load in loads]
    prefix.route = " ".join(route)
    return [word for word in others if not _NO_NAME.fullmatch(word)]


def _read_variable(prefix: Prefix, name: str, value: str) -> None:
    if _VARIABLE.fullmatch(value) or _NEEDLESS.fullmatch(name) or _COUNTER.fullmatch(f"{name}={value}"):
        return
    if name not in _SERVER:
        prefix.options.append(f"{name}={value}")
    elif not (name == "PGSERVICE" and "h" in prefix.server):
        prefix.server[_SERVER[name]] = value


def _shell_words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError:
        # a quote that the command's last word closes
        words = [word.strip("'\"") for word in text.split()]
    separated = []
    for word in words:
        separated += [word.rstrip(";"), ";"] if word.endswith(";") else [word]
    return [word for word in separated if word]
