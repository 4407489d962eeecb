//! Durations with units, in the format that plans use, too.

use std::time::Duration;

const UNITS: [(&str, f64); 7] =
    [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("min", 60.0), ("h", 3600.0), ("d", 86_400.0)];

/// Longer than any load, and short enough for the engine's clock.
pub const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// Parses a duration: `500us`, `10s`, `1m30s`, `1.5h`; None if it is invalid.
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut sum_s = 0.0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..number_end].parse().ok()?;
        let unit_on = rest[number_end..].trim_start();
        let unit_end = unit_on.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit_on.len());
        let (_, unit_s) = UNITS.iter().find(|(name, _)| *name == &unit_on[..unit_end])?;
        sum_s += number * unit_s;
        rest = unit_on[unit_end..].trim_start();
    }
    // rounded to nanoseconds, because 0.1 has no finite binary form
    let sum = Duration::try_from_secs_f64((sum_s * 1e9).round() / 1e9).ok()?;
    (sum <= LONGEST).then_some(sum)
}

/// Formats a duration in a suitable unit: `500us`, `1.5ms`, `10s`.
pub fn format(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 1e-3 {
        format!("{}us", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{}ms", seconds * 1e3)
    } else {
        format!("{seconds}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, ms) in [
            ("1ms", 1.0),
            ("500us", 0.5),
            ("10s", 10_000.0),
            (" 1m30s ", 90_000.0),
            ("1.5 h", 5_400_000.0),
            ("2min", 120_000.0),
        ] {
            assert_eq!(parse(text), Some(Duration::from_secs_f64(ms / 1e3)), "{text}");
        }
        for text in ["", "10", "s", "1x", "-1s", "1.2.3s", "1e3s", "9999d"] {
            assert_eq!(parse(text), None, "{text}");
        }
        // they are written as they are read
        for text in ["500us", "1ms", "1.5ms", "2s", "2.25s"] {
            assert_eq!(parse(text).map(format).as_deref(), Some(text));
        }
    }
}
