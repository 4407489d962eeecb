//! `--proxy`: relays sessions, and records them.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use pgdyno_connect::{Acceptor, parent_process};
use pgdyno_proxy::{Control, Options, Summary};
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::database_setup::resolve_params;
use crate::exit::{Exit, refuse};
use crate::messages::{Failure, Messages};
use crate::options::{ProxyChoice, ProxyTls};

/// Relays until a signal, and then until all sessions have ended; a second signal ends those that are idle, and soon all.
pub fn run(choice: &ProxyChoice, messages: &Messages) -> Exit {
    relay(choice, messages).unwrap_or_else(|failure| refuse(&failure, messages))
}

fn relay(choice: &ProxyChoice, messages: &Messages) -> Result<Exit, Failure> {
    let params = resolve_params(&choice.connection, messages)?;
    let acceptor = match &choice.tls {
        ProxyTls::Refused => None,
        ProxyTls::New => Some(Acceptor::self_signed(choice.listen.ip()).map_err(Failure::new)?),
        ProxyTls::File(path) => Some(Acceptor::from_file(path).map_err(Failure::new)?),
    };
    let signalled = Arc::new(AtomicBool::new(false));
    let signal = Arc::new(AtomicUsize::new(0));
    for number in [SIGINT, SIGTERM, SIGHUP] {
        let registered = signal_hook::flag::register(number, Arc::clone(&signalled))
            .and_then(|_| signal_hook::flag::register_usize(number, Arc::clone(&signal), number as usize));
        registered.map_err(|error| Failure::new(format!("could not handle signals: {error}")))?;
    }
    let is_orphan = Arc::new(AtomicBool::new(false));
    let (tell, lines) = channel();
    if choice.parent_lease {
        let flag = Arc::clone(&is_orphan);
        let watched = parent_process::watch(
            io::stdin(),
            None,
            move || flag.store(true, Ordering::Relaxed),
            move |line| drop(tell.send(line.to_owned())),
        );
        watched.map_err(|error| Failure::new(format!("could not watch standard input: {error}")))?;
    }
    let mut signals = 0;
    let control = || {
        signals += u32::from(signalled.swap(false, Ordering::Relaxed));
        match (signals, is_orphan.load(Ordering::Relaxed)) {
            (2.., _) | (_, true) => Control::Hurry,
            (1, _) => Control::Stop,
            _ if lines.try_iter().any(|line: String| line == "end recording") => Control::EndRecording,
            _ => Control::Continue,
        }
    };
    let options = Options {
        listen: choice.listen,
        params,
        acceptor,
        record: choice.record.clone(),
        keeps_copy: choice.keeps_copy,
    };
    let begun = |address| print(&json!({"event": "listening", "address": format!("{address}")}));
    let summary = pgdyno_proxy::run(options, control, begun, |summary| print(&event("relaying", summary)));
    let summary = summary.map_err(Failure::new)?;
    print(&event("end", &summary));
    if let Some(failure) = &summary.failure {
        messages.error(format!("the recording ended early: {failure}"));
        return Ok(Exit::Unwritten);
    }
    Ok(match signal.load(Ordering::Relaxed) {
        0 => Exit::Well,
        signal => Exit::Signalled(signal as i32),
    })
}

fn event(name: &str, summary: &Summary) -> Value {
    let mut event = json!(summary);
    event["event"] = name.into();
    event
}

fn print(line: &Value) {
    // a reader that has gone does not end sessions
    let _ = writeln!(io::stdout(), "{line}");
}
