"""Usage, what pgdrive says before it connects, and numbers that no option can take: nothing panics."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cli.conftest import Null, NullServer, Run
from tests.present import present
from tests.run_program import BIN, run_program


def test_what_pgdrive_says_before_it_connects(run: Run, tmp_path: Path) -> None:
    version, usage = run("pgdrive", "--version"), run("pgdrive", "--help")
    assert version.returncode == usage.returncode == 0
    assert version.stdout.startswith("pgdrive (pgdyno) ")
    assert "-c, --client=NUM" in usage.stdout
    for option in ("--file", "--phases"):
        done = run("pgdrive", f"{option}=/dev/zero")
        assert done.returncode == 1
        assert done.stderr == 'pgdrive: error: could not read file "/dev/zero": file too large\n'
    (tmp_path / "bad.sql").write_text("SELECT 1;\n\\set x 1 +\nSELECT :x;\n")
    done = run("pgdrive", "-f", "bad.sql")
    assert done.returncode == 1
    assert "bad.sql:2:" in done.stderr
    assert "\\set x 1 +" in done.stderr
    assert "^" in done.stderr
    # a load that does not begin has a reason for programs
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        done = run("pgdrive", "-h", "127.0.0.1", "-p", port, "-U", "u", "-n", "--events=-", "db")
    end = json.loads(done.stdout.splitlines()[-1])
    assert (end["event"], end["outcome"], end["reason"]) == ("end", "failed", "not-prepared")


# ---- unrepresentable and malformed numbers: accepted or refused with a message ----

NUMBERS = ["inf", "nan", "1e300", "1e-300", "-1", "0", "2147483647", "1e19", "18446744073709551616"]
ODD = [*NUMBERS, "", "1e", "0x10"]
"""The last ones are not a number: for options of pgdrive, a test in Rust has these and more (odd_numbers.rs)."""
LUA = "--workload=oltp-read-write -T0.2"
EVENTS = {"interval", "load", "end"}
"""One of these is enough: the option was taken, and the load runs."""
SLOW = "--delay-us=2000"
"""With it, a load that an option makes endless leaves the cores to others until it is ended."""
ENDS = {0, 1, 2, 4, -signal.SIGINT, 128 + signal.SIGINT}

LINES = [
    [*base.split(), option]
    for base, options in [
        ("-n -S -c2 -t3", "--client={} --jobs={} --max-workers={} --worker-busy={} --scale={} --lease={} --port={}"),
        ("-n -S -t3", "--reconnect={} --reconnect={}h --think-time={}us --keying-time=exponential:{}min --part=1/{}"),
        ("-n -S -t3", "--percentiles={} --random-seed={} --define=scale={}"),
        ("-n -S -t3", "connect_timeout={} tcp_user_timeout={} keepalives_idle={}"),
        ("-n -S -t3 -R1000", "--latency-limit={} --timer-tick={}us"),
        ("-n -S", "--transactions={} --time={}"),
        ("-n -t3", "--builtin=select-only@{}"),
        ("-n -S -T0.2", "--warmup={} --drain-limit={} --rate={} --progress={} --max-tries={}"),
        ("-n -S -T0.2 --arrivals=regular -L1", "--rate={}"),
        ("-n -S -T0.2 -l", "--aggregate-interval={} --sampling-rate={}"),
        ("-i -Ig", "--scale={}"),
        ("-i -Idt", "--scale={} --fillfactor={} --partitions={} --load-workers={} --load-chunk={}"),
        ("-i -Idt --dataset=sbtest", "--tables={} --table-size={}"),
        ("-i -Idt --dataset=tpcc", "--warehouses={}"),
        ("-i -Idt --dataset=tpcc --warehouses=3", "--order-line-partitions={}"),
        (LUA, "--tables={} --table-size={} --lua-opt=tables={} --lua-opt=table-size={} --lua-opt=range-size={}"),
        (LUA, "--lua-opt=point-selects={} --lua-opt=rand-spec-iter={} --lua-opt=rand-spec-pct={}"),
        (f"{LUA} --lua-opt=rand-type=zipfian", "--lua-opt=rand-zipfian-exp={}"),
        (f"{LUA} --lua-opt=rand-type=pareto", "--lua-opt=rand-pareto-h={}"),
    ]
    for option in options.split()
]


def ends(line: Sequence[str], server: Null, folder: Path) -> str | None:
    """Returns what is wrong with the end of a pgdrive that ran `line`; None if nothing is."""
    with subprocess.Popen(
        [str(BIN / "pgdrive"), *line, "--events=-"], cwd=folder, env=os.environ | server.env, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        begun = next((event for event in map(json.loads, present(process.stdout)) if event["event"] in EVENTS), None)
        if begun is not None and begun["event"] != "end":
            process.send_signal(signal.SIGINT)
        try:
            code = process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            return f"{line}: does not end"
        said = present(process.stderr).read()
    if "panicked" in said or code not in ENDS or (code == 1 and "error: " not in said):
        return f"{line}: ends with {code}: {said[-2000:]}"
    return None


def found(lines: Sequence[Sequence[str]], server: Null, folder: Path) -> list[str]:
    with ThreadPoolExecutor(4) as pool:
        return [wrong for wrong in pool.map(lambda line: ends(line, server, folder), lines) if wrong is not None]


@pytest.mark.long_cases("lua-opt", "{}h")
@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_an_option_takes_an_odd_number_or_says_why_not(line: list[str], null: NullServer, tmp_path: Path) -> None:
    lines = [[word.format(number) for word in line] for number in NUMBERS]
    assert found(lines, null(SLOW), tmp_path) == []


@pytest.mark.parametrize(
    "text",
    [
        "\\sleep {} s\nSELECT 1;\n",
        "\\sleep :n us\nSELECT 1;\n",
        "\\set x {}\nSELECT 1;\n",
        "\\set x random(1, {})\nSELECT 1;\n",
        '[[phase]]\nname = "one"\nduration = "{}s"\n',
        '[[phase]]\nname = "one"\nduration = "1s"\nrate = {}\n',
        '[[phase]]\nname = "one"\nduration = "1s"\nclients = {}\n',
    ],
)
def test_scripts_and_phases_take_an_odd_number_or_say_why_not(text: str, null: NullServer, tmp_path: Path) -> None:
    lines = []
    for at, number in enumerate(ODD):
        (tmp_path / f"{at}").write_text(text.format(number))
        script = ["-T2", "--drain-limit=0", f"-f{at}", f"-Dn={number or 0}"]
        lines.append(["-n", *(["-S", f"--phases={at}"] if text.startswith("[[") else script)])
    assert found(lines, null(SLOW), tmp_path) == []


@pytest.mark.parametrize("program", ["pgprobe", "pgnull"])
def test_the_other_programs_take_odd_numbers_or_say_why_not(program: str, tmp_path: Path) -> None:
    options = {
        "pgprobe": [["--no-server", "-T{}"], ["--no-server", "--lease={}"], ["--no-server", "--processes={}", "-T1"]],
        "pgnull": [
            ["--listen=127.0.0.1", "--port=0", "--parent-lease", *more]
            for more in (["--delay-us={}"], ["--stall-at={}", "--stall-for={}"], ["--scale={}"], ["--threads={}"])
        ],
    }
    wrong = []
    for line in options[program]:
        for number in ODD:
            # standard input ends at once: pgprobe's lease with it, and pgnull
            filled = [*(word.format(number) for word in line), *(["--parent-lease"] if program == "pgprobe" else [])]
            done = run_program([BIN / program, *filled], cwd=tmp_path)
            if "panicked" in done.stderr or done.returncode not in (0, 1) or (done.returncode == 1 and not done.stderr):
                wrong.append((filled, done.returncode, done.stderr))
    assert wrong == []
