"""sysbench's API in both programs: the same scripts print the same, and the guide names what pgdrive lacks.

pgdrive is compared with Debian's sysbench 1.0.20; what only 1.1 has is tested in pgdrive alone.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgdyno.targets import Server
from tests.postgres.servers import value
from tests.postgres.test_pgdrive import drive, environment
from tests.postgres.test_sysbench_differential import of_connection, run_sysbench
from tests.present import present
from tests.run_program import PGDRIVE, run_program

SCRIPTS = Path(__file__).parent / "sysbench_api"
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "sysbench.md"
API = Path(__file__).with_name("sysbench_api.txt")

# what scripts print, what lists options, what shows a histogram
PRINTED = re.compile(r"^(probe: .*|  --.*|\s+(?:value  -|[\d.]+ \|).*)$", re.MULTILINE)


def sysbench(
    server: Server, script: Path, command: str, *options: str, code: int | None = None
) -> subprocess.CompletedProcess[str]:
    return run_sysbench(server, script.name, command, *options, folder=script.parent, code=code)


def pgdrive(
    server: Server, script: Path, command: str, *args: str, options: tuple[str, ...] = (), code: int | None = None
) -> subprocess.CompletedProcess[str]:
    """The connection comes from the same options as sysbench's."""
    clean = {name: value for name, value in environment(server).items() if not name.startswith("PG")}
    given = [f"--lua-opt={option}" for option in (*of_connection(server), *options)]
    command_line = [str(PGDRIVE), "--lua", script.name, f"--lua-command={command}", *given, *args]
    return run_program(command_line, env=clean, cwd=script.parent, code=code)


def printed(done: subprocess.CompletedProcess[str]) -> list[str]:
    # two threads of sysbench may print on one line
    return [line for part in PRINTED.findall(done.stdout) for line in re.split(r"(?<=.)(?=probe: )", part)]


def test_a_script_prints_the_same_in_both(server: Server) -> None:
    script = SCRIPTS / "api.lua"
    theirs = sysbench(server, script, "run", "--events=1", "--time=0", "--size=3M", code=0)
    ours = pgdrive(server, script, "run", "-t", "1", options=("size=3M",), code=0)
    assert len(printed(theirs)) > 150
    assert printed(ours) == printed(theirs)


CASES = re.findall(r"^function cases\.(\w+)", (SCRIPTS / "answers.lua").read_text(), re.MULTILINE)


@pytest.mark.parametrize("case", CASES)
def test_statements_give_the_same_in_both_and_errors_count_the_same(server: Server, case: str) -> None:
    script = SCRIPTS / "answers.lua"
    theirs = sysbench(server, script, "run", "--events=2", "--time=0", f"--case={case}", code=0)
    ours = pgdrive(server, script, "run", "-t", "2", options=(f"case={case}",), code=0)
    assert printed(ours) == printed(theirs)
    events = present(re.search(r"total number of events: +(\d+)", theirs.stdout))
    assert f"actually processed: {events[1]}/2\n" in ours.stdout
    # a load without a transaction has no figures
    errors = present(re.search(r"ignored errors: +(\d+)", theirs.stdout))
    # sysbench does not count what it could not prepare
    counted = int(errors[1]) + (2 if case == "not_prepared" else 0)
    assert f"number of ignored errors: {counted} (" in ours.stdout or events[1] == errors[1] == "0"


def test_a_statement_without_rows_gives_what_is_true(server: Server) -> None:
    script = SCRIPTS / "query-without-rows.lua"
    sysbench(server, script, "prepare", code=0)
    pgdrive(server, script, "prepare", code=0)
    assert value(server, "SELECT count(*) FROM t1") == 2
    drive(server, "--lua", str(script), "--lua-command=cleanup", code=0)


@pytest.mark.parametrize(("name", "errors"), [("refusal-in-pcall", 0), ("error-caught", 50)])
def test_nothing_that_a_script_catches_is_hidden(server: Server, name: str, errors: int) -> None:
    script = SCRIPTS / f"{name}.lua"
    theirs = sysbench(server, script, "run", "--events=50", "--time=0")
    assert re.search(rf"ignored errors: +{errors} ", theirs.stdout)
    ours = pgdrive(server, script, "run", "-c", "1", "-t", "50", "--events=-", code=0)
    end = json.loads(ours.stdout.splitlines()[-1])
    assert (end["succeeded"], end["failed"], end["statements"]["ignored_errors"]) == (50, 0, errors)


