//! The catalogue as the tables of the reference page.

use std::fmt::Write as _;

use super::{Side, Source, sources};
use crate::server::of_version;

/// Major versions with a column in the table.
const MAJORS: std::ops::RangeInclusive<i32> = 10..=19;

/// Markdown with a heading, a line and a table for each source.
pub fn markdown() -> String {
    let mut text = String::new();
    for source in sources() {
        section(&mut text, source);
    }
    versions(&mut text);
    text
}

/// Appends the table of the server's sources by version, derived from the statements.
fn versions(text: &mut String) {
    text.push_str("### Sources by version of the server\n\n| source |");
    // writing to a String cannot fail
    for major in MAJORS {
        let _ = write!(text, " {major} |");
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(MAJORS.count()));
    for source in sources().iter().filter(|source| source.side == Side::Server) {
        let _ = write!(text, "\n| `{}` |", source.name);
        for major in MAJORS {
            let has = of_version(major).any(|query| query.source == source.name);
            // it depends on an extension, which every version may have
            let may = source.name == "statements";
            let _ = write!(text, " {} |", if has || may { "✓" } else { "" });
        }
    }
    text.push('\n');
}

fn section(text: &mut String, source: &Source) {
    let side = match source.side {
        Side::Host => "Host",
        Side::Server => "Server",
        Side::Probe => "The probe itself",
    };
    // writing to a String cannot fail
    let _ = write!(text, "### {}\n\n{side}; {}.", source.name, source.read_from);
    for (name, meaning) in source.labels {
        let _ = write!(text, " Label `{name}`: {meaning}.");
    }
    if source.sparse {
        text.push_str(" Zeros are left out.");
    }
    text.push_str("\n\n| metric | kind | unit | meaning |\n|---|---|---|---|\n");
    for metric in source.metrics {
        let kind = metric.kind.name();
        let _ = writeln!(text, "| `{}` | {kind} | {} | {} |", metric.name, metric.unit, metric.meaning);
    }
    text.push('\n');
}
