"""Reports about several generators."""

from pgdyno.records import GeneratorHost, TrialRecord
from pgdyno.report.numbers import NOTHING
from pgdyno.report.report_content import Extras, digest
from pgdyno.report.sections.environment import generator_table
from pgdyno.report.sentences import conditions
from tests.unit.report_sample import render_html, sweep

LOST = GeneratorHost(
    name="generator-2",
    host="load1",
    cores=2,
    cpu_model="a processor",
    pgdyno="0.1.0",
    pgdrive="0.1.0",
    clients=None,
    clock_ahead_us=-84,
    clock_ahead_after_us=None,
    clock_round_trip_us=811,
    heard_late_us=32_934,
)
WHOLE = LOST.model_copy(
    update={
        "name": "generator-1",
        "clients": 2,
        "tps": 7701.8,
        "cpu_us": {"user": 200_000, "system": 0},
        "busiest_cpu_share": 0.0717,
        "start_late_us": 1658,
    }
)


def with_hosts(trial: TrialRecord, *hosts: GeneratorHost) -> TrialRecord:
    assert trial.generator is not None
    return trial.model_copy(update={"generator": trial.generator.model_copy(update={"hosts": list(hosts)})})


def test_each_generator_has_a_row() -> None:
    run = sweep()
    assert generator_table(digest(run)) is None
    assert "generators" not in conditions(digest(run))
    run.trials = [with_hosts(trial, WHOLE, LOST) for trial in run.trials]
    table = generator_table(digest(run))
    assert table is not None
    first, second = table.rows
    clock = "-0.084 ± 0.41"
    assert first == ("generator-1", "load1", "2", "7,700", "0.20", "7.2", NOTHING, "1.7", clock, "33")
    assert second == ("generator-2", "load1", *[NOTHING] * 6, clock, "33")
    assert "2 generators; " in conditions(digest(run))
    page = render_html(run, "a-run", Extras())
    assert "generator-2" in page
