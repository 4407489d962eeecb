"""Plans with scripts in pgbench's language."""

from pgdyno.plan.workload_schema import AnyDataset, Workload


class Scripts(Workload):
    """A dataset and weighted scripts."""

    dataset: AnyDataset = "pgbench"

    @property
    def written_scripts(self) -> list[str]:
        return self.scripts
