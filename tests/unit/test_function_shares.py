"""Profiles in reports: the functions that differ, flame graphs, and stored stacks."""

from pathlib import Path

import pytest

from pgdyno.errors import StoreError
from pgdyno.records import Point, ProfileRecord
from pgdyno.report.report_content import ArmProfile, Extras
from pgdyno.report.sections.function_shares import baseline_of, function_table, function_tables, profile_lines
from pgdyno.safe_output import visible
from pgdyno.store.profiles import keep_profile, read_profile
from tests.unit.report_sample import render_html, sweep

EVIL = "</script><script>alert('x')</script>"


def arm(name: str, stacks: dict[str, int], **of_point: object) -> ArmProfile:
    record = ProfileRecord(
        target=name,
        point=Point.model_validate({"clients": 4, "protocol": "simple", **of_point}),
        file=f"profiles/{name}.folded",
        event="cycles:Pu",
        hz=99,
        samples=sum(stacks.values()),
        unresolved=0,
        tps=90.0,
        tps_median=100.0,
    )
    return ArmProfile(name, record, stacks)


BASE = arm("a", {"p;main;scan": 50, "p;main;scan;read": 30, "p;main": 20})
OTHER = arm("b", {"p;main;scan": 100, "p;main": 60, "p;main;sort": 40})


def test_functions_are_compared_by_their_own_share() -> None:
    table = function_table(OTHER, BASE)
    assert table.headings == ("function", "a, %", "b, %", "difference, points", "±")
    assert [row[:4] for row in table.rows] == [
        ("read", "30.00", "0.00", "-30.00"),
        ("sort", "0.00", "20.00", "+20.00"),
        ("main", "20.00", "30.00", "+10.00"),
        ("scan", "50.00", "50.00", "+0.00"),
    ]
    # sqrt(0.3 x 0.7 / 100) x 1.96
    assert table.rows[0][4] == "8.98"


def test_a_single_profile_has_the_functions_with_the_most_time() -> None:
    (table,) = function_tables([BASE])
    assert table.rows == (("scan", "50.00"), ("read", "30.00"), ("main", "20.00"))


def test_the_baseline_is_the_first_arm_at_the_same_point() -> None:
    first, second = arm("a", {"f": 1}, scale=1), arm("a, scale 10", {"f": 1}, scale=10)
    third = arm("b, scale 10", {"f": 1}, scale=10)
    profiles = [first, second, third]
    assert [baseline_of(profiles, at) for at in range(3)] == [None, first, second]


def test_a_report_says_what_perf_cost_and_that_the_kernel_is_missing() -> None:
    (line,) = profile_lines([BASE])
    assert "100 samples of the server at 4 clients" in line
    assert "(cycles, without the kernel)" in line
    assert "90.0 tps under perf in one short load, -10.0 % vs the median of the trials" in line


def test_samples_without_symbols_have_advice() -> None:
    record = BASE.record.model_copy(update={"unresolved": 80})
    *_, advice = profile_lines([ArmProfile("a", record, BASE.stacks)])
    assert advice.startswith("a: 80 % of the samples are in functions without symbols")


def test_hostile_names_are_text_on_the_page(tmp_path: Path) -> None:
    keep_profile(tmp_path, "a", {f"p;{EVIL};\x1b[2J;{'n' * 1_000_000}": 9, "p;\u202e": 1})
    stacks = read_profile(tmp_path, BASE.record)
    assert stacks is not None
    page = visible(render_html(sweep(), "runs/x", Extras(profiles=[arm("a", stacks), arm("b", stacks)])))
    assert len(page) < 300_000
    assert "alert(" in page
    assert EVIL not in page
    assert "\x1b" not in page
    assert page.count("<script") == render_html(sweep(), "runs/x").count("<script")


def test_stored_stacks_are_read_again(tmp_path: Path) -> None:
    file = keep_profile(tmp_path, "a", BASE.stacks)
    assert (tmp_path / file).read_text() == "p;main 20\np;main;scan 50\np;main;scan;read 30\n"
    assert read_profile(tmp_path, BASE.record) == BASE.stacks
    (tmp_path / file).unlink()
    assert read_profile(tmp_path, BASE.record) is None


@pytest.mark.parametrize("content", ["p;main\n", "p;main -1\n", "p;main 1e9\n", f"p {10**13}0\n", "5\n"])
def test_damaged_stacks_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / keep_profile(tmp_path, "a", BASE.stacks)
    path.write_text(content)
    with pytest.raises(StoreError, match="line 1 is not a stack and a number"):
        read_profile(tmp_path, BASE.record)


def test_a_profile_outside_the_run_folder_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / keep_profile(tmp_path, "a", BASE.stacks)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="symbolic link"):
        read_profile(tmp_path, BASE.record)
    outside = BASE.record.model_copy(update={"file": "../../elsewhere"})
    assert read_profile(tmp_path, outside) is None
