"""The PDF report: the content of its pages, names as plain text, and identical files from identical data."""

from __future__ import annotations

import io
import itertools
import re
import sys

import pytest
from pypdf import PdfReader

from pgdyno.analyse.comparison import compare
from pgdyno.analyse.pairs import Metric, within
from pgdyno.analyse.price import Costs, Hourly, PriceList
from pgdyno.audit import Evidence, Finding, Severity
from pgdyno.errors import UsageError
from pgdyno.report.html import report_content
from pgdyno.report.pdf.first_page import first_page
from pgdyno.report.pdf.typeset import pdf_of, printed, typeset
from pgdyno.report.report_content import Extras, ProbeSamples, digest
from pgdyno.store.probe_queries import SeriesStep, WaitStep
from tests.unit.report_sample import STARTED, SampleRun, add_failure, sweep

EVIL = "#panic() $x$ *b* \\ <l> @ref `c` \"'] } // <script>\x01 _u_ https://evil.example/" + "long" * 30


def samples(number: int, name: str) -> ProbeSamples:
    series = [SeriesStep(number, step, "cpu", "user", "", 0.6) for step in range(8)]
    series += [SeriesStep(number, step, "disk", "utilisation", name, 0.4) for step in range(8)]
    series.append(SeriesStep(number, 4, "checkpoints", "timed", "", 1.0))
    return ProbeSamples(1.0, series, [WaitStep(number, step, "IO", name, 2.0) for step in range(8)])


def paper(run: SampleRun, name: str = "sda") -> bytes:
    """The PDF of `run` with a comparison, a price, an audit and a probe."""
    costs = Costs(hourly=(Hourly(name=name, amount=0.2),))
    evidence = [Evidence(at=f"trial {at}: {name}", figures={"lag_ms": 0.5 * at}) for at in range(1, 4)]
    finding = Finding(
        rule="clock",
        severity=Severity.CAUTION,
        trials=[1],
        message=f"the clock of {name} went astray",
        evidence=evidence,
        advice="keep it in step",
        source=name,
    )
    targets = [target.name for target in run.manifest.targets]
    prices = PriceList(currency="EUR", date=STARTED.date(), years=3, target=dict.fromkeys(targets, costs))
    extras = Extras(
        findings=[finding],
        comparisons=compare(within(run, "target", Metric.TPS)) if len(targets) > 1 else (),
        prices=prices,
        probe_samples={trial.number: samples(trial.number, name) for trial in run.trials},
    )
    return pdf_of(report_content(digest(run), f"runs/{name}", extras)).pdf


def pages(pdf: bytes) -> list[str]:
    """The text of each page, as one line."""
    return [re.sub(r"\s+", " ", page.extract_text().replace("\u200b", "")) for page in PdfReader(io.BytesIO(pdf)).pages]


@pytest.fixture(scope="module")
def compared() -> bytes:
    return paper(sweep(("pg18", "pg17"), clients=(1, 4, 16), repeats=6, seconds=4))


@pytest.fixture(scope="module")
def told(compared: bytes) -> list[str]:
    """Its pages."""
    return pages(compared)


def test_the_first_two_pages_stand_alone(told: list[str]) -> None:
    first, second, *rest = told
    for said in ("pg17 is", "peak throughput", "p99", "price of a million", "limited by", "Validity", "Comparison"):
        assert said in first
    for said in ("Scaling", "transactions a second", "Price", "per million transactions, EUR"):
        assert said in second
    appendix = " ".join(rest)
    for section in ("Points", "Latency by percentile", "Second by second", "checkpoint (time)", "Plan", "Raw data"):
        assert section in appendix
    assert rest[0].startswith("Appendix")


def test_each_page_says_its_number_and_the_run(told: list[str]) -> None:
    for at, page in enumerate(told, 1):
        assert f"{at} / {len(told)}" in page
        assert "20261120T101500Z" in page


def test_it_is_tagged_and_named_and_carries_its_fonts(compared: bytes) -> None:
    reader = PdfReader(io.BytesIO(compared))
    assert reader.metadata is not None
    assert "pg17 is" in (reader.metadata.title or "")
    assert "/StructTreeRoot" in reader.root_object
    assert all(not unembedded for _, unembedded in [page._get_fonts() for page in reader.pages])


def test_the_same_run_makes_the_same_bytes() -> None:
    def made() -> bytes:
        return paper(sweep(clients=(1, 4), repeats=2, seconds=4))

    assert made() == made()


def test_names_of_others_are_text() -> None:
    run = sweep((EVIL, "other"), clients=(1, 4), repeats=2, seconds=4)
    add_failure(run, EVIL, 64, message=EVIL, hint=EVIL)
    made = paper(run, EVIL)
    reader, text = PdfReader(io.BytesIO(made)), " ".join(pages(made))
    for name in ("#panic()", "$x$", "*b*", "<script>", "@ref", "`c`"):
        assert name in text
    assert all(
        "/URI" not in (note.get_object().get("/A") or {}) for page in reader.pages for note in page.annotations or ()
    )


@pytest.mark.parametrize("run", [sweep(clients=(8,), repeats=1), sweep(clients=range(1, 40), repeats=1, seconds=3)])
def test_a_run_of_one_point_has_the_same_pages(run: SampleRun) -> None:
    found = pages(paper(run))
    assert "Validity" in found[0]
    assert "Price" in found[1]
    assert found[2].startswith("Appendix")


def test_letters_that_no_font_has_are_numbers() -> None:
    """No font has characters of the private use area."""
    run = sweep(("a\U0010abcdb", "other"), clients=(1,), repeats=2, seconds=3)
    content = report_content(digest(run), "here", Extras())
    made = pdf_of(content)
    assert made.missing == "\U0010abcd"
    assert "a\\u10abcdb" in " ".join(pages(made.pdf))
    foreign = {**printed(content), "language": "ja"}
    with pytest.raises(UsageError, match="no font of this system has the letters"):
        typeset(foreign, STARTED)


def test_without_typst_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)
    with pytest.raises(UsageError, match="typst, which is not installed") as raised:
        paper(sweep(clients=(1,), repeats=1, seconds=3))
    assert raised.value.hint == "pip install 'pgdyno[pdf]'"


def test_no_heading_stays_on_the_first_page_without_what_is_below_it() -> None:
    run = sweep(("pg18", "pg17"), clients=(1, 4), repeats=2, seconds=4)
    of = digest(run)
    content = report_content(of, "run", Extras(comparisons=compare(within(run, "target", Metric.TPS))))
    blocks = first_page(content)
    for at, block in enumerate(blocks):
        if block["kind"] == "heading":
            below = list(itertools.takewhile(lambda each: each["kind"] != "heading", blocks[at + 1 :]))
            # blocks of a higher number are left out first
            assert block["keep"] >= min(each["keep"] for each in below), block["text"]