@pytest.mark.parametrize("whole", ["on", "off"])
def test_a_loop_of_the_scripts_own_runs_the_same_in_both(server: Server, whole: str) -> None:
    script = SCRIPTS / "loop.lua"
    theirs = sysbench(server, script, "run", "--events=5", "--time=0", f"--whole={whole}", code=0)
    assert re.search(r"total number of events:\s+5\n", theirs.stdout)
    ours = pgdrive(server, script, "run", "-t", "5", options=(f"whole={whole}",), code=0)
    assert "number of transactions actually processed: 5/5" in ours.stdout
    assert len(printed(theirs)) >= 3
    assert printed(ours) == printed(theirs)


@pytest.mark.parametrize("command", ["twice", "once", "prepare", "help", "bad", "wrong", "cleanup", "dance"])
def test_a_command_does_the_same_in_both(server: Server, command: str) -> None:
    script = SCRIPTS / "api.lua"
    theirs = sysbench(server, script, command, "--threads=2")
    ours = pgdrive(server, script, command, "-c", "2")
    assert (ours.returncode == 0) == (theirs.returncode == 0), ours.stderr
    # of two clients either may be first
    assert sorted(printed(ours)) == sorted(printed(theirs))
    if command in {"twice", "once", "prepare", "help"}:
        assert printed(theirs)
    else:
        assert theirs.returncode != 0


@pytest.mark.parametrize("option", ["tabels=4", "flag=maybe", "whole=1K", "whole=many"])
def test_both_refuse_the_same_options(server: Server, option: str) -> None:
    script = SCRIPTS / "api.lua"
    theirs = sysbench(server, script, "run", "--events=1", f"--{option}", code=1)
    ours = pgdrive(server, script, "run", "-t", "1", options=(option,), code=1)
    if option == "tabels=4":
        # versions of sysbench may word it differently
        assert f"--{option}" in theirs.stderr
        assert f"invalid option: --{option}" in ours.stderr
        assert "It has: flag, list, name," in ours.stderr


