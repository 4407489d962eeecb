"""Describes the steps before each trial in words."""

from __future__ import annotations

from pgdyno.plan.model import Plan, Reset

_METHODS = {
    "none": "the dataset stays as the previous trial left it",
    "vacuum": "vacuum tellers and branches, empty the history",
    "snapshot": "restore the cluster from a stopped copy",
    "reload": "reload the dataset",
}
_CACHES = {"files": "drop the page cache of the cluster's files", "machine": "drop the machine's page cache"}
_PREWARMS = {"pg_prewarm": "prewarm with pg_prewarm", "read": "prewarm by reading every table"}


def before_each_trial(plan: Plan) -> str:
    """Returns `before each trial: vacuum tellers and branches, empty the history; checkpoint`."""
    reset = plan.reset
    dataset = [] if plan.workload.dataset == "none" else [_method(reset, plan.workload.dataset)]
    return "before each trial: " + ("; ".join([*dataset, *_steps(reset)]) or "nothing")


def around_each_trial(plan: Plan) -> str:
    """Describes the steps before and after a load."""
    checked = plan.workload.dataset != "none" and plan.reset.consistency != "none"
    return "the steps before each trial" + (" and the checks after it" if checked else "")


def _method(reset: Reset, dataset: str) -> str:
    if reset.method == "vacuum" and dataset == "sbtest":
        return "vacuum every table"
    if reset.method != "template":
        return _METHODS[reset.method] + (f" ({reset.snapshot})" if reset.snapshot else "")
    how = ", ".join(each for each in (reset.strategy, reset.file_copy_method) if each is not None)
    return "copy the template database" + (f" ({how})" if how else "")


def _steps(reset: Reset) -> list[str]:
    steps = ["checkpoint"] if reset.checkpoint else []
    if reset.restart:
        steps.append("restart the server")
    steps += [_CACHES[reset.drop_cache]] if reset.drop_cache != "none" else []
    steps += [_PREWARMS[reset.prewarm]] if reset.prewarm != "none" else []
    if reset.analyze:
        steps.append("analyze")
    if reset.statistics:
        steps.append("reset statistics")
    return steps
