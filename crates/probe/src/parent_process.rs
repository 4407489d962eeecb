//! The probe's parent, at the other end of standard input: it requests the clock, and the probe
//! ends with it.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::probe_stop::Stop;

/// How long threads may take to end after the lease has run out: one may be blocked by a pipe that
/// nothing reads.
const GRACE: Duration = Duration::from_secs(5);

/// Ends the probe when `input` closes, or when no line has arrived for the time of `lease`; passes
/// each line to `on_line`.
///
/// # Errors
/// The system refuses a thread.
pub fn watch(
    input: impl Read + Send + 'static,
    lease: Option<Duration>,
    stop: &Stop,
    on_line: impl Fn(&str) + Send + 'static,
) -> io::Result<()> {
    let (renew, renewed) = mpsc::channel();
    let ending = stop.clone();
    thread::Builder::new().name("parent".into()).spawn(move || {
        let mut input = BufReader::new(input);
        let mut line = Vec::new();
        while matches!(input.read_until(b'\n', &mut line), Ok(bytes) if bytes > 0) {
            on_line(String::from_utf8_lossy(&line).trim());
            line.clear();
            // without a lease, there is no receiver
            let _ = renew.send(());
        }
        ending.now();
    })?;
    let Some(lease) = lease else { return Ok(()) };
    let stop = stop.clone();
    thread::Builder::new().name("lease".into()).spawn(move || {
        if runs_out(&renewed, lease) {
            stop.now();
            thread::sleep(GRACE);
            std::process::exit(1);
        }
    })?;
    Ok(())
}

/// Returns true when no line arrived for that time, and false when the sender has ended.
fn runs_out(renewed: &Receiver<()>, lease: Duration) -> bool {
    loop {
        match renewed.recv_timeout(lease) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn lines_are_heard_and_the_end_of_input_is_the_end() {
        let stop = Stop::default();
        let (sender, lines) = mpsc::channel();
        let input = io::Cursor::new(b"clock 1\n\nclock 2".to_vec());
        watch(input, None, &stop, move |line| {
            let _ = sender.send(line.to_owned());
        })
        .expect("a thread");
        assert!(stop.sleep_until(Instant::now() + Duration::from_secs(60)));
        assert_eq!(lines.iter().collect::<Vec<_>>(), ["clock 1", "", "clock 2"]);
    }

    #[test]
    fn a_lease_lasts_as_long_as_it_is_renewed() {
        let (renew, said) = mpsc::channel();
        renew.send(()).expect("it is open");
        assert!(runs_out(&said, Duration::from_millis(1)));
        drop(renew);
        assert!(!runs_out(&said, Duration::from_secs(60)));
    }
}
