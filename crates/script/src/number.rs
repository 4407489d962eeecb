//! Converts numbers to text and back, exactly as C's printf and strtod.

use std::io::Write;

/// Appends an integer in decimal. Written by hand because every parameter goes through it.
pub(crate) fn write_int(value: i64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        start -= 1;
        digits[start] = b'-';
    }
    out.extend_from_slice(&digits[start..]);
}

/// Appends a double with at most 15 significant digits, as printf's `%.15g`.
pub(crate) fn write_double(value: f64, out: &mut Vec<u8>) {
    if value.is_nan() {
        return out.extend_from_slice(b"NaN");
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    if value.is_infinite() {
        return out.extend_from_slice(b"Infinity");
    }
    let (digits, exponent) = fifteen_digits(value.abs());
    let significant = digits.iter().rposition(|d| *d != b'0').map_or(1, |last| last + 1);
    let digits = &digits[..significant];
    match exponent {
        -4..0 => {
            out.extend_from_slice(b"0.");
            out.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
            out.extend_from_slice(digits);
        }
        0..15 => {
            let whole = exponent as usize + 1;
            out.extend_from_slice(&digits[..whole.min(significant)]);
            out.extend(std::iter::repeat_n(b'0', whole.saturating_sub(significant)));
            if significant > whole {
                out.push(b'.');
                out.extend_from_slice(&digits[whole..]);
            }
        }
        _ => {
            out.push(digits[0]);
            if significant > 1 {
                out.push(b'.');
                out.extend_from_slice(&digits[1..]);
            }
            out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
            let magnitude = exponent.unsigned_abs();
            if magnitude < 10 {
                out.push(b'0');
            }
            write_int(i64::from(magnitude), out);
        }
    }
}

/// The 15 rounded decimal digits of a finite double, and the exponent of the first one.
fn fifteen_digits(value: f64) -> ([u8; 15], i32) {
    let mut buffer = [0u8; 32];
    let mut rest = &mut buffer[..];
    // d.dddddddddddddde[-]x has at most 22 bytes, so the write cannot fail.
    let _ = write!(rest, "{value:.14e}");
    let unused = rest.len();
    let text = &buffer[..buffer.len() - unused];
    let mut digits = [b'0'; 15];
    digits[0] = text[0];
    digits[1..].copy_from_slice(&text[2..16]);
    let exponent = std::str::from_utf8(&text[17..]).ok().and_then(|e| e.parse().ok()).unwrap_or(0);
    (digits, exponent)
}

/// A double in messages, as printf's `%f` formats it.
pub(crate) fn fixed(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value < 0.0 { "-Infinity".to_owned() } else { "Infinity".to_owned() }
    } else {
        format!("{value:.6}")
    }
}

/// Parses a whole text as strtod does (leading blanks, decimal, hexadecimal, inf, nan). None if characters are left
/// over, or if the number is out of range: too large, or so small that it loses precision.
pub(crate) fn parse_double(text: &[u8]) -> Option<f64> {
    let blanks = text.iter().take_while(|b| crate::value::is_space(**b)).count();
    let text = std::str::from_utf8(&text[blanks..]).ok()?;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if let Some(hex) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        let magnitude = parse_hex(hex)?;
        return Some(if text.starts_with('-') { -magnitude } else { magnitude });
    }
    let value: f64 = text.parse().ok()?;
    let named = unsigned.starts_with(|c: char| c.is_ascii_alphabetic());
    let mantissa = unsigned.split(['e', 'E']).next().unwrap_or("");
    let zero = !mantissa.bytes().any(|b| matches!(b, b'1'..=b'9'));
    (named || value.is_normal() || (value == 0.0 && zero)).then_some(value)
}

/// Parses hexadecimal digits, optionally with a point, and optionally `p` with a binary exponent.
fn parse_hex(text: &str) -> Option<f64> {
    let (mantissa, exponent) = match text.split_once(['p', 'P']) {
        Some((mantissa, exponent)) => {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            // Beyond this limit every result is out of range or zero.
            (mantissa, exponent.parse::<i64>().ok().filter(|e| e.abs() < 1 << 20)?)
        }
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.len() + fraction.len() == 0 {
        return None;
    }
    let mut sum = 0u64;
    let mut scale = exponent - 4 * fraction.len() as i64;
    for digit in whole.chars().chain(fraction.chars()) {
        let digit = u64::from(digit.to_digit(16)?);
        if sum >> 60 == 0 {
            sum = sum << 4 | digit;
        } else {
            // More digits than a double has: the lowest bit represents them in rounding.
            scale += 4;
            sum |= u64::from(digit != 0);
        }
    }
    let scale = i32::try_from(scale).ok()?;
    // Two steps, since the power alone may be out of range while the product is not.
    let value = sum as f64 * 2f64.powi(scale / 2) * 2f64.powi(scale - scale / 2);
    (value.is_normal() || sum == 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: f64) -> String {
        let mut out = Vec::new();
        write_double(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_written_as_by_printf() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-10.1, "-10.1"),
            (0.1 + 0.2, "0.3"),
            (123456789012345.0, "123456789012345"),
            (1234567890123456.0, "1.23456789012346e+15"),
            (999999999999999.9, "1e+15"),
            (100000.0, "100000"),
            (0.0001, "0.0001"),
            (0.00001234, "1.234e-05"),
            (1e100, "1e+100"),
            (8.507059173023462e37, "8.50705917302346e+37"),
            (5e-324, "4.94065645841247e-324"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(value), expected);
        }
        for value in [0, 7, -7, 10, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            write_int(value, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }

    #[test]
    fn doubles_as_strtod() {
        for (text, expected) in [
            ("1.5", Some(1.5)),
            (" \t-.5e1", Some(-5.0)),
            ("5.", Some(5.0)),
            ("1.e2", Some(100.0)),
            ("0e-999", Some(0.0)),
            ("1e400", None),
            ("1e-400", None),
            ("1e-310", None),
            ("1 ", None),
            ("1e", None),
            ("", None),
            ("infinity", Some(f64::INFINITY)),
            ("-inf", Some(f64::NEG_INFINITY)),
            ("0x1.8p1", Some(3.0)),
            ("-0X.8", Some(-0.5)),
            ("0x", None),
            ("0x1p", None),
            ("0x1p+-3", None),
            ("0x1p9999", None),
            ("0x1.00000000000008", Some(1.0)),
            ("0x1.000000000000080001", Some(1.0 + f64::EPSILON)),
        ] {
            assert_eq!(parse_double(text.as_bytes()), expected, "{text:?}");
        }
        assert!(parse_double(b"nan").unwrap().is_nan());
    }
}
