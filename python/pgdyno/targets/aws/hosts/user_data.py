"""User data of EC2 hosts, which cloud-init reads at the first boot, and the SSH host key that a host then prints.

Everybody on the host and everybody who may describe the instance can read user data. Therefore they contain no private
keys, which the host generates itself, and passwords only as SCRAM verifiers, as the server itself stores them.

Only the instance writes on its console, and only Amazon shows it, to whoever has the account's credentials: so the key
is authentic, without a secret in the user data. The line contains a nonce of the user data, so that nothing that an
image or an earlier boot has left there is taken for it.
"""

import json
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from pgdyno.errors import TargetError
from pgdyno.targets.aws.boto3_clients import AwsError, NotThereError, Patience
from pgdyno.targets.aws.hosts.schema import DATA_DEVICE, WAL_DEVICE, Ec2Target
from pgdyno.targets.aws.maker import Maker
from pgdyno.targets.aws.volumes import DataVolume
from pgdyno.targets.rented.packaged_server import USER, settings_text, verifier

REACHED_WITHIN_S = 600.0
"""The time limit for a running instance to boot until it has printed its key, and again until SSH answers."""
_SHOWN = 5
"""Lines of the console in an error message."""
_KEY = "ssh-ed25519 [A-Za-z0-9+/=]{68}"


def new_nonce() -> str:
    """Return a text that no other host's console contains."""
    return secrets.token_hex(16)


def public_host_key(maker: Maker, instance: str, nonce: str) -> str:
    """Return the public key that `instance` has printed after `nonce`. Raises TargetError.

    The console of instances on the Nitro system is read as it is; that of others arrives minutes late.
    """
    patience, latest, said = Patience(REACHED_WITHIN_S), True, False
    console = ""
    while True:
        maker.stop.check()
        try:
            asked = {"Latest": True} if latest else {}
            answer = maker.cloud.call("ec2", "get_console_output", InstanceId=instance, **asked)
            console = str(answer.get("Output", ""))
        except NotThereError:
            # The instance is new: see `pgdyno.targets.aws.boto3_clients`.
            if patience.is_over():
                raise
        except AwsError as error:
            if not latest or not error.code.startswith(("Unsupported", "InvalidParameter")):
                raise
            # Only the Nitro system has the latest console.
            latest = False
            continue
        found = re.search(rf"pgdyno host key {nonce} ({_KEY})\s", console)
        if found is not None:
            return found[1]
        if patience.is_over():
            raise _silence_error(instance, console)
        if not said:
            maker.say(f"{maker.name}: waiting for its SSH key on its console")
            said = True
        patience.pause()


def _silence_error(instance: str, console: str) -> TargetError:
    last = [line for line in console.replace("\r", "").splitlines() if line.strip()][-_SHOWN:]
    shown = "".join(f"\n  {line[:200]}" for line in last) or " (Amazon shows no console output)"
    message = f"the instance {instance} has not printed its SSH key on its console:{shown}"
    return TargetError(message, hint="it failed to boot, or takes too long: try again, or choose another type")


FOLDER = "/etc/pgdyno"
LARGEST = 16_384
"""EC2's limit for user data, in bytes before base64."""
_UNIT = "/etc/systemd/system/pgdyno-expiry.service"
_SERVICE = f"""\
[Unit]
Description=Ends this host for good once it has expired
[Service]
ExecStart=/bin/bash {FOLDER}/expiry.sh
Restart=on-failure
[Install]
WantedBy=multi-user.target
"""
_ROLE = """\
DO $$ BEGIN
  CREATE ROLE {user} SUPERUSER LOGIN PASSWORD '{password}';
EXCEPTION WHEN duplicate_object THEN NULL;
END $$;
"""
"""setup.sh may run this twice, so that an existing role must not be an error."""


@dataclass(frozen=True, slots=True)
class Host:
    """The host's login, its expiry, and how it makes itself known."""

    nonce: str
    """What it prints on its console with its public key; it is no secret."""
    login: str
    port: int
    """The port of SSH."""
    own: str
    """pgdyno's public key, which may log in."""
    expires: str
    """The time of expiry in the format of the tag."""


@dataclass(frozen=True, slots=True)
class Job:
    """The commands that a host will run, and their files."""

    environment: Mapping[str, str | Sequence[str]]
    """Variables for setup.sh."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Contents of additional files by their paths below `FOLDER`."""


def generator() -> Job:
    """Return the job of a generator, which runs only pgdyno's programs."""
    return Job({"ROLE": "generator"})


