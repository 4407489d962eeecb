//! Hand-written encodings of the server's messages.
#![allow(dead_code, reason = "each test file uses a part of it")]

/// A message with type, length and body.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend_from_slice(&u32::try_from(body.len() + 4).expect("short").to_be_bytes());
    out.extend_from_slice(body);
    out
}

/// A DataRow.
pub fn row(values: &[Option<&[u8]>]) -> Vec<u8> {
    let mut body = u16::try_from(values.len()).expect("few").to_be_bytes().to_vec();
    for value in values {
        match value {
            Some(text) => {
                body.extend_from_slice(&u32::try_from(text.len()).expect("short").to_be_bytes());
                body.extend_from_slice(text);
            }
            None => body.extend_from_slice(&[0xff; 4]),
        }
    }
    message(b'D', &body)
}

/// A RowDescription with one text column.
pub fn description(name: &str) -> Vec<u8> {
    let mut body = vec![0, 1];
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(b"\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0");
    message(b'T', &body)
}

/// ReadyForQuery.
pub fn ready(status: u8) -> Vec<u8> {
    message(b'Z', &[status])
}

/// An AuthenticationRequest.
pub fn auth(code: u32, data: &[u8]) -> Vec<u8> {
    message(b'R', &[&code.to_be_bytes(), data].concat())
}
