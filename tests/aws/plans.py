"""Plans with rented servers."""

from pathlib import Path

ALLOW = '["203.0.113.7/32"]'


def rds(root: Path, **more: str) -> str:
    keys = {"version": '"18"', "instance": '"db.m7g.large"', "allow": ALLOW, "tls_root": f'"{root}"'} | more
    return _target("rds", keys)


def aurora(root: Path, **more: str) -> str:
    keys = {"version": '"18"', "instance": '"db.r8g.large"', "allow": ALLOW, "tls_root": f'"{root}"'} | more
    return _target("aurora", keys)


def ec2(**more: str) -> str:
    """Returns a target of kind ec2, likewise."""
    keys = {"version": '"18"', "instance": '"m7g.large"', "allow": ALLOW} | more
    return _target("ec2", keys)


def generator(**more: str) -> str:
    """Returns a generator in TOML, which must come after all targets."""
    lines = [f"{name} = {value}" for name, value in ({"kind": '"ec2"', "allow": ALLOW} | more).items()]
    return "\n".join(["[generator]", *lines, ""])


def _target(kind: str, keys: dict[str, str]) -> str:
    lines = [f"[target.{kind}]", f'kind = "{kind}"', *(f"{name} = {value}" for name, value in keys.items())]
    return "\n".join(lines) + "\n"


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
