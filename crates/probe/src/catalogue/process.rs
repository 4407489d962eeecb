//! Sources that Linux reports about the server's processes.

use super::{Source, amount, gauge};

pub(super) const SOURCES: &[&Source] = &[&PROCESS, &PROCESSES];

const PROCESS: Source = Source::host(
    "process",
    "`/proc/PID/stat`, `schedstat`, `io`, `cmdline` of the postmaster and its children; \
                of client backends the busiest (`--processes`)",
)
.labels(&[
    ("pid", "its process"),
    ("kind", "checkpointer, walwriter, autovacuum worker, io worker, client backend and so on"),
    ("user, database, client", "of a client backend"),
    ("activity", "what the title says besides: a command, `idle in transaction`, a table"),
    ("state", "R runs or could, S sleeps, D waits for a device"),
])
.sparse()
.counted_from_zero()
.metrics(&[
    amount("cpu", "us", "CPU time"),
    amount("system", "us", "of these in the kernel; counted in ticks of 10 ms"),
    amount("run_wait", "us", "time for which it could have run and no core was free"),
    amount("read", "bytes", "fetched from devices"),
    amount("written", "bytes", "made dirty in the page cache, in whole folios, or written to devices without it"),
    amount("read_calls", "bytes", "through read calls, page cache among it"),
    amount("written_calls", "bytes", "through write calls, sockets among it"),
    amount("faults", "count", "page faults without I/O"),
    amount("major_faults", "count", "page faults with I/O"),
]);

const PROCESSES: Source = Source::host("processes", "the same files, all processes of a kind together")
    .labels(&[("kind", "as in `process`")])
    .sparse()
    .counted_from_zero()
    .metrics(&[
        gauge("number", "count", "how many there are"),
        gauge("running", "count", "of these in state R"),
        gauge("waiting", "count", "of these in state D"),
        amount("cpu", "us", "CPU time"),
        amount("system", "us", "of these in the kernel"),
        amount("run_wait", "us", "time for which they could have run and no core was free"),
        amount("read", "bytes", "fetched from devices"),
        amount("written", "bytes", "made dirty in the page cache, in whole folios, or written to devices without it"),
        amount("read_calls", "bytes", "through read calls"),
        amount("written_calls", "bytes", "through write calls"),
        amount("faults", "count", "page faults without I/O"),
        amount("major_faults", "count", "page faults with I/O"),
    ]);
