"""The commands that guides show as `$ …` in console blocks run, in the order of the page, on real servers.

The blocks of a page with a title are its files. Trials are one second long, a server of this host replaces those on
other hosts, and installers and containers are not called: `make dist-check` and `make image-check` test these commands.
NOT_RUN and ELSEWHERE_RUN name the pages and the commands of pgdyno that do not run here, with the tests that do it.
"""

import os
import re
import shlex
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgdyno.targets import Home, Server
from pgdyno.targets.cluster.installation import Installation
from tests.action_steps import PullRequest
from tests.forked import PGDYNO
from tests.postgres.conftest import FAST
from tests.postgres.own_servers import LOGS_STATEMENTS, OwnServer, running_server
from tests.postgres.runs import environment, fast_plan
from tests.postgres.servers import embedded, execute, opened
from tests.run_program import run_program
from tests.small_extension import change_rounds, commit_all, git, write_extension, write_tree

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
PAGES = (
    "install", "first-run", "tutorial", "sweeps", "compare-settings", "impact", "archive", "own-sql", "scenarios",
    "count", "insert-benchmark", "aurora", "latency", "github-actions", "moving", "sysbench", "cluster",
    "poolers", "patches", "gate-extension", "queries", "bisect", "publish",
)  # fmt: skip
OWN_LOAD_PAGES = ("own-load", "own-load-replay", "own-load-model")
"""They capture what an application does meanwhile."""
NOT_RUN = {
    "aws": "servers of Amazon: tests/postgres/test_aws_runs.py and tests/postgres/test_aws_ec2_runs.py simulate them",
    "compare": "runs that the reader has: tests/cli/test_compare.py and tests/cli/test_analyse.py",
    "doctor": "its exit code depends on the machine: tests/cli/test_doctor.py",
    "import": "files of other tools: tests/unit/test_import_logs.py and tests/unit/test_import_tools.py",
    "live": "commands that do not end: tests/postgres/test_live.py and tests/cli/test_serve.py",
    "long-runs": "a run that is killed: tests/postgres/test_resume.py",
    "many-runs": "object storage: tests/unit/test_store_remote.py and tests/cli/test_cluster_analysis.py",
    "pool": "the reader's hosts: tests/postgres/test_pool.py",
    "remote-host": "a host over SSH: tests/ssh/test_over_ssh.py",
    "report": "runs that the reader has: tests/cli/test_analyse.py and tests/browser/test_report.py",
    "tpch": "its trials cannot be shorter: tests/postgres/test_tpch.py",
    "tune": "searches of hours: tests/postgres/test_search.py and tests/postgres/test_attached_search.py",
    "watch": "a screen that does not end: tests/postgres/test_watch.py",
}
"""Pages whose commands of pgdyno do not run here: the reason, and the tests that run such commands."""
ELSEWHERE_RUN = {
    "pgdyno run plan.toml --generators ssh://": "two hosts: tests/postgres/test_generators.py",
    'pgdyno capture "host=db dbname=app" --ssh': "a host over SSH: tests/postgres/test_capture_command.py",
    "pgdyno run insert-benchmark --on dsn": "a superuser of the server: tests/postgres/test_catalogue.py",
    "pgdyno bisect --repo ~/postgresql": "builds of an hour: tests/postgres/test_bisect.py",
    "pgdyno query --tpch": "a load of minutes: tests/postgres/test_queries.py and tests/postgres/test_tpch.py",
    "pgdyno capture --log": "logs that the reader has: tests/postgres/test_capture_command.py",
    "pgdyno capture --proxy": "an application of its own: tests/postgres/test_capture_proxy.py",
}
"""Likewise for single commands of the pages that run here, by their beginnings."""
ELSEWHERE = "db.example.net"
NOT_CALLED = {"make", "pipx", "docker", "kubectl", "tar", "pgdrive-*/pgdrive", "duckdb"}
"""They install something, or need a daemon, a release or another program."""
OF_PGDYNO = re.compile(r"^(?:\$ )?(?:\w+=\S+ )*(?:\S*/)?pgdyno [a-z-]", re.MULTILINE)
"""A line that calls pgdyno, in a block of any language; output that names a command is indented."""
QUICK = ("--no-preflight", "--set", "trial.repeats=1")
SHORT = (*QUICK, "--set", "trial.warmup=0s", "--set", "trial.duration=1s", "--set", "sweep.clients=2")
RECORDED = "3s"
REPLAYS = {"app-load/plan.toml", "django.toml"}
"""Plans that take their clients and the length of a trial from a capture."""
_SECOND = ("--set", "trial.warmup=0s", "--set", "trial.duration=1s", "--set", "workload.scale=1")
SCENARIOS = {
    "reports-beside-orders": (*QUICK, *_SECOND),
    "mine.toml": (*QUICK, *_SECOND),
    "index.toml": QUICK,
    "insert-benchmark": (*QUICK, *(word for step in range(6, 12) for word in ("--set", f"step.{step}.duration=1s"))),
}
"""Options that make plans with groups, which have the clients, shorter."""
PASSWORD = "of the docs"
TABLES = """\
CREATE TABLE orders (id bigserial PRIMARY KEY, customer_id int NOT NULL, total numeric NOT NULL);
INSERT INTO orders (customer_id, total) SELECT i % 1000 + 1, i % 100 FROM generate_series(1, 5000) AS i;
CREATE INDEX ON orders (customer_id, id);
ALTER TABLE orders OWNER TO bench;
"""
EXPECTED_CODES = {"gate latest --by instructions": 0, "gate": 11}
"""By the beginning of the command, 0 for others. One pair decides nothing, but two counts of instructions do."""


