//! The table of all options, by the sections of the help, and the options that a command line
//! gives.
//!
//! The parser and the help read the same rows; an option in two sections (`-n`, `-s`) has a row in
//! each.

use super::benchmark_options::BenchmarkOptions;
use super::benchmark_rows;
use super::common_options::{self, CommonOptions};
use super::initialize_options::{self, InitializeOptions};
use super::option_row::Row;
use super::option_values::{Information, Value};
use super::proxy_options::{self, ProxyOptions};
use super::tpcc_options::{self, TpccOptions};
use super::tpch_options::{self, TpchOptions};
use crate::called_as::CalledAs;
use crate::getopt::Syntax;
use crate::messages::Failure;

pub struct Section {
    pub title: &'static str,
    pub options: Vec<(Syntax, &'static str)>,
}

pub(super) struct GivenOptions {
    pub called_as: CalledAs,
    pub initialize: InitializeOptions,
    pub load: BenchmarkOptions,
    pub tpcc: TpccOptions,
    pub tpch: TpchOptions,
    pub proxy: ProxyOptions,
    pub common: CommonOptions,
    names: Vec<&'static str>,
}

/// The sections, with the options that the program has under this name.
pub fn sections(called_as: CalledAs) -> Vec<Section> {
    fn section<G: 'static>(
        title: &'static str, rows: impl IntoIterator<Item = &'static Row<G>>, called_as: CalledAs,
    ) -> Section {
        let known = rows.into_iter().filter(|row| row.is_known_as(called_as));
        let options = known.map(|row| (row.syntax, row.help)).collect();
        Section { title, options }
    }
    vec![
        section("Initialization options", initialize_options::ROWS, called_as),
        section("Benchmarking options", benchmark_rows::all(), called_as),
        section("TPC-C options", tpcc_options::ROWS, called_as),
        section("TPC-H options", tpch_options::ROWS, called_as),
        section("Proxy options", proxy_options::ROWS, called_as),
        section("Common options", common_options::ROWS, called_as),
    ]
}

/// Every option once, for the parser.
pub fn syntax(called_as: CalledAs) -> Vec<Syntax> {
    let mut all: Vec<Syntax> = Vec::new();
    for (option, _) in sections(called_as).into_iter().flat_map(|section| section.options) {
        if !all.iter().any(|known| known.long == option.long) {
            all.push(option);
        }
    }
    all
}

impl GivenOptions {
    pub fn new(called_as: CalledAs) -> Self {
        Self {
            called_as,
            initialize: InitializeOptions::default(),
            load: BenchmarkOptions::default(),
            tpcc: TpccOptions::default(),
            tpch: TpchOptions::default(),
            proxy: ProxyOptions::default(),
            common: CommonOptions::default(),
            names: Vec::new(),
        }
    }

    /// Stores the option `name` with its argument, which is empty without one.
    pub fn take(&mut self, name: &'static str, text: &str) -> Result<(), Failure> {
        fn take<G: 'static>(
            rows: impl IntoIterator<Item = &'static Row<G>>, given: &mut G,
            (name, text, called_as): (&str, &str, CalledAs),
        ) -> Result<(), Failure> {
            match rows.into_iter().find(|row| row.syntax.long == name) {
                Some(row) => row.apply(given, &Value { text, option: row.syntax, called_as }),
                None => Ok(()),
            }
        }
        self.names.push(name);
        let value = (name, text, self.called_as);
        take(initialize_options::ROWS, &mut self.initialize, value)?;
        take(benchmark_rows::all(), &mut self.load, value)?;
        take(tpcc_options::ROWS, &mut self.tpcc, value)?;
        take(tpch_options::ROWS, &mut self.tpch, value)?;
        take(proxy_options::ROWS, &mut self.proxy, value)?;
        take(common_options::ROWS, &mut self.common, value)
    }

    pub fn information(&self) -> Option<Information> {
        let asked = self.common.information.as_ref();
        asked.or(self.load.information.as_ref()).cloned()
    }

    pub fn has(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    pub fn has_of_initialization(&self) -> bool {
        self.has_of_mode(initialize_options::ROWS)
    }

    pub fn has_of_benchmarking(&self) -> bool {
        self.has_of_mode(benchmark_rows::all())
    }

    fn has_of_mode<G: 'static>(&self, rows: impl IntoIterator<Item = &'static Row<G>>) -> bool {
        let mut of_mode = (rows.into_iter()).filter(|row| row.is_of_its_mode(self.called_as));
        of_mode.any(|row| self.has(row.syntax.long))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [CalledAs; 2] = [CalledAs::Pgdrive, CalledAs::Pgbench];

    #[test]
    fn a_row_is_enough_for_the_parser_and_the_help() {
        for called_as in NAMES {
            let help = crate::help::text(called_as.name());
            for option in syntax(called_as) {
                let entry = format!("--{}", option.long);
                let is_listed = |line: &str| line.split([' ', '=', '[']).any(|word| word == entry);
                assert!(help.lines().any(is_listed), "{entry} is not in the help");
                let argument = option.argument.map(|_| "=1").unwrap_or_default();
                let (found, complaint) = crate::getopt::parse(&syntax(called_as), [format!("{entry}{argument}")]);
                assert_eq!((found.len(), complaint), (1, None), "{entry}");
            }
        }
        // names and letters are unique
        let options = syntax(CalledAs::Pgdrive);
        for (number, option) in options.iter().enumerate() {
            let letter = option.short.is_some();
            assert!(!options[..number].iter().any(|other: &Syntax| letter && other.short == option.short), "{option}");
        }
        // options in two sections have the same syntax in both
        let all: Vec<_> = sections(CalledAs::Pgdrive).into_iter().flat_map(|section| section.options).collect();
        for (option, _) in &all {
            let known = options.iter().find(|known| known.long == option.long).expect("it is known");
            assert_eq!((known.short, known.argument), (option.short, option.argument), "{option}");
        }
    }
}
