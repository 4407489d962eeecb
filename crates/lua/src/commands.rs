//! Which of a script's statements is which: the number under which its latency is counted.
//!
//! Numbers are over all workers; how many there are is fixed before the load, so that recorders are
//! made once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::statement_text::without_values;

/// So many of a script's statements have a number of their own: the first ones that are sent.
pub const MOST_STATEMENTS: usize = 64;
/// Of what prepares statements.
const PREPARING: usize = 0;
/// Of statements that have no number of their own.
const OTHERS: usize = 1;
const FIRST: usize = 2;

/// The texts that were met, in any worker.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    met: Mutex<Met>,
}

#[derive(Debug, Default)]
struct Met {
    numbers: HashMap<String, usize>,
    texts: Vec<String>,
}

impl Texts {
    fn number(&self, text: &str) -> usize {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = met.numbers.get(text) {
            return *number;
        }
        if met.texts.len() == MOST_STATEMENTS {
            return OTHERS;
        }
        let number = FIRST + met.texts.len();
        met.numbers.insert(text.to_owned(), number);
        met.texts.push(text.to_owned());
        number
    }

    /// What each number is called, those of statements that were not met left out.
    pub fn names(&self) -> Vec<String> {
        let met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let others =
            format!("(others: the first {MOST_STATEMENTS} statements have lines of their own)");
        let fixed = ["(preparing statements)".to_owned(), others];
        fixed.into_iter().chain(met.texts.iter().cloned()).collect()
    }
}

/// How many numbers there are.
#[must_use]
pub const fn count() -> usize {
    FIRST + MOST_STATEMENTS
}

/// The numbers as one worker knows them: it asks for each but once.
#[derive(Debug)]
pub(crate) struct Commands {
    texts: Arc<Texts>,
    known: HashMap<String, usize>,
}

impl Commands {
    /// Of the run whose `texts` these are.
    pub fn new(texts: Arc<Texts>) -> Self {
        Self {
            texts,
            known: HashMap::new(),
        }
    }

    /// The number of a statement with values in it or with places for them.
    pub fn number(&mut self, sql: &[u8]) -> usize {
        let text = without_values(sql);
        if let Some(number) = self.known.get(&text) {
            return *number;
        }
        let number = self.texts.number(&text);
        // those without a number of their own may be any number
        if number != OTHERS {
            self.known.insert(text, number);
        }
        number
    }
}

/// The number of what prepares, and of everything where statements are not told apart.
pub(crate) const ANY: usize = PREPARING;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_agree_and_what_is_too_much_is_counted_together() {
        let texts = Arc::new(Texts::default());
        let (mut one, mut other) = (
            Commands::new(Arc::clone(&texts)),
            Commands::new(Arc::clone(&texts)),
        );
        assert_eq!(one.number(b"SELECT 1 FROM a"), FIRST);
        assert_eq!(other.number(b"SELECT x FROM b"), FIRST + 1);
        assert_eq!(other.number(b"SELECT 2 FROM a"), FIRST);
        for table in 2..MOST_STATEMENTS {
            one.number(format!("SELECT x FROM c{table}").as_bytes());
        }
        assert_eq!(other.number(b"SELECT x FROM too_many"), OTHERS);
        assert_eq!(one.number(b"SELECT 3 FROM a"), FIRST);
        let names = texts.names();
        assert_eq!(names.len(), count());
        assert_eq!(names[FIRST], "SELECT ? FROM a");
        assert!(
            names[OTHERS].contains("the first 64 statements"),
            "{names:?}"
        );
    }
}
