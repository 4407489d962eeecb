"""Programs of others, whose output may be in any encoding."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pgdyno.errors import TargetError
from pgdyno.targets.build.cached_build import compiler_version
from pgdyno.targets.cluster.folders import run_tool
from pgdyno.targets.local.kind import _ask_pg_config


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Writes text that is not UTF-8 on both outputs, and fails."""
    path = tmp_path / "pg_config"
    path.write_bytes(b"#!/bin/sh\nprintf 'Universit\\344t'\nprintf 'Universit\\344t' >&2\nexit ${PROGRAM_STATUS:-0}\n")
    path.chmod(0o755)
    return path


def test_output_of_a_tool_need_not_be_utf_8(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROGRAM_STATUS", "1")
    with pytest.raises(TargetError, match=re.escape("failed: Universit\ufffdt")):
        run_tool(str(program))


def test_output_of_pg_config_need_not_be_utf_8(program: Path) -> None:
    assert _ask_pg_config({"PATH": str(program.parent)})[1] == Path("Universit\ufffdt")


def test_output_of_a_compiler_need_not_be_utf_8(program: Path) -> None:
    assert compiler_version({"CC": str(program)}, {"PATH": "/usr/bin:/bin"}) == "Universit\ufffdt"


def test_a_locale_without_utf_8_is_enough(program: Path) -> None:
    """Without coercion and without Python's UTF-8 mode, output is still read as UTF-8."""
    program.write_text("#!/bin/sh\nprintf 'Universität' >&2\nexit 1\n", encoding="utf-8")
    code = (
        "import sys\nfrom pgdyno.errors import TargetError\nfrom pgdyno.targets.cluster.folders import run_tool\n"
        "try:\n    run_tool(sys.argv[1])\nexcept TargetError as error:\n    print(ascii(error.message))\n"
    )
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PATH": "/usr/bin:/bin"}
    said = subprocess.run([sys.executable, "-c", code, str(program)], env=environment, capture_output=True, check=True)
    assert said.stdout.decode("ascii").strip().endswith(r"failed: Universit\xe4t'")


def test_every_program_is_read_with_an_encoding_of_its_own() -> None:
    root = Path(__file__).parents[2] / "python" / "pgdyno"
    words = ("text=True", "universal_newlines")
    wrong = [path for path in root.rglob("*.py") if any(word in path.read_text() for word in words)]
    assert wrong == []
