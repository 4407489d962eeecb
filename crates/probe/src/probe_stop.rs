//! When the probe ends: at a signal, without its parent (`parent`), or without its reader (`output`).

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pgdyno_connect::Interrupt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Ends all threads; clones share the state.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    changed: Arc<(Mutex<()>, Condvar)>,
}

impl Stop {
    pub fn now(&self) {
        let (lock, changed) = &*self.changed;
        // the lock is held so that no thread is between checking the flag and waiting
        let held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.flag.store(true, Ordering::Relaxed);
        drop(held);
        changed.notify_all();
    }

    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Sleeps until `instant`, or until the probe ends; returns whether it has ended.
    pub fn sleep_until(&self, instant: Instant) -> bool {
        let (lock, changed) = &*self.changed;
        let mut held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = instant.saturating_duration_since(Instant::now());
            if self.is_set() || left.is_zero() {
                return self.is_set();
            }
            held = match changed.wait_timeout(held, left) {
                Ok((held, _)) => held,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// Ends waits for a server when the probe ends.
    pub fn interrupt(&self) -> Interrupt {
        Interrupt::by(Arc::clone(&self.flag))
    }

    /// Ends waits for a server after this time.
    pub fn within(time: Duration) -> Interrupt {
        let flag = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&flag);
        // the thread is not joined: it ends with the process
        drop(thread::spawn(move || {
            thread::sleep(time);
            set.store(true, Ordering::Relaxed);
        }));
        Interrupt::by(flag)
    }

    /// Ends the probe at SIGINT, SIGTERM and SIGHUP. The second signal kills the process.
    pub fn at_signals(&self) -> io::Result<()> {
        let ending = [SIGINT, SIGTERM, SIGHUP];
        for signal in ending {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&self.flag))?;
        }
        let mut signals = Signals::new(ending)?;
        let stop = self.clone();
        thread::Builder::new().name("signals".into()).spawn(move || {
            for _ in &mut signals {
                stop.now();
            }
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_ends_when_it_is_over() {
        let stop = Stop::default();
        let began = Instant::now();
        assert!(!stop.sleep_until(began + Duration::from_millis(20)));
        let other = stop.clone();
        let sleeper = thread::spawn(move || other.sleep_until(began + Duration::from_secs(60)));
        stop.now();
        assert!(sleeper.join().expect("no panic"));
        assert!(began.elapsed() < Duration::from_secs(50));
    }
}
