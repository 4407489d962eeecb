//! Sets up an io_uring for a load, or explains why it is not available.

use std::io;
use std::thread;
use std::time::Duration;

use io_uring::IoUring;
use rustix::io::Errno;

use super::buffers::Buffers;

/// How many requests one system call submits at most; others wait for the next call.
const BATCH: usize = 1024;
/// How often a ring is tried without memory for it, and the time between: the kernel releases that of
/// rings that were closed, such as those of a trial, some time later.
const MOST_TRIES: usize = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);
/// How many buffers there are; what finds none of them free is received with the next call.
const BUFFERS: usize = 256;

/// Makes a ring with a table for the files of this many `connections`, and its buffers. The buffers
/// have to outlive every request of the ring that selects from them.
pub fn ring(connections: usize) -> io::Result<(IoUring, Buffers)> {
    let mut tries = 1;
    loop {
        let made = try_ring(connections);
        let has_no_memory = |error: &io::Error| error.raw_os_error() == Some(Errno::NOMEM.raw_os_error());
        if tries == MOST_TRIES || !made.as_ref().is_err_and(has_no_memory) {
            return made.map_err(explain);
        }
        tries += 1;
        thread::sleep(BETWEEN_TRIES);
    }
}

fn try_ring(connections: usize) -> io::Result<(IoUring, Buffers)> {
    let files = u32::try_from(connections.max(1)).map_err(io::Error::other)?;
    let entries = connections.next_power_of_two().clamp(8, BATCH);
    // every send may fail, every buffer may be filled, and every receive may end: one batch has
    // room for all of that, so that no completion is delayed by a batch
    let completions = (entries + BUFFERS + connections).next_power_of_two();
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_coop_taskrun()
        .setup_defer_taskrun()
        .setup_submit_all()
        .setup_clamp()
        .setup_cqsize(completions as u32)
        .build(entries as u32)?;
    let mut buffers = Buffers::new(BUFFERS as u16)?;
    ring.submitter().register_files_sparse(files)?;
    // SAFETY: the ring has no request; from here on the caller is responsible for it.
    unsafe { buffers.register(&ring.submitter()) }?;
    Ok((ring, buffers))
}

/// Explains why io_uring does not work here.
pub fn explain(error: io::Error) -> io::Error {
    let reason = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSYS) => "the kernel has none, or a seccomp profile forbids it",
        Some(Errno::PERM | Errno::ACCESS) => "kernel.io_uring_disabled or a seccomp profile forbids it",
        Some(Errno::INVAL) => "it needs Linux 6.1",
        Some(Errno::NOMEM) => "perhaps the limit of locked memory (ulimit -l) is too low",
        Some(Errno::MFILE) => "the limit of open files (ulimit -n) is too low",
        _ => "it is needed for --io=io_uring",
    };
    io::Error::new(error.kind(), format!("could not set up io_uring: {error}; {reason}"))
}
