"""Runs on object storage, for which moto's server replaces S3, and Azurite Azure's."""

import asyncio
import json
import secrets
import socket
import stat
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import IO, ClassVar

import pytest

import pgdyno
from pgdyno.commands.analyse import analyse
from pgdyno.commands.import_export import copy, import_
from pgdyno.commands.report import report
from pgdyno.errors import ExitCode, StoreError, UsageError
from pgdyno.records import Outcome
from pgdyno.store import RunFolder, find_run, load_run
from pgdyno.store.find_runs import named_runs
from pgdyno.store.object_storage import objects
from pgdyno.store.object_storage.address import Address
from pgdyno.store.object_storage.runs import SUMMARIES, copy_run, fetch_run, open_run, upload
from pgdyno.targets import Home
from tests.azurite import azurite
from tests.present import present
from tests.s3 import BUCKET, KEYS, Bucket, environment, object_storage
from tests.unit import documents_sample as documents
from tests.unit.archive_sample import run_of

Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.slow

RUNS = Address(BUCKET, "runs")


@pytest.fixture(scope="module")
def server() -> Iterator[Bucket]:
    with object_storage() as client:
        yield client


@pytest.fixture
def s3(server: Bucket) -> Bucket:
    server.empty()
    return server


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return run_of(tmp_path_factory.mktemp("runs"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def contents_of_run(run: RunFolder) -> dict[str, bytes]:
    return {name: content for name, content in contents(run.path).items() if name != ".lock"}


def test_runs_come_back(s3: Bucket, run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def write(content: bytes | IO[bytes], at: Address, *, only_new: bool = False) -> None:
        objects.write(content, at, only_new=only_new)
        written.append(at.name)

    monkeypatch.setattr("pgdyno.store.object_storage.runs.write", write)
    (run.path / ".lock").touch()
    at = upload(run, RUNS)
    assert str(at) == f"s3://bench/runs/{run.name}"
    back = copy_run(at, tmp_path)
    assert stat.filemode(back.path.stat().st_mode) == "drwx------"
    assert contents(back.path) == contents_of_run(run)
    assert sorted(path.name for path in tmp_path.iterdir()) == [run.name]
    # its manifest is written last: without it, the objects do not count as a run
    assert written[-1] == "manifest.json"
    assert len(written) == len(set(s3.keys()))
    # a name that is there stays, here and there
    with pytest.raises(StoreError, match="already exists"):
        upload(run, RUNS)
    with pytest.raises(StoreError, match="exists already"):
        copy_run(at, tmp_path)
    # two that begin at once: the service itself lets one manifest in
    with pytest.raises(StoreError, match=r"cannot write s3://bench/runs/.*/manifest.json: it already exists"):
        objects.write(b"{}", at / "manifest.json", only_new=True)

    async def cell() -> str:
        return pgdyno.open(str(at)).name

    # a cell of a notebook is executed in a running loop
    assert asyncio.run(cell()) == run.name


def test_only_the_tables_that_are_read_are_downloaded(s3: Bucket, run: RunFolder, tmp_path: Path) -> None:
    at = upload(run, RUNS)
    s3.put(f"{at.key}/trials/.0009-x.partial/intervals.parquet")
    folder = fetch_run(at, tmp_path, SUMMARIES)
    names = {Path(name).name for name in contents(tmp_path)}
    assert names == {"manifest.json", "trial.json", "intervals.parquet", "histograms.parquet", "statements.parquet"}
    assert folder.location == str(at)
    assert load_run(folder).intervals() == load_run(run).intervals()
    # a key that names no file below the run: nothing is written
    s3.put(f"{at.key}/trials/../../../outside.parquet")
    with pytest.raises(StoreError, match=r"cannot list s3://bench/runs/.*outside\.parquet"):
        copy_run(at, tmp_path / "all")
    assert not list(tmp_path.rglob("outside.parquet"))


@pytest.mark.usefixtures("s3")
def test_targets_of_symbolic_links_are_not_copied(tmp_path: Path) -> None:
    run = run_of(tmp_path / "runs")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("a key")
    (run.path / "notes.txt").symlink_to(tmp_path / "secret" / "key")
    (run.path / "more").symlink_to(tmp_path / "secret")
    at = upload(run, RUNS)
    assert not [each.address for each in objects.list_objects(at) if each.address.name in ("notes.txt", "key")]


def test_a_copy_that_was_broken_off_is_done_again(s3: Bucket, run: RunFolder) -> None:
    s3.put(f"runs/{run.name}/trials/0001-pg-c4/intervals.parquet", b"half")
    at = upload(run, RUNS)
    s3.delete(f"{at.key}/manifest.json")
    s3.put(f"{at.key}/trials/0009-other/trial.json")
    with pytest.raises(StoreError, match=r"trials/0009-other/trial.json there does not belong to the run"):
        upload(run, RUNS)
    with pytest.raises(StoreError, match=r"it has no manifest.json"), open_run(str(at)):
        pass


@pytest.mark.usefixtures("s3")
def test_two_processes_that_copy_one_run(run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = upload(run, RUNS)
    others: list[RunFolder | None] = []

    def fetch_with_another(of: objects.Stored, path: Path, stopped: threading.Event) -> None:
        objects.fetch(of, path, stopped)
        if not others:
            others.append(None)
            others.append(copy_run(at, tmp_path))

    monkeypatch.setattr("pgdyno.store.object_storage.runs.fetch", fetch_with_another)
    monkeypatch.setattr("pgdyno.store.object_storage.runs.AT_ONCE", 1)
    with pytest.raises(StoreError, match="exists already"):
        copy_run(at, tmp_path)
    assert contents(tmp_path / run.name) == contents_of_run(run)
    assert [path.name for path in tmp_path.iterdir()] == [run.name]


@pytest.mark.parametrize("outcome", [None, Outcome.FAILED, Outcome.INTERRUPTED])
def test_a_run_that_may_go_on_is_not_copied_meanwhile(s3: Bucket, tmp_path: Path, outcome: Outcome | None) -> None:
    folder = run_of(tmp_path)
    folder.update_manifest(outcome=outcome)
    with folder.hold_lock():
        assert copy([str(folder.path)], "s3://bench/runs", tmp_path) is ExitCode.STORE
    assert s3.keys() == []
    assert copy([str(folder.path)], "s3://bench/runs", tmp_path) is ExitCode.OK


def test_an_address_that_is_no_run_is_named(s3: Bucket) -> None:
    s3.put("runs/half/trials/0001-x/trial.json")
    s3.put("runs/broken/manifest.json")
    for place, message in (
        ("s3://bench/runs/half", r"s3://bench/runs/half: it has no manifest.json"),
        ("s3://bench/runs/nothing", "s3://bench/runs/nothing: there is nothing at that address"),
        ("s3://no-such-bucket/x", "s3://no-such-bucket/x: there is no bucket no-such-bucket"),
        ("s3://bench/runs/broken", r"s3://bench/runs/broken/manifest.json: it is not JSON"),
    ):
        with pytest.raises(StoreError, match=message), open_run(place):
            pass
    for text in ("s3://", "s3:///key", "s3://a b/c"):
        with pytest.raises(UsageError, match="no address of object storage"):
            Address.parse(text)
    assert Address.parse("s3://bench/a//") == Address("bench", "a")


ENDPOINT = "AWS_ENDPOINT_URL_S3"


def test_what_a_storage_needs_and_an_endpoint_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    for variables, address, message, hint in (
        ({ENDPOINT: "nonsense"}, RUNS, "AWS_ENDPOINT_URL_S3 is no endpoint of object storage: nonsense", ""),
        (
            {**KEYS, ENDPOINT: "http://storage.example:9000"},
            RUNS,
            r"would send runs and signatures unencrypted to storage\.example",
            "set AWS_ENDPOINT_URL_S3 to an https:// URL; http:// is for this machine only",
        ),
        ({"AWS_PROFILE": "lab"}, RUNS, "AWS_PROFILE needs boto3, which is not installed", "pip install 'pgdyno[aws]'"),
        (
            {},
            Address.parse("az://bench/runs"),
            "cannot use az://bench: .*Account must be specified",
            "set AZURE_STORAGE_ACCOUNT_NAME",
        ),
    ):
        if "AWS_PROFILE" in variables:
            monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
        with environment(variables), pytest.raises(StoreError, match=message) as raised:
            objects.list_objects(address)
        assert (raised.value.hint or "").startswith(hint)
    with socket.socket() as taken:
        # bound, but not listening
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with (
            environment({**KEYS, "AWS_ENDPOINT_URL_S3": url}),
            pytest.raises(StoreError, match=r"cannot list s3://bench/runs: .*error sending request") as raised,
        ):
            objects.list_objects(RUNS)
    assert "AWS_ENDPOINT_URL_S3" in (raised.value.hint or "")


def test_downloads_that_fail(s3: Bucket, tmp_path: Path) -> None:
    s3.put("runs/a", bytes(3 * objects.CHUNK_BYTES))
    (found,) = objects.list_objects(RUNS)
    # a failed object stops the others
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(StoreError, match="it was stopped"):
        objects.fetch(found, tmp_path / "a", stopped)
    assert (tmp_path / "a").stat().st_size == 0
    s3.put("runs/a", b"two")
    with pytest.raises(StoreError, match="s3://bench/runs/a: it was changed while"):
        objects.fetch(found, tmp_path / "a")
    s3.delete("runs/a")
    with pytest.raises(StoreError, match="s3://bench/runs/a: the object does not exist"):
        objects.fetch(found, tmp_path / "a")
    with s3.closed(), pytest.raises(StoreError, match="cannot list s3://bench/runs: the credentials are not") as raised:
        objects.list_objects(RUNS)
    assert "AWS_PROFILE" in (raised.value.hint or "")


class _Half(BaseHTTPRequestHandler):
    """Sends at most five bytes of what it announces."""

    content = b"1234567890"
    asked: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        wanted = self.headers["Range"]
        self.asked.append(wanted)
        begin = int(wanted.removeprefix("bytes=").partition("-")[0]) if wanted else 0
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(self.content) - begin))
        self.send_header("Content-Range", f"bytes {begin}-{len(self.content) - 1}/{len(self.content)}")
        self.send_header("ETag", '"x"')
        self.send_header("Last-Modified", "Mon, 23 Nov 2026 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(self.content[begin : begin + 5])

    def log_message(self, *_: object) -> None:
        """Discards the message."""


def test_a_transfer_that_breaks_off_is_resumed(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), _Half) as half:
        thread = threading.Thread(target=half.serve_forever)
        thread.start()
        try:
            with environment({**KEYS, "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{half.server_port}"}):
                objects.fetch(objects.Stored(RUNS, 10, '"x"'), tmp_path / "x")
                with pytest.raises(StoreError, match="cannot read s3://bench/runs: 10 of its 11 bytes came"):
                    objects.fetch(objects.Stored(RUNS, 11, '"x"'), tmp_path / "y")
        finally:
            half.shutdown()
            thread.join()
    assert (tmp_path / "x").read_bytes() == _Half.content
    assert _Half.asked[:2] == [None, "bytes=5-9"]


def test_patterns_folders_and_keys_of_any_text(s3: Bucket, run: RunFolder, tmp_path: Path) -> None:
    for name in ("a1", "a2", "b1", ".hidden"):
        s3.put(f"runs/{name}/manifest.json")
    s3.put("more/x/a1/manifest.json")

    def found(*texts: str) -> list[str]:
        return [place.removeprefix("s3://bench/") for place in named_runs(texts, run.path.parent).places]

    assert found("s3://bench/runs") == found("s3://bench/runs/*") == ["runs/a1", "runs/a2", "runs/b1"]
    assert found("s3://bench/runs/b1", "s3://bench/runs/[ab]1") == ["runs/b1", "runs/a1"]
    assert found("s3://bench/*/x/a?") == ["more/x/a1"]
    assert not named_runs(["s3://bench/runs/b*"], run.path.parent).is_one
    assert named_runs(["s3://bench/runs/b1"], run.path.parent).is_one
    with pytest.raises(StoreError, match="there are no runs at s3://bench/c"):
        found("s3://bench/c*")
    # here as there
    assert found(str(run.path.parent)) == found("latest") == found(f"{run.path.parent}/*quick*") == [str(run.path)]
    # keys may be any text
    names = ["a b", "a%20b", "ü#?*+&"]
    for name in names:
        s3.put(f"logs/{name}", name.encode())
    s3.put("logs/")
    kept = objects.list_objects(Address(BUCKET, "logs"))
    assert [each.address.name for each in kept] == objects.files(Address(BUCKET, "logs")) == sorted(names)
    for each in kept:
        objects.fetch(each, tmp_path / "x")
        assert (tmp_path / "x").read_text() == each.address.name


def test_many_are_analysed_and_the_broken_are_named(s3: Bucket, run: RunFolder, capsys: Capture) -> None:
    at = upload(run, RUNS)
    s3.put("runs/broken/manifest.json")
    code = analyse(["s3://bench/runs"], json=True)
    said, problem = capsys.readouterr()
    found = json.loads(said)
    assert code is ExitCode.STORE
    assert "s3://bench/runs/broken/manifest.json: it is not JSON" in problem
    assert [each["run"] for each in found["unread"]] == ["s3://bench/runs/broken"]
    analyse([str(run.path)], json=True)
    assert found["runs"] == [{"run": str(at), "analysis": json.loads(capsys.readouterr().out)}]
    analyse([str(at), "s3://bench/runs/broken"])
    assert "1 run analysed, 1 not" in capsys.readouterr().out


def test_our_fault_costs_one_run(s3: Bucket, run: RunFolder, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    at = upload(run, RUNS)
    s3.put("runs/odd/manifest.json")

    def opened_oddly(place: str, tables: Collection[str] | None = None) -> AbstractContextManager[RunFolder]:
        if place.endswith("odd"):
            raise ZeroDivisionError("by zero")
        return open_run(place, tables)

    monkeypatch.setattr("pgdyno.store.object_storage.runs.open_run", opened_oddly)
    assert analyse([str(RUNS)], json=True) is ExitCode.INTERNAL
    said = json.loads(capsys.readouterr().out)
    assert [each["run"] for each in said["runs"]] == [str(at)]
    assert said["unread"][0]["reason"] == "cannot work on s3://bench/runs/odd: ZeroDivisionError: by zero"


def test_pages_go_to_the_runs(s3: Bucket, run: RunFolder, tmp_path: Path, capsys: Capture) -> None:
    at = upload(run, RUNS)

    def write(folder: str | None) -> str:
        assert report([str(at)], html=folder, each=True) is ExitCode.OK
        return capsys.readouterr().out.strip()

    assert write(None) == f"{at}/report.html"
    page = s3.get(f"{at.key}/report.html")
    assert str(at).encode() in page
    assert b"pgdyno-run-" not in page
    assert write(str(tmp_path / "pages")) == f"{tmp_path}/pages/{run.name}.html"
    assert (tmp_path / "pages" / f"{run.name}.html").read_bytes() == page


def test_imports_go_and_return(s3: Bucket, tmp_path: Path, capsys: Capture) -> None:
    for name, text in {"a.txt": documents.pgbench_report(), "b.txt": documents.statements_report()}.items():
        s3.put(f"logs/{name}", text.encode())
        (tmp_path / name).write_text(text)
    # pgbench's transaction logs: two threads of one run
    for name, clients in (("pgbench_log.7", range(50)), ("pgbench_log.7.1", range(50, 100))):
        lines = "".join(f"{client} 1 {client + 900} 0 1764000000 {client}\n" for client in clients).encode()
        s3.put(f"logs/{name}", lines)
        (tmp_path / name).write_bytes(lines)
    import_(["s3://bench/logs/*"], "s3://bench/runs", json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["run"].startswith("s3://bench/runs/")
    import_([str(path) for path in sorted(tmp_path.glob("*.*"))], str(tmp_path / "r"), json=True)
    same = json.loads(capsys.readouterr().out)
    assert same | {"run": ""} == told | {"run": ""}
    with open_run(told["run"]) as there:
        here = load_run(find_run(same["run"], Path()))
        run = load_run(there)
        assert run.trials == here.trials
        assert run.intervals() == here.intervals()
        assert run.histograms() == here.histograms()
        files = [each.path for each in run.manifest.imported.files] if run.manifest.imported else []
    assert files == ["s3://bench/logs/a.txt", "s3://bench/logs/b.txt", "s3://bench/logs/pgbench_log.7"]
    with pytest.raises(StoreError, match=r"nothing matches s3://bench/logs/z\*"):
        import_(["s3://bench/logs/z*"], "s3://bench/runs", json=True)


def test_copy_names_what_it_made(
    s3: Bucket, run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert copy([str(run.path)], "s3://bench/runs", Path()) is ExitCode.OK
    s3.put("runs/broken/manifest.json")
    assert copy(["s3://bench/runs"], str(tmp_path), Path()) is ExitCode.STORE
    said = capsys.readouterr()
    assert said.out.split() == [f"s3://bench/runs/{run.name}", f"{tmp_path}/{run.name}"]
    assert "s3://bench/runs/broken" in said.err
    assert [path.name for path in tmp_path.iterdir()] == [run.name]
    with pytest.raises(UsageError, match="both the runs and the destination are on this machine"):
        copy([str(run.path)], str(tmp_path), Path())


def test_profiles_have_credentials_and_endpoints(s3: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config"
    config.write_text(
        f"[profile lab]\nregion = {KEYS['AWS_REGION']}\nendpoint_url = {s3.url}\n"
        f"aws_access_key_id = {KEYS['AWS_ACCESS_KEY_ID']}\naws_secret_access_key = no-secret\n"
    )
    for name in (*KEYS, "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name)
    s3.put("runs/a")
    with environment({"AWS_CONFIG_FILE": str(config), "AWS_PROFILE": "lab"}):
        assert [each.address.key for each in objects.list_objects(RUNS)] == ["runs/a"]
    with (
        environment({"AWS_CONFIG_FILE": str(config), "AWS_PROFILE": "other"}),
        pytest.raises(StoreError, match=r"boto3 cannot use its configuration: .*other"),
    ):
        objects.list_objects(RUNS)


def test_google_cloud_storage(s3: Bucket, run: RunFolder, tmp_path: Path) -> None:
    # its XML API is that of S3: moto stands for it, except for its credentials and conditional writes
    with environment({"GOOGLE_BASE_URL": s3.url, "GOOGLE_BEARER_TOKEN": "none"}):
        at = upload(run, Address.parse(f"gs://{BUCKET}/runs"))
        assert str(at) == f"gs://bench/runs/{run.name}"
        assert named_runs(["gs://bench/runs/*"], tmp_path).places == [str(at)]
        with open_run(str(at)) as there:
            assert load_run(there).intervals() == load_run(run).intervals()
        with pytest.raises(StoreError, match="cannot list gs://nowhere/x: there is no bucket nowhere") as raised:
            objects.list_objects(Address.parse("gs://nowhere/x"))
    assert raised.value.hint == "check the name, and the endpoint (GOOGLE_BASE_URL)"


@pytest.mark.long
def test_runs_on_azure(tmp_path: Path) -> None:
    run, runs = run_of(tmp_path / "runs"), Address.parse("az://bench/runs")
    with azurite(Home.locate(), tmp_path):
        at = upload(run, runs)
        assert str(at) == f"az://bench/runs/{run.name}"
        assert named_runs(["az://bench/runs"], tmp_path).places == [str(at)]
        with open_run(str(at)) as there:
            assert load_run(there).intervals() == load_run(run).intervals()
        assert copy_run(at, tmp_path / "back").manifest == run.manifest
        with pytest.raises(StoreError, match="already exists"):
            upload(run, runs)
        # two that begin at once: the service lets one manifest in
        with pytest.raises(StoreError, match=r"cannot write az://bench/runs/.*: it already exists"):
            objects.write(b"{}", at / "manifest.json", only_new=True)
        found = present(objects.find_object(at / "manifest.json"))
        objects.write(b"{}", at / "manifest.json")
        with pytest.raises(StoreError, match="it was changed while the run was read"):
            objects.fetch(found, tmp_path / "x")
        objects.write(secrets.token_bytes(12 << 20), Address.parse("az://bench/large"))
        large = present(objects.find_object(Address.parse("az://bench/large")))
        objects.fetch(large, tmp_path / "large")
        assert (tmp_path / "large").stat().st_size == 12 << 20
        with pytest.raises(StoreError, match="cannot list az://nowhere/x: there is no bucket nowhere"):
            objects.list_objects(Address.parse("az://nowhere/x"))
        with (
            environment({"AZURE_STORAGE_ACCOUNT_KEY": "bm9uZQ=="}),
            pytest.raises(StoreError, match=r"cannot list az://bench/runs: (access denied|the credentials are not)"),
        ):
            objects.list_objects(runs)
