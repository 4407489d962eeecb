//! `--phases`: the file that describes how a load changes over time. It is read and checked before
//! the first connection, and all its errors are reported together.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use pgdyno_engine::phases::{PhaseSpec, Phases, Ramp};
use pgdyno_engine::schedule::{Arrivals, Spacing};
use pgdyno_engine::spec::Limit;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::durations;
use crate::messages::Failure;
use crate::options::Benchmark;
use crate::scripts;

const KEYS: &str = "name, duration, rate, clients, mix and result";
const HIGHEST_RATE: f64 = 1e9;
const LONGEST_NAME: usize = 64;
/// Limited because every phase has histograms of its own in every worker.
const MOST_PHASES: usize = 100;

/// The parts of the command line to which phases refer.
#[derive(Debug)]
pub struct PhaseContext {
    pub scripts: Vec<Script>,
    pub clients: usize,
    /// -j, or the fewest threads
    pub workers: usize,
}

#[derive(Debug)]
pub struct Script {
    pub name: String,
    pub title: String,
    pub weight: u32,
}

/// `options` with the phases of its file, whose durations are then the limit.
pub fn apply(options: &Benchmark) -> Result<Benchmark, Failure> {
    let mut options = options.clone();
    let Some(path) = &options.phases_file else {
        return Ok(options);
    };
    let names = scripts::names(&options.scripts)?;
    let weights = options.scripts.iter().map(|script| script.weight);
    let context = PhaseContext {
        scripts: names.into_iter().zip(weights).map(|((name, title), weight)| Script { name, title, weight }).collect(),
        clients: options.part.map_or(options.clients, |part| part.clients),
        // each generator has workers
        workers: options.workers.fewest(options.clients) * options.part.map_or(1, |part| part.of),
    };
    let text = scripts::read(path)?;
    let phases = parse(path, &text, &context)?;
    options.arrivals = match (phases.is_open(), options.spacing) {
        (true, spacing) => Arrivals::Phased(spacing.unwrap_or(Spacing::Poisson)),
        (false, None) => Arrivals::Closed,
        (false, Some(_)) => {
            let message = format!("--arrivals needs a rate, and no phase of \"{path}\" has one");
            return Err(Failure::new(message).hint("Give every phase a rate, or leave --arrivals out."));
        }
    };
    options.limit = Limit::Duration(Duration::from_nanos(phases.end()));
    options.phases = Some(phases);
    Ok(options)
}

/// The phases in `text`, the content of the file `path`.
///
/// # Errors
/// All errors in the file, each on a line of its own: file, line, phase, field, the error and the
/// correct form.
pub fn parse(path: &str, text: &str, context: &PhaseContext) -> Result<Phases, Failure> {
    let mut reader = Reader { text, context, problems: Vec::new() };
    let (document, broken) = DeTable::parse_recoverable(text);
    for error in &broken {
        let at = error.span().map_or(0, |span| span.start);
        reader.problem(at, "", &format!("is not TOML: {}", error.message()));
    }
    // errors after a syntax error would be guesses
    let specs = if broken.is_empty() { reader.document(document.get_ref()) } else { Vec::new() };
    if reader.problems.is_empty() {
        return Ok(Phases::new(specs));
    }
    reader.problems.sort_by_key(|(line, _)| *line);
    let lines: Vec<String> = reader.problems.iter().map(|(line, what)| format!("{path}:{line}: {what}")).collect();
    Err(Failure::new(lines.join("\n")))
}

struct Reader<'a> {
    text: &'a str,
    context: &'a PhaseContext,
    problems: Vec<(usize, String)>,
}

type Value<'a> = Spanned<DeValue<'a>>;

/// A phase, with its line and its label.
type Placed = (usize, String, PhaseSpec);