def test_pgdrives_own_options_win_over_a_scripts(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "where.lua"
    script.write_text('function event() print("probe: " .. sysbench.opt.pgsql_db .. sysbench.opt.pgsql_port) end\n')
    port = environment(server)["PGPORT"]
    there = f"--lua={script}", "-t", "1", "--lua-opt=pgsql-port=1"
    done = drive(server, *there, "--lua-opt=pgsql-db=template1", "-p", port, "postgres")
    assert printed(done) == [f"probe: postgres{port}"], done.stderr
    # and a script's over the environment
    done = drive(server, *there, code=1)
    assert '.s.PGSQL.1" failed' in done.stderr


def test_what_only_1_1_has_ends_the_results_of_several_statements(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "next.lua"
    script.write_text("""\
function event()
   local con = sysbench.sql.driver():connect()
   local rs = con:query("SELECT 1; SELECT 2")
   local last = rs:fetch_row()[1] .. " of " .. rs.nrows
   local more, after = con:more_results(), con:next_result()
   local stmt = con:prepare("SELECT 3")
   stmt:execute()
   print("probe: ", last, more, after, stmt:next_result(), con:query_row("SELECT 4"))
end
""")
    done = pgdrive(server, script, "run", "-t", "1", code=0)
    assert printed(done)[0].split() == ["probe:", "2", "of", "1", "false", "nil", "nil", "4"]


LISTED = re.findall(r"^(yes|no) (?:yes|no) (yes|no): (.*)$", API.read_text(), re.MULTILINE)
ITEMS = {
    item: (in_1_0 == "yes", in_pgdrive == "yes") for in_1_0, in_pgdrive, row in LISTED for item in row.split(" | ")
}
"""Whether sysbench 1.0 and pgdrive have an item of the API."""


def test_the_guide_names_what_pgdrive_lacks_and_nothing_else() -> None:
    missing = GUIDE.read_text().split("\n| missing | why |\n")[1].split("\n\n")[0]
    lacking = {name for item, (_, in_pgdrive) in ITEMS.items() if not in_pgdrive for name in item.split(", ")}
    assert set(re.findall(r"`([^`]+)`", missing)) == lacking


# globals, fields and functions; the rest of the list is what the scripts above try out
LOOKED_UP = re.compile(r"((sysbench|ffi|con|drv|stmt|param|rs|h)[.:]|[a-zA-Z_]+$)")
NAMES = {item.split("(")[0]: there for item, there in ITEMS.items()}
ONES = {name: there for name, there in NAMES.items() if LOOKED_UP.match(name) and not re.search(" |…|tostring", name)}

LOOK = """
local function look(text)
   -- what ffi.C does not have is an error, what a pointer does not have likewise
   local ok, value = pcall(function()
      return assert(loadstring("return " .. text:gsub(":", ".")))()
   end)
   return ok and value ~= nil
end
function event()
   drv = sysbench.sql.driver()
   con = drv:connect()
   pcall(function() con:query("SELECT * FROM nowhere") end)
   -- these are gone after the next statement
   assert(con.sql_state ~= nil and con.sql_errmsg ~= nil)
   -- those of the old API are there when it was used
   db_connect()
   stmt = con:prepare("SELECT ?")
   param = stmt:bind_create(sysbench.sql.type.INT)
   stmt:bind_param(param)
   rs = stmt:execute()
   h = sysbench.histogram.new(3, 1, 10)
   sysbench.cmdline.commands = sysbench.cmdline.commands or {}
   sysbench.cmdline.options = sysbench.cmdline.options or {}
   for name in NAMES:gmatch("[^ ]+") do
      print("probe: " .. name .. " " .. tostring(look(name)))
   end
   for _, part in ipairs({ "", "cmdline", "db", "error", "histogram", "rand", "sql" }) do
      for name in pairs(part == "" and sysbench or sysbench[part]) do
         print("probe: has sysbench." .. part .. (part == "" and "" or ".") .. name)
      end
   end
   for name in pairs(sysbench.opt) do
      print("probe: has sysbench.opt." .. name)
   end
end
"""


def test_the_api_has_what_is_listed_and_nothing_else(server: Server, tmp_path: Path) -> None:
    assert len(ONES) > 150
    script = tmp_path / "look.lua"
    # the script looks for these two itself
    names = ONES.keys() - {"con.sql_state", "con.sql_errmsg"}
    script.write_text(f'NAMES = "{" ".join(names)}"\n{LOOK}')
    theirs = sysbench(server, script, "run", "--events=1", "--time=0", code=0)
    ours = pgdrive(server, script, "run", "-t", "1", code=0)
    in_theirs, in_ours = ({line for line in printed(done) if line.endswith(" true")} for done in (theirs, ours))
    for name in names:
        assert (f"probe: {name} true" in in_theirs, f"probe: {name} true" in in_ours) == ONES[name], name
    written = {name.removeprefix("function ") for name in NAMES}
    for done in (theirs, ours):
        for found in re.findall(r"^probe: has (\S+)$", done.stdout, re.MULTILINE):
            name = re.sub(r"^sysbench\.opt\.mysql_.*", "sysbench.opt.mysql_…", found)
            deeper = any(one.startswith(f"{name}.") for one in written)
            assert name in written or deeper, f"{name} is not in sysbench_api.txt"


SCRIPT = Path(__file__).parent / "shop" / "shop.lua"
"""A recorded probe: it calls what sysbench-tpcc calls, in the same ways."""
CLIENTS = 2
EACH = 20
# calls 4, 8… look; of the others 5, 10, 15 find no article, and 11 breaks a rule once
LOOKS, MISSING, BROKEN = 5, 3, 1


def shop(server: Server, command: str, *args: str, options: tuple[str, ...] = ("tables=2",)) -> str:
    given = [f"--lua-opt={each}" for each in options]
    done = drive(server, f"--lua={SCRIPT}", f"--lua-command={command}", f"--client={CLIENTS}", *given, *args, code=0)
    return done.stdout


@pytest.fixture
def tables(server: Server) -> Iterator[Server]:
    assert shop(server, "prepare").count("prepared by pgsql") == CLIENTS
    yield server
    shop(server, "cleanup")


def orders(server: Server) -> int:
    return int(value(server, "SELECT (SELECT count(*) FROM orders1) + (SELECT count(*) FROM orders2)"))


def checked(server: Server) -> None:
    said = shop(server, "check").splitlines()
    verdicts = sorted(line for line in said if line.startswith("check of"))
    assert verdicts == [f"check of set {number}, shop {shop} PASSED" for number in (1, 2) for shop in (1, 2, 3)]


def test_a_workload_of_several_files_runs_as_it_is(tables: Server) -> None:
    assert value(tables, "SELECT count(*) FROM article2") == 3 * 300
    lines = shop(tables, "run", f"--transactions={EACH}", "--events=-", options=("tables=2", "trx-level=RC"))
    end = json.loads(lines.splitlines()[-1])
    assert end["succeeded"] == CLIENTS * EACH
    assert end["failed"] == 0
    # what the script counts itself, and what the server refused and its hook lets pass
    assert end["statements"]["ignored_errors"] == CLIENTS * (MISSING + BROKEN)
    assert end["retries"] == CLIENTS * BROKEN
    assert orders(tables) == CLIENTS * (EACH - LOOKS - MISSING)
    checked(tables)
    assert "trx-level" in shop(tables, "help")


def test_the_real_sysbench_does_the_same(tables: Server) -> None:
    options = (f"--threads={CLIENTS}", "--tables=2", "--trx_level=RC", f"--events={CLIENTS * EACH}", "--time=0")
    # it finds modules only in the folder that it is started in
    database = tables.environment()["PGDATABASE"]
    done = run_sysbench(tables, f"./{SCRIPT.name}", "run", *options, database=database, folder=SCRIPT.parent, code=0)
    assert f"total number of events:              {CLIENTS * EACH}" in done.stdout
    # its threads share the events as they come
    assert orders(tables) > 0
    checked(tables)


def counted(lines: str) -> dict[str, dict[str, Any]]:
    end = json.loads(lines.splitlines()[-1])
    return {each["text"]: each for each in end["scripts"][0]["statements"]}


def test_each_statement_has_its_latency(tables: Server) -> None:
    fixed = ("-r", f"--transactions={EACH}", "--events=-")
    by_text = counted(shop(tables, "run", *fixed, options=("tables=1", "trx-level=RC")))
    order = CLIENTS * (EACH - LOOKS)
    executions = {text: (each["executions"], each["failures"]) for text, each in by_text.items()}
    assert executions == {
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED": (CLIENTS, 0),
        "SELECT count(*) FROM orders1": (CLIENTS * LOOKS, 0),
        "BEGIN": (order + CLIENTS * BROKEN, 0),
        "SELECT s_next_order FROM shop1 WHERE s_id = ? FOR UPDATE": (order + CLIENTS * BROKEN, 0),
        "UPDATE shop1 SET s_next_order = ? WHERE s_id = ?": (order + 2 * CLIENTS * BROKEN, 0),
        "SELECT a_price FROM article1 WHERE a_shop = ? AND a_id = ?": (order + CLIENTS * BROKEN, 0),
        "INSERT INTO orders1 VALUES (?, ...)": (order - CLIENTS * MISSING, 0),
        "ROLLBACK": (CLIENTS * (MISSING + 2 * BROKEN), 0),
        "COMMIT": (order - CLIENTS * MISSING, 0),
    }
    assert all(each["latency_ns"]["p99"] >= each["latency_ns"]["p50"] > 0 for each in by_text.values())
    # the summary says the same, and without the option it distinguishes nothing
    assert " UPDATE shop1 SET s_next_order = ? WHERE s_id = ?\n" in shop(
        tables, "run", "-r", "-t1", options=("tables=1",)
    )
    plain = json.loads(shop(tables, "run", "-t1", "--events=-").splitlines()[-1])
    assert [each["id"] for each in plain["scripts"][0]["statements"]] == [0]


# ---- several connections, reports of a script's own, and no prepared statements ----


SEVERAL = """
local function backend(con) return con:query_row("SELECT pg_backend_pid()") end
local function number(con)
   local statement = con:prepare("SELECT ?::int + 1")
   local param = statement:bind_create(sysbench.sql.type.INT)
   statement:bind_param(param)
   return statement, param
end
function thread_init()
   drv = sysbench.sql.driver()
   a, b = drv:connect(), drv:connect()
   at_a, of_a = number(a)
   at_b, of_b = number(b)
end
function event()
   local first, second = backend(a), backend(b)
   assert(first ~= second, "one backend for two connections")
   a:query("BEGIN")
   local rows = a:query("SELECT 11 UNION ALL SELECT 12 ORDER BY 1")
   -- another connection between does not take them away
   b:query("SELECT 99")
   assert(rows:fetch_row()[1] == "11")
   of_a:set(5)
   of_b:set(7)
   assert(at_b:execute():fetch_row()[1] == "8")
   assert(at_a:execute():fetch_row()[1] == "6")
   a:query("COMMIT")
   local c = drv:connect()
   local third = backend(c)
   assert(third ~= first and third ~= second)
   c:disconnect()
   b:reconnect()
   assert(backend(b) ~= second, "reconnect() gave the same backend")
   at_b, of_b = number(b)
   a:disconnect()
   a = drv:connect()
   assert(backend(a) ~= first, "connect() gave the same backend")
   at_a, of_a = number(a)
end
function thread_done() b:disconnect() end
"""


def script(folder: Path, text: str) -> str:
    path = folder / "script.lua"
    path.write_text(text)
    return f"--lua={path}"


@pytest.mark.parametrize(("io", "mode"), [("epoll", "auto"), ("auto", "disable")])
def test_a_client_has_several_connections(server: Server, tmp_path: Path, io: str, mode: str) -> None:
    given = script(tmp_path, SEVERAL)
    done = drive(server, given, f"--lua-opt=db-ps-mode={mode}", f"--io={io}", "-c", "3", "-t", "3", "--events=-")
    assert done.returncode == 0, done.stderr
    end = json.loads(done.stdout.splitlines()[-1])
    assert (end["succeeded"], end["statements"]["reconnects"]) == (9, 9)


CAUGHT = """
function event()
   local drv = sysbench.sql.driver()
   local a = drv:connect()
   pcall(coroutine.wrap(function() xpcall(drv.connect, function() end, drv) end))
   while pcall(a.query, a, "SELECT 1") do end
end
"""


@pytest.mark.parametrize("text", [SEVERAL, CAUGHT], ids=["uncaught", "caught"])
def test_with_a_connection_a_transaction_there_is_no_other(server: Server, tmp_path: Path, text: str) -> None:
    done = drive(server, script(tmp_path, text), "-C", "-t", "1")
    assert done.returncode == 2
    assert "a client has one: disconnect() comes before another connect()" in done.stderr


def test_a_script_makes_its_own_reports(server: Server, tmp_path: Path) -> None:
    text = """
function thread_init() con = sysbench.sql.driver():connect() end
function event() con:query("SELECT pg_sleep(0.01)") end
local shortest = math.huge
function sysbench.hooks.report_intermediate(stat)
   shortest = math.min(shortest, stat.time_interval)
   sysbench.report_json(stat)
end
function sysbench.hooks.report_cumulative(stat)
   print("shortest: " .. shortest)
   local names = {}
   for name in pairs(stat) do names[#names + 1] = name end
   table.sort(names)
   print("cumulative: " .. stat.events .. " " .. table.concat(names, " "))
end
"""
    done = drive(server, script(tmp_path, text), "-c", "2", "-T", "2", "-P", "1")
    assert done.returncode == 0, done.stderr
    assert "progress:" not in done.stderr
    array = done.stdout[done.stdout.index("[\n") : done.stdout.index("]\n") + 2]
    reports = json.loads(array)
    assert reports
    (shortest_s,) = map(float, re.findall(r"^shortest: (.*)$", done.stdout, re.MULTILINE))
    # each of the two may have read within an interval, and ended its transaction within the next
    assert all(abs(report["qps"]["reads"] - report["tps"]) <= 2.5 / shortest_s for report in reports), reports
    assert all(report["threads"] >= 1 for report in reports), reports
    line = next(line for line in done.stdout.splitlines() if line.startswith("cumulative: "))
    _, events, *names = line.split(" ")
    assert f"actually processed: {events}" in done.stdout
    # as sysbench 1.0.20 has them
    assert " ".join(names) == (
        "errors events latency_avg latency_max latency_min latency_pct latency_sum other reads reconnects "
        "threads_running time_interval time_total writes"
    )


def test_a_hook_that_fails_is_said_once_and_the_load_goes_on(server: Server, tmp_path: Path) -> None:
    text = """
function thread_init() con = sysbench.sql.driver():connect() end
function event() con:query("SELECT pg_sleep(0.01)") end
function sysbench.hooks.report_intermediate(stat) error("no ink") end
"""
    done = drive(server, script(tmp_path, text), "-T", "2", "-P", "1")
    assert done.returncode == 0
    assert done.stderr.count("no ink") == 1


def test_without_prepared_statements_values_stand_in_the_text(server: Server, tmp_path: Path) -> None:
    text = """
function thread_init()
   con = sysbench.sql.driver():connect()
   st = con:prepare("SELECT ?, ?::text IS NULL, (SELECT count(*) FROM pg_prepared_statements)")
   p, q = st:bind_create(sysbench.sql.type.VARCHAR, 20), st:bind_create(sysbench.sql.type.INT)
   st:bind_param(p, q)
end
function event()
   p:set("it's a \\\\ here")
   q:set(nil)
   local row = st:execute():fetch_row()
   assert(row[1] == "it's a \\\\ here", row[1])
   assert(row[2] == "t" and row[3] == "0", row[3])
end
"""
    done = drive(server, script(tmp_path, text), "--lua-opt=db-ps-mode=disable", "-t", "2")
    assert done.returncode == 0, done.stderr
    refused = drive(server, script(tmp_path, text), "--lua-opt=db-ps-mode=on", "-t", "2")
    assert refused.returncode == 1
    assert 'option db-ps-mode: there is no mode "on"' in refused.stderr
