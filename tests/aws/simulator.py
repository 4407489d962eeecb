"""A simulated Amazon on the loopback address: moto keeps the resources, and this module adds what moto lacks.

It adds the states of a server ("creating" before "available", "deleting" before it is gone), refusals during these
states, DependencyViolation, faults that a test requests, and operations that moto does not have. It checks every
request and response against botocore's description of the service (`shapes`).
"""

from __future__ import annotations

import re
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from botocore.awsrequest import AWSPreparedRequest
from botocore.compat import HTTPHeaders
from moto.core.botocore_stubber import BotocoreStubber
from moto.ec2.models import ec2_backends
from moto.moto_api._internal.models import moto_api_backend
from moto.rds.models import rds_backends

from tests.aws import catalogue
from tests.aws.behind import Hosts
from tests.aws.ec2 import Machines, references
from tests.aws.refusal import RefusedError
from tests.aws.shapes import (
    ShapeError,
    checked_json,
    is_json,
    read_json_request,
    read_reply,
    read_request,
    write_error,
    write_reply,
)
from tests.aws.telling import Telling

ACCOUNT = "123456789012"
REGION = "eu-central-1"
KEY_ID, KEY = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": KEY, "AWS_DEFAULT_REGION": REGION}
POLLS = 1
"""The number of requests for a resource's description during which a state lasts."""
MADE = {"creating", "deleting"}
_SCOPE = re.compile(r"Credential=([^/]+)/\d+/([^/]+)/([^/]+)/aws4_request")


@dataclass
class Fault:
    """A failure of the next requests for an operation."""

    operation: str
    code: str
    message: str = "simulated"
    status: int = 400
    times: int = 1
    done: bool = False
    """Whether the request is executed although its response is an error."""
    when: Callable[[dict[str, Any]], bool] = lambda _parameters: True


