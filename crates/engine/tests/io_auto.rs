//! The choice of the poller where the system has room for some rings, and not for one of every worker.

use pgdyno_engine::poller::{PollerKind, choose};
use pgdyno_engine::spec::Io;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn all_workers_have_the_poller_that_each_of_them_can_have() {
    let open_files = std::fs::read_dir("/proc/self/fd").expect("this is Linux").count() as u64;
    let limit = Rlimit { current: Some(open_files + 20), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).expect("it becomes lower");
    assert_eq!(choose(Io::Epoll, 1, 8).ok(), Some(PollerKind::Epoll));
    assert_eq!(choose(Io::Auto, 4, 8).ok(), Some(choose(Io::IoUring, 1, 8).unwrap_or(PollerKind::Epoll)));
    assert_eq!(choose(Io::Auto, 64, 8).ok(), Some(PollerKind::Epoll));
    let error = choose(Io::IoUring, 64, 8).expect_err("there are too few files");
    assert!(error.to_string().starts_with("could not set up io_uring: "), "{error}");
}