@pytest.fixture(scope="module")
def theirs(home: Home) -> Iterator[Server]:
    """The server of the reader: a database `app` with orders, and a role `bench`."""
    with opened(home, embedded(settings=FAST, connect="tcp"), "theirs") as server:
        execute(server, f"CREATE ROLE bench LOGIN CREATEDB PASSWORD '{PASSWORD}'", "CREATE DATABASE app OWNER bench")
        execute(server, TABLES, dbname="app")
        yield server


def blocks(page: str) -> list[tuple[str, str, str]]:
    """Language, title and text of each fenced block; either of the first two may be empty."""
    text = (GUIDES / f"{page}.md").read_text()
    return re.findall(r"^ *```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[str]:
    text = "".join(text for language, _, text in blocks(page) if language == "console")
    return [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]


def is_run(command: str) -> bool:
    name = shlex.split(command, comments=True)[0]
    return name not in NOT_CALLED and not command.startswith(tuple(ELSEWHERE_RUN))


@pytest.mark.parametrize("page", sorted(path.stem for path in GUIDES.glob("*.md")))
def test_commands_of_pgdyno_are_where_they_run(page: str) -> None:
    """A command in another block than the one that is run would be a promise that nothing keeps."""
    called = {language for language, _, text in blocks(page) if OF_PGDYNO.search(text)}
    if page in (*PAGES, *OWN_LOAD_PAGES):
        assert called <= {"console"}, "use console blocks, in which commands begin with `$ `"
        assert page not in NOT_RUN
        shown = "".join(text for language, _, text in blocks(page) if language == "console")
        assert len(OF_PGDYNO.findall(shown)) == len([each for each in commands(page) if OF_PGDYNO.match(each)])
    else:
        assert bool(called) == (page in NOT_RUN), "run the page (PAGES), or give the reason (NOT_RUN)"


def test_what_does_not_run_here_has_a_reason_and_tests() -> None:
    listed = [command for page in (*PAGES, *OWN_LOAD_PAGES) for command in commands(page)]
    for beginning in ELSEWHERE_RUN:
        assert any(command.startswith(beginning) for command in listed), beginning
    for reason in (*NOT_RUN.values(), *ELSEWHERE_RUN.values()):
        named = re.findall(r"tests/\S+\.py", reason)
        assert named
        assert all((GUIDES.parents[1] / name).is_file() for name in named), reason


def here(text: str, host: str, port: int) -> str:
    """Returns `text` with this host's servers instead of remote ones, and with little data."""
    text = re.sub(r"\bscale = 100?(?=[ \n])", "scale = 1", text)
    text = text.replace("table_size = 100000", "table_size = 1000")
    text = text.replace(".venv/bin/pgdyno", "pgdyno").replace('duration = "10s"', 'duration = "1s"')
    # one server under two names
    text = text.replace('"host=old ', f'"host={host} port={port} user=bench ')
    text = text.replace('"host=new ', f'"host=localhost port={port} user=bench ')
    text = text.replace("copy.example.net", ELSEWHERE).replace("host=127.0.0.1 port=55415", f"host={ELSEWHERE}")
    return text.replace(f"-h {ELSEWHERE}", f"-h {host} -p {port}").replace(
        f"host={ELSEWHERE}", f"host={host} port={port}"
    )


def shortened(command: str) -> str:
    """`command` with a second of load; a replay is as long as what was recorded."""
    command = re.sub(r"-T \d+", "-T 1", re.sub(r"--for \S+", f"--for {RECORDED}", command))
    words = shlex.split(command, comments=True)
    if words[0] != "pgdyno":
        return command
    if words[1] == "run":
        words += SCENARIOS.get(words[2], QUICK if words[2] in REPLAYS else SHORT)
    if words[1] == "ab":
        words += ("--no-preflight", "--warmup", "0s", "--duration", "500ms", "--pairs", "6")
        words += () if "--dsn" in words else ("--scale", "1")
    if words[1] == "query":
        words += ("--no-preflight", "--times", "2", "--scale", "1")
    if words[1] == "bisect":
        words += ("--no-preflight", "--alongside")
    if words[1] == "impact":
        words += ("--no-preflight", "--warmup", "0s", "--repeats", "1")
        words += () if "--dsn" in words else ("--scale", "1")
    return shlex.join(words)


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_run(page: str, theirs: Server, home: Home, installed: Installation, tmp_path: Path) -> None:
    variables = {"PGPASSWORD": PASSWORD, "BENCH_PASSWORD": PASSWORD}
    (*_, debian) = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    builds = {"/usr/lib/postgresql/17/bin": str(debian.parent), "/opt/patched/bin": str(installed.bin)}
    if page == "patches":
        builds |= own_sources(tmp_path, installed)
    if page == "bisect":
        plant_history(tmp_path / "busywork")
    if page == "gate-extension":
        git(write_extension(tmp_path), "update-ref", "refs/remotes/origin/main", commit_all(tmp_path))
    run_page(page, tmp_path, theirs.host, theirs.port, environment(home) | variables, builds)


def plant_history(folder: Path) -> None:
    """Make the repository of the page: the second of three commits makes it slower."""
    write_extension(folder, fold=2000)
    commit_all(folder, "begin")
    git(folder, "tag", "v1.0")
    change_rounds(folder, fold=2100)
    commit_all(folder, "slower")
    commit_all(folder, "after")
    git(folder, "tag", "v1.1")


def own_sources(folder: Path, installed: Installation) -> dict[str, str]:
    """Make the reader's source trees, with commits and patches of each; return their folders."""
    server, extension = write_tree(folder / "postgresql", installed), write_extension(folder / "busywork")
    commit_all(server)
    commit_all(extension)
    git(extension, "tag", "v1.0")
    for tree, name, file, branch in (
        (server, "v3-0001-Speed-up.patch", "src/main.c", "my-branch"),
        (extension, "v1-0001-Mix-less.patch", "rounds.h", "v1.1"),
    ):
        git(tree, "checkout", "--quiet", "-b", branch)
        (tree / file).write_text((tree / file).read_text().replace("20000", "19000") + "/* changed */\n")
        commit_all(tree)
        (folder / name).write_text(git(tree, "format-patch", "--stdout", "main"))
        git(tree, "branch", "--force", "master", "main")
        git(tree, "checkout", "--quiet", "main")
    return {"~/postgresql": str(server), "~/busywork": str(extension)}


def run_page(
    page: str, folder: Path, host: str, port: int, variables: Mapping[str, str], builds: Mapping[str, str] | None = None
) -> None:
    """Writes the files of a page, and runs its commands; `builds` are folders of this host for those of the page."""
    for _, title, text in blocks(page):
        if title:
            (folder / title).parent.mkdir(parents=True, exist_ok=True)
            (folder / title).write_text(here(text, host, port))
    path = f"{PGDYNO.parent}:{variables['PATH']}"
    listed = commands(page)
    assert listed
    for command in filter(is_run, listed):
        typed = shortened(here(command, host, port))
        for theirs, ours in (builds or {}).items():
            typed = typed.replace(theirs, ours)
        name, *rest = shlex.split(typed, comments=True)
        done = run_program(["bash", "-c", typed], env={**variables, "PATH": path, "COLUMNS": "120"}, cwd=folder)
        said = " ".join(rest) if name == "pgdyno" else ""
        expected = next((code for beginning, code in EXPECTED_CODES.items() if said.startswith(beginning)), 0)
        assert done.returncode == expected, f"$ {typed}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def captured_server() -> Iterator[OwnServer]:
    """The server of an application, with its database twice; the version has pg_dump, which embedded builds lack."""
    (*_, program) = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_dump"))
    major = program.parents[1].name
    installation = Installation(program.parent, major, int(major), "Debian")
    configuration = f"{LOGS_STATEMENTS}shared_preload_libraries = 'pg_stat_statements'\n"
    with running_server(installation, configuration, "app", "shop") as server:
        server.execute("CREATE ROLE bench LOGIN CREATEDB SUPERUSER")
        for database in ("app", "shop"):
            server.execute(f"CREATE EXTENSION pg_stat_statements; {TABLES}", dbname=database)
        yield server


@contextmanager
def application(server: OwnServer) -> Iterator[None]:
    done = threading.Event()

    def work(database: str) -> None:
        with server.connect(database) as connection:
            number = 0
            while not done.wait(0.02):
                number += 1
                with connection.transaction():
                    connection.execute("SELECT total FROM orders WHERE id = %s", [number % 5000 + 1])
                    insert = "INSERT INTO orders (customer_id, total) VALUES (%s, %s)"
                    connection.execute(insert, [number % 1000 + 1, number % 100])

    with ThreadPoolExecutor() as pool:
        pool.map(work, ("app", "shop"))
        try:
            yield
        finally:
            done.set()


@pytest.mark.long
@pytest.mark.parametrize("page", OWN_LOAD_PAGES)
def test_commands_of_a_page_on_captures_run(page: str, captured_server: OwnServer, home: Home, tmp_path: Path) -> None:
    variables = environment(home) | {"PGHOST": "127.0.0.1", "PGPORT": str(captured_server.port), "PGUSER": "postgres"}
    with application(captured_server):
        run_page(page, tmp_path, "127.0.0.1", captured_server.port, variables)


# ---- the action, as a runner executes its steps for a simulated pull request ----


PLAN = fast_plan(
    'scripts = ["select-only"]\nscale = 1',
    "clients = [2]",
    'warmup = "0s"\nduration = "1s"\nrepeats = 1',
    targets=("before", "after"),
)


@pytest.mark.long
def test_a_pull_request_gets_the_verdict(home: Home, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    path = {"PATH": f"{tmp_path / 'bin'}:{PGDYNO.parent}:{os.environ['PATH']}"}
    pull_request = PullRequest(tmp_path, environment(home) | path)
    code = pull_request.execute(plan="plan.toml", base="before", arguments="--no-preflight", allow_inconclusive="true")
    # one pair decides nothing, and finds nothing
    assert (code, pull_request.outputs["gate.outputs.code"]) == (11, "11"), pull_request.output
    (comment,) = pull_request.comments()
    assert comment.startswith("<!-- pgdyno gate gate -->\n### pgdyno gate: inconclusive\n")
    assert "after" in comment
    assert pull_request.summary == comment
    assert (tmp_path / "pgdyno-gate/report.html").stat().st_size > 10_000
    assert (tmp_path / "pgdyno-gate/gate.xml").exists()
