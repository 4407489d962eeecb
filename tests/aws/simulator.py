"""A simulated Amazon on the loopback address: moto keeps the resources, and this module adds what moto lacks.

It adds the states of servers (`simulated_databases`), permissions, DependencyViolation, faults that a test requests,
and operations that moto does not have. It checks every request and response against botocore's description of the
service (`shapes`).
"""

import json
import os
import re
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from botocore.awsrequest import AWSPreparedRequest
from botocore.compat import HTTPHeaders
from moto.core.botocore_stubber import BotocoreStubber
from moto.ec2.models import ec2_backends
from moto.moto_api._internal.models import moto_api_backend

from pgdyno.targets.aws.policy import policy
from tests.aws import catalogue, library_caches, parameter_groups, schedules  # noqa: F401 - caches work by their import
from tests.aws.clock import Clock
from tests.aws.credentials import Credentials
from tests.aws.ec2 import Machines, references
from tests.aws.endpoint import Endpoint
from tests.aws.host_interface import Hosts
from tests.aws.identity import ACCOUNT, REGION, in_policies, judged
from tests.aws.offers import Offers
from tests.aws.schedules import Schedules
from tests.aws.shapes import RefusedError, ShapeError, read_reply, read_request, write_error, write_reply
from tests.aws.simulated_databases import MAKE_CLUSTER, MAKE_INSTANCE, POLLS, Databases
from tests.aws.simulated_metrics import Telling
from tests.aws.simulated_snapshots import CLUSTERS, INSTANCES, Snapshots
from tests.aws.visibility import HIDDEN_S, Visibility
from tests.listening import serving