def server(spec: Ec2Target, password: str) -> Job:
    """Return the job of a database server."""
    environment: dict[str, str | Sequence[str]] = {
        "ROLE": "server",
        "VERSION": spec.version,
        "PACKAGES": spec.packages,
        "PORT": str(spec.port),
        "TLS": "yes" if spec.tls else "no",
        "HUGE_PAGES": "yes" if spec.huge_pages else "no",
        "INITDB": spec.initdb,
        **_volume("DATA", spec.data, DATA_DEVICE),
        **_volume("WAL", spec.wal, WAL_DEVICE),
    }
    kind = "hostssl" if spec.tls else "host"
    contents = {
        "hba.conf": f"local all all peer\n{kind} all {USER} all scram-sha-256\n",
        "settings.conf": settings_file(spec),
        "role.sql": _ROLE.format(user=USER, password=verifier(password)),
    }
    return Job(environment, contents)


def _volume(name: str, volume: DataVolume | None, device: str) -> dict[str, str]:
    if volume is None:
        return {f"{name}_{key}": "" for key in ("DEVICE", "FILE_SYSTEM", "OPTIONS")}
    options = ",".join(volume.mount_options) or "defaults"
    return {f"{name}_DEVICE": device, f"{name}_FILE_SYSTEM": volume.file_system, f"{name}_OPTIONS": options}


def settings_file(spec: Ec2Target) -> str:
    """Return lines of postgresql.conf: how the server is reached, then the plan's settings."""
    # On Amazon Linux, the configuration is in the data directory, to which such names are relative.
    configuration = "" if spec.system == "amazon-linux-2023" else f"/etc/postgresql/{spec.version}/main/"
    settings = {"listen_addresses": "*", "password_encryption": "scram-sha-256", "ssl": "on" if spec.tls else "off"}
    if spec.tls:
        settings |= {"ssl_cert_file": f"{configuration}server.crt", "ssl_key_file": f"{configuration}server.key"}
    if spec.huge_pages:
        settings["huge_pages"] = "on"
    return settings_text(settings | spec.parameters)


def user_data(host: Host, job: Job) -> str:
    """Return the user data as cloud-init reads them. Raises AwsError if they are too large."""
    text = f"#cloud-config\n{json.dumps(_config(host, job), indent=0)}\n"
    if len(text.encode()) > LARGEST:
        message = f"the host's user data are {len(text.encode()):,} bytes, but EC2 accepts at most {LARGEST:,}"
        raise AwsError(message, code="UserData", hint="set fewer or shorter parameters")
    return text


def _config(host: Host, job: Job) -> dict[str, Any]:
    """Return cloud-init's configuration, which is written as JSON because YAML includes it."""
    environment = {"LOGIN": host.login, "NONCE": host.nonce, **job.environment}
    contents = {
        f"{FOLDER}/host.env": "".join(_assignment(name, value) for name, value in environment.items()),
        f"{FOLDER}/setup.sh": _script("setup.sh"),
        f"{FOLDER}/expiry.sh": _script("expiry.sh"),
        f"{FOLDER}/expires": f"{host.expires}\n",
        **{f"{FOLDER}/{name}": text for name, text in job.files.items()},
        _UNIT: _SERVICE,
        "/etc/ssh/sshd_config.d/10-pgdyno.conf": _sshd(host.port),
    }
    return {
        "ssh_deletekeys": True,
        "ssh_genkeytypes": ["ed25519"],
        "ssh_pwauth": False,
        "users": [
            {
                "name": host.login,
                "shell": "/bin/bash",
                "lock_passwd": True,
                "sudo": "ALL=(ALL) NOPASSWD:ALL",
                "ssh_authorized_keys": [host.own],
            }
        ],
        "write_files": [
            {"path": path, "permissions": "0644" if path == _UNIT else "0600", "content": text}
            for path, text in contents.items()
        ],
        "runcmd": [
            ["systemctl", "daemon-reload"],
            ["systemctl", "enable", "--now", "pgdyno-expiry.service"],
            # If a systemd socket listens for sshd, it has read the port before this file existed.
            "systemctl try-restart ssh.socket; systemctl restart ssh || systemctl restart sshd",
            ["bash", f"{FOLDER}/setup.sh"],
        ],
    }


def _sshd(port: int) -> str:
    """Return sshd's configuration. Its keep-alives detect a lost client, whose programs then end."""
    refused = "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin no\n"
    return f"Port {port}\nClientAliveInterval 5\nClientAliveCountMax 3\n{refused}"


def _assignment(name: str, value: str | Sequence[str]) -> str:
    if isinstance(value, str):
        return f"{name}={shlex.quote(value)}\n"
    return f"{name}=({' '.join(map(shlex.quote, value))})\n"


def _script(name: str) -> str:
    return files("pgdyno.targets.aws").joinpath(name).read_text(encoding="utf-8")
