//! Sources that Linux reports about the host.

use super::{Metric, Source, amount, average, gauge, mean};

pub(super) const SOURCES: &[&Source] =
    &[&CPU, &CORES, &KERNEL, &PRESSURE, &MEMORY, &PAGING, &DISK, &MOUNT, &NETWORK, &TCP, &CGROUP, &PROBE];

const MODES: &[Metric] = &[
    average("user", "share", "programs, also niced ones; without guests"),
    average("system", "share", "the kernel for programs"),
    average("idle", "share", "nothing to do, and no I/O outstanding"),
    average("iowait", "share", "nothing to do while I/O of the core's tasks is outstanding"),
    average("irq", "share", "interrupts, hard and soft"),
    average("steal", "share", "wanted, and had by other guests of the same machine"),
    average("guest", "share", "guests of this host"),
];

const CPU: Source = Source::host("cpu", "`/proc/stat`, all cores together: 1 is the whole host").metrics(MODES);

const CORE_METRICS: &[Metric] = &[
    average("user", "share", "as in `cpu`, of one core"),
    average("system", "share", "as in `cpu`"),
    average("idle", "share", "as in `cpu`"),
    average("iowait", "share", "as in `cpu`"),
    average("irq", "share", "as in `cpu`"),
    average("steal", "share", "as in `cpu`"),
    average("guest", "share", "as in `cpu`"),
    gauge("frequency", "MHz", "what the governor runs it at; absent where the host does not say"),
];

const CORES: Source = Source::host("core", "`/proc/stat`, `cpufreq/scaling_cur_freq`")
    .labels(&[("core", "its number")])
    .sparse()
    .metrics(CORE_METRICS);

const KERNEL: Source = Source::host("kernel", "`/proc/stat`, `/proc/loadavg`").metrics(&[
    gauge("running", "count", "tasks that run or could run: the run queue and who is on a core"),
    gauge("blocked", "count", "tasks that wait for I/O and cannot be interrupted"),
    gauge("load_1m", "count", "load average of a minute"),
    gauge("tasks", "count", "processes and threads that exist"),
    amount("context_switches", "count", "of all cores"),
    amount("interrupts", "count", "of all cores"),
    amount("forks", "count", "processes and threads made"),
]);

const PRESSURE: Source =
    Source::host("pressure", "`/proc/pressure` (PSI)").labels(&[("resource", "cpu, io or memory")]).metrics(&[
        average("some", "share", "time in which at least one task waited for it"),
        average("full", "share", "time in which all tasks that had work waited for it"),
    ]);

const MEMORY: Source = Source::host("memory", "`/proc/meminfo`").metrics(&[
    gauge("total", "bytes", "memory of the host"),
    gauge("free", "bytes", "used for nothing"),
    gauge("available", "bytes", "what programs could have without swapping"),
    gauge("buffers", "bytes", "page cache of block devices"),
    gauge("cached", "bytes", "page cache of files, shared memory among it"),
    gauge("dirty", "bytes", "page cache that is to be written"),
    gauge("writeback", "bytes", "page cache that is being written"),
    gauge("anonymous", "bytes", "memory of programs that belongs to no file"),
    gauge("shared", "bytes", "shared memory and tmpfs"),
    gauge("slab", "bytes", "structures of the kernel"),
    gauge("page_tables", "bytes", "page tables: many sessions times much shared memory"),
    gauge("anonymous_huge", "bytes", "transparent huge pages of programs"),
    gauge("huge_total", "bytes", "reserved huge pages of the default size"),
    gauge("huge_free", "bytes", "of these, not in use"),
    gauge("huge_reserved", "bytes", "of the free ones, promised"),
    gauge("huge_surplus", "bytes", "of these, taken beyond what was reserved"),
    gauge("swap_used", "bytes", "swap in use"),
]);

const PAGING: Source = Source::host("paging", "`/proc/vmstat`").metrics(&[
    amount("read", "bytes", "read from devices into memory"),
    amount("written", "bytes", "written from memory to devices"),
    amount("swapped_in", "bytes", "read from swap"),
    amount("swapped_out", "bytes", "written to swap"),
    amount("faults", "count", "page faults of all processes"),
    amount("major_faults", "count", "of these, those that read from a device"),
    amount("direct_reclaim", "count", "pages that programs themselves had to free"),
]);

