"""Checks as messages: with ids for programs, kept in the manifest, and translated."""

from pathlib import Path
from typing import cast

import pytest

from pgdyno.audit.rules.preflight import RULE
from pgdyno.audit.subject import Subject
from pgdyno.doctor import Needs, Place, generator, round_trips, storage
from pgdyno.doctor.generator import Ceiling
from pgdyno.doctor.storage import SyncTime
from pgdyno.messages import Message, message_json
from pgdyno.records import Check, CheckVerdict
from pgdyno.report.translation import Language, translate, use_language
from tests.unit.audit_sample import own

PLACE = Place(Path("/data"), ("data of pg18",), bytes=100 << 30)
NEEDS = Needs(plan="p", servers=1, rate_per_s=90_000.0)
CHECKS = [
    storage.free(PLACE, 50 << 30, 100 << 30),
    storage.sync_time(PLACE, NEEDS, SyncTime(3_000, 90_000, 1_000)),
    generator.ceiling(NEEDS, Ceiling(tps=100_000, p50_us=80, clients=1, workers=2, threads=1)),
    round_trips.round_trip(Needs(statements=7), 1_500, Message("path-over-loopback", "to pgnull over loopback")),
]


@pytest.mark.parametrize("check", CHECKS, ids=[check.id for check in CHECKS])
def test_a_check_is_stored_with_its_messages(check: Check) -> None:
    stored = Check.model_validate_json(check.model_dump_json())
    assert (str(stored.state), str(stored.consequence)) == (check.found, check.means)
    with use_language(Language.KOREAN):
        assert translate(stored.state) != check.found
        assert translate(stored.consequence) != check.means


def test_programs_read_ids_and_parameters() -> None:
    details = message_json(CHECKS[0].state)
    assert (details["id"], details["message"]) == ("space-needed", CHECKS[0].found)
    assert details["parameters"].items() >= {"space_id": "space-free", "place": "/data (data of pg18)"}.items()
    # in the audit, too
    (finding,) = RULE.findings(cast(Subject, own(preflight=[CHECKS[2]])))
    assert finding.message == f"generator.ceiling: {CHECKS[2].found}: {CHECKS[2].means}"
    assert finding.parameters.items() >= {"found_id": "ceiling-and-rate", "means_id": "starts-late"}.items()
    # a check of an earlier version has only sentences
    check = Check(id="cpu.turbo", verdict=CheckVerdict.NOTE, found="on", means="few clients seem faster")
    assert (str(check.state), str(check.consequence)) == ("on", "few clients seem faster")
