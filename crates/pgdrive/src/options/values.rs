//! Values of options, read and refused in pgbench's words.

use std::num::IntErrorKind;
use std::ops::RangeInclusive;
use std::time::Duration;

use pgdyno_dataset::Step;
use pgdyno_dataset::pgbench::Method;
use pgdyno_engine::schedule::Spacing;
use pgdyno_engine::spec::{Io, Tries};
use pgdyno_script::QueryMode;

use super::{Origin, ScramKeys, ScriptChoice, Seed};
use crate::called_as::CalledAs;
use crate::durations;
use crate::messages::Failure;

pub(super) const I32: i64 = i32::MAX as i64;

/// Starts a second (-R): up to one a nanosecond, which is what the engine's clock tells apart.
const RATES_PER_S: RangeInclusive<f64> = 1e-9..=1e9;

/// Milliseconds of -L: from one nanosecond to the longest load (-T).
const LATENCY_LIMITS_MS: RangeInclusive<f64> = 1e-6..=I32 as f64 * 1e3;

pub(super) fn whole(text: &str, option: &str, least: i64, most: i64) -> Result<i64, Failure> {
    let trimmed = text.trim();
    let value = match trimmed.parse::<i64>() {
        Ok(value) => Some(value),
        // a whole number that is wider than the type is out of range, not malformed
        Err(error) => match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => None,
            _ => {
                let message = format!("invalid value \"{text}\" for option {option}");
                return Err(Failure::new(message));
            }
        },
    };
    value
        .filter(|value| (least..=most).contains(value))
        .ok_or_else(|| Failure::new(format!("{option} must be in range {least}..{most}")))
}

/// Whole seconds as pgbench has them, or decimals, which it refuses.
pub(super) fn seconds(text: &str, option: &str) -> Result<Duration, Failure> {
    let duration = seconds_from(text, option, 1)?;
    if duration.is_zero() {
        return Err(Failure::new(format!("{option} must be in range 1..{I32}")));
    }
    Ok(duration)
}

/// Likewise, or 0.
pub(super) fn seconds_or_none(text: &str, option: &str) -> Result<Duration, Failure> {
    seconds_from(text, option, 0)
}

/// `least` is what the error names as the lower limit.
fn seconds_from(text: &str, option: &str, least: i64) -> Result<Duration, Failure> {
    let invalid = || Failure::new(format!("invalid value \"{text}\" for option {option}"));
    let seconds: f64 = text.trim().parse().map_err(|_| invalid())?;
    if seconds < 0.0 || seconds > I32 as f64 {
        return Err(Failure::new(format!(
            "{option} must be in range {least}..{I32}"
        )));
    }
    // not a number is neither below nor above
    Duration::try_from_secs_f64(seconds).map_err(|_| invalid())
}

/// -R
pub(super) fn rate_per_s(text: &str, called_as: CalledAs) -> Result<f64, Failure> {
    let hint = "Give transactions per second, from 1e-9 to 1e9.";
    within(text, "invalid rate limit", RATES_PER_S, (called_as, hint))
}

/// -L
pub(super) fn latency_limit(text: &str, called_as: CalledAs) -> Result<Duration, Failure> {
    let complaint = "invalid latency limit";
    let hint = format!("Give milliseconds, from 1e-6 to {I32}000.");
    let limit_ms = within(text, complaint, LATENCY_LIMITS_MS, (called_as, &hint))?;
    Duration::try_from_secs_f64(limit_ms / 1e3)
        .map_err(|_| Failure::new(format!("{complaint}: \"{text}\"")).hint(hint))
}

/// A number within `range`. Where pgbench refuses it too, its own words have no hint.
fn within(
    text: &str,
    complaint: &str,
    range: RangeInclusive<f64>,
    (called_as, hint): (CalledAs, &str),
) -> Result<f64, Failure> {
    let value = text.trim().parse::<f64>().unwrap_or(f64::NAN);
    if range.contains(&value) {
        return Ok(value);
    }
    let failure = Failure::new(format!("{complaint}: \"{text}\""));
    let pgbench_takes_it = value > 0.0;
    if called_as == CalledAs::Pgdrive || pgbench_takes_it {
        return Err(failure.hint(hint));
    }
    Err(failure)
}

pub(super) fn sampling_rate(text: &str, called_as: CalledAs) -> Result<f64, Failure> {
    let failure = || Failure::new(format!("invalid sampling rate: \"{text}\""));
    match (text.trim().parse::<f64>(), called_as) {
        (Ok(rate), _) if rate > 0.0 && rate <= 1.0 => Ok(rate),
        (_, CalledAs::Pgbench) => Err(failure()),
        (_, CalledAs::Pgdrive) => Err(failure().hint("Give a share above 0 and up to 1.")),
    }
}

pub(super) fn protocol(text: &str) -> Result<QueryMode, Failure> {
    match text {
        "simple" => Ok(QueryMode::Simple),
        "extended" => Ok(QueryMode::Extended),
        "prepared" => Ok(QueryMode::Prepared),
        _ => Err(Failure::new(format!("invalid query mode (-M): \"{text}\""))),
    }
}

