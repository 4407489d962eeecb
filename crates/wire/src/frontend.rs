//! The client's messages, appended to a buffer.
//!
//! After an error the buffer is unchanged.

use crate::error::EncodeError;

pub const PROTOCOL_VERSION: u32 = 3 << 16;
/// The code in place of a version that requests TLS.
pub const SSL_REQUEST: u32 = (1234 << 16) | 5679;
/// The code in place of a version that requests encryption by GSSAPI.
pub const GSSENC_REQUEST: u32 = (1234 << 16) | 5680;
/// The code in place of a version that cancels a query.
pub const CANCEL_REQUEST: u32 = (1234 << 16) | 5678;

pub type Encoded = Result<(), EncodeError>;

/// StartupMessage: names and values, such as `user` and `database`.
///
/// # Errors
/// A name or a value holds a zero byte.
pub fn startup<'a>(out: &mut Vec<u8>, params: impl IntoIterator<Item = (&'a str, &'a str)>) -> Encoded {
    write_message(out, None, |out| {
        out.extend_from_slice(&PROTOCOL_VERSION.to_be_bytes());
        for (name, value) in params {
            cstr(out, name)?;
            cstr(out, value)?;
        }
        out.push(0);
        Ok(())
    })
}

/// SSLRequest: the server answers with one byte, `S` or `N`.
pub fn ssl_request(out: &mut Vec<u8>) {
    out.extend_from_slice(&8u32.to_be_bytes());
    out.extend_from_slice(&SSL_REQUEST.to_be_bytes());
}

/// CancelRequest, for a connection of its own: the process and key of BackendKeyData.
///
/// # Errors
/// The key is too long.
pub fn cancel_request(out: &mut Vec<u8>, pid: u32, key: &[u8]) -> Encoded {
    write_message(out, None, |out| {
        out.extend_from_slice(&CANCEL_REQUEST.to_be_bytes());
        out.extend_from_slice(&pid.to_be_bytes());
        out.extend_from_slice(key);
        Ok(())
    })
}

/// PasswordMessage: the password, or its md5 answer.
///
/// # Errors
/// The password contains a zero byte.
pub fn password(out: &mut Vec<u8>, password: &[u8]) -> Encoded {
    write_message(out, Some(b'p'), |out| cstr_bytes(out, password))
}

/// SASLInitialResponse: the mechanism chosen and its first message.
///
/// # Errors
/// The mechanism contains a zero byte.
pub fn sasl_initial(out: &mut Vec<u8>, mechanism: &str, first: &[u8]) -> Encoded {
    write_message(out, Some(b'p'), |out| {
        cstr(out, mechanism)?;
        value(out, first)
    })
}

/// SASLResponse: a later message of the mechanism.
///
/// # Errors
/// The message is too long.
pub fn sasl_response(out: &mut Vec<u8>, message: &[u8]) -> Encoded {
    write_message(out, Some(b'p'), |out| {
        out.extend_from_slice(message);
        Ok(())
    })
}

/// Query: one or more statements in the simple protocol.
pub fn query(out: &mut Vec<u8>, sql: impl AsRef<[u8]>) -> Encoded {
    write_message(out, Some(b'Q'), |out| cstr_bytes(out, sql.as_ref()))
}

/// Parse: prepares a statement; `types` may name the types of fewer parameters than there are.
///
/// # Errors
/// A string contains a zero byte or is too long, or there are more than 65,535 types.
pub fn parse(out: &mut Vec<u8>, name: &str, sql: impl AsRef<[u8]>, types: &[u32]) -> Encoded {
    write_message(out, Some(b'P'), |out| {
        cstr(out, name)?;
        cstr_bytes(out, sql.as_ref())?;
        let count = u16::try_from(types.len()).map_err(|_| EncodeError::TooLong)?;
        out.extend_from_slice(&count.to_be_bytes());
        for oid in types {
            out.extend_from_slice(&oid.to_be_bytes());
        }
        Ok(())
    })
}

