"""What a published page says repeats its run: from the raw files alone, and comparable with it."""

import re
import tarfile
from pathlib import Path

from pgdyno.errors import ExitCode
from pgdyno.publish.ranking import ranking
from pgdyno.publish.run_entry import read_entry
from pgdyno.targets import Home
from tests.postgres.runs import pgdyno, the_run

PLAN = """\
name = "Accounts_by_key"
[target.pg18]
kind = "embedded"
version = "18"
settings = { fsync = "off", shared_buffers = "32MB" }
[workload]
scripts = ["sql/read.sql@2", "select-only"]
scale = 1
[sweep]
clients = 2
[trial]
duration = "500ms"
repeats = 2
"""


def test_a_published_run_is_repeated_from_its_raw_files(warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "read.sql").write_text("SELECT count(*) FROM pgbench_branches;\n")
    for words in (("run", "plan.toml"), ("publish", "pgdyno-runs", "--into", "site")):
        done = pgdyno(warm_home, tmp_path, *words)
        assert done.returncode == ExitCode.OK, done.stderr
    (page,) = (tmp_path / "site" / "runs").iterdir()
    with tarfile.open(page / "raw.tar") as tar:
        tar.extractall(tmp_path / "other", filter="data")
    published = the_run(tmp_path)
    text = (page / "index.html").read_text()
    commands = re.findall(r"pgdyno report (\S+)/\ncd (\S+) &amp;&amp; pgdyno run plan.toml", text)
    assert commands == [(published.name, f"{published.name}/repeat")]
    done = pgdyno(warm_home, tmp_path / "other", "report", f"{published.name}/")
    assert done.returncode == ExitCode.OK, done.stderr
    repeat = tmp_path / "other" / published.name / "repeat"
    done = pgdyno(warm_home, repeat, "run", "plan.toml")
    assert done.returncode == ExitCode.OK, done.stderr
    entries = [read_entry(each.path) for each in (the_run(repeat), published)]
    # their audits may find two trials of half a second void
    (group,) = ranking([each.model_copy(update={"alone": ""}) for each in entries]).groups
    assert len(group.ranked) == 2
