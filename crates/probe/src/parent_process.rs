//! What started the probe, at the other end of standard input: asks for the clock, and is outlived by nobody.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::probe_stop::Stop;

/// How long threads may take to end when the lease has run out: one may be kept by a pipe that nobody empties.
const GRACE: Duration = Duration::from_secs(5);

/// Over when `input` ends, and when no line has come for as long as `lease` says; each line goes to `on_line`.
///
/// # Errors
/// When the system refuses a thread.
pub fn watch(
    input: impl Read + Send + 'static,
    lease: Option<Duration>,
    stop: &Stop,
    on_line: impl Fn(&str) + Send + 'static,
) -> io::Result<()> {
    let (heard, said) = mpsc::channel();
    let ending = stop.clone();
    thread::Builder::new()
        .name("parent".into())
        .spawn(move || {
            let mut input = BufReader::new(input);
            let mut line = Vec::new();
            while matches!(input.read_until(b'\n', &mut line), Ok(bytes) if bytes > 0) {
                on_line(String::from_utf8_lossy(&line).trim());
                line.clear();
                // nobody listens without a lease
                let _ = heard.send(());
            }
            ending.now();
        })?;
    let Some(lease) = lease else { return Ok(()) };
    let stop = stop.clone();
    thread::Builder::new().name("lease".into()).spawn(move || {
        if runs_out(&said, lease) {
            stop.now();
            thread::sleep(GRACE);
            std::process::exit(1);
        }
    })?;
    Ok(())
}

/// Returns true when nothing was said for so long, false when nobody is left to say anything.
fn runs_out(said: &Receiver<()>, lease: Duration) -> bool {
    loop {
        match said.recv_timeout(lease) {
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
        let (heard, lines) = mpsc::channel();
        let input = io::Cursor::new(b"clock 1\n\nclock 2".to_vec());
        watch(input, None, &stop, move |line| {
            let _ = heard.send(line.to_owned());
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
