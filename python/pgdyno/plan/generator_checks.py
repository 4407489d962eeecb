"""What cannot be said of a generator that is rented."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pgdyno.errors import Problem
from pgdyno.plan.aws_checks import check_networks
from pgdyno.plan.aws_targets import AwsTarget
from pgdyno.plan.ec2_checks import check_host
from pgdyno.plan.ec2_target import Ec2Generator
from pgdyno.plan.problems import Document
from pgdyno.plan.targets import TargetSpec

SECTION = "generator"


def check_generator(
    generator: Ec2Generator, targets: Mapping[str, TargetSpec], document: Document
) -> Iterator[Problem]:
    """Everything of `generator` that does not go with the rest of the plan, or would be refused."""
    yield from check_host((SECTION,), generator, document)
    yield from check_networks((SECTION,), generator.allow, document)
    regions = set()
    for name, target in targets.items():
        if isinstance(target, AwsTarget):
            regions.add(target.region)
            continue
        message = f"target {name} is not rented, and a rented generator only goes to servers that are"
        yield document.problem((SECTION,), message, 'use generator = "here", or a target of kind ec2, rds or aurora')
    if len(regions) > 1:
        yield document.problem((SECTION,), "the servers are in several regions, and it can be in one only")
