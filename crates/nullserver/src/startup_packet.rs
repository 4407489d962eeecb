//! The first packets of a connection: requests for encryption, cancels, the start of a session.

use std::ops::ControlFlow;

use crate::answers::Answers;
use crate::encode;
use crate::statement_error::Trouble;
use pgdyno_wire::SqlState;

const SSL_REQUEST: u32 = (1234 << 16) | 5679;
const GSSENC_REQUEST: u32 = (1234 << 16) | 5680;
const CANCEL_REQUEST: u32 = (1234 << 16) | 5678;
const PROTOCOL_VERSION: u32 = 3 << 16;
/// PostgreSQL's own limit.
const LONGEST_PACKET_BYTES: usize = 10_000;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Packet {
    NeedMore,
    /// A packet of this many bytes was answered, and another one follows.
    Answered(usize),
    /// The session has begun with a packet of this many bytes.
    Begun(usize),
    Close,
}

/// Processes one packet from the front of `input` for connection `number`.
pub(crate) fn take(input: &[u8], number: u32, answers: &Answers, out: &mut Vec<u8>) -> Packet {
    let Some((length, rest)) = split_u32(input) else {
        return Packet::NeedMore;
    };
    let length = length as usize;
    if !(8..=LONGEST_PACKET_BYTES).contains(&length) {
        return refuse(out, &protocol("invalid length of startup packet"));
    }
    let Some(packet) = rest.get(..length - 4) else {
        return Packet::NeedMore;
    };
    match split_u32(packet) {
        Some((SSL_REQUEST | GSSENC_REQUEST, _)) => {
            out.push(b'N');
            Packet::Answered(length)
        }
        // no statement runs that could be cancelled
        None | Some((CANCEL_REQUEST, _)) => Packet::Close,
        Some((version, settings)) => match begin(version, settings, out) {
            ControlFlow::Continue(()) => {
                answers.start_session(number, out);
                Packet::Begun(length)
            }
            ControlFlow::Break(trouble) => refuse(out, &trouble),
        },
    }
}

fn begin(version: u32, settings: &[u8], out: &mut Vec<u8>) -> ControlFlow<Trouble> {
    let (major, minor) = (version >> 16, version & 0xffff);
    if major != 3 {
        let text = format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0");
        return ControlFlow::Break(Trouble::new(SqlState::FEATURE_NOT_SUPPORTED, text));
    }
    let Some(options) = protocol_options(settings) else {
        let text = "invalid startup packet layout: expected terminator as last byte";
        return ControlFlow::Break(protocol(text));
    };
    if minor > 0 || !options.is_empty() {
        encode::message(out, b'v', |out| {
            out.extend_from_slice(&PROTOCOL_VERSION.to_be_bytes());
            out.extend_from_slice(&(options.len() as u32).to_be_bytes());
            options.iter().for_each(|name| encode::cstr(out, name));
        });
    }
    ControlFlow::Continue(())
}

/// Names of protocol options among the settings, none of which is known; None if these are not such pairs.
fn protocol_options(settings: &[u8]) -> Option<Vec<&[u8]>> {
    let mut options = Vec::new();
    let mut rest = settings;
    loop {
        let (name, tail) = split_cstr(rest)?;
        if name.is_empty() {
            return tail.is_empty().then_some(options);
        }
        if name.starts_with(b"_pq_.") {
            options.push(name);
        }
        (_, rest) = split_cstr(tail)?;
    }
}

fn protocol(text: &'static str) -> Trouble {
    Trouble::new(SqlState::PROTOCOL_VIOLATION, text)
}

fn refuse(out: &mut Vec<u8>, trouble: &Trouble) -> Packet {
    encode::error(out, "FATAL", trouble.code, &trouble.text);
    Packet::Close
}

/// Takes a big-endian number from the front.
#[inline]
pub(crate) fn split_u32(input: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = input.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*number), rest))
}

/// Takes a big-endian number from the front.
#[inline]
pub(crate) fn split_u16(input: &[u8]) -> Option<(u16, &[u8])> {
    let (number, rest) = input.split_first_chunk::<2>()?;
    Some((u16::from_be_bytes(*number), rest))
}

/// Takes text up to a zero byte from the front.
#[inline]
pub(crate) fn split_cstr(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = input.iter().position(|&byte| byte == 0)?;
    Some((&input[..end], &input[end + 1..]))
}
