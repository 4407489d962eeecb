"""Fingerprints: their fields on an artificial machine, and which differences count."""

from pathlib import Path

from pgdyno.doctor import Needs, Place
from pgdyno.fingerprint import Difference, Weight, comparable
from pgdyno.fingerprint.collect import host_print, take_fingerprint
from pgdyno.fingerprint.differences import RULES, print_of
from pgdyno.messages import Message
from pgdyno.programs import Engine
from pgdyno.records import Fingerprint, Host, HostPrint, ServerPrint
from pgdyno.store import RunFolder
from tests.unit.doctor_sample import CGROUP_2, tree
from tests.unit.plan_sample import loaded, small_plan

GOLDEN = Path(__file__).parents[1] / "golden"
HOST = Host(cpu_model="X 9000", cores=8, memory_bytes=16 << 30, kernel="6.1", os="Debian", architecture="x86_64")
FILES = CGROUP_2 | {
    "proc/cmdline": "root=/dev/sda secret=42 mitigations=off isolcpus=2-3 nosmt quiet -- mitigations=init\n",
    "proc/cpuinfo": "flags : fpu hypervisor\n",
    "proc/sys/vm/swappiness": "1\n",
    "proc/self/mountinfo": "27 1 8:2 / / rw,noatime - ext4 /dev/root rw\n",
    "sys/class/dmi/id/sys_vendor": "QEMU\n",
    "sys/class/dmi/id/product_name": "Standard PC\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/node/online": "0-1\n",
    "sys/fs/cgroup/a/b/cpu.max": "400000 100000\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
}


def test_a_host(tmp_path: Path) -> None:
    found = host_print(HOST, [Place(Path("/x"), ("data of a", "WAL of b"))], tree(tmp_path, FILES))
    assert found.boot == {"mitigations": "off", "isolcpus": "2-3", "nosmt": ""}
    assert found.tuning == {"governor": "performance", "swappiness": "1", "thp": "madvise"}
    assert found.disks == dict.fromkeys(("data of a", "WAL of b"), "ext4 on /dev/root (noatime,rw)")
    assert (found.virtualisation, found.numa_nodes, found.cpu_limit) == ("QEMU Standard PC", 2, 4.0)
    assert (found.cpu_model, found.cores, found.memory_limit_bytes) == ("X 9000", 8, None)
    for files, kind in (
        ({"proc/cpuinfo": "flags : fpu\n"}, "none"),
        ({"proc/cpuinfo": "flags : hypervisor\n"}, "unknown hypervisor"),
        ({"proc/cpuinfo": "Features : fp\n"}, None),
        ({"sys/hypervisor/type": "xen\n"}, "xen"),
    ):
        assert host_print(HOST, [], tree(tmp_path, files)).virtualisation == kind


SERVER = ServerPrint(
    version="18.6",
    version_full="PostgreSQL 18.6 on x",
    configure="--with-icu",
    settings_changed={"shared_buffers": "1GB", "work_mem": "4MB"},
    dataset_marks=["pgbench scale 10"],
    indexes={"public.t": "btree (a)"},
)
BASE = Fingerprint(
    host=HostPrint(
        cpu_model="X", cores=8, memory_bytes=16 << 30, architecture="x86_64", kernel="6.1", os="Debian",
        boot={"mitigations": "off"}, tuning={"swappiness": "1"}, disks={"data of pg18": "ext4"},
    ),
    pgdyno="1.0", pgdrive="1.0", generator="the same machine", seed=1,
    workload={"scripts": ["select-only"], "scale": 10}, reset={"method": "vacuum"}, servers={"pg18": SERVER},
)  # fmt: skip


def changed(**updates: object) -> Fingerprint:
    host = {name.removeprefix("host_"): value for name, value in updates.items() if name.startswith("host_")}
    server = {name.removeprefix("server_"): value for name, value in updates.items() if name.startswith("server_")}
    rest = {name: value for name, value in updates.items() if not name.startswith(("host_", "server_"))}
    parts = {"host": BASE.host.model_copy(update=host), "servers": {"pg18": SERVER.model_copy(update=server)}}
    return BASE.model_copy(update=parts | rest)


