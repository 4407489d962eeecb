"""Writes the plan of `pgdyno ab`: the arms of one question, as text that `pgdyno run` reads, too."""

import os
import re
import shlex
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from errno import ENAMETOOLONG, ENOENT, ENOTDIR
from itertools import product
from pathlib import Path, PurePath

from pgdyno.effect.read_only import LIFTING, READ_ONLY, first_escape
from pgdyno.errors import PlanError, UsageError
from pgdyno.mounts import expand_home
from pgdyno.plan.model import BUILTIN_SCRIPTS, Plan
from pgdyno.plan.optional_sections import checked_margin
from pgdyno.plan.plan_text import Table, plan_text
from pgdyno.plan.values import NAME, refuse_undecodable, refused_option, repeats
from pgdyno.plan.workload import ScriptChoice, parse_script
from pgdyno.records.base import FEWEST_PAIRS
from pgdyno.units import parse_duration_s

_NONE, _SERIES = "none", "+"
_LONGEST = 40
"""Characters of a commit or patch in the name of an arm."""
DEFAULT_CONNECTIONS, SPARE = 100, 20
"""initdb's max_connections, and what pgdyno's own sessions and the server's reserve need of them."""
_COMMA = r"write a comma within a value as \,"
_ONE_OF = (
    "give several values to one of --set NAME=A,B, --version A,B, --commit A,B, --patch none,FILE, and --dsn, --bin, "
    f"--source and --extension (twice); {_COMMA}"
)
_ALLOW = "to let scripts write on your server, in transactions that commit: --writes"
_ESCAPED = r"\,"
_SEPARATOR = re.compile(r"(?<!\\),")
_OPTIONS = {
    "sweep.clients": "--clients",
    "sweep.rate": "--rate",
    "trial.duration": "--duration",
    "trial.warmup": "--warmup",
    "workload.scale": "--scale",
    "workload.scale_factor": "--tpch",
    "workload.scripts": "--script",
    "workload.queries": "FILE",
    "workload.dataset.sql": "--setup",
    "event[0].do": "--do",
    "event[0].undo": "--undo",
    "event[0].limit": "--limit",
    "event[0].max_rate": "--max-rate",
}
"""The options that become these keys of the plan, apart from --set; the last ones are those of `pgdyno impact`."""
_SETTING = re.compile(r"sweep\.(?:session_)?settings\.(.+)")
_TARGET = re.compile(
    r"target\.[^.]+\.(?:(extension)s\[0\]\.source|(?:extensions\[0\]\.)?(version|bin|source|commit|patch|configure)(?:es)?)"
)
_INDEX = re.compile(r"\[\d+\]$")


@dataclass(frozen=True, slots=True)
class Question:
    """The options of `pgdyno ab`, as given."""

    dsn: Sequence[str] = ()
    versions: Sequence[str] = ()
    bins: Sequence[str] = ()
    settings: Sequence[str] = ()
    """`NAME=A,B` each, where a backslash before a comma makes it a part of the value."""
    scripts: Sequence[str] = ()
    clients: int | tuple[int, ...] = 8
    rate: float | None = None
    duration: str = "20s"
    warmup: str = "5s"
    pairs: str = "6..20"
    """A number, or a range to stop when decided."""
    margin: str | None = None
    """Differences within it count as none; only with a range."""
    scale: int | None = None
    """Of pgbench's tables on servers that pgdyno starts; None: 10."""
    writes: bool = False
    """Whether scripts may write on a server of the user's."""
    poolers: Sequence[str] = ()
    """`none` and `pgbouncer`, each an arm of every server that pgdyno starts."""
    load_dsn: str | None = None
    """A pooler in front of the user's server, which is the other arm."""
    sources: Sequence[str] = ()
    """Folders with PostgreSQL's source."""
    configure: str | None = None
    """Arguments of its configure or meson."""
    extensions: Sequence[str] = ()
    """Folders with an extension's source, each an arm of every server."""
    commits: Sequence[str] = ()
    """Of the extension if there is one, otherwise of PostgreSQL; each is an arm."""
    patches: Sequence[str] = ()
    """Likewise; `none`, a file, or a series: `v3-0001.patch+v3-0002.patch`."""
    runs: int | None = None
    """For `pgdyno query`: how many times each of `scripts`, by itself, runs in a trial."""
    tpch: float | None = None
    """For `pgdyno query`, TPC-H's queries in place of `scripts`: the scale factor."""
    cold: bool = False
    """Whether each query also runs without anything in memory."""
    counted: bool = False
    """Whether the instructions of each query are counted."""
    setup: Sequence[str] = ()
    """Files of SQL that make the tables on servers that pgdyno starts, in place of pgbench's."""
    control: bool = False
    """Whether the baseline is measured twice in each pair."""

    @property
    def points(self) -> list[int]:
        return [self.clients] if isinstance(self.clients, int) else list(self.clients)


