//! The server's messages from fuzzed bytes: mostly well-formed, so that they reach deep states.

use arbitrary::{Result, Unstructured};

/// Types of messages after start-up; those with the most effect occur often.
pub const RUNNING: &[u8] = b"ZZZCDTEENSGHWIs123ntAVdcRKv";
/// How many messages there are for each one with a wrong length, a broken body or an unknown type.
const SELDOM: u16 = 24;

/// Appends a message of one of these types.
pub fn message(u: &mut Unstructured<'_>, kinds: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let kind = if u.ratio(1, SELDOM)? { u.arbitrary()? } else { *u.choose(kinds)? };
    let mut body = body(u, kind)?;
    if u.ratio(1, SELDOM)? {
        body.truncate(u.int_in_range(0..=body.len())?);
        body.extend_from_slice(few_bytes(u, 3)?);
    }
    let at = out.len();
    framed(kind, &body, out);
    if u.ratio(1, SELDOM)? {
        let length: u32 = u.arbitrary()?;
        out[at + 1..at + 5].copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}

/// Appends a well-formed message of one of these types.
#[allow(dead_code, reason = "not everybody who includes this file needs it")]
pub fn sound_message(u: &mut Unstructured<'_>, kinds: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let kind = *u.choose(kinds)?;
    framed(kind, &body(u, kind)?, out);
    Ok(())
}

/// Appends a message with the correct length.
pub fn framed(kind: u8, body: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(body);
}

pub fn few_bytes<'a>(u: &mut Unstructured<'a>, most: usize) -> Result<&'a [u8]> {
    let length = u.int_in_range(0..=most)?.min(u.len());
    u.bytes(length)
}

fn body(u: &mut Unstructured<'_>, kind: u8) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    match kind {
        b'Z' => body.push(*u.choose(b"IIITE")?),
        b'C' => {
            let tags = ["SELECT 1", "INSERT 0 1", "BEGIN", "COPY 0", ""];
            string(u.choose(&tags)?.as_bytes(), &mut body);
        }
        b'D' => row(u, &mut body)?,
        b'T' => description(u, &mut body)?,
        b'E' | b'N' => fields(u, &mut body)?,
        b'S' => {
            let names = ["server_version", "in_hot_standby", "TimeZone"];
            match u.arbitrary()? {
                true => string(u.choose(&names)?.as_bytes(), &mut body),
                false => string(few_bytes(u, 4)?, &mut body),
            }
            string(few_bytes(u, 6)?, &mut body);
        }
        b'R' => {
            body.extend_from_slice(&u.int_in_range(0..=13u32)?.to_be_bytes());
            body.extend_from_slice(few_bytes(u, 6)?);
        }
        b'K' => body.extend_from_slice(few_bytes(u, 12)?),
        b'G' | b'H' | b'W' => body.extend_from_slice(&[0, 0, 0]),
        b'I' | b's' | b'1' | b'2' | b'3' | b'n' | b'c' => {}
        _ => body.extend_from_slice(few_bytes(u, 10)?),
    }
    Ok(body)
}

fn string(text: &[u8], body: &mut Vec<u8>) {
    body.extend(text.iter().filter(|&&byte| byte != 0));
    body.push(0);
}

fn row(u: &mut Unstructured<'_>, body: &mut Vec<u8>) -> Result<()> {
    let columns = u.int_in_range(0..=3u16)?;
    body.extend_from_slice(&columns.to_be_bytes());
    for _ in 0..columns {
        if u.ratio(1, 4)? {
            body.extend_from_slice(&[0xff; 4]);
            continue;
        }
        let value = few_bytes(u, 5)?;
        body.extend_from_slice(&(value.len() as u32).to_be_bytes());
        body.extend_from_slice(value);
    }
    Ok(())
}

fn description(u: &mut Unstructured<'_>, body: &mut Vec<u8>) -> Result<()> {
    let columns = u.int_in_range(0..=3u16)?;
    body.extend_from_slice(&columns.to_be_bytes());
    for _ in 0..columns {
        match u.arbitrary()? {
            true => string(u.choose(&["a", "b", "balance", "1a", ""])?.as_bytes(), body),
            false => string(few_bytes(u, 3)?, body),
        }
        body.extend_from_slice(&[0; 18]);
    }
    Ok(())
}

fn fields(u: &mut Unstructured<'_>, body: &mut Vec<u8>) -> Result<()> {
    let severities = ["ERROR", "FATAL", "NOTICE", "PANIC"];
    let codes = ["40001", "40P01", "23505", "57P01", "4000", "\u{e9}"];
    for _ in 0..u.int_in_range(0..=5)? {
        let field = *u.choose(b"SVCCMMDHPpqWstcdnFLRz")?;
        body.push(field);
        match field {
            b'S' | b'V' => string(u.choose(&severities)?.as_bytes(), body),
            b'C' => string(u.choose(&codes)?.as_bytes(), body),
            b'P' | b'p' => {
                let position: u32 = if u.arbitrary()? { u.int_in_range(0..=40)? } else { u.arbitrary()? };
                string(position.to_string().as_bytes(), body);
            }
            _ => string(few_bytes(u, 12)?, body),
        }
    }
    body.push(0);
    Ok(())
}
