"""What `plan check` runs of a Lua script, and how pgdrive stops a script that does not end."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.forked import run_pgdyno
from tests.present import present
from tests.run_program import PGDRIVE, run_program

SCRIPT = "os.execute('touch ran')\nfunction event() end\n"
PLAN = """\
name = "lua"
target.pg18 = { kind = "embedded", version = "18" }
sweep.clients = 1
trial.duration = "1s"
workload.lua = "mine.lua"
"""


@pytest.mark.parametrize("text", ["ffi = os.execute('touch ran')\n" + SCRIPT, "end\nos.execute('touch ran')\ndo\n"])
def test_a_check_runs_nothing_of_a_script(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.lua").write_text(text)
    (tmp_path / "lua.toml").write_text(PLAN)
    expected = 0 if text.startswith("ffi") else 1
    for check in ("--check", "--check=statements"):
        # the option of earlier versions changes nothing
        run_program([PGDRIVE, check, "--lua=mine.lua", "--lua-opt=any=1"], cwd=tmp_path, code=expected)
    checked, *others = (
        run_pgdyno(["plan", command, "lua.toml"], cwd=tmp_path, env=dict(os.environ))
        for command in ("check", "show", "cost")
    )
    assert not any("Traceback" in said.stderr for said in (checked, *others))
    assert (checked.returncode == 0) == (expected == 0), checked.stderr
    assert ("the Lua script mine.lua, which may start programs and call C" in checked.stdout) == (expected == 0)
    assert not (tmp_path / "ran").exists()
    run_program([PGDRIVE, "--check=execute", "--lua=mine.lua"], cwd=tmp_path, code=expected)
    assert (tmp_path / "ran").exists() == (expected == 0)


def test_options_of_a_script_are_checked_only_by_executing_it(tmp_path: Path) -> None:
    options = "sysbench.cmdline.options = { tables = { 'tables', 1 } }\n"
    (tmp_path / "mine.lua").write_text(f"{options}function event() end\n")
    words = (PGDRIVE, "--lua=mine.lua", "--lua-opt=tabels=4")
    run_program([*words, "--check"], cwd=tmp_path, code=0)
    executed = run_program([*words, "--check=execute"], cwd=tmp_path, code=1)
    assert 'has no option "tabels"' in executed.stderr


@pytest.mark.parametrize("text", ["{}\nfunction event() end\n", "function event() end\nfunction init() {} end\n"])
def test_a_signal_ends_a_script_before_its_load(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.lua").write_text(text.format("print('begun') io.flush() while true do end"))
    command = [str(PGDRIVE), "--lua=mine.lua", "-t", "1", "-h", "/nowhere", "postgres"]
    env = {**os.environ, "PGUSER": "nobody"}
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )
    assert present(process.stdout).readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert 'stopped while script "mine.lua" ran its top level or init()' in said
