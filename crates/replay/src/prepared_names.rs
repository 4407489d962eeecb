//! Which statements a session has prepared, by name.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// What has to be done before a name can be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    Nothing,
    Parse,
    /// Close, because the name may have another text, and Parse.
    CloseAndParse,
}

#[derive(Debug, Default)]
pub struct PreparedNames {
    /// The hash of each name's text; None if it may be any: a Parse failed, or the session may have dropped it.
    names: HashMap<Box<str>, Option<u64>>,
    hasher: RandomState,
}

impl PreparedNames {
    /// What the text `sql` needs before `name` can be executed, which is then assumed to be done.
    pub fn prepare(&mut self, name: &str, sql: &str) -> Missing {
        let text = Some(self.hasher.hash_one(sql));
        match self.names.get_mut(name) {
            Some(known) if *known == text => Missing::Nothing,
            Some(known) => {
                *known = text;
                Missing::CloseAndParse
            }
            None => {
                self.names.insert(name.into(), text);
                Missing::Parse
            }
        }
    }

    /// Notes that the Parse of a name may have failed.
    pub fn doubt(&mut self, name: &str) {
        if let Some(known) = self.names.get_mut(name) {
            *known = None;
        }
    }

    /// Notes that any name may have been dropped.
    pub fn doubt_all(&mut self) {
        self.names.values_mut().for_each(|known| *known = None);
    }

    /// Notes that the text `sql` may have dropped names: DEALLOCATE and DISCARD do.
    ///
    /// A text may have several statements and comments before them, so these words count anywhere
    /// in it: a needless Parse is cheaper than an error.
    pub fn executed(&mut self, sql: &str) {
        if !self.names.is_empty() && words(sql).any(drops_names) {
            self.doubt_all();
        }
    }

    pub fn forget(&mut self) {
        self.names = HashMap::new();
    }
}

fn words(sql: &str) -> impl Iterator<Item = &[u8]> {
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
    sql.as_bytes().split(move |byte| !is_inner(byte))
}

fn drops_names(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"DEALLOCATE") || word.eq_ignore_ascii_case(b"DISCARD")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_drop_names_are_noticed() {
        let mut names = PreparedNames::default();
        for sql in [
            "DISCARD ALL", " deallocate a", "Deallocate All", "/* x */ DEALLOCATE a", "-- x\nDISCARD ALL",
            "BEGIN;DEALLOCATE\tALL; COMMIT", "SELECT 'ü';deallocate\"a\"",
        ] {
            names.prepare("a", "SELECT 1");
            names.executed(sql);
            assert_eq!(names.prepare("a", "SELECT 1"), Missing::CloseAndParse, "{sql}");
        }
        for sql in ["DELETE FROM t", "SELECT discarded FROM t_discard, deallocateü", ""] {
            names.executed(sql);
            assert_eq!(names.prepare("a", "SELECT 1"), Missing::Nothing, "{sql}");
        }
    }
}
