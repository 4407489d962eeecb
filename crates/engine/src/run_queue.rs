//! How long a thread was ready to run but had no core.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::clock::Nanos;

/// The run-queue statistics of the thread that opened them.
#[derive(Debug)]
pub struct RunQueue {
    /// None where the kernel does not keep statistics.
    file: Option<File>,
}

impl RunQueue {
    pub fn of_this_thread() -> Self {
        Self { file: File::open("/proc/thread-self/schedstat").ok() }
    }

    /// Time in a run queue since the thread began; None where the kernel does not report it.
    pub fn waited(&self) -> Option<Nanos> {
        let mut text = [0; 64];
        let length = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        parse_waited(text.get(..length)?)
    }
}

fn parse_waited(text: &[u8]) -> Option<Nanos> {
    let text = std::str::from_utf8(text).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_figure_is_the_wait() {
        assert_eq!(parse_waited(b"89235 2624432 1\n"), Some(2_624_432));
        assert_eq!(parse_waited(b"89235"), None);
        assert_eq!(parse_waited(b"\xff \xff"), None);
        // waiting does not go back
        let queue = RunQueue::of_this_thread();
        let first = queue.waited();
        std::thread::yield_now();
        // a kernel without these statistics never has them
        assert_eq!(first.is_some(), queue.waited().is_some());
        assert!(queue.waited() >= first);
    }
}