def test_releases_of_hammerdb_compare_if_work_is_equal() -> None:
    for a, b, severity in (
        (("hammerdb", "functions"), ("hammerdb-6.1", "functions"), "harmless"),
        (("hammerdb", "functions"), ("hammerdb-6.1.1", "functions"), "refused"),
        (("hammerdb", "procedures"), ("hammerdb-6.1.1", "procedures"), "harmless"),
        (("hammerdb-6.0", "functions"), ("hammerdb-6.1.1", "functions"), "harmless"),
        (("hammerdb-6.0", "functions"), ("hammerdb-6.1", "functions"), "refused"),
        (("hammerdb-6.0", "procedures"), ("hammerdb-6.1.1", "procedures"), "refused"),
        (("hammerdb-6.0", "sql"), ("hammerdb-6.1.1", "sql"), "harmless"),
        (("hammerdb-6.1", "functions"), ("spec", "functions"), "refused"),
    ):
        prints = [changed(workload={"name": "tpcc", "profile": profile, "variant": of}) for profile, of in (a, b)]
        (found,) = comparable(*prints)
        assert (found.field, found.severity) == ("workload.profile", severity)


def test_runs_of_equal_conditions_are_comparable() -> None:
    other = BASE.model_copy(update={"servers": {"mine": SERVER}})
    for same in (
        Fingerprint.model_validate_json(BASE.model_dump_json()),
        # indexes that one run did not record
        changed(server_indexes=None),
        # a little memory is the kernel's
        changed(host_memory_bytes=(16 << 30) - (100 << 20)),
        # disks of a target of another name are matched with it
        other.model_copy(update={"host": BASE.host.model_copy(update={"disks": {"data of mine": "ext4"}})}),
    ):
        assert comparable(BASE, same) == []


def test_differences() -> None:
    # `compare` and `gate` show the others
    for other, field, severity in (
        (changed(host_memory_bytes=8 << 30), "host.memory_bytes", "confounder"),
        (changed(host_tuning={"swappiness": "60"}), "host.tuning.swappiness", "confounder"),
        (changed(host_os="Fedora"), "host.os", "harmless"),
        (changed(seed=2), "seed", "harmless"),
        (changed(server_version="17.2"), "servers.pg18.version", "caution"),
        (changed(server_indexes={"public.t": "btree (a); btree (b)"}), "servers.pg18.indexes.public.t", "confounder"),
        (changed(server_indexes={}), "servers.pg18.indexes.public.t", "confounder"),
        (changed(server_loaded_without_wal=["pgbench scale 10"]), "servers.pg18.loaded_without_wal", "harmless"),
    ):
        (found,) = comparable(BASE, other)
        assert (found.field, found.severity) == (field, severity)
        assert found.why
    two = changed(server_dataset_marks=["pgbench scale 20", "pgbench scale 10"])
    assert [each.severity for each in comparable(BASE, two)] == [Weight.HARMLESS]
    assert comparable(two, changed(server_dataset_marks=["pgbench scale 10", "pgbench scale 20"])) == []


def test_settings_that_count_and_others() -> None:
    settings = {"shared_buffers": "2GB", "work_mem": "8MB", "fsync": "off"}
    found = comparable(BASE, changed(server_settings_changed=settings))
    assert [(each.field.split(".")[-1], each.a, each.b, each.severity) for each in found] == [
        ("fsync", None, "off", Weight.CONFOUNDER),
        ("shared_buffers", "1GB", "2GB", Weight.CONFOUNDER),
        ("work_mem", "4MB", "8MB", Weight.CAUTION),
    ]


def test_targets_are_matched() -> None:
    # of two runs of one target each, whatever they are called
    other = BASE.model_copy(update={"servers": {"mine": SERVER.model_copy(update={"version": "17.2"})}})
    (found,) = comparable(BASE, other)
    assert (found.field, found.a, found.b) == ("servers.pg18.version", "18.6", "17.2")
    # one that only one has is one line
    other = BASE.model_copy(update={"servers": {"pg18": SERVER, "pg17": SERVER}})
    why = Message("target-in-one", "only one of the runs has this target")
    assert comparable(BASE, other) == [Difference("servers.pg17", None, "18.6", Weight.HARMLESS, why)]
    other = BASE.model_copy(update={"servers": {"x": SERVER, "y": SERVER}})
    first = comparable(BASE, other)[0]
    assert (first.field, first.severity, first.b) == ("servers", Weight.REFUSED, "x, y")


