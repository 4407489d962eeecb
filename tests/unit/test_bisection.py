"""Which commits a bisection measures, and which one it names; the commits of a repository."""

import math
import os
import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from simulations.bisection import LAST, History, bisections, plant, search_by_counts

from pgdyno.bisection.journal import FILE, Asked, Difference, Found, JournalFile, Visit
from pgdyno.bisection.repository import Commit, Repository
from pgdyno.bisection.search import BY_COUNTS, Look, Suspects, chances, next_commit, slow_chance, suspects
from pgdyno.errors import StoreError, UsageError
from pgdyno.store.find_runs import list_runs
from tests.forked import run_pgdyno
from tests.small_extension import commit_all, git


def plain_bisection(
    first_slow: int, last: int, broken: frozenset[int] = frozenset(), looks: Sequence[Look] = ()
) -> list[Look]:
    found = list(looks)
    while (commit := next_commit(last, found)) is not None:
        slow = None if commit in broken else BY_COUNTS if commit >= first_slow else 1 - BY_COUNTS
        found.append(Look(commit, slow))
        assert len(found) <= 2 * last
    return found


def test_looks_are_a_plain_bisection_around_commits_without_one_and_against_a_wrong_one() -> None:
    for last in (1, 2, 3, 16, 100):
        for first_slow in range(1, last + 1):
            looks = plain_bisection(first_slow, last)
            assert len(looks) <= math.ceil(math.log2(last))
            found = suspects(last, looks)
            assert (found.first, found.last) == (first_slow, first_slow)
            assert found.probability >= 0.99
    # of which there may be no other between good and bad
    assert suspects(4, plain_bisection(3, 4, frozenset({1, 2, 3}))) == Suspects(1, 4, 1.0)
    broken = frozenset(range(5, 12))
    for first_slow in range(1, 17):
        found = suspects(16, plain_bisection(first_slow, 16, broken))
        expected = (5, 12) if 5 <= first_slow <= 12 else (first_slow, first_slow)
        assert (found.first, found.last) == expected
    # commit 60 of 128 is the slow one, and the look at 64 said the opposite
    looks = plain_bisection(60, 128, looks=[Look(64, 0.1)])
    assert len(looks) < 20
    assert suspects(128, looks).last == 60


def test_probabilities_follow_bayes_rule() -> None:
    assert chances(4, [Look(2, 0.9)]) == pytest.approx([0.45, 0.45, 0.05, 0.05])
    for mean, error, expected in ((0.05, 0.0, 0.97), (0.01, 0.0, 0.03), (0.025, 0.01, 0.5), (0.035, 0.01, 0.818)):
        assert slow_chance(mean, error, 5, 0.025, 0.97) == pytest.approx(expected, abs=0.001)


def test_planted_histories_are_bisected_rightly() -> None:
    _, *rows = bisections(40)
    for name, _, right, wrong, *_, builds, _, _ in rows:
        assert (right, wrong) == ("100 %", "0 %"), name
        if name == "counts":
            assert int(str(builds).partition("; ")[2]) <= 8
    # a second smaller step is not the answer
    effects = tuple(0.01 * (at >= 90) + 0.004 * (at >= 20) for at in range(LAST + 1))
    looks, differ = search_by_counts(np.random.default_rng(1), History(90, effects, frozenset()))
    assert differ
    assert suspects(LAST, looks).last == 90
    assert plant(np.random.default_rng(1), 0.01).effects[0] == 0


def test_commits_are_those_of_first_parents_from_the_merge_base(tmp_path: Path) -> None:
    for subject in ("one", "two"):
        commit_all(tmp_path, subject)
    git(tmp_path, "checkout", "-q", "-b", "side")
    commit_all(tmp_path, "aside")
    git(tmp_path, "tag", "release")
    git(tmp_path, "checkout", "-q", "main")
    commit_all(tmp_path, "three\u2028of main")
    git(tmp_path, "merge", "-q", "--no-ff", "-m", "merged", "side")
    (tmp_path / "changed").write_text("in the work tree")
    before = git(tmp_path, "status", "--porcelain")
    repository = Repository(tmp_path)
    found = repository.history("HEAD~3", "HEAD")
    assert [each.subject for each in found.commits] == ["one", "two", "three\u2028of main", "merged"]
    assert found.note is None
    from_base = repository.history("release", "HEAD~1")
    assert [each.subject for each in from_base.commits] == ["two", "three\u2028of main"]
    assert from_base.note is not None
    assert from_base.note.id == "bisect-from-base"
    assert git(tmp_path, "status", "--porcelain") == before