/// Bind: text parameters in, text results out; `None` is NULL.
///
/// # Errors
/// A name holds a zero byte, a value is too long, or there are more than 65,535 values.
pub fn bind<'a>(
    out: &mut Vec<u8>, portal: &str, statement: &str, params: impl IntoIterator<Item = Option<&'a [u8]>>,
) -> Encoded {
    write_message(out, Some(b'B'), |out| {
        bind_start(out, portal, statement)?;
        let count_at = out.len();
        let mut count: u16 = 0;
        out.extend_from_slice(&count.to_be_bytes());
        for param in params {
            count = count.checked_add(1).ok_or(EncodeError::TooLong)?;
            match param {
                Some(text) => value(out, text)?,
                None => out.extend_from_slice(&(-1i32).to_be_bytes()),
            }
        }
        out[count_at..count_at + 2].copy_from_slice(&count.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        Ok(())
    })
}

pub fn describe_portal(out: &mut Vec<u8>, name: &str) -> Encoded {
    write_named(out, b'D', b'P', name)
}

pub fn close_statement(out: &mut Vec<u8>, name: &str) -> Encoded {
    write_named(out, b'C', b'S', name)
}

/// Execute a portal; a `max_rows` of 0 means all rows.
pub fn execute(out: &mut Vec<u8>, portal: &str, max_rows: u32) -> Encoded {
    write_message(out, Some(b'E'), |out| {
        cstr(out, portal)?;
        out.extend_from_slice(&max_rows.to_be_bytes());
        Ok(())
    })
}

/// Sync: ends a pipeline segment; the server answers ReadyForQuery.
pub fn sync(out: &mut Vec<u8>) {
    bare(out, b'S');
}

pub fn terminate(out: &mut Vec<u8>) {
    bare(out, b'X');
}

/// CopyData: a part of the rows of a COPY; the parts need not end where rows do.
///
/// # Errors
/// The part is too long.
pub fn copy_data(out: &mut Vec<u8>, part: &[u8]) -> Encoded {
    write_message(out, Some(b'd'), |out| {
        out.extend_from_slice(part);
        Ok(())
    })
}

/// CopyDone: the end of the COPY stream.
pub fn copy_done(out: &mut Vec<u8>) {
    bare(out, b'c');
}

/// CopyFail: makes the COPY fail with this reason.
///
/// # Errors
/// The reason contains a zero byte.
pub fn copy_fail(out: &mut Vec<u8>, reason: &str) -> Encoded {
    write_message(out, Some(b'f'), |out| cstr(out, reason))
}

#[inline]
fn write_message(out: &mut Vec<u8>, kind: Option<u8>, body: impl FnOnce(&mut Vec<u8>) -> Encoded) -> Encoded {
    let start = out.len();
    out.extend(kind);
    let length_at = out.len();
    out.extend_from_slice(&[0; 4]);
    let done = body(out).and_then(|()| length(out.len() - length_at));
    match done {
        Ok(length) => {
            out[length_at..length_at + 4].copy_from_slice(&length);
            Ok(())
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

fn bare(out: &mut Vec<u8>, kind: u8) {
    out.extend_from_slice(&[kind, 0, 0, 0, 4]);
}

fn write_named(out: &mut Vec<u8>, kind: u8, object: u8, name: &str) -> Encoded {
    write_message(out, Some(kind), |out| {
        out.push(object);
        cstr(out, name)
    })
}

/// Appends the names of a Bind without format codes, because all parameters are text.
#[inline]
fn bind_start(out: &mut Vec<u8>, portal: &str, statement: &str) -> Encoded {
    cstr(out, portal)?;
    cstr(out, statement)?;
    out.extend_from_slice(&[0, 0]);
    Ok(())
}

#[inline]
fn cstr(out: &mut Vec<u8>, text: &str) -> Encoded {
    cstr_bytes(out, text.as_bytes())
}

#[inline]
fn cstr_bytes(out: &mut Vec<u8>, text: &[u8]) -> Encoded {
    if text.contains(&0) {
        return Err(EncodeError::ZeroByte);
    }
    out.extend_from_slice(text);
    out.push(0);
    Ok(())
}

#[inline]
fn value(out: &mut Vec<u8>, bytes: &[u8]) -> Encoded {
    out.extend_from_slice(&length(bytes.len())?);
    out.extend_from_slice(bytes);
    Ok(())
}

#[inline]
fn length(bytes: usize) -> Result<[u8; 4], EncodeError> {
    i32::try_from(bytes).map(i32::to_be_bytes).map_err(|_| EncodeError::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(encode: impl FnOnce(&mut Vec<u8>) -> Encoded) -> Vec<u8> {
        let mut out = b"before".to_vec();
        encode(&mut out).expect("encodable");
        out.split_off(6)
    }

    #[test]
    fn messages_have_the_documented_bytes() {
        let mut bare = Vec::new();
        sync(&mut bare);
        terminate(&mut bare);
        copy_done(&mut bare);
        ssl_request(&mut bare);
        assert_eq!(bare, b"S\0\0\0\x04X\0\0\0\x04c\0\0\0\x04\0\0\0\x08\x04\xd2\x16\x2f");
        let params = [Some(&b"12"[..]), None, Some(b"")];
        let cases: [(Vec<u8>, &[u8]); 12] = [
            (
                encoded(|o| bind(o, "p", "s", params)),
                b"B\0\0\0\x1cp\0s\0\0\0\0\x03\0\0\0\x0212\xff\xff\xff\xff\0\0\0\0\0\0",
            ),
            (encoded(|o| startup(o, [("user", "a")])), b"\0\0\0\x10\0\x03\0\0user\0a\0\0"),
            (
                encoded(|o| cancel_request(o, 7, b"\x01\x02\x03\x04")),
                b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x07\x01\x02\x03\x04",
            ),
            (encoded(|o| query(o, "a")), b"Q\0\0\0\x06a\0"),
            (encoded(|o| password(o, b"pw")), b"p\0\0\0\x07pw\0"),
            (encoded(|o| sasl_initial(o, "X", b"ab")), b"p\0\0\0\x0cX\0\0\0\0\x02ab"),
            (encoded(|o| sasl_response(o, b"ab")), b"p\0\0\0\x06ab"),
            (encoded(|o| parse(o, "s", "q", &[23])), b"P\0\0\0\x0es\0q\0\0\x01\0\0\0\x17"),
            (encoded(|o| describe_portal(o, "")), b"D\0\0\0\x06P\0"),
            (encoded(|o| close_statement(o, "s")), b"C\0\0\0\x07Ss\0"),
            (encoded(|o| execute(o, "", 2)), b"E\0\0\0\x09\0\0\0\0\x02"),
            (encoded(|o| copy_fail(o, "r")), b"f\0\0\0\x06r\0"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(bytes, expected);
        }
        // what cannot be encoded leaves the buffer alone
        let mut out = b"before".to_vec();
        assert_eq!(query(&mut out, "a\0b"), Err(EncodeError::ZeroByte));
        assert_eq!(startup(&mut out, [("user", "a\0database\0b")]), Err(EncodeError::ZeroByte));
        assert_eq!(bind(&mut out, "", "s", std::iter::repeat_n(None, 65_536)), Err(EncodeError::TooLong));
        assert_eq!(parse(&mut out, "", "", &[0; 65_536]), Err(EncodeError::TooLong));
        assert_eq!(out, b"before");
    }
}