def ab_plan(asked: Question, folder: Path) -> str:
    """Return the TOML text of the plan, whose scripts are relative to `folder`.

    A setting applies per connection on a server that exists, and to the whole server on one that pgdyno starts. Raises
    UsageError if the options ask no question or several.
    """
    check_encoding(asked)
    settings = setting_values(asked.settings)
    targets = _with_poolers(asked, settings, with_sources(asked, server_tables(asked)))
    several = [name for name, values in settings.items() if len(values) > 1]
    if not several and len(targets) == 1 and asked.runs is None:
        raise UsageError("nothing to compare", hint=_ONE_OF)
    if len(several) + (len(targets) > 1) > 1:
        compared = [*(f"--set {name}" for name in several), *([f"{len(targets)} servers"] if len(targets) > 1 else [])]
        raise UsageError(f"several questions at once: {', '.join(compared)}", hint=_ONE_OF)
    pairs = number_of_pairs(asked)
    check_access(asked, settings)
    name = "ab" if asked.runs is None else "query"
    questions = [f"{name} = {' or '.join(values)}" for name, values in settings.items()]
    questions += [" or ".join(targets)] if len(targets) > 1 else []
    description = "; ".join(questions) or "How long does each query take?"
    tables: dict[str, Table] = {f"target.{server}": table for server, table in targets.items()}
    tables["workload"] = _workload(asked, folder)
    tables["sweep"] = {"clients": asked.points[0] if len(asked.points) == 1 else asked.points}
    if asked.rate is not None:
        tables["sweep"]["rate"] = asked.rate
    tables[f"sweep.{'session_settings' if asked.dsn else 'settings'}"] = dict(settings)
    trial: Table = {"warmup": asked.warmup, "duration": asked.duration} if asked.runs is None else {}
    trial |= {"repeats": pairs, **({"margin": asked.margin} if asked.margin else {})}
    trial |= {"order": "interleaved", "on_failure": "stop", **({"control": True} if asked.control else {})}
    tables |= {"trial": trial, **reset_of(asked), "probe": {} if asked.runs is None else {"plans": True}}
    return plan_text(name, {"name": name, "description": description}, tables)


def reset_of(asked: Question) -> dict[str, Table]:
    """Return the section `reset` of a plan with a server of the user's."""
    return {"reset": {"checkpoint": False}} if asked.dsn else {}


def _workload(asked: Question, folder: Path) -> Table:
    scripts: object = "tpch" if asked.tpch is not None else script_entries(asked, folder)
    data: Table = {"dataset": "none"} if asked.dsn else {"scale": asked.scale or 10}
    if asked.setup:
        data = setup_dataset(asked, asked.setup, folder)
    if asked.runs is None:
        return {"scripts": scripts, **data}
    if asked.tpch is not None:
        data = {"scale_factor": asked.tpch, **(data if asked.dsn else {})}
    elif not asked.dsn and not asked.setup:
        data["dataset"] = "pgbench"
    data |= {**({"cache": "cold"} if asked.cold else {}), **({"instructions": True} if asked.counted else {})}
    return {"queries": scripts, "runs": asked.runs, **data}


def setup_dataset(asked: Question, files: Sequence[str], folder: Path) -> Table:
    """Return the dataset of the plan that the SQL `files` make, relative to `folder`. Raises UsageError."""
    if asked.dsn:
        hint = "run the file with psql"
        raise UsageError("--setup applies to servers that pgdyno starts: it loads nothing into yours", hint=hint)
    names = [os.path.relpath(_resolved_folder(Path(each)), folder.resolve()) for each in files]
    return {"dataset": {"name": "setup", "sql": names}}


def question_of_plan(asked: Question, plan: Plan) -> Question:
    """Return the question whose plan is `plan`, which is that of `asked` within a budget."""
    trial, points = plan.trial, plan.points()
    settings = {
        name: [value for value in values if any(point.settings.get(name) == value for point in points)]
        for name, values in setting_values(asked.settings).items()
    }
    return replace(
        asked,
        settings=[
            f"{name}={','.join(each.replace(',', _ESCAPED) for each in values)}" for name, values in settings.items()
        ],
        duration=_duration(asked.duration, trial.duration),
        warmup=_duration(asked.warmup, trial.warmup),
        pairs=str(trial.repeats),
        margin=trial.margin,
        scale=None if asked.dsn else plan.workload.scale,
    )