impl Reader<'_> {
    /// Adds an error at `offset` in the text; `field` is empty for the file as a whole.
    fn problem(&mut self, offset: usize, field: &str, what: &str) {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let words = if field.is_empty() { what.to_owned() } else { format!("{field}: {what}") };
        self.problems.push((line, words));
    }

    fn document(&mut self, document: &DeTable<'_>) -> Vec<PhaseSpec> {
        for (key, _) in document {
            if key.get_ref() != "phase" {
                let what = "is not known here; the file holds [[phase]] tables only";
                self.problem(key.span().start, key.get_ref(), what);
            }
        }
        let Some(all) = document.get("phase") else {
            self.problem(0, "", "has no phase; begin each with a line [[phase]]");
            return Vec::new();
        };
        let tables = all.get_ref().as_array();
        let Some(tables) = tables.filter(|tables| !tables.is_empty()) else {
            self.problem(all.span().start, "phase", "is no list of tables; begin each phase with a line [[phase]]");
            return Vec::new();
        };
        if let Some(table) = tables.get(MOST_PHASES) {
            let what = format!("is one too many; a load has at most {MOST_PHASES} phases");
            self.problem(table.span().start, "phase", &what);
        }
        let mut phases: Vec<Placed> = Vec::new();
        for (number, table) in tables.iter().enumerate() {
            let place = format!("phase {}", number + 1);
            match table.get_ref().as_table() {
                Some(fields) => {
                    let spec = self.phase(&place, table.span().start, fields);
                    phases.push((table.span().start, place, spec));
                }
                None => {
                    self.problem(table.span().start, &place, "is no table; begin each phase with a line [[phase]]");
                }
            }
        }
        self.together(&phases);
        phases.into_iter().map(|(_, _, spec)| spec).collect()
    }

    fn phase(&mut self, place: &str, at: usize, fields: &DeTable<'_>) -> PhaseSpec {
        let context = self.context;
        let mut spec = PhaseSpec {
            name: String::new(),
            duration: Duration::ZERO,
            rate_per_s: None,
            clients: Ramp::constant(context.clients as f64),
            weights: context.scripts.iter().map(|script| script.weight).collect(),
            result: true,
        };
        for (key, value) in fields {
            let field = format!("{place}: {}", key.get_ref());
            match key.get_ref().as_ref() {
                "name" => spec.name = self.name(&field, value),
                "duration" => spec.duration = self.duration(&field, value),
                // an invalid rate counts as one, so that the phase is not closed
                "rate" => {
                    let rate = self.rate(&field, value);
                    spec.rate_per_s = Some(rate.unwrap_or(Ramp::constant(1.0)));
                }
                "clients" => {
                    let clients = self.clients(&field, value);
                    spec.clients = clients.unwrap_or(spec.clients);
                }
                "mix" => spec.weights = self.mix(&field, value),
                "result" => match value.get_ref().as_bool() {
                    Some(result) => spec.result = result,
                    None => self.problem(
                        value.span().start,
                        &field,
                        "is neither true nor false; write false to leave the phase out of the results",
                    ),
                },
                _ => {
                    self.problem(key.span().start, &field, &format!("is not known; a phase has {KEYS}"));
                }
            }
        }
        if !fields.contains_key("name") {
            self.problem(at, &format!("{place}: name"), "is missing; write name = \"warm\"");
        }
        if !fields.contains_key("duration") {
            self.problem(at, &format!("{place}: duration"), "is missing; write duration = \"10s\"");
        }
        spec
    }

    fn name(&mut self, field: &str, value: &Value<'_>) -> String {
        let name = value.get_ref().as_str().unwrap_or_default();
        let known = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let begins_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !begins_well || !name.chars().all(known) || name.len() > LONGEST_NAME {
            let what = "is no name; use up to 64 letters, digits, - and _ in quotes, a letter or digit first";
            self.problem(value.span().start, field, what);
        }
        name.to_owned()
    }

    fn duration(&mut self, field: &str, value: &Value<'_>) -> Duration {
        let duration = value.get_ref().as_str().and_then(durations::parse);
        match duration.filter(|duration| !duration.is_zero()) {
            Some(duration) => duration,
            None => {
                let what =
                    "is no duration above zero; write a number with a unit in quotes, such as \"10s\" or \"1m30s\"";
                self.problem(value.span().start, field, what);
                Duration::from_secs(1)
            }
        }
    }

    fn rate(&mut self, field: &str, value: &Value<'_>) -> Option<Ramp> {
        let right = "write a number from 0 to 1000000000, or { from = 0, to = 500 }";
        self.ramp(field, value, right, &|value| number(value).filter(|rate| (0.0..=HIGHEST_RATE).contains(rate)))
    }

    fn clients(&mut self, field: &str, value: &Value<'_>) -> Option<Ramp> {
        let most = self.context.clients as f64;
        let right = format!("write a whole number up to {most} (-c), or {{ from = 1, to = {most} }}");
        self.ramp(field, value, &right, &|value| {
            let whole = matches!(value, DeValue::Integer(_));
            number(value).filter(|count| whole && (0.0..=most).contains(count))
        })
    }

    /// Parses one value, or a table of two.
    fn ramp(
        &mut self, field: &str, value: &Value<'_>, right: &str, read: &dyn Fn(&DeValue<'_>) -> Option<f64>,
    ) -> Option<Ramp> {
        let one = |reader: &mut Self, field: &str, value: &Value<'_>| {
            let number = read(value.get_ref());
            if number.is_none() {
                reader.problem(value.span().start, field, &format!("is not right; {right}"));
            }
            number
        };
        let Some(table) = value.get_ref().as_table() else {
            return one(self, field, value).map(Ramp::constant);
        };
        for (key, _) in table {
            if !matches!(key.get_ref().as_ref(), "from" | "to") {
                self.problem(key.span().start, field, &format!("has {}, which is not known; {right}", key.get_ref()));
            }
        }
        let mut end = |name: &str| match table.get(name) {
            Some(value) => one(self, &format!("{field}.{name}"), value),
            None => {
                self.problem(value.span().start, field, &format!("has no {name}; {right}"));
                None
            }
        };
        let (from, to) = (end("from"), end("to"));
        Some(Ramp { from: from?, to: to? })
    }

    fn mix(&mut self, field: &str, value: &Value<'_>) -> Vec<u32> {
        let context = self.context;
        let mut weights = vec![0; context.scripts.len()];
        let Some(table) = value.get_ref().as_table() else {
            let what = "is no table; write the weight of each script, such as { \"select-only\" = 9 }";
            self.problem(value.span().start, field, what);
            return weights;
        };
        let before = self.problems.len();
        for (key, weight) in table {
            let name = key.get_ref().as_ref();
            match self.script(name) {
                Ok(script) => match number(weight.get_ref()) {
                    Some(number)
                        if matches!(weight.get_ref(), DeValue::Integer(_))
                            && (0.0..=f64::from(i32::MAX)).contains(&number) =>
                    {
                        weights[script] = number as u32;
                    }
                    _ => {
                        let what = "is no weight; write a whole number from 0 to 2147483647";
                        self.problem(weight.span().start, &format!("{field}.{name}"), what);
                    }
                },
                Err(what) => {
                    self.problem(key.span().start, &format!("{field}.{name}"), &what);
                }
            }
        }
        if self.problems.len() == before && weights.iter().all(|weight| *weight == 0) {
            self.problem(value.span().start, field, "has no weight above 0; give one script a weight");
        }
        weights
    }

    fn script(&self, name: &str) -> Result<usize, String> {
        let scripts = &self.context.scripts;
        let mut named = (0..scripts.len()).filter(|number| {
            let script = &scripts[*number];
            script.name == name || script.title == name
        });
        let numbers = format!("use their numbers, 1 to {}", scripts.len());
        match (named.next(), named.next()) {
            (Some(script), None) => return Ok(script),
            (Some(_), Some(_)) => return Err(format!("is the name of several scripts; {numbers}")),
            _ => {}
        }
        let number = name.parse::<usize>().ok();
        let known: Vec<&str> = scripts.iter().map(|script| script.name.as_str()).collect();
        number
            .and_then(|number| number.checked_sub(1))
            .filter(|script| *script < scripts.len())
            .ok_or_else(|| format!("is no script of this load; its scripts are {}", known.join(", ")))
    }

    /// Checks what phases require of each other.
    fn together(&mut self, phases: &[Placed]) {
        self.unique_names(phases);
        let open = phases.iter().find(|(_, _, spec)| spec.rate_per_s.is_some());
        match open {
            Some((_, with_rate, _)) => self.rates(phases, with_rate),
            None => {
                let zero = Ramp::constant(0.0);
                if phases.iter().all(|(_, _, spec)| spec.clients == zero) {
                    self.problem(0, "", "uses no client in any phase; give one phase clients above 0");
                }
            }
        }
        self.results(phases);
    }

    fn unique_names(&mut self, phases: &[Placed]) {
        let mut names: HashMap<&str, &str> = HashMap::new();
        for (at, place, spec) in phases {
            if let Some(first) = names.get(spec.name.as_str()).filter(|_| !spec.name.is_empty()) {
                let what = format!("is \"{}\", which is {first} already; give each phase a name of its own", spec.name);
                self.problem(*at, &format!("{place}: name"), &what);
            } else {
                names.insert(&spec.name, place);
            }
        }
    }

    /// Checks phases of which `with_rate` has a rate.
    fn rates(&mut self, phases: &[Placed], with_rate: &str) {
        let workers = self.context.workers as f64;
        for (at, place, spec) in phases {
            if spec.rate_per_s.is_none() {
                let what =
                    format!("is missing, and {with_rate} has one; give every phase a rate (0 is a pause) or none");
                self.problem(*at, &format!("{place}: rate"), &what);
            }
            let fewest = spec.clients.from.min(spec.clients.to);
            if fewest < workers {
                let what = format!(
                    "goes down to {fewest}, fewer than the {workers} threads (-j) that share the rate; use at least {workers}, or a smaller -j"
                );
                self.problem(*at, &format!("{place}: clients"), &what);
            }
        }
    }

    fn results(&mut self, phases: &[Placed]) {
        if phases.iter().all(|(_, _, spec)| !spec.result) {
            self.problem(0, "", "has no phase with a result; leave result = false out of one");
        }
    }
}

/// A number that TOML has as an integer or a float.
fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(integer) => {
            i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|number| number as f64)
        }
        DeValue::Float(float) => float.as_str().parse().ok().filter(|f: &f64| f.is_finite()),
        _ => None,
    }
}