def test_commits_without_a_history_between_them_and_folders_without_a_repository_are_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UsageError, match=re.escape(str(folder))):
            Repository(folder)
    commit_all(tmp_path, "one")
    git(tmp_path, "checkout", "-q", "--orphan", "other")
    commit_all(tmp_path, "another beginning")
    git(tmp_path, "checkout", "-q", "main")
    commit_all(tmp_path, "two")
    for good, bad, expected in (
        ("HEAD", "HEAD~1", "wrong order"),
        ("HEAD", "main", "same commit"),
        ("nothing", "HEAD", "--good: there is no commit nothing"),
        ("--help", "HEAD", "--good: there is no commit --help"),
        ("other", "HEAD", "no common ancestor"),
    ):
        with pytest.raises(UsageError) as found:
            Repository(tmp_path).history(good, bad)
        assert expected in found.value.message
        assert found.value.hint


def test_the_journal_of_a_bisection_is_no_run_and_is_named_if_it_is_damaged(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    asked = Asked(repo="/r", good="a", bad="b", by="tps")
    file = JournalFile.create(tmp_path, asked, [Commit("a" * 40, "aaaaaaa", "one"), Commit("b" * 40, "bbbbbbb", "two")])
    assert list_runs(tmp_path) == []
    opened = JournalFile.open("latest", tmp_path).journal
    assert (opened, opened.builds) == (file.journal, 2)
    assert opened.started_at >= now
    assert file.discard_unused()
    assert list(tmp_path.iterdir()) == []
    for content in ("", "{}", '{"format": 1}', "\x00"):
        (tmp_path / FILE).write_text(content)
        with pytest.raises(StoreError, match=re.escape(str(tmp_path / FILE))) as found:
            JournalFile.open(str(tmp_path), tmp_path)
        assert found.value.hint


def test_a_bisection_is_shown_while_it_goes_on_and_when_it_has_ended(tmp_path: Path) -> None:
    history = [Commit(f"{at}" * 40, f"{at}" * 7, f"subject <{at}>") for at in range(8)]
    asked = Asked(repo="/r", good="v1", bad="HEAD", by="instructions", scripts=["q.sql"], settings=["a=1"])
    file = JournalFile.create(tmp_path, asked, history)
    journal = file.journal
    effect = Difference(
        mean=0.05, low=0.049, high=0.051, error=0.0, freedom=1.0, shown=True, figures=(100_000.0, 105_127.0),
        runs=["gone"],
    )  # fmt: skip
    pgdyno = partial(run_pgdyno, cwd=Path.cwd(), env=os.environ)
    shown = pgdyno(["show", file.folder.name, "--runs", str(tmp_path)]).stdout
    assert f"pgdyno bisect --resume {file.folder}" in shown
    assert shown.splitlines()[-1].startswith("not finished")
    journal.ends = effect
    journal.visits = [
        Visit(commit=4, difference=effect, slow=BY_COUNTS),
        Visit(commit=2, reason="compiling failed:\nmore"),
    ]
    journal.build_s = {history[4].sha: 31.0}
    journal.found = Found(first=2, last=4, probability=1.0, effect=effect)
    file.write()
    lines = pgdyno(["show", str(file.folder)]).stdout.splitlines()
    rows = {line.split("  ")[0]: " ".join(line.split()) for line in lines}
    assert rows["4444444"] == "4444444 subject <4> as bad, 100 %, found 105,100 +5.1 % +5.0 to +5.2 % 31"
    assert rows["2222222"] == "2222222 subject <2> skipped, found"
    assert any("1 commit between" in line and "not measured" in line for line in lines)
    assert "- skipped 2222222 'subject <2>': compiling failed" in lines
    repeated = shlex.split(next(line for line in lines if line.startswith("pgdyno bisect ")))
    expected = {"--repo=/r", f"--good={'0' * 40}", f"--bad={'7' * 40}", "--script=q.sql", "--set=a=1"}
    assert expected <= set(repeated)
    page = file.folder / "report.html"
    assert pgdyno(["report", str(file.folder)]).stdout.strip() == str(page)
    text = page.read_text()
    assert "subject &lt;4&gt;" in text
    assert "<h1>one of 3 commits, 2222222" in text
    refused = pgdyno(["show", str(file.folder), "--json"])
    assert (refused.returncode, "is a bisection" in refused.stderr) == (2, True)
