//! Errors by SQLSTATE and message.

use std::collections::HashMap;

use pgdyno_wire::SqlState;

/// The most errors that are told apart: a message may contain a value.
const MOST_ERRORS: usize = 100;

/// Stands for the messages of a SQLSTATE beyond [`MOST_ERRORS`].
const OTHER_MESSAGES: &str = "(other messages)";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorCount {
    /// None when the error is not the server's.
    pub sqlstate: Option<String>,
    /// What the server said, or [`OTHER_MESSAGES`].
    pub message: String,
    /// How often it occurred.
    pub count: u64,
    /// Whether there was no connection for the transaction.
    pub is_refusal: bool,
}

/// The SQLSTATE, and whether the error is a refusal.
type Kind = (Option<SqlState>, bool);

#[derive(Debug, Default)]
pub struct ErrorCounts {
    counts: HashMap<Kind, HashMap<String, u64>>,
    /// How many errors are told apart.
    kinds: usize,
}

impl ErrorCounts {
    pub fn count(&mut self, sqlstate: Option<SqlState>, message: &str, times: u64) {
        self.add_kind((sqlstate, false), message, times);
    }

    /// Counts a transaction for which there was no connection.
    pub fn count_refusal(&mut self, sqlstate: Option<SqlState>, message: &str) {
        self.add_kind((sqlstate, true), message, 1);
    }

    fn add_kind(&mut self, kind: Kind, message: &str, times: u64) {
        let messages = self.counts.entry(kind).or_default();
        if let Some(count) = messages.get_mut(message) {
            *count += times;
            return;
        }
        // those that another worker did not tell apart take no place here
        let is_kind = self.kinds < MOST_ERRORS && message != OTHER_MESSAGES;
        let message = if is_kind { message } else { OTHER_MESSAGES };
        self.kinds += usize::from(is_kind);
        *messages.entry(message.to_owned()).or_default() += times;
    }

    pub fn add(&mut self, other: &Self) {
        for (kind, messages) in &other.counts {
            for (message, times) in messages {
                self.add_kind(*kind, message, *times);
            }
        }
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The errors, most frequent first.
    pub fn into_list(self) -> Vec<ErrorCount> {
        let by_state = self.counts.into_iter();
        let mut list: Vec<ErrorCount> = by_state
            .flat_map(|((sqlstate, is_refusal), messages)| {
                messages.into_iter().map(move |(message, count)| ErrorCount {
                    sqlstate: sqlstate.map(|state| state.as_str().to_owned()),
                    message,
                    count,
                    is_refusal,
                })
            })
            .collect();
        list.sort_by(|a, b| {
            let by_name = a.sqlstate.cmp(&b.sqlstate);
            let by_name = by_name.then_with(|| a.message.cmp(&b.message));
            b.count.cmp(&a.count).then(by_name)
        });
        list
    }
}
