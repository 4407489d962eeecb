"""What `plan check` runs of a Lua script, and how pgdrive stops a script that does not end."""

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


@pytest.mark.parametrize(
    "text", [SCRIPT, "end\nos.execute('touch ran')\ndo\n", "ffi = os.execute('touch ran')\n" + SCRIPT]
)
def test_a_check_runs_nothing_of_a_script(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.lua").write_text(text)
    expected = 0 if text.startswith(("os", "ffi")) else 1
    for check in ("--check", "--check=statements"):
        # the option of earlier versions changes nothing
        done = run(tmp_path, PGDRIVE, check, "--lua=mine.lua", "--lua-opt=any=1")
        assert done.returncode == expected, done.stderr
    for allowed in ("", "allow_lua_system = true\n"):
        (tmp_path / "lua.toml").write_text(PLAN + allowed)
        for command in (["check"], ["show"], ["show", "--json"], ["cost"]):
            said = run(tmp_path, PGDYNO, "plan", *command, "lua.toml")
            assert "Traceback" not in said.stderr
            if command == ["check"]:
                assert (said.returncode == 0) == (expected == 0), said.stderr
                assert ("the Lua script mine.lua, which may start programs and call C" in said.stdout) == (
                    expected == 0
                )
    assert not (tmp_path / "ran").exists()
    assert run(tmp_path, PGDRIVE, "--check=execute", "--lua=mine.lua").returncode == expected
    assert (tmp_path / "ran").exists() == (expected == 0)


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
