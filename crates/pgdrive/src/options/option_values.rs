//! Values of options, parsed and refused with pgbench's messages.

use std::num::IntErrorKind;
use std::ops::RangeInclusive;
use std::time::Duration;

use pgdyno_dataset::Step;
use pgdyno_dataset::pgbench::Method;
use pgdyno_engine::spec::Tries;
use pgdyno_script::QueryMode;

use crate::called_as::CalledAs;
use crate::durations;
use crate::getopt::Syntax;
use crate::messages::Failure;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connection {
    pub dbname: Option<String>,
    /// Keyword and value for each of -h, -p and -U; those of a Lua script's pgsql-... options come
    /// before them.
    pub overrides: Vec<(&'static str, String)>,
    pub scram_keys: ScramKeys,
}

/// What happens to the keys that SCRAM derives from a password.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ScramKeys {
    /// They are kept for the next connection.
    #[default]
    Kept,
    /// Every connection derives them, as with libpq.
    Derived,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventSink {
    File(String),
    /// To standard output; the summary goes to standard error.
    Stdout,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptChoice {
    pub origin: Origin,
    pub weight: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Built in, by a prefix of its name.
    Builtin(String),
    /// A file; `-` is standard input.
    File(String),
    /// A Lua script, or a workload of our own: see `Benchmark::lua`.
    Lua(String),
    /// Decided while it runs: only its name and those of its statements are known.
    Driven { name: String, commands: Vec<String> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vacuum {
    Nothing,
    /// pgbench_branches and pgbench_tellers; pgbench_history is emptied.
    Small,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seed {
    /// The clock, without a message.
    Default,
    Time,
    Strong,
    Fixed(u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Information {
    Help,
    Version,
    Builtins,
    Script(String),
}

/// The seed of rows and queries without --random-seed.
const DEFAULT_SEED: u64 = 1;

impl Seed {
    /// The number for `what`, which has to be repeatable.
    pub(super) fn number(self, what: &str) -> Result<u64, Failure> {
        match self {
            Self::Default => Ok(DEFAULT_SEED),
            Self::Fixed(seed) => Ok(seed),
            Self::Time | Self::Strong => {
                Err(Failure::new(format!("{what} needs a number as its random seed, so that it can be repeated")))
            }
        }
    }
}

impl ScriptChoice {
    pub fn builtin(name: &str) -> Self {
        Self { origin: Origin::Builtin(name.to_owned()), weight: 1 }
    }
}

pub(super) const I32: i64 = i32::MAX as i64;

/// The limits of -R, in starts per second: up to one a nanosecond, which is the resolution of the
/// engine's clock.
const RATES_PER_S: RangeInclusive<f64> = 1e-9..=1e9;

/// The limits of -L in milliseconds: from one nanosecond to the longest load (-T).
const LATENCY_LIMITS_MS: RangeInclusive<f64> = 1e-6..=I32 as f64 * 1e3;

/// An option's argument, with the names that messages about it need.
pub struct Value<'a> {
    pub text: &'a str,
    pub option: Syntax,
    pub called_as: CalledAs,
}

impl Value<'_> {
    fn invalid(&self) -> Failure {
        let (text, option) = (self.text, self.option);
        Failure::new(format!("invalid value \"{text}\" for option {option}"))
    }

    fn out_of_range(&self, least: i64, most: i64) -> Failure {
        Failure::new(format!("{} must be in range {least}..{most}", self.option))
    }

    pub fn integer(&self, least: i64, most: i64) -> Result<i64, Failure> {
        let value = match self.text.trim().parse::<i64>() {
            Ok(value) => Some(value),
            // an integer that exceeds the type is out of range, not malformed
            Err(error) => match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => None,
                _ => return Err(self.invalid()),
            },
        };
        value.filter(|value| (least..=most).contains(value)).ok_or_else(|| self.out_of_range(least, most))
    }

    /// Parses seconds above 0: whole ones as in pgbench, or decimals, which pgbench refuses.
    pub fn seconds(&self) -> Result<Duration, Failure> {
        let duration = self.seconds_from(1)?;
        if duration.is_zero() {
            return Err(self.out_of_range(1, I32));
        }
        Ok(duration)
    }

    /// Parses seconds, of which 0 is allowed.
    pub fn seconds_or_zero(&self) -> Result<Duration, Failure> {
        self.seconds_from(0)
    }

    /// Parses seconds; the error names `least` as the lower limit.
    fn seconds_from(&self, least: i64) -> Result<Duration, Failure> {
        let seconds: f64 = self.text.trim().parse().map_err(|_| self.invalid())?;
        if seconds < 0.0 || seconds > I32 as f64 {
            return Err(self.out_of_range(least, I32));
        }
        // NaN is neither below nor above a limit
        Duration::try_from_secs_f64(seconds).map_err(|_| self.invalid())
    }
}

pub(super) fn rate_per_s(value: &Value<'_>) -> Result<f64, Failure> {
    let hint = "Give transactions per second, from 1e-9 to 1e9.";
    within(value, "invalid rate limit", RATES_PER_S, hint)
}

pub(super) fn latency_limit(value: &Value<'_>) -> Result<Duration, Failure> {
    let complaint = "invalid latency limit";
    let hint = format!("Give milliseconds, from 1e-6 to {I32}000.");
    let limit_ms = within(value, complaint, LATENCY_LIMITS_MS, &hint)?;
    Duration::try_from_secs_f64(limit_ms / 1e3)
        .map_err(|_| Failure::new(format!("{complaint}: \"{}\"", value.text)).hint(hint))
}

/// A number within `range`. Where pgbench refuses the value, too, its message has no hint.
fn within(value: &Value<'_>, complaint: &str, range: RangeInclusive<f64>, hint: &str) -> Result<f64, Failure> {
    let (text, called_as) = (value.text, value.called_as);
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

pub(super) fn sampling_rate(value: &Value<'_>) -> Result<f64, Failure> {
    let (text, called_as) = (value.text, value.called_as);
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

/// The value that `text` names; `complaint` says what is invalid otherwise.
pub(super) fn choose<T: Copy>(text: &str, complaint: &str, choices: &[(&str, T)]) -> Result<T, Failure> {
    let chosen = choices.iter().find(|(name, _)| *name == text);
    chosen.map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        Failure::new(format!("{complaint}: \"{text}\"")).hint(format!("Give one of {}.", names.join(", ")))
    })
}

pub(super) fn timer_tick(text: &str) -> Result<Duration, Failure> {
    let tick = durations::parse(text);
    let allowed = Duration::from_micros(1)..=Duration::from_secs(1);
    tick.filter(|tick| allowed.contains(tick)).ok_or_else(|| {
        Failure::new(format!("invalid value \"{text}\" for option --timer-tick"))
            .hint("Give a time from 1us to 1s with its unit, such as \"1ms\" or \"500us\".")
    })
}

pub(super) fn tries(value: &Value<'_>) -> Result<Tries, Failure> {
    let (text, called_as) = (value.text, value.called_as);
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
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Failure::new(format!("invalid variable definition: \"{text}\""))),
    }
}

pub(super) fn script(text: &str, origin: fn(String) -> Origin) -> Result<ScriptChoice, Failure> {
    let Some((name, weight)) = text.rsplit_once('@') else {
        return Ok(ScriptChoice { origin: origin(text.to_owned()), weight: 1 });
    };
    let number: i64 = weight.parse().map_err(|_| Failure::new(format!("invalid weight specification: @{weight}")))?;
    let weight = u32::try_from(number)
        .ok()
        .filter(|&weight| i64::from(weight) <= I32)
        .ok_or_else(|| Failure::new(format!("weight specification out of range (0 .. {I32}): {number}")))?;
    Ok(ScriptChoice { origin: origin(name.to_owned()), weight })
}

/// Parses K/N: the number of a generator, returned from 0, and how many there are.
pub(super) fn part(text: &str) -> Result<(usize, usize), Failure> {
    let numbers = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
    match numbers {
        Some((number, of)) if (1..=of).contains(&number) => Ok((number - 1, of)),
        _ => Err(Failure::new(format!("invalid part of a load: \"{text}\""))
            .hint("Write the number of this generator and how many there are, as 1/3, 2/3, 3/3.")),
    }
}

pub(super) fn seed(text: &str, source: &str) -> Result<Seed, Failure> {
    match text {
        "time" => Ok(Seed::Time),
        "rand" => Ok(Seed::Strong),
        _ => unsigned(text).map(Seed::Fixed).ok_or_else(|| {
            Failure::new(format!("unrecognized random seed option \"{text}\""))
                .detail("Expecting an unsigned integer, \"time\" or \"rand\".")
                .also(format!("error while setting random seed from {source}"))
        }),
    }
}

/// An integer as C's `strtoul` reads it: -1 is the largest one, as is one that is too large.
fn unsigned(text: &str) -> Option<u64> {
    let text = text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(match digits.parse::<u64>() {
        Ok(number) if is_negative => number.wrapping_neg(),
        Ok(number) => number,
        Err(_) => u64::MAX,
    })
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
    let method = methods.into_iter().find(|method| text.eq_ignore_ascii_case(method.name()));
    method.ok_or_else(|| {
        Failure::new(format!("invalid partition method, expecting \"range\" or \"hash\", got: \"{text}\""))
    })
}

/// pgbench allows more partitions. Here a load lists all of them before it begins, and no server
/// could plan a query over so many.
const PARTITIONS_MOST: i64 = 100_000;

pub(super) fn partitions(value: &Value<'_>) -> Result<u32, Failure> {
    // values that pgbench refuses get its message
    let count = value.integer(0, I32)?;
    if count > PARTITIONS_MOST {
        return Err(value.out_of_range(0, PARTITIONS_MOST));
    }
    Ok(count as u32)
}
