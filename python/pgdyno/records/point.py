"""A point of a sweep: what a plan asks of its trials and every record of one names."""

from pydantic import field_validator

from pgdyno.records.base import Record


class Point(Record):
    """One combination of the sweep's parameters."""

    clients: int | None
    """None only in an imported trial whose source does not report it."""
    workers: int | None = None
    """Engine threads set by the plan; None lets the engine choose."""
    protocol: str = "simple"
    """Empty only in an imported trial whose source does not report it."""
    scale: int | None = None
    rate: float | None = None
    """Transactions per second in an open loop; None in a closed loop."""
    connect: str | None = None
    """Swept: `once` or `each`; None if it is that of the workload."""
    settings: dict[str, str] = {}
    """Swept settings of the server or of each connection, which override those of the target; possibly empty."""
    variables: dict[str, str] = {}
    """Swept script variables, which override the workload's; possibly empty."""
    group: str | None = None
    """The group of clients whose share of the load this is; None for a load of one group."""
    step: str | None = None
    """The step of the trial; None for a trial of one step."""
    groups: dict[str, str] = {}
    """Swept values of groups, such as `reports.clients`: they apply to all groups that ran beside each other."""

    @field_validator("clients", mode="before")
    @classmethod
    def _read_unknown(cls, clients: object) -> object:
        # earlier versions of pgdyno stored 0
        return clients or None

    @property
    def planned_clients(self) -> int:
        """Return the clients of a point of a plan, which always has them."""
        assert self.clients is not None
        return self.clients

    def parameter(self, name: str) -> int | float | str | None:
        """Return the value of `workers`, `settings.work_mem` and the like; None if the point does not set it."""
        group, dot, key = name.partition(".")
        value: int | float | str | None = getattr(self, group).get(key) if dot else getattr(self, name)
        return value

    def parameters(self) -> list[str]:
        """Return the names of all parameters but clients in reading order, with this point's settings and variables."""
        further = [f"{group}.{name}" for group in ("settings", "variables", "groups") for name in getattr(self, group)]
        return ["group", "step", "protocol", "scale", "workers", "rate", "connect", *further]
