//! Encodes the server's messages.

use pgdyno_wire::{SqlState, TxStatus};

/// Appends type and length, and lets `body` append the rest.
pub fn message(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[kind, 0, 0, 0, 0]);
    body(out);
    // every message here is shorter than a received one, whose length is limited
    let length = (out.len() - start - 1) as u32;
    out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
}

/// Appends a message without a body.
#[inline]
pub fn bare(out: &mut Vec<u8>, kind: u8) {
    out.extend_from_slice(&[kind, 0, 0, 0, 4]);
}

/// Appends text with a terminating zero byte.
pub fn cstr(out: &mut Vec<u8>, text: impl AsRef<[u8]>) {
    out.extend_from_slice(text.as_ref());
    out.push(0);
}

#[inline]
pub fn complete(out: &mut Vec<u8>, tag: &str) {
    message(out, b'C', |out| cstr(out, tag));
}

#[inline]
pub fn ready(out: &mut Vec<u8>, status: TxStatus) {
    let status = match status {
        TxStatus::Idle => b'I',
        TxStatus::InBlock => b'T',
        TxStatus::Failed => b'E',
    };
    out.extend_from_slice(&[b'Z', 0, 0, 0, 5, status]);
}

/// Appends an ErrorResponse; `severity` is ERROR, or FATAL before the connection ends.
pub fn error(out: &mut Vec<u8>, severity: &str, code: SqlState, text: &str) {
    message(out, b'E', |out| {
        for (field, value) in [(b'S', severity), (b'V', severity), (b'C', code.as_str()), (b'M', text)] {
            out.push(field);
            cstr(out, value);
        }
        out.push(0);
    });
}
