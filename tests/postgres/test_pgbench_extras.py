"""Features beyond pgbench's, under either name: percentiles, histograms, JSON, continuing after errors."""

import json
import re
from pathlib import Path

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from pgdyno.targets import Server
from tests.load_recount import assert_p99_of
from tests.postgres.test_pgdrive import drive, loaded

__all__ = ["loaded"]


def test_percentiles_of_run_scripts_and_statements(loaded: Server) -> None:
    args = ("-b", "select-only", "-b", "simple-update", "-n", "-t", "50", "-r", "--percentiles=50,99.9")
    done = drive(loaded, *args)
    assert done.returncode == 0, done.stderr
    of_run = re.findall(r"^latency percentile ([\d.]+) = ([\d.]+) ms$", done.stdout, flags=re.MULTILINE)
    assert [name for name, _ in of_run] == ["50", "99.9"]
    assert 0 < float(of_run[0][1]) <= float(of_run[1][1])
    assert len(re.findall(r"^ - latency percentile 99.9 = ", done.stdout, flags=re.MULTILINE)) == 2
    blocks = done.stdout.split(" - statement latency percentiles in milliseconds (50, 99.9):\n")
    assert len(blocks) == 3
    columns = re.match(r" +([\d.]+) +([\d.]+)  \\set aid random", blocks[1])
    assert columns is not None
    assert float(columns[1]) <= float(columns[2])


def test_the_histogram_log_is_read_by_other_tools(loaded: Server, tmp_path: Path) -> None:
    log, results = tmp_path / "run.hlog", tmp_path / "run.json"
    done = drive(loaded, "-S", "-n", "-c", "2", "-T", "2", "-R", "300", f"--histogram={log}", f"--json={results}")
    assert done.returncode == 0, done.stderr
    whole = HdrHistogram(1, 3600 * 10**9, 3)
    reader = HistogramLogReader(str(log), whole)
    while reader.add_next_interval_histogram() is not None:
        pass
    reader.close()
    end = json.loads(results.read_text())
    assert (end["outcome"], end["exit_code"]) == ("finished", 0)
    assert whole.get_total_count() == end["succeeded"] > 0
    assert_p99_of(whole, end["latency_ns"]["p99"])
    lines = [line for line in log.read_text().splitlines() if not line.startswith(("#", '"'))]
    assert len(lines) >= 2
    assert lines[1].startswith("1.000,1.000,")


def test_a_file_that_cannot_be_made_ends_it_before_the_load(loaded: Server) -> None:
    for option in ("--histogram", "--json"):
        done = drive(loaded, "-S", "-n", f"{option}=/nowhere/x")
        assert done.returncode == 1
        assert 'could not create file "/nowhere/x": No such file or directory' in done.stderr
        assert "tps" not in done.stdout


def test_other_errors_can_be_passed_over(loaded: Server, tmp_path: Path) -> None:
    script = tmp_path / "odd.sql"
    script.write_text("\\set odd random(0, 1)\nBEGIN;\nSELECT 1 / (1 - :odd::int);\nEND;\n")
    args = ("-f", str(script), "-n", "-t", "100", "-M", "prepared", "--random-seed=5", "--failures-detailed")
    done = drive(loaded, *args, "--continue-on-error", "--verbose-errors")
    assert done.returncode == 0, done.stderr
    failed = int(done.stdout.split("number of other failures: ")[1].split()[0])
    assert 25 < failed < 75
    assert f"actually processed: {100 - failed}/100" in done.stdout
    assert done.stderr.count("client 0 got an error in command 2 (SQL) of script 0; ERROR:  division by zero") == failed
    assert done.stderr.count("client 0 ends the failed transaction (try 1/1)") == failed
    assert drive(loaded, *args).returncode == 2


def test_a_serializable_pipeline_can_be_prepared(loaded: Server, tmp_path: Path) -> None:
    script = tmp_path / "pipeline.sql"
    script.write_text(
        "\\startpipeline\nBEGIN ISOLATION LEVEL SERIALIZABLE;\nSELECT :client_id;\nSELECT 2;\nEND;\n\\endpipeline\n"
    )
    done = drive(loaded, "-f", str(script), "-n", "-c", "2", "-t", "10", "-M", "prepared", "--debug")
    assert done.returncode == 0, done.stderr
    assert "client 1 preparing P_3" in done.stderr
    assert done.stderr.count("client 0 executing script ") == 10


def test_connection_times_add_up_to_the_time_of_the_threads(loaded: Server) -> None:
    done = drive(loaded, "-S", "-C", "-c", "32", "-j", "1", "-T", "1")
    assert done.returncode == 0, done.stderr
    average_ms = float(done.stdout.split("average connection time = ")[1].split()[0])
    transactions = int(done.stdout.split("actually processed: ")[1].split()[0])
    assert 0 < average_ms * transactions < 1.5e3, done.stdout
