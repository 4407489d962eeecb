//! Runs jobs over several sessions in parallel, and reports their progress.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::load_error::LoadError;

/// Time between two reports about the jobs.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Starts a thread for each of `sessions`, which takes the next of `jobs` until there are none;
/// calls `look` ten times a second, and once when all are done.
///
/// # Errors
/// The error of the first failed job in order. Running jobs are completed, so that their work is
/// not lost; no other is begun.
pub(crate) fn at_once<S: Send, J: Sync>(
    sessions: Vec<S>, jobs: &[J], work: impl Fn(&mut S, &J) -> Result<(), LoadError> + Sync, mut look: impl FnMut(),
) -> Result<(), LoadError> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let (ended, ends) = channel();
    let mut first: Option<(usize, LoadError)> = None;
    thread::scope(|scope| {
        for mut session in sessions.into_iter().take(jobs.len()) {
            let (ended, next, failed, work) = (ended.clone(), &next, &failed, &work);
            scope.spawn(move || {
                while !failed.load(Ordering::Relaxed) {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(place) else {
                        break;
                    };
                    if let Err(error) = work(&mut session, job) {
                        failed.store(true, Ordering::Relaxed);
                        // the receiver lives until all threads have ended
                        let _ = ended.send((place, error));
                    }
                }
            });
        }
        drop(ended);
        loop {
            match ends.recv_timeout(LOOK_EVERY) {
                Ok((place, error)) => {
                    if first.as_ref().is_none_or(|(before, _)| place < *before) {
                        first = Some((place, error));
                    }
                }
                Err(RecvTimeoutError::Timeout) => look(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    look();
    first.map_or(Ok(()), |(_, error)| Err(error))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn every_job_is_done_once() {
        for sessions in [1, 2, 7] {
            let done = Mutex::new(Vec::new());
            let jobs: Vec<u32> = (0..100).collect();
            let work = |_: &mut (), job: &u32| {
                done.lock().expect("no panic").push(*job);
                Ok(())
            };
            let mut looks = 0;
            at_once(vec![(); sessions], &jobs, work, || looks += 1).expect("no failure");
            let mut done = done.into_inner().expect("no panic");
            done.sort_unstable();
            assert_eq!(done, jobs);
            assert!(looks > 0);
        }
    }

    #[test]
    fn the_first_failure_in_order_is_told_and_no_job_begun_after_it() {
        // neither job ends before both have begun
        let begun = std::sync::Barrier::new(2);
        let work = |_: &mut (), job: &u64| {
            begun.wait();
            std::thread::sleep(Duration::from_millis(20 * (2 - job)));
            Err(LoadError::NotResumable(job.to_string()))
        };
        let error = at_once(vec![(); 2], &[0, 1], work, || ()).expect_err("a failure");
        assert_eq!(error.to_string(), "could not resume the load: 0");
        let begun = AtomicUsize::new(0);
        let work = |_: &mut (), job: &u32| {
            begun.fetch_add(1, Ordering::Relaxed);
            if *job == 3 {
                return Err(LoadError::NotResumable("third".into()));
            }
            Ok(())
        };
        let jobs: Vec<u32> = (0..100).collect();
        let error = at_once(vec![(); 1], &jobs, work, || ()).expect_err("a failure");
        assert_eq!(error.to_string(), "could not resume the load: third");
        assert_eq!(begun.into_inner(), 4);
    }
}
