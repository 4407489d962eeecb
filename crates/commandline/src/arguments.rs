//! Reads options and operands.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser};

/// The options that were given, and the operands.
#[derive(Debug, Default)]
pub struct Arguments {
    options: Vec<(String, OsString)>,
    pub operands: Vec<OsString>,
}

impl Arguments {
    /// Reads a command line without the program's name, up to an option that asks for a text.
    ///
    /// # Errors
    /// In the words of getopt_long, as PostgreSQL's programs have them.
    pub fn read(help: &str, args: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut parser = Parser::from_args(args);
        let mut all = Self::default();
        while let Some(arg) = parser.next().map_err(words)? {
            if let Arg::Value(operand) = arg {
                all.operands.push(operand);
                continue;
            }
            let option = find(help, &arg).map(|(name, takes_value)| (name.to_owned(), takes_value));
            let Some((name, takes_value)) = option else { return Err(words(arg.unexpected())) };
            let value = if takes_value { parser.value().map_err(words)? } else { OsString::new() };
            let is_last = name == "help" || name == "version";
            all.options.push((name, value));
            if is_last {
                break;
            }
        }
        Ok(all)
    }

    pub fn has(&self, name: &str) -> bool {
        self.values(name).next().is_some()
    }

    /// The values of an option that may be repeated.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &OsString> {
        self.options.iter().filter(move |(known, _)| known == name).map(|(_, value)| value)
    }

    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.values(name).last().map(PathBuf::from)
    }

    /// # Errors
    /// The value is not UTF-8.
    pub fn text(&self, name: &str) -> Result<Option<String>, String> {
        self.values(name).last().map(text).transpose()
    }

    /// The value as `read` understands it, which `takes` describes.
    ///
    /// # Errors
    /// It does not.
    pub fn parsed<T>(
        &self, name: &str, takes: &str, read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.text(name)? else { return Ok(None) };
        let parsed = read(&value);
        parsed.map(Some).ok_or_else(|| format!("invalid value \"{value}\" for option --{name}: give {takes}"))
    }

    /// # Errors
    /// It is not a number in this range.
    pub fn number<T: TryFrom<u64>>(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<T>, String> {
        let takes = format!("a whole number from {} to {}", range.start(), range.end());
        self.parsed(name, &takes, |text| T::try_from(text.parse().ok().filter(|number| range.contains(number))?).ok())
    }
}

/// # Errors
/// It is not UTF-8.
pub fn text(value: &OsString) -> Result<String, String> {
    value.clone().into_string().map_err(|value| format!("\"{}\" is not UTF-8", value.to_string_lossy()))
}

/// A time in seconds, up to the longest possible load.
pub fn seconds(text: &str) -> Option<Duration> {
    let time = Duration::try_from_secs_f64(text.parse().ok()?).ok()?;
    (time.as_secs_f64() <= f64::from(i32::MAX)).then_some(time)
}

/// The long name of an option in the help, and whether it takes a value: a line begins `-p, --port=PORT` or `--port`.
fn find<'h>(help: &'h str, arg: &Arg<'_>) -> Option<(&'h str, bool)> {
    help.lines().find_map(|line| {
        let (before, after) = line.split_once("--")?;
        let option = after.split(' ').next().unwrap_or_default();
        let name = option.split('=').next().unwrap_or_default();
        let is_it = match arg {
            Arg::Short(letter) => before.trim() == format!("-{letter},"),
            Arg::Long(given) => name == *given && before.trim().len() <= "-p,".len(),
            Arg::Value(_) => false,
        };
        is_it.then_some((name, option != name))
    })
}

fn words(error: lexopt::Error) -> String {
    use lexopt::Error::{MissingValue, UnexpectedOption, UnexpectedValue};
    match error {
        MissingValue { option: Some(option) } => format!("option '{option}' requires an argument"),
        UnexpectedOption(option) => format!("unrecognized option '{option}'"),
        UnexpectedValue { option, .. } => format!("option '{option}' doesn't allow an argument"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "Options:\n  -p, --port=NUM  port of --all\n  --all           all\n  -?, --help      help\n";

    fn given(args: &str) -> Result<Arguments, String> {
        Arguments::read(HELP, args.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_are_those_of_the_help() {
        for args in ["-p4 a --all", "a -p 4 --all", "--port=4 --all -- a", "--all --port 7 --port 4 a"] {
            let given = given(args).expect(args);
            assert_eq!(given.number("port", 0..=9), Ok(Some(4_u8)), "{args}");
            assert!(given.has("all") && !given.has("help"), "{args}");
            assert_eq!(given.operands, ["a"], "{args}");
        }
        assert!(given("--help --nosuch").expect("nothing after it counts").has("help"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (args, error) in [
            ("--nosuch", "unrecognized option '--nosuch'"),
            ("-x", "unrecognized option '-x'"),
            ("--port", "option '--port' requires an argument"),
            ("--all=1", "option '--all' doesn't allow an argument"),
            ("--port=10", "invalid value \"10\" for option --port: give a whole number from 0 to 9"),
            ("--port=-1", "invalid value \"-1\" for option --port: give a whole number from 0 to 9"),
        ] {
            let read = given(args).and_then(|given| given.number::<u8>("port", 0..=9));
            assert_eq!(read, Err(error.to_owned()), "{args}");
        }
        for text in ["-1", "1e300", "nan", "2147483648", "x", ""] {
            assert_eq!(seconds(text), None, "{text}");
        }
        assert_eq!(seconds("1.5"), Some(Duration::from_millis(1500)));
    }
}