def _duration(asked: str, seconds: float | None) -> str:
    """Return `seconds` as text: that of `asked` if it is the same."""
    if seconds is None or parse_duration_s(asked) == seconds:
        return asked
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"


def in_options(error: PlanError) -> UsageError | None:
    """Return the problems of the plan that `ab_plan` wrote in terms of options; None if none comes from an option.

    Others follow from those: the plan of an invalid version has one arm.
    """
    found = [(option, problem) for problem in error.problems if (option := _option(problem.path))]
    if not found:
        return None
    said = [f"{option}: {problem.message}" for option, problem in found]
    hints = [problem.hint for _, problem in found if problem.hint]
    return UsageError("; ".join(said), hint=hints[0] if hints else None)


def _option(path: str) -> str | None:
    key = _INDEX.sub("", path)
    target = _TARGET.fullmatch(key)
    if target is not None:
        return f"--{target[1] or target[2]}"
    setting = _SETTING.fullmatch(key)
    return _OPTIONS.get(key) if setting is None else f"--set {setting[1]}"


def check_encoding(asked: Question) -> None:
    """Raise UsageError for options that are not UTF-8."""
    given = {"--dsn": asked.dsn, "--version": asked.versions, "--bin": asked.bins, "--set": asked.settings}
    given |= {"--script": asked.scripts, "--duration": [asked.duration], "--warmup": [asked.warmup]}
    for option, texts in given.items():
        for each in texts:
            # a connection string may contain a password
            refuse_undecodable(option if option == "--dsn" else f"{option} {each}", each)


def check_access(asked: Question, settings: Mapping[str, object]) -> None:
    """Raise UsageError for options that apply only to servers of the user's, or only to others."""
    if not asked.dsn:
        if asked.writes:
            raise UsageError("--writes applies only to --dsn: on servers that pgdyno starts, scripts may write anyway")
        return
    if asked.scale is not None:
        raise UsageError(
            "--scale applies to servers that pgdyno starts: it loads nothing into yours", hint="remove --scale"
        )
    if not asked.scripts and asked.tpch is None:
        raise UsageError("no --script", hint="name a file with the statements to measure: --script query.sql")
    lifting = next((name for name in settings if name.lower() in LIFTING), None)
    if lifting is not None and not asked.writes:
        raise UsageError(f"--set {lifting} decides whether scripts may write", hint=_ALLOW)


def number_of_pairs(asked: Question) -> int | str:
    """Return the pairs as a plan has them. Raises UsageError."""
    pairs: int | str = int(asked.pairs) if asked.pairs.isdecimal() else asked.pairs
    if isinstance(pairs, int) and pairs < FEWEST_PAIRS:
        raise UsageError(f"{pairs} pairs are too few for a verdict", hint=f"use --pairs {FEWEST_PAIRS} or more")
    try:
        repeats(pairs)
    except ValueError as error:
        raise UsageError(f"--pairs: {error}") from error
    try:
        checked_margin(asked.margin)
    except ValueError as error:
        raise UsageError(f"--margin: {error}") from error
    if asked.margin is not None and isinstance(pairs, int):
        raise UsageError("--margin is valid only with a range of pairs", hint="such as --pairs 6..20")
    return pairs


