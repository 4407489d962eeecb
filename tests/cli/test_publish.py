"""`pgdyno publish`: stable names, updates in place, secrets, damage, and what ends it half-way."""

import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from pgdyno.errors import ExitCode, StoreError
from pgdyno.publish import site as site_module
from pgdyno.publish.site import Site
from pgdyno.store import RunData, RunFolder, load_run
from pgdyno.store.parquet import write_tables
from pgdyno.store.trial_tables import SettingRow
from tests.forked import run_pgdyno
from tests.present import present
from tests.unit.archive_sample import MARKUP, run_of

SECRET = "hunter2planted"


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_pgdyno(["publish", *words, "--into=site"], cwd=folder, env=dict(os.environ))


def publish(folder: Path, *words: str) -> str:
    done = call(folder, *words)
    assert done.returncode == ExitCode.OK, done.stderr
    return done.stdout


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (each for each in folder.rglob("*") if each.is_file())
    return {str(each.relative_to(folder)): (each.read_bytes(), each.stat().st_mtime_ns) for each in files}


def test_a_run_has_one_page_wherever_it_is_and_updates_leave_the_rest(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    first, second = run_of(runs), run_of(runs, hours=1, version="17.5")
    shutil.copytree(first.path, tmp_path / "elsewhere" / "renamed")
    said = publish(tmp_path, "runs", "elsewhere")
    assert "2 runs: 2 written, 0 removed" in said
    site = tmp_path / "site"
    for page in (site / "runs").iterdir():
        assert {each.name for each in page.iterdir()} >= {"index.html", "raw.tar", "trials.csv"}
        assert page.name.endswith(hashlib.sha256((page / "raw.tar").read_bytes()).hexdigest()[:12])
        picture = (page / "picture.png").read_bytes()
        assert (int.from_bytes(picture[16:20], "big"), int.from_bytes(picture[20:24], "big")) == (1200, 630)
        text = (page / "index.html").read_text()
        assert 'property="og:image" content="picture.png"' in text
        assert str(tmp_path) not in text
    (site / "CNAME").write_text("bench.example")
    before = state(site)
    assert "2 runs: 0 written, 0 removed" in publish(tmp_path, "runs")
    assert state(site) == before
    shutil.rmtree(second.path)
    assert "1 run: 0 written, 1 removed" in publish(tmp_path, "runs")
    after = state(site)
    assert [path for path in after if path.startswith("runs/") and after[path] != before[path]] == []
    assert len(list((site / "runs").iterdir())) == 1
    assert (site / "CNAME").exists()
    # pages are made again for an address
    assert "1 run: 1 written" in publish(tmp_path, "runs", "--url=https://bench.example/x")
    assert 'content="https://bench.example/x/runs/quick-' in next((site / "runs").glob("*/index.html")).read_text()


def test_folders_with_other_content_and_damaged_runs_are_named_and_left_as_they_are(tmp_path: Path) -> None:
    runs, site = tmp_path / "runs", tmp_path / "site"
    damaged, good = run_of(runs), run_of(runs, hours=1)
    (damaged.path / "manifest.json").write_text("{")
    site.mkdir()
    (site / "thesis.tex").write_text("x")
    done = call(tmp_path, "runs")
    assert done.returncode == ExitCode.USAGE
    assert "hint: name a new or an empty folder" in done.stderr
    assert [each.name for each in site.iterdir()] == ["thesis.tex"]
    (site / "thesis.tex").unlink()
    done = call(tmp_path, "runs")
    assert done.returncode == ExitCode.STORE
    assert damaged.name in done.stderr
    assert len(list((site / "runs").iterdir())) == 1
    before = state(site)
    shutil.rmtree(good.path)
    assert call(tmp_path, "runs").returncode == ExitCode.STORE
    # nothing is left to publish, so the folder stays as it was
    assert state(site) == before


def publish_one(site: Site, run: RunData) -> None:
    with site.hold_lock():
        made = site.make(run)
        site.write(made)
        site.finish([made.entry])


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_ends_it_leaves_the_previous_site_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    site = Site(tmp_path / "site")
    first, second = (load_run(run_of(tmp_path / "runs", hours=at)) for at in (0, 1))
    publish_one(site, first)
    before = state(tmp_path / "site")
    replaced = Path.replace
    for survived in range(5):
        renamed = iter([True] * survived)

        def replace(path: Path, target: Path, renamed: Iterator[bool] = renamed) -> Path:
            if not next(renamed, False):
                raise error
            return replaced(path, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", replace)
            with pytest.raises((StoreError, KeyboardInterrupt)):
                publish_one(Site(tmp_path / "site"), second)
        after = state(tmp_path / "site")
        assert {path: after[path] for path in before} == before
        assert [path for path in after if path.endswith(".partial")] == []
        for name in {path.split("/")[1] for path in after.keys() - before.keys()}:
            shutil.rmtree(tmp_path / "site" / "runs" / name)


def test_secrets_and_markup_are_in_no_file(tmp_path: Path) -> None:
    settings = {"primary_conninfo": f"host=x password={SECRET}"}
    plan = {
        "name": "a name",
        "description": MARKUP,
        "trial": {"seed": 1},
        "target": {"pg": {"kind": "dsn", "dsn": f"host=x options='-c a.token={SECRET}'", "settings": settings}},
        "workload": {"variables": {"api_token": SECRET}},
        "sweep": {"settings": {"my.password": [SECRET]}},
    }
    run = run_of(tmp_path / "runs", plan=plan, workload=MARKUP, notes=[MARKUP])
    trial = run.trials()[0]
    rows = [SettingRow(trial.number, "primary_conninfo", f"password={SECRET}", None, "configuration file")]
    # as versions before masking wrote it
    write_tables(run.trials_path / trial.slug, {"settings": rows})
    record = (run.trials_path / trial.slug / "trial.json").read_text()
    changed = record.replace('"settings": {}', f'"settings": {{"my.password": "{SECRET}"}}', 1)
    assert changed != record
    (run.trials_path / trial.slug / "trial.json").write_text(changed)
    (run.path / "log").mkdir()
    (run.path / "log" / "before_run-1.log").write_text(SECRET)
    publish(tmp_path, "runs")
    (raw,) = (tmp_path / "site" / "runs").glob("*/raw.tar")
    with tarfile.open(raw) as tar:
        tar.extractall(tmp_path / "raw", filter="data")
    (kept,) = (tmp_path / "raw").glob("*/trials/*1*/settings.parquet")
    assert present(duckdb.sql(f"SELECT setting FROM '{kept}'")).fetchall() == [("***",)]
    for file in [*state(tmp_path / "site").values(), *state(tmp_path / "raw").values()]:
        assert SECRET.encode() not in file[0]
    for page in (tmp_path / "site").rglob("*.html"):
        assert MARKUP not in page.read_text()
    assert RunFolder.open(next((tmp_path / "raw").iterdir())).manifest.run == run.name


def test_without_fonts_there_are_no_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_module, "has_fonts", lambda: False)
    made = Site(tmp_path / "site").make(load_run(run_of(tmp_path / "runs")))
    assert "picture.png" not in made.files
    assert b"og:image" not in made.files["index.html"]
