"""Reports failed transactions."""

from collections.abc import Iterator

from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import Sample, Subject
from pgdyno.messages import Message
from pgdyno.records import Outcome
from pgdyno.records.measured import error_words, most_frequent_error

CAUTION_SHARE, INVALID_SHARE = 0.001, 0.01
_INTENDS_ROLLBACKS = "benchbase"
"""A tool that counts the rollbacks that TPC-C and other benchmarks require with the requests that failed."""


def _check(subject: Subject) -> Iterator[RuleFinding]:
    shares = [(sample, share) for sample in subject.samples if (share := _share(sample)) is not None]
    broken, idle = _broken_off(subject), [each for each in subject.samples if each.summary.rate_tps == 0]
    aborted = [sample for sample in subject.samples if sample.summary.clients_aborted]
    if not (shares or broken or idle or aborted):
        raise MissingError(Message("no-errors", "errors were not counted"))
    for severity in (Severity.INVALID, Severity.CAUTION, Severity.NOTE):
        some = [(sample, share) for sample, share in shares if _severity(sample, share) is severity]
        if some:
            most = max(share for _, share in some)
            error = most_frequent_error(each for sample, _ in some for each in sample.summary.errors)
            yield RuleFinding(
                severity,
                Message(
                    "errors-transactions",
                    "up to {share:.2%} of the transactions failed in {trials} of {all} trials"
                    if error is None
                    else "up to {share:.2%} of the transactions failed in {trials} of {all} trials, most often with: "
                    "{error}",
                    share=most,
                    trials=len(some),
                    all=len(shares),
                    **({} if error is None else {"error": error_words(error)}),
                ),
                *evidence_of({sample: sample.some("errors", "failed", "tps") for sample, _ in some}, "errors"),
                "find out what failed: transactions that are given up make figures look better",
            )
    caught = [sample for sample in subject.samples if sample.summary.caught]
    if caught:
        yield RuleFinding(
            Severity.CAUTION if any(_caught_share(each) > CAUTION_SHARE for each in caught) else Severity.NOTE,
            Message(
                "errors-caught",
                "the script caught errors of the server in {trials} of {all} trials: {count:,}",
                count=sum(each.summary.caught for each in caught),
                trials=len(caught),
                all=len(subject.samples),
            ),
            *evidence_of(
                {each: {"caught": each.summary.caught, **each.some("transactions", "tps")} for each in caught}
            ),
            "find out what failed: a transaction whose statements fail counts as any other",
        )
    if idle:
        yield RuleFinding(
            Severity.INVALID,
            Message(
                "errors-no-transaction",
                "no transaction completed in {trials} trial",
                "no transaction completed in {trials} trials",
                trials=len(idle),
            ),
            *evidence_of({sample: sample.some("transactions", "failed", "tps") for sample in idle}, "tps"),
            "find the cause, or make trials longer than the longest transaction",
        )
    if aborted:
        yield RuleFinding(
            Severity.INVALID,
            Message(
                "errors-clients-gave-up",
                "clients aborted in {trials} trial: it ran with fewer clients than reported",
                "clients aborted in {trials} trials: these ran with fewer clients than reported",
                trials=len(aborted),
            ),
            *evidence_of({each: _aborted_figures(each) for each in aborted}),
            "find the cause, and measure again; if only one generator's clients aborted, its connection to the "
            "server was lost",
        )
    if broken:
        named = dict.fromkeys(host.called for sample in broken for host in sample.hosts if host.clients_aborted)
        yield RuleFinding(
            Severity.NOTE,
            Message(
                "errors-failed-trials",
                "clients of {generators} aborted in {trials} trial, which failed"
                if named
                else "clients aborted in {trials} trial, which failed",
                "clients of {generators} aborted in {trials} trials, which failed"
                if named
                else "clients aborted in {trials} trials, which failed",
                trials=len(broken),
                generators=", ".join(named),
            ),
            *evidence_of({each: _aborted_figures(each) for each in broken}),
            "look at the failure of each; if only one generator's clients aborted, its connection to the server was "
            "lost",
        )


def _broken_off(subject: Subject) -> list[Sample]:
    return [
        Sample(trial, trial.summary)
        for trial in subject.run.trials
        if trial.outcome is Outcome.FAILED and trial.summary is not None and trial.summary.clients_aborted
    ]


def _aborted_figures(sample: Sample) -> dict[str, float | str]:
    by_host: dict[str, float | str] = {
        f"{host.name}_aborted": float(host.clients_aborted) for host in sample.hosts if host.clients_aborted
    }
    return {"clients_aborted": sample.summary.clients_aborted, **by_host}


def _caught_share(sample: Sample) -> float:
    return sample.summary.caught / max(1, sample.summary.succeeded or 0)


def _severity(sample: Sample, share: float) -> Severity | None:
    # what a server refuses of a storm of connections is a figure of it
    refused = sample.summary.refused / max(1, sample.summary.failed or 0)
    if share * (1 - refused) > INVALID_SHARE and sample.tool != _INTENDS_ROLLBACKS:
        return Severity.INVALID
    if share > CAUTION_SHARE:
        return Severity.CAUTION
    return Severity.NOTE if share > 0 else None


def _share(sample: Sample) -> float | None:
    figures = sample.figures
    lost = figures.get("failed", figures.get("errors"))
    done = figures.get("transactions")
    if done is None and sample.length_s is not None:
        done = sample.summary.tps * sample.length_s
    return lost / (done + lost) if lost is not None and done else None


RULE = Rule(
    "errors",
    "failed transactions as a share of all: a note from one, caution over 0.1 %, invalid over 1 % (without refused "
    "connections, and not of BenchBase, which counts intended rollbacks as failed), if no transaction completed or if "
    "clients aborted; the same note and caution on errors that a Lua script caught; a note on trials that "
    "failed because clients aborted",
    Severity.INVALID,
    "docs/design/method.md, Gates",
    _check,
    place=320,
)