def setting_values(given: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of each setting. Raises UsageError."""
    found: dict[str, list[str]] = {}
    spelled: dict[str, str] = {}
    lists: set[str] = set()
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--set {each} is not NAME=VALUE", hint="such as --set work_mem=4MB,64MB")
        name = name.strip()
        values = [part.replace(_ESCAPED, ",").strip() for part in _SEPARATOR.split(value)]
        known = spelled.setdefault(name.lower(), name)
        if known != name:
            raise UsageError(f"--set {known} and --set {name} name one setting", hint="write its name in one way")
        if len(values) > 1:
            lists.add(name)
        if name in found and name in lists:
            # the comma could separate two values or belong to one
            raise UsageError(f"--set {name} is given several times, and once with a comma", hint=_COMMA)
        found.setdefault(name, []).extend(values)
    for name, values in found.items():
        if len(set(values)) < len(values):
            raise UsageError(f"--set {name} has a value twice", hint="give each value once")
    return found


def server_tables(asked: Question) -> dict[str, Table]:
    """Return the tables of the plan's targets by name. Raises UsageError."""
    given = [name for name in ("dsn", "versions", "bins", "sources") if getattr(asked, name)]
    if len(given) != 1:
        hint = 'name your server, --dsn "host=db dbname=app", or let pgdyno start one: --version 18, or --bin FOLDER'
        raise UsageError("no server to measure" if not given else "servers of several kinds", hint=hint)
    if asked.dsn:
        return _existing_targets(asked)
    if asked.versions:
        return {
            "pg" + re.sub(r"[^A-Za-z0-9]+", "-", each): {"kind": "embedded", "version": each}
            for each in _refuse_repeated("--version", asked.versions)
        }
    option, kind, key = ("--bin", "local", "bin") if asked.bins else ("--source", "build", "source")
    folders = [_absolute(each) for each in asked.bins or asked.sources]
    configure = {"configure": shlex.split(asked.configure)} if asked.configure else {}
    return {
        name: {"kind": kind, key: each, **(configure if asked.sources else {})}
        for name, each in zip(_names_of_folders(option, folders), folders, strict=True)
    }


def _absolute(path: str) -> str:
    return os.path.normpath(expand_home(path).absolute())


def _names_of_folders(option: str, folders: Sequence[str]) -> list[str]:
    parts = [PurePath(each).parts for each in _refuse_repeated(option, folders)]
    return _names([{str(at): part for at, part in enumerate(each)} for each in parts])


def with_sources(asked: Question, targets: dict[str, Table]) -> dict[str, Table]:
    """Return an arm of each target for each extension, commit and patch. Raises UsageError."""
    if not asked.sources and not asked.extensions:
        if asked.commits or asked.patches or asked.configure:
            message = "--commit, --patch and --configure apply to what pgdyno builds"
            raise UsageError(message, hint="add --source FOLDER, or --extension FOLDER for the first two")
        return targets
    if asked.dsn or asked.versions:
        raise UsageError("--extension needs --bin or --source: only these servers have headers")
    extensions = [_absolute(each) for each in asked.extensions]
    of_extension = dict(zip(extensions, _names_of_folders("--extension", extensions), strict=True)) or {"": ""}
    found: dict[str, Table] = {}
    for (server, table), (extension, name), commit, patches in product(
        targets.items(), of_extension.items(), asked.commits or [""], asked.patches or [""]
    ):
        state: Table = {"commit": commit} if commit else {}
        if patches not in ("", _NONE):
            state["patches"] = [_absolute(each) for each in patches.split(_SERIES)]
        made = {"extensions": [{"source": extension, **state}]} if extension else state
        patched = {"": "", _NONE: "unpatched"}.get(patches, PurePath(patches.partition(_SERIES)[0]).stem[:_LONGEST])
        of_commit = commit[:_LONGEST]
        several = (server, targets), (name, of_extension), (of_commit, asked.commits), (patched, asked.patches)
        parts = [each for each, all_of in several if len(all_of) > 1] or [server]
        arm = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(parts)).strip("-")
        found[arm if arm not in found else f"{arm}-{len(found) + 1}"] = table | made
    return found


def _with_poolers(asked: Question, settings: Mapping[str, object], targets: dict[str, Table]) -> dict[str, Table]:
    """Return an arm of each target for each pooler. Raises UsageError."""
    if asked.load_dsn is not None:
        if len(asked.dsn) != 1 or not asked.writes or settings:
            message = "--load-dsn needs one --dsn and --writes, and no --set"
            raise UsageError(message, hint="pgdyno cannot make transactions read-only through a pooler")
        (table,) = targets.values()
        return {"direct": table, "pooled": table | {"load_dsn": asked.load_dsn}}
    if not asked.poolers:
        return targets
    if asked.dsn or set(asked.poolers) - {"none", "pgbouncer"} or len(set(asked.poolers)) < len(asked.poolers):
        raise UsageError("--pooler is none,pgbouncer, before servers that pgdyno starts", hint="yours: --load-dsn")
    most = max(asked.points)
    room: Table = {}
    if most >= DEFAULT_CONNECTIONS - SPARE and "max_connections" not in settings:
        room = {"settings": {"max_connections": most + SPARE}}
    return {
        f"{name}-{'direct' if pooler == 'none' else pooler}": table
        | room
        | ({} if pooler == "none" else {"pooler": {"kind": pooler}})
        for name, table in targets.items()
        for pooler in asked.poolers
    }


def _refuse_repeated(option: str, values: Sequence[str]) -> Sequence[str]:
    if len(set(values)) < len(values):
        raise UsageError(f"{option} names one server twice", hint="give each value once")
    return values


