//! Assigns numbers to a script's statements, under which their latencies are counted.
//!
//! All workers share the numbers. How many there are is fixed before the load, so that recorders are created once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::statement_text::without_values;

/// How many of a script's statements have a number of their own: the first ones that are sent.
pub const MOST_STATEMENTS: usize = 64;
const PREPARING: usize = 0;
/// The number for statements without a number of their own.
const OTHERS: usize = 1;
const FIRST: usize = 2;

/// The texts of the statements so far, in all workers.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    met: Mutex<SeenTexts>,
}

#[derive(Debug, Default)]
struct SeenTexts {
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

    /// The name of each number, without those that no statement has.
    pub fn names(&self) -> Vec<String> {
        let met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let others = format!("(others: the first {MOST_STATEMENTS} statements have lines of their own)");
        let fixed = ["(preparing statements)".to_owned(), others];
        fixed.into_iter().chain(met.texts.iter().cloned()).collect()
    }
}

pub const fn count() -> usize {
    FIRST + MOST_STATEMENTS
}

/// The numbers as one worker knows them: it asks for each only once.
#[derive(Debug)]
pub(crate) struct Commands {
    texts: Arc<Texts>,
    known: HashMap<String, usize>,
}

impl Commands {
    pub fn new(texts: Arc<Texts>) -> Self {
        Self { texts, known: HashMap::new() }
    }

    /// The number of a statement, whose text has values or placeholders in it.
    pub fn number(&mut self, sql: &[u8]) -> usize {
        let text = without_values(sql);
        if let Some(number) = self.known.get(&text) {
            return *number;
        }
        let number = self.texts.number(&text);
        // statements without a number of their own are not cached, because there may be any number of them
        if number != OTHERS {
            self.known.insert(text, number);
        }
        number
    }
}

/// The number for preparing, and for everything if statements are not distinguished.
pub(crate) const ANY: usize = PREPARING;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_agree_and_what_is_too_much_is_counted_together() {
        let texts = Arc::new(Texts::default());
        let (mut one, mut other) = (Commands::new(Arc::clone(&texts)), Commands::new(Arc::clone(&texts)));
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
        assert!(names[OTHERS].contains("the first 64 statements"), "{names:?}");
    }
}
