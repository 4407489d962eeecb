"""Lua scripts with several connections, with reports of their own, and without prepared statements."""

import json
import re
from pathlib import Path

import pytest

from pgdyno.targets import Server
from tests.postgres.test_pgdrive import drive

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