const DISK: Source = Source::host("disk", "`/proc/diskstats`, devices that ever did I/O")
    .labels(&[
        ("device", "its name"),
        ("holds", "`data`, `wal` or `data wal`, where `--data` says so; also of a partition"),
    ])
    .metrics(&[
        average(
            "utilisation",
            "share",
            "time with at least one request in flight; devices that work in parallel are not full at 1",
        ),
        average("queue", "count", "requests in flight, over time"),
        gauge("in_flight", "count", "requests in flight at the instant"),
        amount("reads", "count", "reads done"),
        amount("read", "bytes", "read"),
        mean("read_await", "reads", "ms", "of a read, queue and service"),
        amount("writes", "count", "writes done"),
        amount("written", "bytes", "written"),
        mean("write_await", "writes", "ms", "of a write, queue and service"),
        amount("discards", "count", "discards done"),
        amount("flushes", "count", "flushes done: what fsync costs a device with a volatile cache"),
        mean("flush_await", "flushes", "ms", "of a flush"),
    ]);

const MOUNT: Source = Source::host("mount", "`/proc/self/mountinfo`, statvfs(3): where `--data` and `--wal` lie")
    .labels(&[
        ("mount", "the folder where it begins"),
        ("holds", "`data`, `wal` or `data wal`"),
        ("filesystem", "its kind"),
        ("device", "what is mounted there"),
    ])
    .metrics(&[
        gauge("size", "bytes", "of the filesystem"),
        gauge("free", "bytes", "of these, for programs that are not root's"),
        gauge("files_free", "count", "files that can still be made"),
    ]);

const NETWORK: Source =
    Source::host("network", "`/proc/net/dev`").labels(&[("interface", "its name")]).sparse().metrics(&[
        amount("received", "bytes", "received"),
        amount("sent", "bytes", "sent"),
        amount("packets_received", "count", "packets received"),
        amount("packets_sent", "count", "packets sent"),
        amount("errors", "count", "packets that were broken, in and out"),
        amount("drops", "count", "packets for which there was no room, in and out"),
    ]);

const TCP: Source = Source::host("tcp", "`/proc/net/snmp`, `/proc/net/netstat`").metrics(&[
    gauge("established", "count", "connections"),
    amount("segments_sent", "count", "segments sent, those sent again left out"),
    amount("retransmitted", "count", "segments sent again"),
    amount("timeouts", "count", "retransmission timeouts"),
    amount("listen_drops", "count", "connections refused because a queue of new ones was full"),
]);

const CGROUP: Source =
    Source::host("cgroup", "the server's control group, version 2 or 1; the probe's own when no server was named")
        .metrics(&[
            gauge(
                "cpu_limit",
                "count",
                "cores that it may use: the lowest limit of the group and those above it; absent without one",
            ),
            amount("cpu", "us", "CPU time used"),
            amount("throttled", "us", "time for which the group with that limit had to wait because it was used up"),
            amount("throttled_periods", "count", "periods in which that happened"),
            gauge("memory_limit", "bytes", "the lowest of the group and those above it; absent without one"),
            gauge("memory", "bytes", "in use, page cache among it"),
            amount("memory_at_limit", "count", "times that memory had to be freed because its limit was reached"),
            amount("oom_kills", "count", "processes killed because there was none left"),
        ]);

const PROBE: Source = Source::probe("probe", "its own clocks and counters").metrics(&[
    amount("cpu", "us", "CPU time, user and system"),
    amount("written", "bytes", "of lines that it wrote"),
    gauge("resident", "bytes", "memory"),
    amount("queries", "count", "statements sent to the server"),
    amount("query_time", "us", "time from sending one to having its answer: no less than what it cost the server"),
    amount("server_cpu", "us", "CPU time of its session's process in the server; absent where that is not seen"),
    amount("late", "count", "samples that were left out because their time had passed"),
]);