__all__ = ["ACCOUNT", "REGION", "Fault", "Simulator", "simulated"]
Texts = dict[str, str]
Parameters = dict[str, Any]
Reply = tuple[int, bytes]
_SIGNED = {"monitoring": "cloudwatch", "servicequotas": "service-quotas"}
"""Names of services in botocore, where they sign with others."""
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
    dry_runs: list[str] = field(default_factory=list)
    """Actions of requests that only ask whether they would succeed, which `calls` lacks and faults leave alone."""
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
    credentials: Credentials = field(default_factory=Credentials)
    schedules: Schedules = field(default_factory=Schedules)
    snapshots: Snapshots = field(default_factory=Snapshots)
    clock: Clock = field(default_factory=Clock)
    settle: Callable[[], None] = lambda: None
    """Returns once every request that has been sent is executed, such as those of a killed process."""
    url: str = ""
    region: str = REGION
    policy: dict[str, Any] = field(default_factory=policy)
    """The IAM policy of the identity: by default what `pgdyno target policy` prints."""
    administrator: bool = False
    """Whether the identity may do everything."""
    role: bool = True
    """Whether the account has the service-linked role of RDS; a fresh account has none."""
    offers: Offers = field(init=False)
    databases: Databases = field(init=False)
    machines: Machines = field(init=False)
    visibility: Visibility = field(init=False)
    _counts: Counter[str] = field(default_factory=Counter)
    _key: str = ""
    """The id of the key that signed the current request."""
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.visibility = Visibility(self.clock)
        self.offers = Offers(self.region)
        self.databases = Databases(self.region, self.hosts, self.telling, self.snapshots, self.visibility)
        self.machines = Machines(self.hosts.booted, self.hosts.ended, self._zone, self.hosts.console, self.clock)

    @property
    def _parts(self) -> tuple[object, ...]:
        """Returns what carries out operations of its own, by Amazon's names."""
        return self.databases, self.machines, self.schedules, self.offers, catalogue, parameter_groups

    def _zone(self, subnet: str) -> str:
        return str(ec2_backends[ACCOUNT][self.region].get_subnet(subnet).availability_zone)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables with credentials that direct boto3 to the simulator."""
        where = {"AWS_DEFAULT_REGION": self.region, "AWS_ENDPOINT_URL": self.url, "AWS_EC2_METADATA_DISABLED": "true"}
        return {**self.credentials.environment, **where}

    @property
    def rds(self) -> Any:
        return self.databases.rds

    @property
    def _groups(self) -> dict[str, Any]:
        return {key: each for of in ec2_backends[ACCOUNT][self.region].groups.values() for key, each in of.items()}

    def answer(self, headers: Texts, body: str, method: str = "POST", path: str = "/") -> Reply:
        """Returns status and body of the response to one request."""
        with self._lock:
            service = "sts"
            try:
                service, action, parameters = self._understood(headers, body, method, path)
                return self._carried_out(service, action, parameters, headers, body)
            except RefusedError as refused:
                return refused.status, write_error(service, refused.code, refused.message)
            except ShapeError as problem:
                self.problems.append(str(problem))
                return 400, write_error(service, "ValidationError", str(problem))
            except Exception:
                self.problems.append(traceback.format_exc())
                return 500, write_error(service, "InternalFailure", "see the simulator's problems")

    def _understood(self, headers: Texts, body: str, method: str, path: str) -> tuple[str, str, Parameters]:
        scope = _SCOPE.search(headers.get("Authorization", ""))
        if scope is None:
            raise RefusedError("MissingAuthenticationToken", "the request is not signed")
        service = _SIGNED.get(scope[3], scope[3])
        if service == schedules.SERVICE:
            operation, parameters = self.schedules.understood(method, path, body)
        elif "X-Amz-Target" in headers:
            operation, parameters = headers["X-Amz-Target"].partition(".")[2], json.loads(body)
        else:
            operation, parameters = read_request(service, dict(parse_qsl(body, keep_blank_values=True)))
        self._key = scope[1]
        return service, operation, parameters

    def _carried_out(self, service: str, operation: str, parameters: Parameters, headers: Texts, body: str) -> Reply:
        action = f"{in_policies(service)}:{operation}"
        if parameters.get("DryRun"):
            self.dry_runs.append(action)
        else:
            self.calls.append(action)
            self.parameters.append(parameters)
        self.clock.request()
        self.credentials.check(service, operation, self._key)
        denied = action if action in self.denied else self._not_permitted(service, operation, parameters)
        if denied is not None:
            code = {"ec2": "UnauthorizedOperation", "pi": "NotAuthorizedException"}.get(service, "AccessDenied")
            raise RefusedError(code, f"User is not authorized to perform: {denied}")
        fault = next((each for each in self.faults if _means(each, operation, parameters)), None)
        if fault is not None:
            fault.times -= 1
            if not fault.done:
                return fault.status, write_error(service, fault.code, fault.message)
        status, reply = self._done(service, operation, parameters, headers, body)
        self._counts[operation] += 1
        self.on_call(action, self._counts[operation])
        return (status, reply) if fault is None else (fault.status, write_error(service, fault.code, fault.message))

    def _not_permitted(self, service: str, operation: str, parameters: dict[str, Any]) -> str | None:
        """Returns the first action of the request that the policy does not allow; None if it allows all."""
        if self.administrator:
            return None
        for each in judged(service, operation, parameters, self._tags_of(parameters)):
            if each.action in self.denied or not each.allowed(self.policy):
                return each.action
        return None

    def _tags_of(self, parameters: dict[str, Any]) -> dict[str, str]:
        """Returns the tags of the existing resource that a request names."""
        named = (
            ("DBInstanceIdentifier", self.rds.databases),
            ("DBClusterIdentifier", self.rds.clusters),
            ("DBParameterGroupName", self.rds.db_parameter_groups),
            ("DBClusterParameterGroupName", self.rds.db_cluster_parameter_groups),
            ("DBSnapshotIdentifier", self.rds.database_snapshots),
            ("DBClusterSnapshotIdentifier", self.rds.cluster_snapshots),
        )
        for key, known in named:
            if key in parameters and parameters[key] in known:
                return {each["Key"]: each["Value"] for each in known[parameters[key]].tags}
        if "ResourceName" in parameters:
            *_, name = parameters["ResourceName"].split(":")
            found = [known[name] for _, known in named if name in known]
            return {each["Key"]: each["Value"] for of in found for each in of.tags}
        named_one = [parameters["InstanceId"]] if "InstanceId" in parameters else []
        resources = [*named_one, *parameters.get("InstanceIds", ()), *parameters.get("Resources", ())]
        for each in resources:
            machine = self.machines.all.get(each) or self.machines.with_volume(each)
            if machine is not None:
                return machine.tags
        for each in self.machines.placements.values():
            if each["GroupName"] == parameters.get("GroupName") or each["GroupId"] in resources:
                return {tag["Key"]: tag["Value"] for tag in each["Tags"]}
        group = next((each for each in (parameters.get("GroupId"), *resources) if each in self._groups), None)
        return {} if group is None else dict(ec2_backends[ACCOUNT][self.region].tags.get(group, {}))

    def _done(self, service: str, operation: str, parameters: Parameters, headers: Texts, body: str) -> Reply:
        self.visibility.check(operation, parameters)
        own = (
            getattr(self, f"_{operation}", None)
            or self._told(operation)
            or next((getattr(each, operation) for each in self._parts if hasattr(each, operation)), None)
        )
        found = None if own is None else own(parameters)
        if found is not None:
            self.visibility.made(operation, parameters, found)
            return 200, write_reply(service, operation, found)
        self._before(operation, parameters)
        status, reply = self._by_moto(service, headers, body)
        if status >= 300:
            return status, reply
        found = read_reply(service, operation, reply)
        self.visibility.made(operation, parameters, found)
        if service == "rds":
            self.telling.heard(operation, parameters)
            self.databases.after(operation, parameters)
            return status, write_reply(service, operation, self.databases.as_state_allows(found))
        return status, reply

    def _told(self, operation: str) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
        """Returns the function that answers requests for metrics and logs; None for other operations."""
        answer = getattr(self.telling, operation, None)
        if answer is None:
            return None
        self.telling.log = self.hosts.log()
        return lambda parameters: answer(parameters, {*self.rds.databases, *self.machines.watched()})

    def _by_moto(self, service: str, headers: Texts, body: str) -> Reply:
        host = "sts.amazonaws.com" if service == "sts" else f"{service}.{self.region}.amazonaws.com"
        signed = HTTPHeaders.from_dict({**headers, "Host": host})
        # moto knows no storage of Aurora's
        body = re.sub(r"&StorageType=aurora[a-z0-9-]*", "", body)
        request = AWSPreparedRequest("POST", f"https://{host}/", signed, body.encode(), False)
        answered = BotocoreStubber().process_request(request)
        assert answered is not None
        status, _, reply = answered
        return status, reply.encode() if isinstance(reply, str) else reply

    # ---- refusals ----

    def _before(self, operation: str, parameters: dict[str, Any]) -> None:
        """Refuses what a state, an offer or another resource does not allow."""
        if operation == "DeleteSecurityGroup":
            self._refuse_while_used(parameters["GroupId"])
        elif operation in (*MAKE_INSTANCE, *MAKE_CLUSTER):
            self.snapshots.check_restore(operation, parameters)
            self._check_database(parameters)
        else:
            self.databases.before(operation, parameters)

    def _check_database(self, parameters: dict[str, Any]) -> None:
        """Refuses a server of a version that does not exist, or of an account that has no role for it.

        RDS creates its role with the first server, and may refuse that server all the same: see "Using service-linked
        roles for Amazon RDS" and aws-samples/eks-workshop-v2, issue 1609.
        """
        if "Engine" in parameters:
            catalogue.check_version(parameters)
        if not self.role:
            request = {"AWSServiceName": "rds.amazonaws.com"}
            self.role = all(
                each.allowed(self.policy) and each.action not in self.denied
                for each in judged("iam", "CreateServiceLinkedRole", request, {})
            )
            said = "Verify that you have permission to create service linked role. Otherwise wait and try again later"
            raise RefusedError("InvalidParameterValue", f"Unable to create the resource. {said}")
        if parameters.get("DBInstanceClass") == "db.serverless":
            # "Requirements and limitations for Aurora Serverless v2" in the Aurora user guide
            cluster = self.rds.clusters[parameters["DBClusterIdentifier"]]
            if not cluster.serverless_v2_scaling_configuration:
                said = "Set the Serverless v2 scaling configuration on the parent DB cluster before creating"
                raise RefusedError("InvalidDBClusterStateFault", f"{said} a Serverless v2 DB instance.")

    def _refuse_while_used(self, group: str) -> None:
        users = [*self.rds.databases.values(), *self.rds.clusters.values()]
        known = self._groups
        used = any(group in each.vpc_security_group_ids for each in users) or any(references(known, group))
        if used or any(group in each.groups for each in self.machines.there()):
            raise RefusedError("DependencyViolation", f"resource {group} has a dependent object")

    # ---- what moto has no answer for ----

    def _DescribeAccountAttributes(self, _parameters: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        known = self.rds.databases.values()
        found = self.offers.account(len(known), sum(int(each.allocated_storage or 0) for each in known))
        return {"AccountQuotas": [*found["AccountQuotas"], *self.snapshots.quotas(self.rds)]}

    def _GetRole(self, parameters: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        name = parameters["RoleName"]
        if not self.role:
            raise RefusedError("NoSuchEntity", f"The role with name {name} cannot be found.", 404)
        return {"Role": _role(name)}

    def _CreateServiceLinkedRole(self, _parameters: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        self.role = True
        return {"Role": _role("AWSServiceRoleForRDS")}

    def _DescribeRegions(self, _parameters: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        return {"Regions": [{"RegionName": name} for name in (REGION, "us-east-1")]}

    # ---- for tests ----

    def time_comes(self, now: datetime) -> None:
        """Lets schedules whose time has come at `now` remove databases, until nothing changes any more."""
        for _ in range(8):
            self.schedules.come(now, lambda operation, asked: getattr(self.databases, operation)(asked))
            self.databases.step_all()

    def finish_changes(self) -> None:
        """Lets servers that are being created and snapshots that are being taken become available."""
        self.clock.sleep(HIDDEN_S)
        for _ in range(POLLS + 1):
            self.databases.step_all()
        self.snapshots.complete_all()

    def left(self) -> list[str]:
        """Returns all resources that cost money or have a name of pgdyno's."""
        return [
            *(each.tags["Name"] for each in self.machines.there()),
            *self.rds.databases,
            *self.rds.clusters,
            *(
                each
                for of in (INSTANCES, CLUSTERS)
                for each in Snapshots.manual(self.rds, of)
                if each.startswith("pgdyno-")
            ),
            *(each for each in self.rds.db_parameter_groups if not each.startswith("default.")),
            *(each for each in self.rds.db_cluster_parameter_groups if not each.startswith("default.")),
            *self.schedules.all,
            *self.machines.placements,
            *(each.name for each in self._groups.values() if each.name.startswith("pgdyno-")),
        ]


def _role(name: str) -> dict[str, Any]:
    path = "/aws-service-role/rds.amazonaws.com/"
    arn = f"arn:aws:iam::{ACCOUNT}:role{path}{name}"
    return {"Path": path, "RoleName": name, "RoleId": "A" * 16, "Arn": arn, "CreateDate": datetime.now(UTC)}


def _means(fault: Fault, operation: str, parameters: dict[str, Any]) -> bool:
    return fault.operation == operation and fault.times > 0 and not parameters.get("DryRun") and fault.when(parameters)


S = TypeVar("S", bound=Simulator)


@contextmanager
def simulated(simulator: S) -> Iterator[S]:
    """Simulates an account that has only its default VPC, until the block ends."""
    # pgdyno describes no images: loading moto's thousand for each region would take half of a test
    os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"
    moto_api_backend.reset()
    endpoint = Endpoint(simulator.answer, simulator.problems.append)
    simulator.url, simulator.settle = endpoint.url, endpoint.settle
    with serving(endpoint):
        yield simulator
    assert not simulator.problems, "\n".join(simulator.problems)
