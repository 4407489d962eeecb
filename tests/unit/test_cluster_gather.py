"""Lists of generators, waiting for generators, and trials that pgdyno repeats after it lost one."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdyno.errors import EngineError, ExitCode, UsageError
from pgdyno.experiment.generators import MAX_REPEATS, GeneratorLostError, Generators
from pgdyno.generators import generator_lifecycle
from pgdyno.generators.generator_lifecycle import Cluster
from pgdyno.generators.generator_protocol import LostError
from pgdyno.plan import PlannedTrial, load_plan
from pgdyno.plan.hosts import generators
from pgdyno.records import Failure, FailureId, Outcome, Stage
from pgdyno.run.run_trial import TrialResult


def test_lists_of_generators() -> None:
    found = generators(["local:2", "ssh://a,u@b:22", "ssh://[::1]:2222,u@[fe80::1%eth0]"])
    assert found.local == 2
    assert [(each.host, each.user, each.port) for each in found.ssh] == [
        ("a", None, None),
        ("b", "u", 22),
        ("::1", None, 2222),
        ("fe80::1%eth0", "u", None),
    ]
    for texts, why in (
        (["remote:3"], "'remote:3' is not a host for generators"),
        (["local:0"], "'local:0' is not a number"),
        (["local:²"], "'local:²' is not a number"),
        (["local:64", "local:1"], "65 generators on this machine are too many"),
        (["ssh://"], "names no host"),
        (["ssh://a:65536"], "is not a host"),
        (["ssh://::1"], "is not a host"),
        (["ssh://a,a"], "names a host twice"),
        (["ssh://-oProxyCommand=x"], "is not a host"),
        (["ssh://a b"], "is not a host"),
    ):
        with pytest.raises(ValueError, match=why):
            generators(texts)


def test_generators_of_earlier_releases_open_and_do_not_run() -> None:
    loaded = load_plan("quick", ['generators=["ray://head:10001"]'])
    plan = loaded.plan
    with pytest.raises(UsageError, match=r"^ray://head:10001: pgdyno no longer generates load on a Ray") as raised:
        generators(plan.generators)
    assert "ssh://" in (raised.value.hint or "")
    assert raised.value.exit_code is ExitCode.USAGE
    (warning,) = (each for each in loaded.warnings if each.path == "generators")
    assert (warning.hint or "").endswith(raised.value.hint or "none")


@pytest.mark.slow
def test_pgdyno_waits_for_a_generator_that_was_there_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator_lifecycle, "GATHER_S", 1.2)
    monkeypatch.setattr(generator_lifecycle, "SILENT_S", 0.0)
    tries: list[None] = []

    def reach() -> Any:  # noqa: ANN401 - never returns
        tries.append(None)
        raise LostError("cannot reach load1")

    for are_rented in (False, True):
        said: list[str] = []
        waiting = Cluster([("generator-1", reach)], said.append, are_rented=are_rented)
        tries.clear()
        with pytest.raises(EngineError, match="generator-1 does not start: cannot reach load1"):
            waiting.gather()
        assert (len(tries) > 1) is are_rented
    assert said == ["generator-1 does not start: cannot reach load1; waiting 1.2 s for it"]


LOST = TrialResult(
    Outcome.FAILED,
    [{"event": "end", "lost_generator": 2}],
    None,
    None,
    Failure(stage=Stage.RUN, message="generator 2 of 3 (b) was lost: it did not answer within 3 s"),
)


def of_run(cluster: object = "some") -> Generators:
    return Generators(cast(Any, None), cast(Any, cluster), [])


TRIAL = cast(PlannedTrial, SimpleNamespace(number=7, target="a"))


def test_a_trial_that_lost_a_generator_is_repeated_twice_and_has_then_failed() -> None:
    generators = of_run()
    for _ in range(MAX_REPEATS):
        with pytest.raises(GeneratorLostError, match="generator 2 of 3"):
            generators.run(TRIAL, lambda: LOST)
    assert generators.run(TRIAL, lambda: LOST) is LOST

    def load() -> TrialResult:
        raise EngineError("only 2 of 3 generators are available", hint="look")

    result = of_run().run(TRIAL, load)
    message = "only 2 of 3 generators are available"
    assert result.failure == Failure(stage=Stage.RUN, id=FailureId.NO_GENERATORS, message=message, hint="look")
    with pytest.raises(EngineError):
        of_run(cluster=None).run(TRIAL, load)
    failed: Any = TrialResult(Outcome.FAILED, [{"event": "end"}], None, None, LOST.failure)
    assert of_run().run(TRIAL, lambda: failed) is failed
