//! `--keying-time` and `--think-time`: pauses around transactions, by script.

use std::time::Duration;

use pgdyno_engine::pacing::{Pacing, Pause};
use pgdyno_engine::schedule::Arrivals;
use pgdyno_engine::spec::WeightedProgram;

use crate::durations;
use crate::messages::Failure;

const FORMS: &str = "Give a time up to a day: \"100ms\", \"2s\", \"fixed:2s\" or \"exponential:12s\" (the mean).";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseChoice {
    /// Name or number of a script; None for all scripts.
    script: Option<String>,
    pause: Pause,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PacingChoice {
    pub keying: Vec<PauseChoice>,
    pub think: Vec<PauseChoice>,
}

impl PauseChoice {
    pub fn parse(text: &str, option: &str) -> Result<Self, Failure> {
        // the name of a script may contain the sign, but a time does not
        let (script, time) = match text.rsplit_once('=') {
            Some((script, time)) => (Some(script.to_owned()), time),
            None => (None, text),
        };
        let pause =
            pause(time).ok_or_else(|| Failure::new(format!("invalid time for {option}: \"{text}\"")).hint(FORMS))?;
        Ok(Self { script, pause })
    }

    /// Whether the option applies to script number `number`, from 0.
    fn means(&self, programs: &[WeightedProgram], number: usize) -> bool {
        let Some(script) = &self.script else {
            return true;
        };
        // a name that looks like a number is a name
        let is_name = programs.iter().any(|p| *p.program.name == **script);
        match script.parse::<usize>() {
            _ if is_name => *programs[number].program.name == **script,
            Ok(given) => given == number + 1,
            Err(_) => false,
        }
    }
}

/// `fixed:2s`, `exponential:12s`, or a time alone, which is fixed.
fn pause(text: &str) -> Option<Pause> {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let (kind, length) = text.split_once(':').unwrap_or(("fixed", text));
    let length = durations::parse(length).filter(|length| *length <= DAY)?;
    match kind {
        "fixed" | "exponential" if length.is_zero() => Some(Pause::None),
        "fixed" => Some(Pause::Fixed(length)),
        "exponential" => Some(Pause::Exponential { mean: length }),
        _ => None,
    }
}

impl PacingChoice {
    /// Refuses pauses if starts come from a schedule.
    pub fn check(&self, arrivals: Arrivals) -> Result<(), Failure> {
        let option = match (&self.keying[..], &self.think[..]) {
            ([], []) => return Ok(()),
            ([], _) => "--think-time",
            _ => "--keying-time",
        };
        if arrivals == Arrivals::Closed {
            return Ok(());
        }
        let message = format!("{option} cannot be used with a rate (-R/--rate)");
        Err(Failure::new(message).detail(
            "With a rate transactions start on a schedule, whenever the ones before have ended; \
             nobody pauses between them.",
        ))
    }

    /// The pauses of every script; one that names a script wins over one that does not, else the
    /// later wins.
    pub fn resolve(&self, programs: &[WeightedProgram]) -> Result<Vec<Pacing>, Failure> {
        let scripts = 0..programs.len();
        for (option, choices) in [("--keying-time", &self.keying), ("--think-time", &self.think)] {
            for choice in choices {
                if !scripts.clone().any(|number| choice.means(programs, number)) {
                    return Err(no_script(option, choice, programs));
                }
            }
        }
        let of = |choices: &[PauseChoice], number| {
            let meant = choices.iter().filter(|choice| choice.means(programs, number));
            let chosen = meant.max_by_key(|choice| choice.script.is_some());
            chosen.map_or(Pause::None, |choice| choice.pause)
        };
        Ok(scripts.map(|number| Pacing { keying: of(&self.keying, number), think: of(&self.think, number) }).collect())
    }
}

fn no_script(option: &str, choice: &PauseChoice, programs: &[WeightedProgram]) -> Failure {
    let script = choice.script.as_deref().unwrap_or_default();
    let names: Vec<String> =
        programs.iter().enumerate().map(|(number, p)| format!("{} \"{}\"", number + 1, p.program.name)).collect();
    Failure::new(format!("{option} names an unknown script: \"{script}\""))
        .hint(format!("The scripts are {}.", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgdyno_script::{QueryMode, Source, Symbols, compile, parse};

    fn programs(names: &[&str]) -> Vec<WeightedProgram> {
        let program = |name: &&str| {
            let source = Source { name: (*name).to_owned(), text: "SELECT 1;".to_owned() };
            let script = parse(&source).expect("it parses");
            let program = compile(&script, QueryMode::Simple, &mut Symbols::new());
            WeightedProgram { program: program.expect("it compiles"), weight: 1 }
        };
        names.iter().map(program).collect()
    }

    fn thinks(given: &[&str], names: &[&str]) -> Result<Vec<Pause>, String> {
        let parsed = given.iter().map(|text| PauseChoice::parse(text, "--think-time"));
        let think: Result<_, Failure> = parsed.collect();
        let choice = PacingChoice { think: think.map_err(|failure| failure.message)?, ..PacingChoice::default() };
        let resolved = choice.resolve(&programs(names));
        let all = resolved.map_err(|failure| failure.message)?;
        Ok(all.iter().map(|pacing| pacing.think).collect())
    }

    const fn ms(ms: u64) -> Pause {
        Pause::Fixed(Duration::from_millis(ms))
    }

    #[test]
    fn times_are_read() {
        let exponential = |mean| Pause::Exponential { mean };
        for (text, expected) in [
            ("1.5 min", ms(90_000)),
            ("fixed:2s", ms(2000)),
            ("exponential:12s", exponential(Duration::from_secs(12))),
            ("0s", Pause::None),
            ("exponential:0ms", Pause::None),
        ] {
            assert_eq!(thinks(&[text], &["a"]), Ok(vec![expected]), "{text}");
        }
        for text in [
            "", "5", "s", "-1s", "1e400s", "nans", "infs", "25000min", "normal:1s", "fixed:", "1s=", "exponential:1s:2",
        ] {
            assert_eq!(thinks(&[text], &["a"]), Err(format!("invalid time for --think-time: \"{text}\"")));
        }
    }

    #[test]
    fn scripts_are_named_or_numbered() {
        let names = ["a=b.sql", "<builtin: select only>", "1"];
        for (given, expected) in [
            (&["2s"][..], [ms(2000), ms(2000), ms(2000)]),
            (&["a=b.sql=1ms"], [ms(1), Pause::None, Pause::None]),
            (&["2=1ms"], [Pause::None, ms(1), Pause::None]),
            // a script has this name
            (&["1=1ms"], [Pause::None, Pause::None, ms(1)]),
            (&["<builtin: select only>=1ms", "3ms", "2=2ms", "4ms"], [ms(4), ms(2), ms(4)]),
            (&["2=0s", "3ms"], [ms(3), Pause::None, ms(3)]),
        ] {
            assert_eq!(thinks(given, &names), Ok(expected.to_vec()), "{given:?}");
        }
        for script in ["4", "0", "a", ""] {
            let refused = format!("--think-time names an unknown script: \"{script}\"");
            assert_eq!(thinks(&[format!("{script}=1s").as_str()], &names), Err(refused));
        }
    }
}
