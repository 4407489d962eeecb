//! Invariants for every server. The fuzz targets call it with fuzzed bytes, and the tests below
//! with every file of their corpora.

pub mod messages;
mod scram_server;

use std::fmt::Write;

use arbitrary::{Result, Unstructured};
use zeroize::Zeroizing;

use crate::scram::FIXED_NONCE;
use crate::startup::{MAX_NOTICES, MAX_PARAMETERS};
use crate::{Capture, Exchange, Progress, Reply, Startup, StartupParams};
use scram_server::ScramServer;

/// How much larger buffers may be than what was sent: bytes kept between messages, and spare capacity.
const SPARE_BYTES: usize = 128 * 1024;
/// Streams up to this length are cut at every position.
const CUT_EVERYWHERE_BYTES: usize = 160;
/// The query to which errors refer.
const QUERY: &str = "select a,\r\n\tb from \"t\u{e9}t\" where id = :id";
/// Types of messages during start-up.
const STARTUP: &[u8] = b"RRRRSKvNEZ";
/// A nonce with the usual length.
const NONCE: &str = "fyko+d2lbbFgONRv9qkxdawL";
const PASSWORD: &[u8] = b"pencil";

/// Checks replies after start-up: the first byte chooses what is reported, the pieces, and whether
/// the rest is the stream itself or a recipe for one.
pub fn exchange(data: &[u8]) {
    let Some((&mode, rest)) = data.split_first() else { return };
    let stream = if mode & 1 == 0 { rest.to_vec() } else { running(&mut Unstructured::new(rest)) };
    let whole = replies(mode, [&stream[..]]);
    for size in [1, usize::from(mode >> 3) + 2] {
        assert_eq!(replies(mode, stream.chunks(size)), whole, "in pieces of {size}");
    }
    if stream.len() <= CUT_EVERYWHERE_BYTES {
        for at in 1..stream.len() {
            let (before, after) = stream.split_at(at);
            assert_eq!(replies(mode, [before, after]), whole, "cut at {at}");
        }
    }
}

fn running(u: &mut Unstructured<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    while !u.is_empty() && messages::message(u, messages::RUNNING, &mut out).is_ok() {}
    out
}

fn replies<'a>(mode: u8, chunks: impl IntoIterator<Item = &'a [u8]>) -> String {
    let capture = if mode & 2 == 0 { Capture::None } else { Capture::Rows };
    let mut exchange = Exchange::new(capture, mode & 4 != 0);
    let mut said = String::new();
    let mut received_bytes = 0;
    for chunk in chunks {
        received_bytes += chunk.len();
        let mut input = chunk;
        loop {
            let before = input.len();
            match exchange.next(&mut input) {
                Ok(Some(reply)) => {
                    assert!(input.len() < before, "a reply without input: {reply:?}");
                    write!(said, "{reply:?};").expect("a String takes everything");
                    if let Reply::Error(error) | Reply::Notice(error) = reply {
                        said += &error.display_with_query(QUERY);
                    }
                }
                Ok(None) => break,
                Err(error) => return format!("{said} {error:?}: {error}"),
            }
        }
        assert!(input.is_empty(), "input was left behind");
        assert!(exchange.buffer_bytes() <= 2 * received_bytes + SPARE_BYTES);
    }
    format!("{said} boundary: {}", exchange.at_boundary())
}

/// Checks the start of a session, from a recipe for what the server sends, including SCRAM's messages.
pub fn startup(data: &[u8]) {
    FIXED_NONCE.set(Some(NONCE));
    let whole = start(data, usize::MAX);
    for size in [1, 3, 16] {
        assert_eq!(start(data, size), whole, "in pieces of {size}");
    }
    FIXED_NONCE.set(None);
}

fn start(data: &[u8], chunk_bytes: usize) -> String {
    let mut u = Unstructured::new(data);
    let mut params = StartupParams { user: "alice".to_owned(), ..StartupParams::default() };
    if u.arbitrary().unwrap_or(true) {
        params.password = Some(Zeroizing::new(PASSWORD.to_vec()));
    }
    let mut startup = Startup::new(params);
    let mut out = Vec::new();
    startup.first(&mut out).expect("no zero byte in it");
    let mut server = ScramServer::default();
    while !u.is_empty() {
        let Ok(bytes) = step(&mut u, &mut server, &out) else { break };
        for chunk in bytes.chunks(chunk_bytes) {
            let mut input = chunk;
            let fed = startup.feed(&mut input, &mut out);
            let facts = startup.facts();
            assert!(facts.notices.len() <= MAX_NOTICES);
            assert!(facts.parameters.len() <= MAX_PARAMETERS);
            match fed {
                Ok(Progress::NeedMore) => assert!(input.is_empty(), "input was left behind"),
                Ok(ready) => return format!("{ready:?} {:?} {facts:?}", startup.method()),
                Err(error) => return format!("{error:?}: {error} {:?}", startup.method()),
            }
        }
        assert!(out.len() < SPARE_BYTES, "a start has few messages of ours, all short");
    }
    format!("more {} {:?}", out.len(), startup.facts())
}

fn step(u: &mut Unstructured<'_>, server: &mut ScramServer, got: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match u.int_in_range(0..=9)? {
        0..=3 => messages::message(u, STARTUP, &mut bytes)?,
        4 => messages::framed(b'R', &[0; 4], &mut bytes),
        5 => messages::framed(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0", &mut bytes),
        6 => messages::framed(b'R', &server.first(u, got)?, &mut bytes),
        7 => messages::framed(b'R', &server.last(u, got)?, &mut bytes),
        8 => messages::message(u, b"ESKZ", &mut bytes)?,
        _ => bytes.extend_from_slice(messages::few_bytes(u, 16)?),
    }
    Ok(bytes)
}

#[cfg(test)]
#[path = "../../../fuzz/corpus.rs"]
mod corpus;

#[test]
fn the_corpora() {
    corpus::replay("exchange", exchange);
    corpus::replay("startup", startup);
}

#[test]
fn a_recipe_can_go_through_scram() {
    // password; SASL; first; last; ok; ready
    let done = start(&[1, 5, 6, 1, 2, b's', b'1', 1, 3, 1, 7, 1, 4, 8, 1, 3, 0, 1, 1], 1);
    assert!(done.starts_with("Ready(Idle) Some(ScramSha256)"), "{done}");
}
