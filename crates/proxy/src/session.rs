//! A session between a client and the server: what one side sends goes to the other one.

use std::io;
use std::os::fd::AsFd;

use pgdyno_connect::Stream;
use pgdyno_wire::Parts;
use rustix::event::epoll::EventFlags;

use crate::record::Reason;
use crate::requests::{startup_settings, text};
use crate::tracker::Tracker;

/// Longest message before a session begins.
const LONGEST_BEFORE: usize = 64 * 1024;
const AUTHENTICATION_OK: u32 = 0;
const SASL: u32 = 10;
const BOUND: &[u8] = b"-PLUS";
pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;

/// What opens a session, from the thread that accepted it.
#[derive(Debug)]
pub struct Opened {
    pub client: Stream,
    pub server: Stream,
    /// The startup packet.
    pub startup: Vec<u8>,
    pub at: i64,
}

#[derive(Debug)]
struct End {
    stream: Stream,
    /// Bytes that did not fit into the socket.
    unsent: Vec<u8>,
    /// Whether the other side has closed.
    is_closed: bool,
    /// Whether it takes no more bytes; it may still send some.
    is_broken: bool,
}

#[derive(Debug)]
enum Phase {
    /// The server has not accepted the client yet; what it sends is kept until it is whole.
    Before {
        kept: Vec<u8>,
        has_removed: bool,
    },
    Running,
}

#[derive(Debug)]
pub struct Session {
    pub number: u64,
    pub user: String,
    pub database: String,
    pub tracker: Tracker,
    /// Whether the client was told that its authentication cannot pass.
    pub is_refused: bool,
    ends: [End; 2],
    phase: Phase,
}

impl Session {
    pub fn new(opened: Opened, number: u64, keeps_copy: bool) -> Self {
        let settings = startup_settings(&opened.startup);
        let setting = |name: &str| settings.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone());
        let user = setting("user").unwrap_or_default();
        let replication =
            setting("replication").is_some_and(|value| !matches!(&*value, "" | "false" | "off" | "no" | "0"));
        let mut tracker = Tracker::new(setting("application_name").unwrap_or_default(), keeps_copy, opened.at);
        if replication {
            tracker.lose(Reason::Replication);
        }
        let end = |stream, unsent| End { stream, unsent, is_closed: false, is_broken: false };
        Session {
            number,
            database: setting("database").filter(|name| !name.is_empty()).unwrap_or_else(|| user.clone()),
            user,
            tracker,
            is_refused: false,
            ends: [end(opened.client, Vec::new()), end(opened.server, opened.startup)],
            phase: Phase::Before { kept: Vec::new(), has_removed: false },
        }
    }

    pub fn socket(&self, end: usize) -> impl AsFd {
        &self.ends[end].stream
    }

    /// The events to wait for at an end: it is not read while the other one takes no more bytes.
    pub fn interest(&self, end: usize) -> EventFlags {
        let mut events = EventFlags::empty();
        events.set(EventFlags::IN, !self.ends[1 - end].has_unsent() && !self.ends[end].is_closed);
        events.set(EventFlags::OUT, self.ends[end].has_unsent());
        events
    }

    /// Passes on what `from` has sent, as far as the other end takes it.
    pub fn pass(&mut self, from: usize, buffer: &mut [u8], now: impl Fn() -> i64) {
        loop {
            if !self.ends[1 - from].flush() || self.ends[from].is_closed {
                return;
            }
            match self.ends[from].stream.try_recv(buffer) {
                Ok(0) => self.ends[from].is_closed = true,
                Ok(bytes) => {
                    let received = &buffer[..bytes];
                    if from == CLIENT {
                        self.client_sent(received, now())
                    } else {
                        self.server_sent(received, now())
                    }
                    // decrypted bytes that remain raise no event
                    if bytes < buffer.len() && !self.ends[from].stream.is_encrypted() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.ends[from].is_closed = true,
            }
        }
    }

    /// Whether nothing more can pass.
    pub fn has_ended(&self) -> bool {
        self.is_refused
            || self.ends[CLIENT].is_broken
            || (self.ends[CLIENT].is_closed && !self.ends[SERVER].has_unsent())
            || (self.ends[SERVER].is_closed && !self.ends[CLIENT].has_unsent())
    }

    /// Tells the client why the session ends, if it can take that at once.
    pub fn say(&mut self, sqlstate: &str, message: &str) {
        let text = fatal(sqlstate, message);
        self.ends[CLIENT].send(&text);
    }

    fn client_sent(&mut self, bytes: &[u8], now: i64) {
        if let Phase::Before { has_removed: true, .. } = self.phase
            && expects_binding(bytes)
        {
            self.say(
                "28000",
                "the proxy cannot pass on SCRAM that is bound to the channel\0Hset channel_binding=disable, or \
                 sslmode=disable towards the proxy",
            );
            self.is_refused = true;
            return;
        }
        self.ends[SERVER].send(bytes);
        self.tracker.client_sent(bytes, now);
    }

    fn server_sent(&mut self, bytes: &[u8], now: i64) {
        let Phase::Before { kept, has_removed } = &mut self.phase else {
            self.ends[CLIENT].send(bytes);
            self.tracker.server_sent(bytes, now);
            return;
        };
        kept.extend_from_slice(bytes);
        let mut at = 0;
        let mut is_over = false;
        let mut out = Vec::new();
        while let (false, Some((message, code))) = (is_over, first_message(&kept[at..])) {
            at += message.len();
            match code {
                Some(SASL) => {
                    let shorter = without_bound(message);
                    // the mechanism is bound to the server's certificate, which the client does not see
                    *has_removed |= shorter.len() < message.len();
                    out.extend_from_slice(&shorter);
                }
                code => {
                    out.extend_from_slice(message);
                    is_over = code == Some(AUTHENTICATION_OK);
                }
            }
        }
        let rest = kept.split_off(at);
        is_over |= rest.len() > LONGEST_BEFORE;
        *kept = rest;
        if is_over {
            let rest = std::mem::take(kept);
            self.phase = Phase::Running;
            out.extend_from_slice(&rest);
            self.tracker.server_sent(&rest, now);
        }
        self.ends[CLIENT].send(&out);
    }
}