def _existing_targets(asked: Question) -> dict[str, Table]:
    # loading libpq takes time, and other questions do not need it
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    parsed = []
    for each in asked.dsn:
        text = each if "=" in each or "://" in each else make_conninfo(dbname=each)
        try:
            parameters = {name: str(value) for name, value in conninfo_to_dict(text).items()}
        except psycopg.ProgrammingError as error:
            raise UsageError(
                f"--dsn is not a connection string{refused_option(text, error)}",
                hint='such as "host=db dbname=app" or postgresql://db/app',
            ) from error
        if "password" in parameters:
            raise UsageError(
                "--dsn has a password, which other users could see",
                hint="remove it there, and set PGPASSWORD or use ~/.pgpass",
            )
        database = parameters.pop("dbname", None) or _default_database(parameters.get("service"))
        if not database:
            raise UsageError("--dsn names no database", hint='such as --dsn "host=db dbname=app"')
        parsed.append((make_conninfo(**parameters, dbname=database), database, parameters))
    names = _names([parameters | {"dbname": database} for _, database, parameters in parsed])
    reads_only: Table = {} if asked.writes else {"session_settings": {READ_ONLY: "on"}}
    return {
        name: {"kind": "dsn", "dsn": text, "database": database, "allow_existing": True, **reads_only}
        for name, (text, database, _) in zip(names, parsed, strict=True)
    }


def _default_database(service: str | None) -> str | None:
    """Return the database of the service file, or that of PGDATABASE; None without either."""
    from psycopg import pq

    before = os.environ.get("PGSERVICE")
    try:
        if service is not None:
            # libpq reads the service file only for this variable or for a connection
            os.environ["PGSERVICE"] = service
        defaults = {option.keyword: option.val for option in pq.Conninfo.get_defaults()}
    finally:
        if service is not None:
            os.environ.pop("PGSERVICE")
        if before is not None:
            os.environ["PGSERVICE"] = before
    found = defaults.get(b"dbname")
    return found.decode() if found else None


def _names(parameters: Sequence[Mapping[str, str]]) -> list[str]:
    if len(parameters) == 1:
        return ["server"]
    for key in dict.fromkeys(key for each in parameters for key in each):
        names = [re.sub(r"[^A-Za-z0-9]+", "-", each.get(key, "")).strip("-") for each in parameters]
        if len(set(names)) == len(names) and all(NAME.fullmatch(name) for name in names):
            return names
    return [f"server{number}" for number in range(1, len(parameters) + 1)]


def script_entries(asked: Question, folder: Path) -> list[str]:
    """Return the scripts of the plan, relative to `folder`. Raises UsageError."""
    found = []
    for each in asked.scripts or ["select-only"]:
        choice = _choice(each)
        if choice.builtin:
            if asked.dsn:
                raise UsageError(
                    f"--script {choice.name} needs pgbench's tables, and pgdyno ab loads none into your own server",
                    hint="name a file with statements for your own tables",
                )
            name = choice.name
        else:
            if asked.dsn and not asked.writes:
                _check_read_only(choice.name)
            name = os.path.relpath(_resolved_folder(Path(choice.name)), folder.resolve())
        found.append(name if choice.weight == 1 and "@" not in name else f"{name}@{choice.weight}")
    return found


def _choice(given: str) -> ScriptChoice:
    """Return the built-in script or the file that --script names. Raises UsageError."""
    if given not in BUILTIN_SCRIPTS and _is_there(given, given):
        # also a name with @
        return ScriptChoice(given, 1)
    try:
        choice = parse_script(given)
    except ValueError as error:
        raise UsageError(f"--script {given}: {error}") from error
    if not choice.builtin and not _is_there(choice.name, given):
        raise UsageError(
            f"--script {given}: it is neither a built-in script nor a file",
            hint=f"write the statements into a file, and name it; built-in scripts: {', '.join(BUILTIN_SCRIPTS)}",
        )
    return choice


def _is_there(name: str, given: str) -> bool:
    """Return whether the script `name` is a regular file. Raises UsageError if it cannot be used, with the reason."""
    try:
        mode = os.stat(name).st_mode  # noqa: PTH116 - a path of any text
    except OSError as error:
        # statements in place of a file are often longer than a name may be
        if error.errno in (ENOENT, ENOTDIR, ENAMETOOLONG):
            return False
        raise UsageError(f"--script {given}: {(error.strerror or str(error)).lower()}") from error
    if not stat.S_ISREG(mode):
        raise UsageError(f"--script {given}: it is not a regular file", hint="write the statements into a file")
    return True


def _resolved_folder(file: Path) -> Path:
    return file.parent.resolve() / file.name


def _check_read_only(file: str) -> None:
    """Raise UsageError for what the script `file` writes in spite of read-only transactions."""
    try:
        text = Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        # the check of the plan says why
        return
    found = first_escape(text)
    if found is not None:
        line, words = found
        raise UsageError(f'--script {file}: line {line} has "{words}", which is not read-only', hint=_ALLOW)
