//! The effect of a statement on the following ones, as far as its first words show it.

use crate::sql_scanner::{SqlScanner, Stop};
use crate::vars::is_name_byte;

/// What is known of the transaction block after a statement, before its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequel {
    /// A block remains open, or none is: the usual statement.
    Unchanged,
    /// A block is open: BEGIN, START TRANSACTION.
    OpensBlock,
    /// Only the answer shows it: for the end of a block, which may be a rollback; for COPY, which
    /// may need data; and for text that begins with a variable.
    Unknown,
}

impl Sequel {
    /// The effect of a statement's text, or of several statements joined by `\;`.
    pub(crate) fn of(sql: &str) -> Sequel {
        let mut scanner = SqlScanner::new(sql);
        let mut sequel = Sequel::Unchanged;
        loop {
            let piece = scanner.next_piece();
            match Sequel::of_one(&piece.sql) {
                Sequel::Unknown => return Sequel::Unknown,
                Sequel::OpensBlock => sequel = Sequel::OpensBlock,
                Sequel::Unchanged => {}
            }
            if piece.stop == Stop::End {
                return sequel;
            }
        }
    }

    fn of_one(sql: &str) -> Sequel {
        let Some([first, second, third]) = first_words(sql) else {
            return Sequel::Unknown;
        };
        let is = |word: &str, keyword: &str| word.eq_ignore_ascii_case(keyword);
        let is_any = |keywords: &[&str]| keywords.iter().any(|keyword| is(first, keyword));
        let opens = is_any(&["begin"]) || (is(first, "start") && is(second, "transaction"));
        // ROLLBACK [WORK | TRANSACTION] TO a savepoint remains in the block
        let ends = is_any(&["commit", "end", "abort"])
            || (is(first, "rollback") && !is(second, "to") && !is(third, "to"))
            || (is(first, "prepare") && is(second, "transaction"));
        if opens {
            Sequel::OpensBlock
        } else if ends || is_any(&["copy"]) {
            Sequel::Unknown
        } else {
            Sequel::Unchanged
        }
    }
}

/// The first words of a statement, padded with empty ones; comments are skipped. None if it begins with a variable.
fn first_words(sql: &str) -> Option<[&str; 3]> {
    let mut words = [""; 3];
    let mut found = 0;
    let mut scanner = SqlScanner::new(sql);
    while let (Some(&first), true) = (sql.as_bytes().get(scanner.position), found < 3) {
        let from = scanner.position;
        let is_comment = sql[from..].starts_with("/*");
        let is_blank = scanner.token(first);
        if is_name_byte(first) {
            words[found] = &sql[from..scanner.position];
            found += 1;
        } else if !is_blank && !is_comment {
            return (first != b':' || found > 0).then_some(words);
        }
    }
    Some(words)
}

/// Where `sql` begins, after blanks and comments.
pub fn first_word_at(sql: &str) -> usize {
    let mut scanner = SqlScanner::new(sql);
    loop {
        let from = scanner.position;
        let is_comment = sql[from..].starts_with("/*");
        match sql.as_bytes().get(from) {
            Some(&first) if scanner.token(first) || is_comment => {}
            _ => return from,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_words_tell() {
        for (expected, statements) in [
            (
                Sequel::OpensBlock,
                &[
                    "BEGIN;", "begin isolation level serializable", "/* a /* b */ */ -- c\n  Begin;",
                    "START\n/**/TRANSACTION READ ONLY;", "SELECT 1; BEGIN; SELECT 2;", "BEGIN :level;",
                ][..],
            ),
            (
                Sequel::Unknown,
                &[
                    "COMMIT;", "END", "abort;", "ROLLBACK;", "rollback work;", "PREPARE TRANSACTION 'x';",
                    "COPY t FROM STDIN;", ":statement;", " :statement", "BEGIN; UPDATE t SET x = 1; END;",
                    "SELECT 1; COPY t FROM STDIN;",
                ],
            ),
            (
                Sequel::Unchanged,
                &[
                    "", ";", "-- COMMIT\n;", "SELECT 'COMMIT';", "(SELECT 1);", "\"begin\";",
                    "PREPARE begin AS SELECT 1;", "ROLLBACK TO a;", "ROLLBACK TRANSACTION TO SAVEPOINT a;",
                    "BEGINNING;", "START_REPLICATION;", "SELECT 'a; COMMIT;';", "SELECT :a;",
                    "UPDATE t SET x = 1; SELECT 2;", "SELECT é;",
                ],
            ),
        ] {
            for statement in statements {
                assert_eq!(Sequel::of(statement), expected, "{statement}");
            }
        }
    }
}
