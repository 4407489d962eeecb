"""Amazon's prices, from its Pricing API, cached with their dates for machines that cannot ask.

Without a cached price, the package's own short list applies (`list_prices`), which is dated and older.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pgdyno.errors import TargetError
from pgdyno.targets.aws.boto3_clients import Cloud
from pgdyno.targets.aws.schema import PROVIDER
from pgdyno.targets.home import ensure_folder, write_whole
from pgdyno.targets.rented.estimate import CURRENCY, Origin, Rate

FILE = "list_prices.toml"


@cache
def list_prices() -> dict[str, Rate]:
    """Return the package's list of prices in USD, by `Usage.key`."""
    read = tomllib.loads((files("pgdyno.targets.aws.pricing") / FILE).read_text(encoding="utf-8"))
    found: dict[str, Rate] = {}
    for each in read["list"]:
        known: date = each["known"]
        for kind, amount in each["usd"].items():
            found[f"{each['region']} {each['engine']} {kind}"] = Rate(float(amount), known, Origin.PACKAGE)
    return found


ENDPOINT = "us-east-1"
"""The region whose Pricing API answers for all regions."""
GOOD_FOR = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Usage:
    """The properties that select one price."""

    region: str
    engine: str
    """Amazon's name of the engine: `PostgreSQL`, `Aurora PostgreSQL`.

    pgdyno's own are `EC2` for hosts and their volumes, `VPC` for addresses, and `CloudWatch` for metrics.
    """
    family: str
    """Amazon's product family: `Database Instance`, `Database Storage`, `Provisioned IOPS`, `Provisioned Throughput`;
    for EC2 `Compute Instance`, `Storage`, `System Operation`; for metrics `Metric`; empty for addresses and for
    Extended Support.
    """
    kind: str
    """The end of Amazon's usage type, after the region: `InstanceUsage:db.m7g.large`."""

    @property
    def key(self) -> str:
        """The key of the price in the cache and in the package's list."""
        return f"{self.region} {self.engine} {self.kind}"


@dataclass(slots=True)
class Prices:
    """Prices, which pgdyno requests on first use, with those of earlier requests as a fallback."""

    root: Path
    """pgdyno's home."""
    why_not: str | None = None
    """Why Amazon could not be asked; None if no request has failed."""
    _known: dict[str, Rate] = field(default_factory=dict)
    _cloud: Cloud | None = None

    def __post_init__(self) -> None:
        self._known = _read_rates(self._file)

    @property
    def _file(self) -> Path:
        return self.root / PROVIDER / "prices.json"

    def rate(self, usage: Usage) -> Rate | None:
        """Return the price of `usage`; None if it is unknown. Raises TargetError if the cache cannot be written.

        The price is Amazon's, asked now or within GOOD_FOR. If Amazon does not answer, it is the newer of the cached
        price and the package's.
        """
        kept = self._known.get(usage.key)
        today = datetime.now(UTC).date()
        if kept is not None and today - kept.asked <= GOOD_FOR:
            return kept
        older = [each for each in (kept, list_prices().get(usage.key)) if each is not None]
        newest = max(older, key=lambda each: each.asked, default=None)
        try:
            amount = self._ask(usage)
        except TargetError as error:
            self.why_not = error.message
            return newest
        if amount is None:
            return newest
        self._known[usage.key] = Rate(amount, today)
        _write(self._file, self._known)
        return self._known[usage.key]

    def _ask(self, usage: Usage) -> float | None:
        if self.why_not is not None:
            raise TargetError(self.why_not)
        if self._cloud is None:
            self._cloud = Cloud(ENDPOINT)
        filters = {"regionCode": usage.region, "productFamily": usage.family}
        instance = usage.kind.partition(":")[2]
        if usage.family == INSTANCES:
            filters |= {"databaseEngine": usage.engine, "instanceType": instance}
        elif usage.family == HOSTS:
            filters |= {"instanceType": instance, **_PLAIN_LINUX}
        elif not usage.family and usage.engine != VPC:
            filters = {"regionCode": usage.region, "databaseEngine": usage.engine}
        elif usage.engine == VPC:
            filters = {"regionCode": usage.region, "group": "VPCPublicIPv4Address"}
        service = _SERVICES.get(usage.engine, "AmazonRDS")
        asked = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in filters.items()]
        for text in self._cloud.list_elements(
            "pricing", "get_products", "PriceList", ServiceCode=service, Filters=asked
        ):
            product = json.loads(text) if isinstance(text, str) else text
            if _matches_usage(product["product"]["attributes"], usage):
                for amount in _amounts(product):
                    return amount
        return None


EC2, VPC, CLOUDWATCH = "EC2", "VPC", "CloudWatch"
_SERVICES = {EC2: "AmazonEC2", VPC: "AmazonVPC", CLOUDWATCH: "AmazonCloudWatch"}
INSTANCES, HOSTS, METRIC = "Database Instance", "Compute Instance", "Metric"
_PLAIN_LINUX = {"operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used"}
_ANY = ("Any", "")


def _matches_usage(attributes: Mapping[str, str], usage: Usage) -> bool:
    found = attributes.get("usagetype", "")
    # A usage type begins with a short name of the region, except in Amazon's oldest region.
    if found != usage.kind and not found.endswith(f"-{usage.kind}"):
        return False
    return attributes.get("databaseEngine", "") in (usage.engine, *_ANY)


def _amounts(product: Mapping[str, Any]) -> Iterator[float]:
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            # A price with volume discounts has one line for each range.
            if CURRENCY in dimension["pricePerUnit"] and dimension.get("beginRange", "0") == "0":
                amount = float(dimension["pricePerUnit"][CURRENCY])
                # Amazon prices the throughput of gp3 by GiB/s, all other throughput by MB/s.
                yield amount / 1024 if str(dimension.get("unit", "")).startswith("GiBps") else amount


def _read_rates(file: Path) -> dict[str, Rate]:
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return {key: Rate(float(each["amount"]), date.fromisoformat(each["asked"])) for key, each in kept.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # The cache holds only copies, which pgdyno can request again.
        return {}


def _write(file: Path, known: Mapping[str, Rate]) -> None:
    ensure_folder(file.parent)
    kept = {key: {"amount": each.amount, "asked": each.asked.isoformat()} for key, each in known.items()}
    write_whole(file, json.dumps(kept, indent=1, sort_keys=True).encode())
