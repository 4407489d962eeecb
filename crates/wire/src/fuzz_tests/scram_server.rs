//! The server's side of SCRAM from fuzzed bytes: correct most of the time, so that the client's last steps are reached.

use std::borrow::Cow;

use arbitrary::{Result, Unstructured};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::{PASSWORD, messages};
use crate::scram::{MAX_ITERATIONS, server_signature};

/// Comes before the nonce in the client's first message, without a user's name.
const BARE: &str = "n=,r=";
/// Comes before the nonce in the client's last message, without channel binding.
const ANSWER: &str = "c=biws,r=";
const NONCE_CHARS: usize = 24;
const FIRST: &[u8] = &[0, 0, 0, 11];
const LAST: &[u8] = &[0, 0, 0, 12];

/// The parts of the messages so far that the signature needs.
#[derive(Default)]
pub struct ScramServer {
    first: String,
    salt: Vec<u8>,
    iterations: u32,
}

impl ScramServer {
    /// The body of AuthenticationSASLContinue.
    pub fn first(&mut self, u: &mut Unstructured<'_>, got: &[u8]) -> Result<Vec<u8>> {
        if u.ratio(1, 16)? {
            return Ok([FIRST, messages::few_bytes(u, 24)?].concat());
        }
        let nonce = nonce(got);
        self.salt = messages::few_bytes(u, 6)?.to_vec();
        // so many that they are refused, or few enough for a fast answer
        let counts = if u.ratio(1, 8)? { MAX_ITERATIONS + 1..=u32::MAX } else { 0..=9 };
        self.iterations = u.int_in_range(counts)?;
        let added = match u.ratio(1, 8)? {
            true => String::from_utf8_lossy(messages::few_bytes(u, 4)?).into_owned(),
            false => "server".to_owned(),
        };
        let (salt, count) = (BASE64.encode(&self.salt), self.iterations);
        self.first = format!("r={nonce}{added},s={salt},i={count}");
        Ok([FIRST, self.first.as_bytes()].concat())
    }

    /// The body of AuthenticationSASLFinal.
    pub fn last(&mut self, u: &mut Unstructured<'_>, got: &[u8]) -> Result<Vec<u8>> {
        if u.ratio(1, 8)? || self.iterations > MAX_ITERATIONS {
            return Ok([LAST, messages::few_bytes(u, 24)?].concat());
        }
        let text = String::from_utf8_lossy(got);
        let bare = format!("{BARE}{}", nonce(got));
        let answer = text.rsplit_once(ANSWER).map_or("", |(_, answer)| answer);
        let nonce = answer.split(",p=").next().unwrap_or_default();
        let exchange = format!("{bare},{},{ANSWER}{nonce}", self.first);
        let signature = server_signature(PASSWORD, &self.salt, self.iterations, exchange.as_bytes());
        Ok([LAST, b"v=", BASE64.encode(signature).as_bytes()].concat())
    }
}

fn nonce(got: &[u8]) -> Cow<'_, str> {
    let found = got.windows(BARE.len()).position(|window| window == BARE.as_bytes());
    let start = found.map_or(got.len(), |at| at + BARE.len());
    let rest = got.get(start..).unwrap_or_default();
    String::from_utf8_lossy(&rest[..rest.len().min(NONCE_CHARS)])
}
