"""What `plan check` runs of a Lua script, and how pgdrive stops a script that does not end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PGDRIVE = Path(sys.executable).parent / "pgdrive"
PGDYNO = Path(sys.executable).parent / "pgdyno"
SCRIPT = "os.execute('touch ran')\nfunction event() end\n"
PLAN = """\
name = "lua"
target.pg18 = { kind = "embedded", version = "18" }
sweep.clients = 1
trial.duration = "1s"
[workload]
lua = "mine.lua"
"""


def run(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_a_check_runs_nothing_of_a_script(tmp_path: Path) -> None:
    (tmp_path / "mine.lua").write_text(SCRIPT)
    done = run(tmp_path, PGDRIVE, "--check", "--allow-lua-system", "--lua=mine.lua", "--lua-opt=any=1")
    assert done.returncode == 0, done.stderr
    for allowed in ("", "allow_lua_system = true\n"):
        (tmp_path / "lua.toml").write_text(PLAN + allowed)
        checked = run(tmp_path, PGDYNO, "plan", "check", "lua.toml")
        assert checked.returncode == 0, checked.stderr
        assert "the Lua script mine.lua" in checked.stdout
    assert not (tmp_path / "ran").exists()


def test_a_script_is_in_the_sandbox_until_it_is_trusted(tmp_path: Path) -> None:
    (tmp_path / "mine.lua").write_text(SCRIPT)
    refused = run(tmp_path, PGDRIVE, "--check=execute", "--lua=mine.lua")
    assert refused.returncode == 1
    assert "os.execute is refused" in refused.stderr
    assert "--allow-lua-system" in refused.stderr
    assert "mine.lua:1" in refused.stderr
    assert not (tmp_path / "ran").exists()
    allowed = run(tmp_path, PGDRIVE, "--check=execute", "--allow-lua-system", "--lua=mine.lua")
    assert allowed.returncode == 0, allowed.stderr
    assert (tmp_path / "ran").exists()


def test_options_of_a_script_are_checked_only_by_executing_it(tmp_path: Path) -> None:
    (tmp_path / "mine.lua").write_text(
        "sysbench.cmdline.options = { tables = { 'tables', 1 } }\nfunction event() end\n"
    )
    words = (PGDRIVE, "--lua=mine.lua", "--lua-opt=tabels=4")
    assert run(tmp_path, *words, "--check").returncode == 0
    executed = run(tmp_path, *words, "--check=execute")
    assert executed.returncode == 1
    assert 'has no option "tabels"' in executed.stderr
    (tmp_path / "mine.lua").write_text("function event(\n")
    broken = run(tmp_path, PGDRIVE, "--check", "--lua=mine.lua")
    assert broken.returncode == 1
    assert "mine.lua:" in broken.stderr


@pytest.mark.parametrize("text", ["print('begun') io.flush()\nwhile true do end\n", "function event() end\n"])
def test_a_signal_ends_a_script_before_its_load(tmp_path: Path, text: str) -> None:
    endless = text if "while" in text else text + "function init() print('begun') io.flush() while true do end end\n"
    (tmp_path / "mine.lua").write_text(endless)
    process = subprocess.Popen(
        [PGDRIVE, "--lua=mine.lua", "-t", "1", "-h", "/nowhere", "postgres"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PGUSER": "nobody"},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert 'stopped while script "mine.lua" ran its top level or init()' in said