impl End {
    fn has_unsent(&self) -> bool {
        !self.is_broken && (!self.unsent.is_empty() || self.stream.has_unsent())
    }

    /// Sends what did not fit before; returns whether all of it did.
    fn flush(&mut self) -> bool {
        if !self.unsent.is_empty() {
            let waiting = std::mem::take(&mut self.unsent);
            self.send(&waiting);
        }
        if !self.is_broken && self.stream.try_flush().is_err() {
            self.is_broken = true;
        }
        !self.has_unsent()
    }

    fn send(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.is_broken {
            match self.stream.try_send(bytes) {
                Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.unsent.extend_from_slice(bytes);
                    return;
                }
                Err(_) => self.is_broken = true,
            }
        }
    }
}

/// An ErrorResponse of severity FATAL; the message may have further fields after it.
pub fn fatal(sqlstate: &str, message: &str) -> Vec<u8> {
    let fields = format!("SFATAL\0VFATAL\0C{sqlstate}\0M{message}\0\0");
    let mut out = vec![b'E'];
    out.extend_from_slice(&(fields.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(fields.as_bytes());
    out
}

/// The first message, if it is whole, and the code of a request for authentication.
fn first_message(bytes: &[u8]) -> Option<(&[u8], Option<u32>)> {
    let (header, body) = bytes.split_at_checked(5)?;
    let length = Parts(&header[1..]).u32()?;
    let body = body.get(..length.checked_sub(4)? as usize)?;
    let code = if header[0] == b'R' { Parts(body).u32() } else { None };
    Some((&bytes[..5 + body.len()], code))
}

/// AuthenticationSASL without the mechanisms that are bound to the channel.
fn without_bound(message: &[u8]) -> Vec<u8> {
    let mut parts = Parts(message.get(9..).unwrap_or_default());
    let mut body = SASL.to_be_bytes().to_vec();
    while let Some(name) = parts.cstr().filter(|name| !name.is_empty()) {
        if !name.ends_with(BOUND) {
            body.extend_from_slice(name);
            body.push(0);
        }
    }
    body.push(0);
    let mut out = vec![b'R'];
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(&body);
    out
}

/// Whether a SASLInitialResponse says that its client could bind to the channel: the server refuses it then, because
/// somebody may have removed the mechanism.
fn expects_binding(bytes: &[u8]) -> bool {
    let mut parts = Parts(bytes.get(5..).unwrap_or_default());
    bytes.first() == Some(&b'p')
        && parts.cstr().is_some_and(|name| text(name).starts_with("SCRAM-"))
        && parts.value().flatten().is_some_and(|first| first.starts_with(b"y"))
}
