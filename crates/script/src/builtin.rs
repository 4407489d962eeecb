//! The built-in scripts.

use crate::ast::Source;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    pub name: &'static str,
    /// Name in reports.
    pub description: &'static str,
    pub text: &'static str,
}

impl Builtin {
    pub fn source(&self) -> Source {
        Source { name: self.description.to_owned(), text: self.text.to_owned() }
    }
}

/// All built-in scripts, in the order of `-b list`.
pub const BUILTINS: [Builtin; 3] = [
    Builtin {
        name: "tpcb-like",
        description: "<builtin: TPC-B (sort of)>",
        text: r"\set aid random(1, 100000 * :scale)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
",
    },
    Builtin {
        name: "simple-update",
        description: "<builtin: simple update>",
        text: r"\set aid random(1, 100000 * :scale)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
",
    },
    Builtin {
        name: "select-only",
        description: "<builtin: select only>",
        text: r"\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
",
    },
];

/// Why a name does not select a built-in script. Display [`builtin_list`] with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuiltinError {
    #[error("no builtin script found for name \"{name}\"")]
    NotFound { name: String },
    #[error("ambiguous builtin name: {count} builtin scripts found for prefix \"{prefix}\"")]
    Ambiguous { prefix: String, count: usize },
}

/// The only built-in script whose name begins with `prefix`.
pub fn builtin(prefix: &str) -> Result<Builtin, BuiltinError> {
    let found: Vec<&Builtin> = BUILTINS.iter().filter(|b| b.name.starts_with(prefix)).collect();
    match found.as_slice() {
        [] => Err(BuiltinError::NotFound { name: prefix.to_owned() }),
        [one] => Ok(**one),
        many => Err(BuiltinError::Ambiguous { prefix: prefix.to_owned(), count: many.len() }),
    }
}

pub fn builtin_list() -> String {
    let mut list = String::from("Available builtin scripts:\n");
    for builtin in &BUILTINS {
        list.push_str(&format!("  {:>13}: {}\n", builtin.name, builtin.description));
    }
    list.push('\n');
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_scripts_are_listed_and_found_by_unique_prefixes() {
        assert_eq!(
            builtin_list(),
            "Available builtin scripts:\n      tpcb-like: <builtin: TPC-B (sort of)>\n  \
             simple-update: <builtin: simple update>\n    select-only: <builtin: select only>\n\n"
        );
        for (prefix, name) in [("t", "tpcb-like"), ("si", "simple-update"), ("se", "select-only")] {
            assert_eq!(builtin(prefix).map(|b| b.name), Ok(name));
        }
        assert_eq!(builtin("no-such").unwrap_err().to_string(), "no builtin script found for name \"no-such\"");
        let ambiguous = builtin("s").unwrap_err().to_string();
        assert_eq!(ambiguous, "ambiguous builtin name: 2 builtin scripts found for prefix \"s\"");
    }
}
