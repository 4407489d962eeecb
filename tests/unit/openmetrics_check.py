"""Checks OpenMetrics text with prometheus_client's parser; generates probe lines from the probe's catalogue."""

from collections import defaultdict

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from pgdyno.metrics import Catalogue

END = "# EOF\n"
DESCRIBED = """\
### cpu

Host; all cores.

| metric | kind | unit | meaning |
|---|---|---|---|
| `user` | average | share | programs |
| `steal` | average | share | others |

### wal_position

| metric | kind | unit | meaning |
|---|---|---|---|
| `inserted` | amount | bytes | WAL made |

### process

| metric | kind | unit | meaning |
|---|---|---|---|
| `cpu` | amount | us | CPU time |

### disk

| metric | kind | unit | meaning |
|---|---|---|---|
| `utilisation` | average | share | busy |
| `read_await` | mean | ms | of a read |

### Sources by version of the server

| source | 10 | 18 |
|---|---|---|
| `wal` |  | ✓ |
"""
CATALOGUE = Catalogue(DESCRIBED)


def probe_lines(seconds: int = 4) -> list[dict[str, object]]:
    """Returns the lines of a probe for a trial of so many seconds; t_us is on the engine's clock."""
    said: list[dict[str, object]] = []
    wall_us = 1_795_000_000_000_000

    def say(at_us: int, **fields: object) -> None:
        said.append({"t_us": at_us, "wall_us": wall_us + at_us, **fields})

    for second in range(1, seconds + 1):
        at_us = second * 1_000_000
        for look in range(10):
            row = {"backend_type": "client backend", "wait_type": "IO", "wait": "WalSync", "query_id": None}
            sessions = [{**row, "sessions": 3}] if look % 2 else []
            say(at_us - 950_000 + look * 100_000, event="waits", rows=sessions)
        labels = {"pid": "7", "kind": "client backend", "activity": f"UPDATE {second}"}
        for source, rows in (
            ("cpu", [{"values": {"user": 0.5, "steal": 0.0}}]),
            ("wal_position", [{"values": {"inserted": 1000}}]),
            ("process", [{"labels": labels, "values": {"cpu": 250_000}}]),
            ("disk", [{"labels": {"device": "vda", "holds": "data wal"}, "values": {"utilisation": 0.2}}]),
            ("new", [{"values": {"thing": 5}}]),
        ):
            say(at_us, event="sample", source=source, span_us=1_000_000, rows=rows)
    return said


def parsed(exposed: str) -> dict[str, Metric]:
    """Returns the families in `exposed` by name. Raises ValueError if it is not OpenMetrics.

    In a metric with several samples per point, the parser treats all points as one, because it clears the set of known
    samples only between metrics. Therefore it gets histograms and state sets point by point.
    """
    assert exposed.endswith(END)
    families: dict[str, Metric] = {}
    for block in _blocks(exposed.removesuffix(END)):
        head = [line for line in block if line.startswith("#")]
        lines = [line for line in block if not line.startswith("#")]
        points: dict[str, list[str]] = defaultdict(list)
        is_several = any(line.startswith("# TYPE") and line.split()[-1] in ("histogram", "stateset") for line in head)
        for line in lines:
            _, _, behind = line.rpartition("}")
            points[" ".join(behind.split()[1:]) if is_several else ""].append(line)
        for of_point in points.values():
            text = "\n".join([*head, *of_point, "# EOF", ""])
            for family in text_string_to_metric_families(text):  # type: ignore[no-untyped-call]
                families.setdefault(family.name, family)
                if families[family.name] is not family:
                    families[family.name].samples += family.samples
    return families


def _blocks(text: str) -> list[list[str]]:
    """Returns the lines of each family; asserts that no family occurs twice."""
    blocks: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("# HELP"):
            blocks.append([])
        blocks[-1].append(line)
    names = [block[0].split()[2] for block in blocks]
    assert len(names) == len(set(names)), names
    return blocks
