//! Waits for the instant at which several generators begin, which their parent sends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pgdyno_engine::clock::{Clock, Nanos};

/// Time between two checks whether the load is to stop.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The load was stopped, or its parent has ended.
    Interrupted,
    /// Another reason, as a message.
    Because(String),
}

/// The instant in a line "start EPOCH", with EPOCH in microseconds since 1970 on this host's wall
/// clock; other lines are ignored.
///
/// # Errors
/// The load is stopped in the meantime, or the instant has passed: a generator that begins later
/// than the others would make the load look slower than it is.
pub fn awaited(lines: &Receiver<String>, clock: Clock, stop: &AtomicBool) -> Result<Nanos, Refusal> {
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Refusal::Interrupted);
        }
        let line = match lines.recv_timeout(LOOK) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Err(Refusal::Interrupted),
        };
        if let Some(text) = line.strip_prefix("start ") {
            let epoch_us = text
                .trim()
                .parse()
                .map_err(|_| Refusal::Because(format!("invalid start instant: \"{}\"", text.trim())))?;
            return on_clock(epoch_us, clock);
        }
    }
}

fn on_clock(epoch_us: u64, clock: Clock) -> Result<Nanos, Refusal> {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = clock.now();
    let ahead = Duration::from_micros(epoch_us).checked_sub(wall);
    match ahead {
        Some(ahead) => Ok(now + ahead.as_nanos() as Nanos),
        None => {
            let ago = wall.saturating_sub(Duration::from_micros(epoch_us));
            Err(Refusal::Because(format!("the start instant was {:.3} s ago when it was received", ago.as_secs_f64())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn epoch_us() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).expect("later than 1970").as_micros() as u64
    }

    #[test]
    fn the_wall_clocks_instant_becomes_the_engines() {
        let (say, received) = channel();
        let clock = Clock::start();
        say.send("alive\n".to_owned()).expect("it is open");
        say.send(format!("start {}\n", epoch_us() + 3_600_000_000)).expect("it is open");
        let before = clock.now();
        let at = awaited(&received, clock, &AtomicBool::new(false)).expect("an instant");
        let hour = 3_600_000_000_000;
        assert!(at >= before + hour - 1_000_000 && at <= clock.now() + hour);
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        let ask = |lines: &[String], is_stopped| {
            let (say, received) = channel();
            for line in lines {
                say.send(line.clone()).expect("it is open");
            }
            drop(say);
            awaited(&received, Clock::start(), &AtomicBool::new(is_stopped))
        };
        assert_eq!(ask(&[], false), Err(Refusal::Interrupted));
        let later = format!("start {}\n", epoch_us() + 1_000_000);
        assert_eq!(ask(&[later], true), Err(Refusal::Interrupted));
        for (line, complaint) in [
            ("start soon\n".to_owned(), "invalid start instant: \"soon\""),
            (format!("start {}", epoch_us() - 2_000_000), "s ago"),
        ] {
            match ask(&[line], false) {
                Err(Refusal::Because(why)) => assert!(why.contains(complaint), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
