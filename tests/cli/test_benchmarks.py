"""The programs of benchmarks/ still run and write their results; such short runs give no figures worth reading."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SHORTEST = {
    "engine": ["--seconds=4", "--pairs=1", "--scale=1"],
    "own_load": ["--seconds=2", "--rounds=1", "--scale=1", "--only=tpcb-like, 4"],
    "probe": ["--seconds=1", "--pairs=1", "--own-seconds=5", "--scale=1"],
    "throughput": ["--seconds=2", "--pairs=1", "--scale=1", "--clients=2"],
    "tpcc": ["--seconds=1", "--warmup=0", "--rounds=1", "--warehouses=1", "--clients=2"],
}


@pytest.fixture(scope="module")
def bare_loop() -> None:
    """As `make bench` builds it."""
    build = ["cargo", "build", "--release", "--locked", "--quiet", "--package=pgdyno-engine", "--example=bare_loop"]
    subprocess.run(build, cwd=ROOT, check=True)


@pytest.mark.usefixtures("bare_loop")
@pytest.mark.parametrize("program", SHORTEST)
def test_a_benchmark_runs_and_writes_its_results(program: str, tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    command = [sys.executable, f"benchmarks/{program}.py", *SHORTEST[program], f"--out={out}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert json.loads(out.read_text())
