//! An io_uring as the load wants it, or why there is none.

use std::io;

use io_uring::IoUring;
use rustix::io::Errno;

use super::buffers::Buffers;

/// Requests that one system call submits at most; more wait for the next.
const BATCH: usize = 1024;
/// Buffers: at least, at most.
const BUFFERS: (usize, usize) = (256, 1024);

/// A ring with a table for the files of this many `connections`, and its buffers. They have to
/// outlive every request of the ring that selects from them.
///
/// # Errors
/// When the kernel has no io_uring, one that lacks something, or forbids it.
pub fn ring(connections: usize) -> io::Result<(IoUring, Buffers)> {
    let files = u32::try_from(connections.max(1)).map_err(io::Error::other)?;
    let entries = connections.next_power_of_two().clamp(8, BATCH);
    let count = connections.next_power_of_two().clamp(BUFFERS.0, BUFFERS.1);
    // every send may fail, every buffer may be filled, every receive may end: one batch has
    // room for all, so that no completion comes a batch late
    let completions = (entries + count + connections).next_power_of_two();
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_coop_taskrun()
        .setup_defer_taskrun()
        .setup_submit_all()
        .setup_clamp()
        .setup_cqsize(completions as u32)
        .build(entries as u32)
        .map_err(explain)?;
    let mut buffers = Buffers::new(count as u16)?;
    ring.submitter()
        .register_files_sparse(files)
        .map_err(explain)?;
    // SAFETY: the ring has no request; from here on the caller answers for it.
    unsafe { buffers.register(&ring.submitter()) }.map_err(explain)?;
    Ok((ring, buffers))
}

/// Why there is no io_uring here.
pub fn explain(error: io::Error) -> io::Error {
    let reason = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSYS) => "the kernel has none, or a seccomp profile forbids it",
        Some(Errno::PERM | Errno::ACCESS) => {
            "kernel.io_uring_disabled or a seccomp profile forbids it"
        }
        Some(Errno::INVAL) => "it needs Linux 6.1",
        Some(Errno::NOMEM) => "perhaps the limit of locked memory (ulimit -l) is too low",
        Some(Errno::MFILE) => "the limit of open files (ulimit -n) is too low",
        _ => "it is needed for --io=io_uring",
    };
    io::Error::new(
        error.kind(),
        format!("could not set up io_uring: {error}; {reason}"),
    )
}
