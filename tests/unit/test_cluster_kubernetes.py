"""The guide's manifest for KubeRay: the fields that RayCluster of ray.io/v1 requires, and those that pgdyno needs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pgdyno.generators.ray_start import RESOURCE

FOLDER = Path(__file__).parents[2] / "docs/guides/kubernetes"


@pytest.fixture
def spec() -> dict[str, Any]:
    manifest: dict[str, Any] = yaml.safe_load((FOLDER / "raycluster.yaml").read_text())
    assert (manifest["apiVersion"], manifest["kind"]) == ("ray.io/v1", "RayCluster")
    found: dict[str, Any] = manifest["spec"]
    return found


def groups(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [spec["headGroupSpec"], *spec["workerGroupSpecs"]]


def test_parameters_of_ray_are_strings(spec: dict[str, Any]) -> None:
    # the schema has a map of strings: a number there is refused
    for group in groups(spec):
        assert group["rayStartParams"]
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
    (workers,) = spec["workerGroupSpecs"]
    assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]


def test_each_worker_makes_load_and_the_head_does_not(spec: dict[str, Any]) -> None:
    (workers,) = spec["workerGroupSpecs"]
    # KubeRay puts it on a shell's command line: a quoted string with JSON in it
    assert json.loads(json.loads(workers["rayStartParams"]["resources"])) == {RESOURCE: 1}
    assert "resources" not in spec["headGroupSpec"]["rayStartParams"]
    assert all(group["rayStartParams"]["num-cpus"] == "0" for group in groups(spec))


def test_generators_are_on_hosts_of_their_own(spec: dict[str, Any]) -> None:
    (workers,) = spec["workerGroupSpecs"]
    affinity = workers["template"]["spec"]["affinity"]["podAntiAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    # the label that KubeRay gives pods of a group
    assert term["labelSelector"]["matchLabels"] == {"ray.io/group": workers["groupName"]}
    assert term["topologyKey"] == "kubernetes.io/hostname"


def test_access_needs_the_token(spec: dict[str, Any]) -> None:
    for group in groups(spec):
        (container,) = group["template"]["spec"]["containers"]
        variables = {each["name"]: each for each in container["env"]}
        assert variables["RAY_AUTH_MODE"]["value"] == "token"
        assert "value" not in variables["RAY_AUTH_TOKEN"]
        assert variables["RAY_AUTH_TOKEN"]["valueFrom"]["secretKeyRef"]["key"] == "auth_token"


def test_one_version_of_ray(spec: dict[str, Any]) -> None:
    image = re.search(r"^FROM rayproject/ray:([\d.]+)-py\d+$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    assert image is not None
    assert image[1] == spec["rayVersion"]
    lock = (FOLDER.parents[2] / "uv.lock").read_text()
    assert f'name = "ray"\nversion = "{image[1]}"' in lock
