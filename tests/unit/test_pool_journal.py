"""The journal of borrowed hosts after one was given back before the others."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from pgdyno.plan.hosts import SshSpec
from pgdyno.targets.pool.loan_journal import Journal, journals


def test_a_host_that_is_given_back_is_neither_taken_for_up_nor_given_back_again(tmp_path: Path) -> None:
    journal = Journal.begin(tmp_path, "mine", "digest", datetime.now(UTC) + timedelta(hours=1))
    for target in ("small", "large"):
        journal.asking(target, SshSpec(host=f"{target}.example.net"))
        journal.is_ready(target, {"instance": f"{target}.example.net", "zone": "the pool"})
    journal.is_released("small")
    (read,) = journals(tmp_path)
    assert list(read.ready) == ["large"]
    assert [each.target for each in read.asked] == [each.target for each in journal.asked] == ["large"]
    # the run still records what it was
    assert list(journal.ready) == ["small", "large"]
    journal.close()
