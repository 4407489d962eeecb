"""Manual snapshots in the simulated account: how long they take, and what RDS refuses meanwhile.

Sources: "Creating a DB snapshot for a Single-AZ DB instance" in the RDS user guide (the instance is `backing-up` while
its snapshot is taken), "Creating a DB cluster snapshot" in the Aurora user guide (the cluster stays available),
"Quotas for Amazon RDS" (100 manual snapshots of instances and of clusters per region), and the errors of
CreateDBSnapshot, DeleteDBSnapshot, RestoreDBInstanceFromDBSnapshot and their counterparts for clusters in botocore's
model: only an available server can be copied, and only an available snapshot be deleted or restored.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.aws.shapes import RefusedError

POLLS = 1
"""The number of requests for its description during which a snapshot is being taken."""
Answer = dict[str, Any]


@dataclass(frozen=True)
class Service:
    """Amazon's names for the snapshots of instances, or of clusters."""

    called: str
    kept: str
    """The attribute of moto's backend."""
    fault: str = ""
    """The end of the codes of errors."""

    @property
    def key(self) -> str:
        """Returns the key of a snapshot's name."""
        return f"{self.called}Identifier"

    @property
    def wrong_state(self) -> str:
        return f"Invalid{self.called}State{self.fault}"


INSTANCES = Service("DBSnapshot", "database_snapshots")
CLUSTERS = Service("DBClusterSnapshot", "cluster_snapshots", "Fault")
BY_CREATE = {"CreateDBSnapshot": INSTANCES, "CreateDBClusterSnapshot": CLUSTERS}
_RESTORES = {
    "RestoreDBInstanceFromDBSnapshot": (INSTANCES, "DBSnapshotIdentifier"),
    "RestoreDBClusterFromSnapshot": (CLUSTERS, "SnapshotIdentifier"),
}


@dataclass
class Snapshots:
    """The states of the account's snapshots, which moto does not have."""

    most: int = 100
    """The quota of manual snapshots of each kind."""
    fails: bool = False
    """Whether new snapshots fail."""
    _creating: dict[str, int] = field(default_factory=dict)
    """How many more descriptions each new snapshot is being taken for."""

    def quotas(self, rds: Any) -> list[Answer]:
        named = (("ManualSnapshots", INSTANCES), ("ManualClusterSnapshots", CLUSTERS))
        return [
            {"AccountQuotaName": name, "Used": len(list(self.manual(rds, of))), "Max": self.most} for name, of in named
        ]

    def check_create(self, rds: Any, operation: str) -> None:
        """Raises RefusedError if the account has too many snapshots for one more."""
        if len(list(self.manual(rds, BY_CREATE[operation]))) >= self.most:
            raise RefusedError("SnapshotQuotaExceeded", f"Cannot create more than {self.most} manual snapshots")

    def created(self, parameters: Answer, operation: str) -> None:
        self._creating[parameters[BY_CREATE[operation].key]] = POLLS

    def complete_all(self) -> None:
        self._creating.clear()

    def described(self, found: Answer) -> None:
        """Writes the states of snapshots into a response, and advances them."""
        for of in (INSTANCES, CLUSTERS):
            for each in found.get(f"{of.called}s", []):
                each["Status"] = self.state(each[of.key])
                self._advance(each[of.key])
            if of.called in found:
                found[of.called]["Status"] = self.state(found[of.called][of.key])

    def state(self, name: str) -> str:
        if name not in self._creating:
            return "available"
        return "failed" if self.fails else "creating"

    def _advance(self, name: str) -> None:
        if name in self._creating and not self.fails:
            self._creating[name] -= 1
            if self._creating[name] <= 0:
                del self._creating[name]

    def check_restore(self, operation: str, parameters: Answer) -> None:
        """Raises RefusedError if the snapshot of a request to restore it is not complete."""
        of, key = _RESTORES.get(operation, (INSTANCES, ""))
        if key and self.state(parameters[key]) != "available":
            raise RefusedError(of.wrong_state, f"The snapshot {parameters[key]} is {self.state(parameters[key])}.")

    def delete(self, rds: Any, of: Service, name: str) -> Answer:
        """Deletes a snapshot, and returns the response. Raises RefusedError."""
        kept = getattr(rds, of.kept)
        if name not in kept:
            raise RefusedError(f"{of.called}NotFound{of.fault}", f"{of.called} {name} not found.", 404)
        if self.state(name) == "creating":
            raise RefusedError(of.wrong_state, f"The snapshot {name} is being created.")
        del kept[name]
        self._creating.pop(name, None)
        return {of.called: {of.key: name, "Status": "deleted"}}

    @staticmethod
    def manual(rds: Any, of: Service) -> Iterator[str]:
        return (each for each in getattr(rds, of.kept) if not each.startswith("rds:"))
