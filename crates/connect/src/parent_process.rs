//! The process that started this one, at the other end of standard input: this process ends with it.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How long threads may take to end after the lease has run out: one may be blocked by a pipe that nothing reads.
const GRACE: Duration = Duration::from_secs(4);

/// Calls `stop` when `input` closes, and when no line has arrived for the time of `lease`: then the process ends soon,
/// whatever it does. Passes each line to `on_line`.
///
/// # Errors
/// The system refuses a thread.
pub fn watch(
    input: impl Read + Send + 'static, lease: Option<Duration>, stop: impl Fn() + Clone + Send + 'static,
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
        ending();
    })?;
    let Some(lease) = lease else { return Ok(()) };
    thread::Builder::new().name("lease".into()).spawn(move || {
        if runs_out(&renewed, lease) {
            stop();
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

    #[test]
    fn lines_are_passed_on_and_the_end_of_input_is_the_end() {
        let ((end, ended), (sender, lines)) = (mpsc::channel(), mpsc::channel());
        let input = io::Cursor::new(b"clock 1\n\nclock 2".to_vec());
        let stop = move || {
            let _ = end.send(());
        };
        let on_line = move |line: &str| {
            let _ = sender.send(line.to_owned());
        };
        watch(input, None, stop, on_line).expect("a thread");
        assert!(ended.recv_timeout(Duration::from_secs(60)).is_ok());
        assert_eq!(lines.iter().collect::<Vec<_>>(), ["clock 1", "", "clock 2"]);
        // a lease lasts as long as it is renewed
        let (renew, renewed) = mpsc::channel();
        renew.send(()).expect("it is open");
        assert!(runs_out(&renewed, Duration::from_millis(1)));
        drop(renew);
        assert!(!runs_out(&renewed, Duration::from_secs(60)));
    }
}
