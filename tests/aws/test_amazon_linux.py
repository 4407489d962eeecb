"""setup.sh on Amazon Linux: the test records its commands, because no image of Amazon Linux boots on this machine."""

import os
import subprocess
from importlib.resources import files
from pathlib import Path

from pgdyno.plan import load_plan
from pgdyno.targets.aws.hosts.schema import Ec2Target
from pgdyno.targets.aws.hosts.user_data import Host, _config, new_nonce, server
from tests.aws.account import Account
from tests.aws.plans import ec2, write_plan

AMAZON_LINUX = {"system": '"amazon-linux-2023"', "packages": '"distribution"', "version": '"16"'}
RECORD = 'echo "$(basename "$0") $*" >> "$DID"'
PROGRAMS = {
    "dnf": RECORD,
    "systemctl": f'{RECORD}; [ "$*" != "-q is-active postgresql" ]',
    "chown": RECORD,
    "sysctl": RECORD,
    "getent": 'echo "pgdyno:x:1000:1000::$HOME:/bin/bash"',
    # none of these accounts exists on this machine
    "install": (
        'words=(); while [ $# -gt 0 ]; do case $1 in -o|-g) shift;; *) words+=("$1");; esac; shift; done\n'
        'exec /usr/bin/install "${words[@]}"'
    ),
    "runuser": (
        f"{RECORD}; shift 3\n"
        'case $1 in */initdb) mkdir -p "$3"; echo "# as initdb has made it" > "$3/postgresql.conf";;\n'
        "*/postgres) echo 0;; psql) cat > /dev/null;; esac"
    ),
}


def test_the_server_comes_from_amazons_packages(tmp_path: Path) -> None:
    spec = load_plan(
        write_plan(tmp_path / "plan", ec2(**AMAZON_LINUX, port="6000", initdb='["-k"]', huge_pages="true"))
    ).plan.target["ec2"]
    assert isinstance(spec, Ec2Target)
    nonce = new_nonce()
    host = Host(nonce, "pgdyno", 22, "ssh-ed25519 AAAA", "2030-01-01T00:00:00Z")
    for each in _config(host, server(spec, "secret"))["write_files"]:
        file = tmp_path / each["path"].lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(each["content"])
    for folder in ("bin", "dev", "proc/sys/vm", "etc/sysctl.d", "var/log", "home"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / "etc/ssh/ssh_host_ed25519_key.pub").write_text("ssh-ed25519 AAAAkey root@host\n")
    (tmp_path / "proc/sys/vm/nr_hugepages").write_text("0\n")
    for name, body in PROGRAMS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    text = files("pgdyno.targets.aws").joinpath("setup.sh").read_text()
    for folder in ("/etc/", "/var/", "/proc/", "/dev/console"):
        text = text.replace(folder, f"{tmp_path}{folder}")
    environment = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "DID": str(tmp_path / "did"),
    }
    for _ in range(2):
        done = subprocess.run(["bash", "-c", text], env=environment, capture_output=True, text=True, check=False)
        log = (tmp_path / "var/log/pgdyno-setup.log").read_text()
        assert (tmp_path / "home/state").read_text() == "ready\n", done.stderr + log
    did = (tmp_path / "did").read_text().splitlines()
    data = tmp_path / "var/lib/pgsql/data"
    assert "dnf -q -y --setopt=install_weak_deps=False install postgresql16-server" in did
    assert not [each for each in did if "apt" in each]
    # the second time there is a cluster
    assert [each for each in did if "initdb" in each] == [
        f"runuser -u postgres -- /usr/bin/initdb -D {data} --encoding=UTF8 --locale=C.UTF-8 -k"
    ]
    assert did.count("systemctl start postgresql") == 2
    unit = tmp_path / "etc/systemd/system/postgresql.service.d/pgdyno.conf"
    assert unit.read_text() == f"[Service]\nEnvironment=PGDATA={data}\n"
    assert (data / "postgresql.conf").read_text().splitlines()[1:] == ["port = 6000", "include_dir = 'conf.d'"]
    assert "ssl_key_file = 'server.key'\n" in (data / "conf.d/pgdyno.conf").read_text()
    assert (data / "server.key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "home/server.crt").read_text() == (data / "server.crt").read_text()
    assert (tmp_path / "dev/console").read_text().count(f"pgdyno host key {nonce} ssh-ed25519 AAAAkey\n") == 6


def test_its_image_is_asked_for(amazon: Account) -> None:
    amazon.rent(ec2(**AMAZON_LINUX))
    (machine,) = amazon.machines.all.values()
    assert machine.asked["ImageId"] == "ami-al2023arm"
