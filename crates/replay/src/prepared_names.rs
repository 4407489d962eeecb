//! Which statements a session has prepared, by name.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// What has to be done before a name can be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Nothing.
    Nothing,
    /// Parse.
    Parse,
    /// Close, because the name may have another text, and Parse.
    CloseAndParse,
}

/// The names of a session.
#[derive(Debug, Default)]
pub struct PreparedNames {
    /// The hash of each name's text; None if the name may exist with any text: a Parse failed, or
    /// the session may have dropped it.
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

    /// Notes that the statement `sql` may have dropped names: DEALLOCATE and DISCARD do.
    pub fn executed(&mut self, sql: &str) {
        let word = sql.trim_start().as_bytes();
        let begins = |with: &[u8]| {
            let start = word.get(..with.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(with))
        };
        if begins(b"DEALLOCATE") || begins(b"DISCARD") {
            self.names.values_mut().for_each(|known| *known = None);
        }
    }

    /// Forgets all names, in a new session.
    pub fn forget(&mut self) {
        self.names = HashMap::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_prepared_once_for_each_text() {
        let mut names = PreparedNames::default();
        assert_eq!(names.prepare("a", "SELECT 1"), Missing::Parse);
        assert_eq!(names.prepare("a", "SELECT 1"), Missing::Nothing);
        assert_eq!(names.prepare("a", "SELECT 2"), Missing::CloseAndParse);
        assert_eq!(names.prepare("a", "SELECT 2"), Missing::Nothing);
        names.doubt("a");
        assert_eq!(names.prepare("a", "SELECT 2"), Missing::CloseAndParse);
        names.forget();
        assert_eq!(names.prepare("a", "SELECT 2"), Missing::Parse);
    }

    #[test]
    fn statements_that_drop_names_are_noticed() {
        let mut names = PreparedNames::default();
        for sql in ["DISCARD ALL", " deallocate a", "Deallocate All"] {
            names.prepare("a", "SELECT 1");
            names.executed(sql);
            assert_eq!(
                names.prepare("a", "SELECT 1"),
                Missing::CloseAndParse,
                "{sql}"
            );
        }
        names.executed("DELETE FROM t");
        assert_eq!(names.prepare("a", "SELECT 1"), Missing::Nothing);
    }
}
