"""Plans with rented servers."""

import os
from pathlib import Path

ALLOW = '["203.0.113.7/32"]'
HERE, ELSEWHERE = ("c7i.large", "m8g.large") if os.uname().machine == "x86_64" else ("m8g.large", "c7i.large")
"""Types of this machine's architecture, and of another."""
CATALOGUE = {
    "graviton-pgbench": "us-east-1",
    "aurora-sysbench": "us-east-1",
    "pgecons-queries": "ap-northeast-1",
    "pgecons-tprocc": "ap-northeast-1",
}
"""The plans of the catalogue that rent servers, and their regions."""
ROOT = Path(__file__)
"""Stands for the certificate of the authority where nobody connects."""


def rds(root: Path = ROOT, /, **more: str) -> str:
    return _target("rds", {"instance": '"db.m7g.large"', "tls_root": f'"{root}"'} | more)


def aurora(root: Path = ROOT, /, **more: str) -> str:
    return _target("aurora", {"instance": '"db.r8g.large"', "tls_root": f'"{root}"'} | more)


def ec2(**more: str) -> str:
    return _target("ec2", {"instance": '"m7g.large"'} | more)


def generator(**more: str) -> str:
    """Returns a generator in TOML, which must come after all targets."""
    keys = {"kind": '"ec2"', "instance": f'"{HERE}"', "allow": ALLOW} | more
    return "\n".join(["[generator]", *(f"{name} = {value}" for name, value in keys.items()), ""])


def _target(kind: str, keys: dict[str, str]) -> str:
    keys = {"kind": f'"{kind}"', "version": '"18"', "allow": ALLOW} | keys
    return "\n".join([f"[target.{kind}]", *(f"{name} = {value}" for name, value in keys.items()), ""])


def write_plan(folder: Path, *targets: str, repeats: int = 1, more: str = "") -> Path:
    """Writes a short plan into `folder`."""
    folder.mkdir(exist_ok=True)
    file = folder / "rented.toml"
    file.write_text(
        'format = 1\nname = "rented"\n'
        + "\n".join(targets)
        + '[workload]\nscripts = ["select-only"]\ndataset = "pgbench"\nscale = 1\n'
        + f'[sweep]\nclients = 1\nrate = 200\n[trial]\nduration = "1s"\nrepeats = {repeats}\n{more}'
    )
    return file
