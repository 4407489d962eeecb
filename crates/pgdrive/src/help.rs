//! The text of --help, in the layout of PostgreSQL's programs.

use crate::called_as::CalledAs;
use crate::getopt::{OPTIONAL, Syntax};
use crate::options::sections;

const COLUMN: usize = 27;
const WIDTH: usize = 80;

pub fn text(program: &str) -> String {
    let what = match CalledAs::of(program) {
        CalledAs::Pgdrive => "load engine, with pgbench's options,",
        CalledAs::Pgbench => "benchmarking tool",
    };
    let mut text = format!(
        "{program} is a {what} for PostgreSQL.\n\n\
         Usage:\n  {program} [OPTION]... [DBNAME]\n"
    );
    for section in sections(CalledAs::of(program)) {
        if !section.options.is_empty() {
            text.push_str(&format!("\n{}:\n", section.title));
        }
        for (option, help) in section.options {
            text.push_str(&entry(option, help));
        }
    }
    text.push_str(
        "\nExit status: 0 on success; 1 when the load could not begin; 2 when a\n\
         client was aborted; 4 when an output could not be written; 130 or 143 after\n\
         SIGINT or SIGTERM, with the summary so far.\n\
         Connection defaults come from the PG* environment variables, as for psql.\n",
    );
    text.push_str(concat!("\nReport bugs to <", env!("CARGO_PKG_REPOSITORY"), "/issues>.\n"));
    text
}

fn entry(option: Syntax, help: &str) -> String {
    let mut head = match option.short {
        Some(letter) => format!("  -{letter}, --{}", option.long),
        None => format!("  --{}", option.long),
    };
    if let Some(argument) = option.argument {
        if !argument.starts_with(OPTIONAL) {
            head.push('=');
        }
        head.push_str(argument);
    }
    if head.len() + 1 > COLUMN {
        head.push('\n');
        head.push_str(&" ".repeat(COLUMN));
    }
    let lines: Vec<String> = help.lines().flat_map(wrap).collect();
    format!("{head:COLUMN$}{}\n", lines.join(&format!("\n{:COLUMN$}", "")))
}

fn wrap(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    // a default stays in one line
    let text = text.replace("(default: ", "(default:\t");
    for word in text.split(' ').map(|word| word.replace('\t', " ")) {
        match lines.last_mut() {
            Some(line) if COLUMN + line.len() + 1 + word.len() <= WIDTH => *line += &format!(" {word}"),
            _ => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_help_fits_80_columns() {
        let text = super::text("pgdrive");
        for line in text.lines() {
            assert!(line.len() <= 80, "{line}");
        }
        assert!(text.contains("  -c, --client=NUM         number of"));
        assert!(text.ends_with("Report bugs to <https://github.com/pgdyno/pgdyno/issues>.\n"));
    }
}