pub(super) fn io(text: &str) -> Result<Io, Failure> {
    match text {
        "auto" => Ok(Io::Auto),
        "epoll" => Ok(Io::Epoll),
        "io_uring" => Ok(Io::IoUring),
        _ => Err(
            Failure::new(format!("invalid I/O method (--io): \"{text}\""))
                .hint("Valid methods are \"auto\", \"epoll\" and \"io_uring\"."),
        ),
    }
}

pub(super) fn scram_keys(text: &str) -> Result<ScramKeys, Failure> {
    match text {
        "on" => Ok(ScramKeys::Kept),
        "off" => Ok(ScramKeys::Derived),
        _ => Err(
            Failure::new(format!("invalid value of --scram-cache: \"{text}\""))
                .hint("Valid values are \"on\" and \"off\"."),
        ),
    }
}

pub(super) fn arrivals(text: &str) -> Result<Spacing, Failure> {
    match text {
        "poisson" => Ok(Spacing::Poisson),
        "regular" => Ok(Spacing::Regular),
        _ => Err(
            Failure::new(format!("invalid arrivals (--arrivals): \"{text}\""))
                .hint("Valid arrivals are \"poisson\" and \"regular\"."),
        ),
    }
}

pub(super) fn timer_tick(text: &str) -> Result<Duration, Failure> {
    let tick = durations::parse(text);
    let allowed = Duration::from_micros(1)..=Duration::from_secs(1);
    tick.filter(|tick| allowed.contains(tick)).ok_or_else(|| {
        Failure::new(format!("invalid value \"{text}\" for option --timer-tick"))
            .hint("Give a time from 1us to 1s with its unit, such as \"1ms\" or \"500us\".")
    })
}

pub(super) fn tries(text: &str, called_as: CalledAs) -> Result<Tries, Failure> {
    let failure = || Failure::new(format!("invalid number of maximum tries: \"{text}\""));
    match (text.trim().parse::<u32>(), called_as) {
        (Ok(0), _) => Ok(Tries::Unlimited),
        (Ok(most), _) => Ok(Tries::AtMost(most)),
        (Err(_), CalledAs::Pgbench) => Err(failure()),
        (Err(_), CalledAs::Pgdrive) => {
            let most = u32::MAX;
            Err(failure().hint(format!("Give a whole number from 0 (no limit) to {most}.")))
        }
    }
}

pub(super) fn definition(text: &str) -> Result<(String, String), Failure> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(Failure::new(format!(
            "invalid variable definition: \"{text}\""
        ))),
    }
}

pub(super) fn script(text: &str, origin: fn(String) -> Origin) -> Result<ScriptChoice, Failure> {
    let Some((name, weight)) = text.rsplit_once('@') else {
        return Ok(ScriptChoice {
            origin: origin(text.to_owned()),
            weight: 1,
        });
    };
    let number: i64 = weight
        .parse()
        .map_err(|_| Failure::new(format!("invalid weight specification: @{weight}")))?;
    let weight = u32::try_from(number)
        .ok()
        .filter(|&weight| i64::from(weight) <= I32)
        .ok_or_else(|| {
            Failure::new(format!(
                "weight specification out of range (0 .. {I32}): {number}"
            ))
        })?;
    Ok(ScriptChoice {
        origin: origin(name.to_owned()),
        weight,
    })
}

/// Number of a generator, from 0, and of how many.
pub(super) fn part(text: &str) -> Result<(usize, usize), Failure> {
    let numbers = text
        .split_once('/')
        .and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
    match numbers {
        Some((number, of)) if (1..=of).contains(&number) => Ok((number - 1, of)),
        _ => Err(Failure::new(format!("invalid part of a load: \"{text}\""))
            .hint("Write the number of this generator and how many there are, as 1/3, 2/3, 3/3.")),
    }
}

pub(super) fn shorthand(option: &str) -> ScriptChoice {
    let name = if option == "select-only" {
        "select-only"
    } else {
        "simple-update"
    };
    ScriptChoice {
        origin: Origin::Builtin(name.to_owned()),
        weight: 1,
    }
}

pub(super) fn seed(text: &str, source: &str) -> Result<Seed, Failure> {
    match text {
        "time" => Ok(Seed::Time),
        "rand" => Ok(Seed::Strong),
        _ => text.parse().map(Seed::Fixed).map_err(|_| {
            Failure::new(format!("unrecognized random seed option \"{text}\""))
                .detail("Expecting an unsigned integer, \"time\" or \"rand\".")
                .also(format!("error while setting random seed from {source}"))
        }),
    }
}

pub(super) fn steps(text: &str) -> Result<Vec<Step>, Failure> {
    if text.is_empty() {
        return Err(Failure::new("no initialization steps specified"));
    }
    let letters = text.chars().filter(|letter| *letter != ' ');
    let step = |letter| {
        Step::from_letter(letter).ok_or_else(|| {
            let failure = Failure::new(format!("unrecognized initialization step \"{letter}\""));
            let allowed = pgdyno_dataset::STEPS;
            failure.detail(format!("Allowed step characters are: \"{allowed}\"."))
        })
    };
    letters.map(step).collect()
}

pub(super) fn partition_method(text: &str) -> Result<Method, Failure> {
    let methods = [Method::Range, Method::Hash];
    let method = methods
        .into_iter()
        .find(|method| text.eq_ignore_ascii_case(method.name()));
    method.ok_or_else(|| {
        Failure::new(format!(
            "invalid partition method, expecting \"range\" or \"hash\", got: \"{text}\""
        ))
    })
}
