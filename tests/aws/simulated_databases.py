"""Servers of RDS and Aurora in the simulated account: their states, and what these refuse.

A server is "creating" before it is "available", and "deleting" before it is gone; restored servers are backed up. moto
keeps the servers.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moto.rds.models import rds_backends

from tests.aws.host_interface import Hosts
from tests.aws.identity import ACCOUNT
from tests.aws.parameter_groups import check_change
from tests.aws.shapes import RefusedError
from tests.aws.simulated_metrics import Telling
from tests.aws.simulated_snapshots import BY_CREATE, CLUSTERS, INSTANCES, Service, Snapshots
from tests.aws.visibility import Visibility

POLLS = 1
"""The number of requests for a server's description during which a state lasts."""
CHANGING = {"creating", "deleting"}
MAKE_INSTANCE = ("CreateDBInstance", "RestoreDBInstanceFromDBSnapshot")
MAKE_CLUSTER = ("CreateDBCluster", "RestoreDBClusterFromSnapshot", "RestoreDBClusterToPointInTime")
_ORIGINS = ("DBSnapshotIdentifier", "SnapshotIdentifier", "SourceDBClusterIdentifier")
Parameters = dict[str, Any]


@dataclass
class Databases:
    """All instances and clusters of one region."""

    region: str
    hosts: Hosts
    telling: Telling
    snapshots: Snapshots
    visibility: Visibility
    backs_up: bool = True
    """Whether a backup of a restored server begins just when it is about to be changed."""
    initializes: bool = False
    """Whether restored servers go on loading their blocks from Amazon S3."""
    _left: dict[tuple[str, str], int] = field(default_factory=dict)
    """How many more descriptions a state lasts, by kind and name of the server."""

    @property
    def rds(self) -> Any:
        return rds_backends[ACCOUNT][self.region]

    def before(self, operation: str, parameters: Parameters) -> None:
        """Advances states by one description, and refuses what a state does not allow."""
        if operation == "DescribeDBInstances":
            self._step("instance", self.rds.databases, self.rds.delete_db_instance)
        elif operation == "DescribeDBClusters":
            self._step("cluster", self.rds.clusters, self.rds.delete_db_cluster)
        elif operation in ("DeleteDBParameterGroup", "DeleteDBClusterParameterGroup"):
            self._refuse_group_in_use(next(iter(parameters.values())))
        elif operation in BY_CREATE:
            self._check_snapshot(operation, parameters)
        elif operation == "ModifyDBParameterGroup":
            group = self.rds.db_parameter_groups[parameters["DBParameterGroupName"]]
            check_change(group.family, parameters, cluster=False)
        elif operation == "ModifyDBClusterParameterGroup":
            group = self.rds.db_cluster_parameter_groups[parameters["DBClusterParameterGroupName"]]
            check_change(group.db_parameter_group_family, parameters, cluster=True)
        elif operation in ("ModifyDBInstance", "RebootDBInstance", "ModifyDBCluster"):
            of = "DBCluster" if operation == "ModifyDBCluster" else "DBInstance"
            self._refuse_while_backed_up(self._server_of(of, parameters), of)

    def after(self, operation: str, parameters: Parameters) -> None:
        """Starts the state after a change, and creates the real server of a new resource."""
        name = str(parameters.get("DBInstanceIdentifier") or parameters.get("DBClusterIdentifier"))
        origin = next((value for key, value in parameters.items() if key in _ORIGINS), None)
        if operation in MAKE_INSTANCE:
            made = self.rds.databases[name]
            made.simulated, made.zone = "creating", parameters.get("AvailabilityZone", f"{self.region}a")
            if origin is not None:
                made.backup_due = self.backs_up
                made.comes_up = "storage-initialization" if self.initializes else "available"
            changed = self._changed(made.db_parameter_group_name)
            if made.db_cluster_identifier is None:
                self.hosts.made(name, made.master_username, parameters.get("MasterUserPassword"), origin, changed)
            else:
                cluster = self.rds.clusters[made.db_cluster_identifier]
                self.hosts.configured(name, cluster.master_username, changed)
        elif operation in MAKE_CLUSTER:
            made = self.rds.clusters[name]
            made.simulated = "creating"
            made.backup_due = self.backs_up and origin is not None
            self.hosts.made(name, made.master_username, parameters.get("MasterUserPassword"), origin, {})
        elif operation in BY_CREATE:
            self.snapshots.created(parameters, operation)
            if BY_CREATE[operation] is INSTANCES:
                self.rds.databases[name].simulated = "backing-up"
            self.hosts.copied(name, parameters[BY_CREATE[operation].key])
        elif operation in ("ModifyDBInstance", "ModifyDBCluster") and "MasterUserPassword" in parameters:
            known = self.rds.databases if operation == "ModifyDBInstance" else self.rds.clusters
            self.hosts.changed(name, known[name].master_username, parameters["MasterUserPassword"])

    def _changed(self, group: str | None) -> dict[str, str]:
        found = None if group is None else self.rds.db_parameter_groups.get(group)
        return {} if found is None else {name: each["ParameterValue"] for name, each in found.parameters.items()}

    def as_state_allows(self, found: Parameters) -> Parameters:
        """Returns the response with real addresses, which servers have only while they are up."""
        self.snapshots.described(found)
        for each in [*found.get("DBInstances", []), *([found["DBInstance"]] if "DBInstance" in found else [])]:
            state = getattr(self.rds.databases.get(each["DBInstanceIdentifier"]), "simulated", "available")
            each["DBInstanceStatus"] = state
            known = self.rds.databases.get(each["DBInstanceIdentifier"])
            each["AvailabilityZone"] = getattr(known, "zone", f"{self.region}a")
            self.telling.described(each)
            if state == "creating":
                each.pop("Endpoint", None)
            else:
                each["Endpoint"] = {"Address": self.hosts.host, "Port": self.hosts.port}
        for each in [*found.get("DBClusters", []), *([found["DBCluster"]] if "DBCluster" in found else [])]:
            each["Status"] = getattr(self.rds.clusters.get(each["DBClusterIdentifier"]), "simulated", "available")
            each["Endpoint"], each["Port"] = self.hosts.host, self.hosts.port
        return found

    def DeleteDBInstance(self, parameters: Parameters) -> Parameters:  # noqa: N802 - Amazon's name
        name = parameters["DBInstanceIdentifier"]
        found = self.rds.databases.get(name)
        if found is None:
            raise RefusedError("DBInstanceNotFound", f"DBInstance {name} not found.")
        if not parameters.get("SkipFinalSnapshot"):
            raise RefusedError("InvalidParameterCombination", "FinalDBSnapshotIdentifier is required")
        if found.simulated in ("backing-up", *CHANGING):
            raise RefusedError("InvalidDBInstanceState", f"Instance {name} is {found.simulated}.")
        found.simulated = "deleting"
        return {"DBInstance": {"DBInstanceIdentifier": name, "DBInstanceStatus": "deleting"}}

    def DeleteDBCluster(self, parameters: Parameters) -> Parameters:  # noqa: N802 - Amazon's name
        name = parameters["DBClusterIdentifier"]
        found = self.rds.clusters.get(name)
        if found is None:
            raise RefusedError("DBClusterNotFoundFault", f"DBCluster {name} not found.")
        members = [each for each in self.rds.databases.values() if each.db_cluster_identifier == name]
        if found.simulated in ("backing-up", *CHANGING) or members:
            raise RefusedError("InvalidDBClusterStateFault", f"cluster {name} is {found.simulated} or has instances")
        found.simulated = "deleting"
        return {"DBCluster": {"DBClusterIdentifier": name, "Status": "deleting"}}

    def DeleteDBSnapshot(self, parameters: Parameters) -> Parameters:  # noqa: N802 - Amazon's name
        return self._without_snapshot(INSTANCES, parameters["DBSnapshotIdentifier"])

    def DeleteDBClusterSnapshot(self, parameters: Parameters) -> Parameters:  # noqa: N802 - Amazon's name
        return self._without_snapshot(CLUSTERS, parameters["DBClusterSnapshotIdentifier"])

    def _without_snapshot(self, of: Service, name: str) -> Parameters:
        found = self.snapshots.delete(self.rds, of, name)
        self.visibility.forget(name)
        self.hosts.copy_removed(name)
        return found

    def step_all(self) -> None:
        """Advances the states of all servers, as descriptions of them do."""
        for kind, known in (("instance", self.rds.databases), ("cluster", self.rds.clusters)):
            self._step(kind, known, getattr(self.rds, f"delete_db_{kind}"))

    def _check_snapshot(self, operation: str, parameters: Parameters) -> None:
        self.snapshots.check_create(self.rds, operation)
        of = "DBInstance" if BY_CREATE[operation] is INSTANCES else "DBCluster"
        self._refuse_while_backed_up(self._server_of(of, parameters), of)

    def _server_of(self, of: str, parameters: Parameters) -> Any:
        known = self.rds.databases if of == "DBInstance" else self.rds.clusters
        return known[parameters[f"{of}Identifier"]]

    def _refuse_group_in_use(self, name: str) -> None:
        of_instances = [each.db_parameter_group_name for each in self.rds.databases.values()]
        of_clusters = [each.db_cluster_parameter_group for each in self.rds.clusters.values()]
        if name in (*of_instances, *of_clusters):
            raise RefusedError("InvalidDBParameterGroupState", f"{name} is in use")

    def _refuse_while_backed_up(self, found: Any, what: str) -> None:
        """Refuses a change while a backup runs.

        A first backup begins by itself once a restored server is available, even if somebody has just seen it available
        (hashicorp/terraform-provider-aws, issue 14785).
        """
        before = found.simulated
        if getattr(found, "backup_due", False):
            found.backup_due, found.simulated = False, "backing-up"
        elif before == "backing-up":
            # It is over by the next request.
            found.simulated = getattr(found, "comes_up", "available")
        if "backing-up" in (before, found.simulated) or before in CHANGING:
            code = {"DBInstance": "InvalidDBInstanceState", "DBCluster": "InvalidDBClusterStateFault"}[what]
            raise RefusedError(code, f"{what} is not in available state.")

    def _step(self, kind: str, known: dict[str, Any], remove: Callable[..., Any]) -> None:
        for name, each in list(known.items()):
            if kind == "cluster" and getattr(each, "simulated", None) is None:
                continue
            if each.simulated not in (*CHANGING, "backing-up"):
                continue
            left = self._left.get((kind, name), POLLS)
            self._left[kind, name] = left - 1
            if left > 0:
                continue
            del self._left[kind, name]
            if each.simulated == "deleting":
                remove(name, skip_final_snapshot=True) if kind == "instance" else remove(name)
                self._remove_backups(name)
                self.hosts.removed(name)
                self.visibility.forget(name)
            else:
                each.simulated = getattr(each, "comes_up", "available")

    def _remove_backups(self, name: str) -> None:
        """Removes the automatic backups of a removed server.

        Amazon does so too, but moto keeps them, and then refuses a second backup of that name within a minute.
        """
        for kept in (self.rds.database_snapshots, self.rds.cluster_snapshots):
            for each in [each for each in kept if each.startswith(f"rds:{name}-")]:
                del kept[each]