@dataclass
class Simulator:
    """One simulated account."""

    hosts: Hosts = field(default_factory=Hosts)
    calls: list[str] = field(default_factory=list)
    """Actions such as `rds:CreateDBInstance`, in the order of the requests."""
    parameters: list[dict[str, Any]] = field(default_factory=list)
    """The parameters of each of `calls`."""
    faults: list[Fault] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Requests and responses that violate Amazon's description."""
    denied: set[str] = field(default_factory=set)
    """Actions that the identity has no permission for."""
    on_call: Callable[[str, int], None] = lambda _action, _number: None
    """Called after each executed request and before its response, with the number of such requests so far."""
    telling: Telling = field(default_factory=Telling)
    url: str = ""
    machines: Machines = field(init=False)
    _left: dict[tuple[str, str], int] = field(default_factory=dict)
    """How many more descriptions a state lasts, by describing operation and resource name."""
    _counts: Counter[str] = field(default_factory=Counter)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.machines = Machines(RefusedError, self.hosts.booted, self.hosts.ended, self._zone)

    def _zone(self, subnet: str) -> str:
        return str(ec2_backends[ACCOUNT][REGION].get_subnet(subnet).availability_zone)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables with credentials that direct boto3 to the simulator."""
        return {**ENVIRONMENT, "AWS_ENDPOINT_URL": self.url, "AWS_EC2_METADATA_DISABLED": "true"}

    @property
    def rds(self) -> Any:
        """moto's RDS backend."""
        return rds_backends[ACCOUNT][REGION]

    def answer(self, headers: dict[str, str], body: str) -> tuple[int, bytes]:
        """Returns status and body of the response to one request."""
        with self._lock:
            service = "sts"
            try:
                service, action, parameters = self._understood(headers, body)
                return self._carried_out(service, action, parameters, headers, body)
            except RefusedError as refused:
                return 400, write_error(service, refused.code, refused.message)
            except ShapeError as problem:
                self.problems.append(str(problem))
                return 400, write_error(service, "ValidationError", str(problem))
            except Exception:
                self.problems.append(traceback.format_exc())
                return 500, write_error(service, "InternalFailure", "see the simulator's problems")

    def _understood(self, headers: dict[str, str], body: str) -> tuple[str, str, dict[str, Any]]:
        scope = _SCOPE.search(headers.get("Authorization", ""))
        if scope is None:
            raise RefusedError("MissingAuthenticationToken", "the request is not signed")
        if scope[1] != KEY_ID:
            raise RefusedError("InvalidClientTokenId", "The security token included in the request is invalid.")
        if "X-Amz-Target" in headers:
            # CloudWatch signs under the name of before
            service = {"monitoring": "cloudwatch"}.get(scope[3], scope[3])
            operation, parameters = read_json_request(service, headers["X-Amz-Target"], body)
            return service, operation, parameters
        form = dict(parse_qsl(body, keep_blank_values=True))
        operation, parameters = read_request(scope[3], form)
        return scope[3], operation, parameters

    def _carried_out(
        self, service: str, operation: str, parameters: dict[str, Any], headers: dict[str, str], body: str
    ) -> tuple[int, bytes]:
        action = f"{service}:{operation}"
        self.calls.append(action)
        self.parameters.append(parameters)
        if action in self.denied:
            code = {"ec2": "UnauthorizedOperation", "pi": "NotAuthorizedException"}.get(service, "AccessDenied")
            raise RefusedError(code, f"User is not authorized to perform: {action}")
        fault = next((each for each in self.faults if _means(each, operation, parameters)), None)
        if fault is not None:
            fault.times -= 1
            if not fault.done:
                return fault.status, write_error(service, fault.code, fault.message)
        status, reply = self._done(service, operation, parameters, headers, body)
        self._counts[operation] += 1
        self.on_call(action, self._counts[operation])
        return (status, reply) if fault is None else (fault.status, write_error(service, fault.code, fault.message))

    def _done(
        self, service: str, operation: str, parameters: dict[str, Any], headers: dict[str, str], body: str
    ) -> tuple[int, bytes]:
        own = getattr(self, f"_{operation}", None) or self._told(operation) or getattr(self.machines, operation, None)
        found = None if own is None else own(parameters)
        if found is not None and is_json(service):
            return 200, checked_json(service, operation, found)
        if found is not None:
            return 200, write_reply(service, operation, self._checked(service, operation, found))
        self._before(operation, parameters)
        status, reply = self._by_moto(service, headers, body)
        if status >= 300:
            return status, reply
        found = read_reply(service, operation, reply)
        if service == "rds":
            self._behind(operation, parameters)
            return status, write_reply(service, operation, self._as_phase_allows(operation, found))
        return status, reply

    def _told(self, operation: str) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
        """Returns the function that answers requests for metrics and logs; None for other operations."""
        answer = getattr(self.telling, operation, None)
        if answer is None:
            return None
        self.telling.log = self.hosts.log()
        return lambda parameters: answer(parameters, {*self.rds.databases, *self.machines.watched()})

    def _checked(self, service: str, operation: str, found: dict[str, Any]) -> dict[str, Any]:
        read_reply(service, operation, write_reply(service, operation, found))
        return found

    def _by_moto(self, service: str, headers: dict[str, str], body: str) -> tuple[int, bytes]:
        signed = HTTPHeaders()
        for name, value in headers.items():
            signed[name] = value
        host = "sts.amazonaws.com" if service == "sts" else f"{service}.{REGION}.amazonaws.com"
        signed["Host"] = host
        # moto knows no storage of Aurora's
        body = re.sub(r"&StorageType=aurora[a-z0-9-]*", "", body)
        request = AWSPreparedRequest("POST", f"https://{host}/", signed, body.encode(), False)
        answered = BotocoreStubber().process_request(request)
        assert answered is not None
        status, _, reply = answered
        return status, reply.encode() if isinstance(reply, str) else reply

    # ---- phases ----

    def _before(self, operation: str, parameters: dict[str, Any]) -> None:
        """Advances states by one description, and refuses what a state does not allow."""
        if operation == "DescribeDBInstances":
            self._step("instance", self.rds.databases, self.rds.delete_db_instance)
        elif operation == "DescribeDBClusters":
            self._step("cluster", self.rds.clusters, self.rds.delete_db_cluster)
        elif operation == "DeleteSecurityGroup":
            self._refuse_while_used(parameters["GroupId"])
        elif operation in ("DeleteDBParameterGroup", "DeleteDBClusterParameterGroup"):
            self._refuse_group_in_use(next(iter(parameters.values())))
        elif operation in ("CreateDBInstance", "CreateDBCluster"):
            catalogue.check_version(parameters)

    def _step(self, kind: str, known: dict[str, Any], remove: Callable[..., Any]) -> None:
        for name, each in list(known.items()):
            if kind == "cluster" and getattr(each, "simulated", None) is None:
                continue
            if each.simulated not in MADE:
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
            else:
                each.simulated = "available"

    def _remove_backups(self, name: str) -> None:
        """Removes the automatic backups of a removed server.

        Amazon does so too, but moto keeps them, and then refuses a second backup of that name within a minute.
        """
        for kept in (self.rds.database_snapshots, self.rds.cluster_snapshots):
            for each in [each for each in kept if each.startswith(f"rds:{name}-")]:
                del kept[each]

    def _refuse_while_used(self, group: str) -> None:
        users = [*self.rds.databases.values(), *self.rds.clusters.values()]
        known = {key: each for of in ec2_backends[ACCOUNT][REGION].groups.values() for key, each in of.items()}
        used = any(group in each.vpc_security_group_ids for each in users) or any(references(known, group))
        if used or any(group in each.groups for each in self.machines.there()):
            raise RefusedError("DependencyViolation", f"resource {group} has a dependent object")

    def _refuse_group_in_use(self, name: str) -> None:
        of_instances = [each.db_parameter_group_name for each in self.rds.databases.values()]
        of_clusters = [each.db_cluster_parameter_group for each in self.rds.clusters.values()]
        if name in (*of_instances, *of_clusters):
            raise RefusedError("InvalidDBParameterGroupState", f"{name} is in use")

    def _behind(self, operation: str, parameters: dict[str, Any]) -> None:
        """Starts the state after a change, and creates the real host or server of a new resource."""
        self.telling.heard(operation, parameters)
        name = str(parameters.get("DBInstanceIdentifier") or parameters.get("DBClusterIdentifier"))
        origin = next((value for key, value in parameters.items() if key in _ORIGINS), None)
        if operation in _MAKE_INSTANCE:
            made = self.rds.databases[name]
            made.simulated = "creating"
            changed = self._changed(made.db_parameter_group_name)
            if made.db_cluster_identifier is None:
                self.hosts.made(name, made.master_username, parameters.get("MasterUserPassword"), origin, changed)
            else:
                cluster = self.rds.clusters[made.db_cluster_identifier]
                self.hosts.configured(name, cluster.master_username, changed)
        elif operation in _MAKE_CLUSTER:
            made = self.rds.clusters[name]
            made.simulated = "creating"
            self.hosts.made(name, made.master_username, parameters.get("MasterUserPassword"), origin, {})
        elif operation in ("ModifyDBInstance", "ModifyDBCluster") and "MasterUserPassword" in parameters:
            known = self.rds.databases if operation == "ModifyDBInstance" else self.rds.clusters
            self.hosts.changed(name, known[name].master_username, parameters["MasterUserPassword"])

    def _changed(self, group: str | None) -> dict[str, str]:
        """Returns the values of a parameter group."""
        found = None if group is None else self.rds.db_parameter_groups.get(group)
        return {} if found is None else {name: each["ParameterValue"] for name, each in found.parameters.items()}

    def _as_phase_allows(self, operation: str, found: dict[str, Any]) -> dict[str, Any]:
        """Returns the response with real addresses, which servers have only while they are up."""
        del operation
        for each in [*found.get("DBInstances", []), *([found["DBInstance"]] if "DBInstance" in found else [])]:
            state = getattr(self.rds.databases.get(each["DBInstanceIdentifier"]), "simulated", "available")
            each["DBInstanceStatus"] = state
            self.telling.described(each)
            if state == "creating":
                each.pop("Endpoint", None)
            else:
                each["Endpoint"] = {"Address": self.hosts.host, "Port": self.hosts.port}
        for each in [*found.get("DBClusters", []), *([found["DBCluster"]] if "DBCluster" in found else [])]:
            each["Status"] = getattr(self.rds.clusters.get(each["DBClusterIdentifier"]), "simulated", "available")
            each["Endpoint"], each["Port"] = self.hosts.host, self.hosts.port
        return found

    # ---- removal, which takes its time ----

    def _DeleteDBInstance(self, parameters: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - Amazon's name
        name = parameters["DBInstanceIdentifier"]
        found = self.rds.databases.get(name)
        if found is None:
            raise RefusedError("DBInstanceNotFound", f"DBInstance {name} not found.")
        if not parameters.get("SkipFinalSnapshot"):
            raise RefusedError("InvalidParameterCombination", "FinalDBSnapshotIdentifier is required")
        if found.simulated != "available":
            raise RefusedError("InvalidDBInstanceState", f"Instance {name} is {found.simulated}.")
        found.simulated = "deleting"
        return {"DBInstance": {"DBInstanceIdentifier": name, "DBInstanceStatus": "deleting"}}

    def _DeleteDBCluster(self, parameters: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - Amazon's name
        name = parameters["DBClusterIdentifier"]
        found = self.rds.clusters.get(name)
        if found is None:
            raise RefusedError("DBClusterNotFoundFault", f"DBCluster {name} not found.")
        members = [each for each in self.rds.databases.values() if each.db_cluster_identifier == name]
        if found.simulated != "available" or members:
            raise RefusedError("InvalidDBClusterStateFault", f"cluster {name} is {found.simulated} or has instances")
        found.simulated = "deleting"
        return {"DBCluster": {"DBClusterIdentifier": name, "Status": "deleting"}}

    # ---- what moto has no answer for ----

    def _DescribeDBEngineVersions(self, parameters: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        return {"DBEngineVersions": catalogue.versions(parameters.get("Engine"))}

    def _DescribeEngineDefaultParameters(self, parameters: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        return {"EngineDefaults": catalogue.page(parameters, cluster=False)}

    def _DescribeEngineDefaultClusterParameters(self, parameters: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        return {"EngineDefaults": catalogue.page(parameters, cluster=True)}

    def _GetProducts(self, parameters: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        wanted = {each["Field"]: each["Value"] for each in parameters["Filters"]}
        return {"FormatVersion": "aws_v1", "PriceList": catalogue.products(wanted)}

    # ---- for tests ----

    def left(self) -> list[str]:
        """Returns all resources that cost money or have a name of pgdyno's."""
        groups = ec2_backends[ACCOUNT][REGION].groups.values()
        return [
            *(each.tags["Name"] for each in self.machines.there()),
            *self.rds.databases,
            *self.rds.clusters,
            *(each for each in self.rds.db_parameter_groups if not each.startswith("default.")),
            *(each for each in self.rds.db_cluster_parameter_groups if not each.startswith("default.")),
            *(each.name for of_vpc in groups for each in of_vpc.values() if each.name.startswith("pgdyno-")),
        ]


_ORIGINS = ("DBSnapshotIdentifier", "SnapshotIdentifier", "SourceDBClusterIdentifier")
_MAKE_INSTANCE = ("CreateDBInstance", "RestoreDBInstanceFromDBSnapshot")
_MAKE_CLUSTER = ("CreateDBCluster", "RestoreDBClusterFromSnapshot", "RestoreDBClusterToPointInTime")


def _means(fault: Fault, operation: str, parameters: dict[str, Any]) -> bool:
    return fault.operation == operation and fault.times > 0 and fault.when(parameters)


def _handler(simulator: Simulator) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            if len(body) < length:
                # who asks was killed before it had asked
                self.close_connection = True
                return
            status, reply = simulator.answer(dict(self.headers.items()), body.decode())
            self.send_response(status)
            self.send_header("Content-Type", "text/xml")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@contextmanager
def simulated(hosts: Hosts | None = None) -> Iterator[Simulator]:
    """Simulates an account that has only its default VPC, until the block ends."""
    moto_api_backend.reset()
    simulator = Simulator(hosts or Hosts())
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(simulator))
    server.daemon_threads = True
    simulator.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield simulator
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert not simulator.problems, "\n".join(simulator.problems)
