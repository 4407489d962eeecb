"""What an imported throughput counts, also in runs that earlier versions imported."""

from pathlib import Path

from pgdyno.importers.write import import_files
from pgdyno.records import TrialRecord
from pgdyno.records.rate_unit import QUERIES, TRANSACTIONS, WITH_CONNECTING, in_one_unit, rate_unit
from pgdyno.report.full_report import whole_report
from pgdyno.report.translation import Language
from pgdyno.store import load_run
from tests.present import present

GOLDEN = Path(__file__).parents[1] / "golden" / "small-outputs"


def first(name: str, tmp_path: Path) -> TrialRecord:
    return load_run(import_files([GOLDEN / name], tmp_path).run).trials[0]


def test_a_rate_says_what_it_counts(tmp_path: Path) -> None:
    for name, unit in (
        ("rates-13-and-16.md", TRANSACTIONS),
        ("rates-of-two-kinds.md", WITH_CONNECTING),
        ("rates-with-reconnecting.txt", TRANSACTIONS),
        ("qps-only.md", QUERIES),
        ("clients-with-words.md", TRANSACTIONS),
    ):
        assert rate_unit(first(name, tmp_path)) == unit


def test_a_run_of_an_earlier_version_is_compared_without_connecting(tmp_path: Path) -> None:
    trial = first("rates-13-and-16.md", tmp_path)
    figures = dict(present(trial.imported).figures)
    with_connecting = figures["tps"] = figures.pop("tps_including_connections")
    earlier = trial.model_copy(
        update={
            "imported": present(trial.imported).model_copy(update={"figures": figures}),
            "summary": present(trial.summary).model_copy(update={"tps": with_connecting}),
        }
    )
    assert rate_unit(earlier) == WITH_CONNECTING
    ((converted,), _) = in_one_unit([[earlier], [trial]])
    assert present(converted.summary).tps == present(trial.summary).tps == 1002.57637


def test_a_report_of_queries_says_queries(tmp_path: Path) -> None:
    run = load_run(import_files([GOLDEN / "qps-only.md"], tmp_path).run)
    for language, told in ((Language.ENGLISH, "queries a second"), (Language.JAPANESE, "クエリ")):
        page = whole_report([run], language=language)
        assert told in page.markdown()
        assert told in page.html()
        assert "transactions a second" not in page.markdown()


def test_unknown_clients_are_null_and_those_of_earlier_versions_too(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("tps = 100.5 (without initial connection time)\n")
    run = import_files([tmp_path / "out.txt"], tmp_path / "runs").run
    (record,) = run.glob("trials/*/trial.json")
    told = record.read_text()
    assert '"clients": null' in told
    record.write_text(told.replace('"clients": null', '"clients": 0'))
    assert load_run(run).trials[0].point.clients is None