def test_a_field_that_one_run_lacks_is_neither_equal_nor_different() -> None:
    for other in (changed(host_disks={}), changed(server_configure=None), changed(server_dataset_marks=["unmarked"])):
        (found,) = comparable(BASE, other)
        assert (found.severity, found.why.id) == (Weight.CAUTION, "unknown-of-one")
    # a version that knew no such key, and one that has it without a value
    (found,) = comparable(BASE, changed(workload={"scripts": ["select-only"]}))
    assert found.severity is Weight.CAUTION
    replicas = changed(workload=BASE.workload | {"replica_load": {"clients": 2}})
    assert {each.severity for each in comparable(BASE, replicas)} == {Weight.REFUSED}
    # a field of a later version
    later = Fingerprint.model_validate({**BASE.model_dump(), "weather": "rain"})
    (found,) = comparable(BASE, later)
    assert (found.field, found.severity) == ("weather", Weight.CAUTION)


def test_every_rule_is_about_a_field() -> None:
    fields = {f"host.{name}" for name in HostPrint.model_fields}
    fields |= {f"servers.*.{name}" for name in ServerPrint.model_fields}
    fields |= Fingerprint.model_fields.keys() - {"host"}
    parts = {"workload.capture", "workload.pace", "workload.profile"}
    parts |= {"servers.*.identity.state", "servers.*.identity.tls"}
    assert {rule[0] for rule in RULES} == fields | parts


def test_what_a_run_without_a_fingerprint_does_not_record_is_unknown() -> None:
    earlier = print_of(RunFolder.open(GOLDEN / "run-format-1").manifest)
    assert earlier is not None
    host = earlier.host.model_copy(update={"cpu_limit": 2.0, "boot": {"mitigations": "off"}})
    workload = earlier.workload | {"files": {"own.sql": "5d"}}
    later = earlier.model_copy(update={"generator": "the same machine", "host": host, "workload": workload})
    fields = ("generator", "host.boot.mitigations", "host.cpu_limit", "workload.files.own.sql")
    assert {each.field: each.severity for each in comparable(earlier, later)} == dict.fromkeys(fields, Weight.CAUTION)
    # two runs that record their files have other ones
    two = [later.model_copy(update={"workload": later.workload | {"files": files}}) for files in ({}, {"own.sql": ""})]
    assert [each.severity for each in comparable(*two)] == [Weight.REFUSED]


def taken(folder: Path, text: str) -> Fingerprint:
    return take_fingerprint(loaded(folder, text), Engine(Path("pgdrive"), "1.0"), 1, Needs())


def test_scripts_and_files_that_a_lua_script_loads_are_part_of_the_workload(tmp_path: Path) -> None:
    taken_of = []
    for text in ("SELECT 1;", "SELECT 2;"):
        (tmp_path / "own.sql").write_text(text)
        taken_of.append(taken(tmp_path, small_plan('scripts = ["own.sql"]')))
    (found,) = comparable(*taken_of)
    assert (found.field, found.severity) == ("workload.files.own.sql", Weight.REFUSED)
    plan = small_plan('lua = "lua/own"')
    (tmp_path / "lua").mkdir()
    texts = {"own.lua": "require('common')", "common.lua": "dofile('lua/deep.lua')", "deep.lua": "", "other.lua": ""}
    for name, text in texts.items():
        (tmp_path / "lua" / name).write_text(text)
    before = taken(tmp_path, plan)
    assert sorted(before.workload["modules"]) == ["common.lua", "deep.lua", "own.lua"]
    (tmp_path / "lua" / "other.lua").write_text("changed")
    assert comparable(before, taken(tmp_path, plan)) == []
    (tmp_path / "lua" / "deep.lua").write_text("changed")
    (found,) = comparable(before, taken(tmp_path, plan))
    assert (found.field, found.severity) == ("workload.modules.deep.lua", Weight.REFUSED)
    # an earlier version recorded none
    earlier = before.model_copy(update={"workload": {**before.workload}})
    del earlier.workload["modules"]
    assert {each.severity for each in comparable(earlier, before)} == {Weight.CAUTION}


def test_a_load_on_standbys_compares_with_that_of_an_earlier_version(tmp_path: Path) -> None:
    load = {"scripts": ["select-only"], "clients": 2, "protocol": "simple", "rate": 100.0}
    replicas = '[target.pg18.replicas]\ncount = 1\n[replica_load]\nscripts = ["select-only"]\nclients = 2\nrate = 100\n'
    today = taken(tmp_path, small_plan() + replicas)
    assert "connect" not in today.workload
    rest = {key: value for key, value in today.workload.items() if key != "group"}
    before = today.model_copy(update={"workload": rest | {"replica_load": load}})
    assert comparable(today, before) == []
    other = today.model_copy(update={"workload": rest | {"replica_load": load | {"rate": None}}})
    assert [each.field for each in comparable(today, other)] == ["workload.group.standbys.rate"]
