//! The simple protocol: one message with any number of statements.

use crate::answers::Answer;
use crate::classify::classify;
use crate::connection::{Connection, Rows, SharedAnswers, Turn};
use crate::encode;
use crate::sql;
use crate::startup_packet::split_cstr;
use crate::statement_error::{Stop, Trouble};
use pgdyno_wire::SqlState;

impl Connection {
    pub(crate) fn simple_query(&mut self, body: &[u8], shared: &SharedAnswers, out: &mut Vec<u8>) -> Turn {
        self.drop_unnamed();
        let done = match split_cstr(body) {
            Some((sql, _)) => self.statements_of(sql, shared, out),
            None => Err(Trouble::malformed().into()),
        };
        match done {
            Ok(()) => {}
            Err(Stop::Close) => return Turn::Close,
            Err(Stop::Trouble(trouble)) => self.fail(&trouble, out),
        }
        // a COPY is answered after its data has arrived
        if self.copy.is_none() {
            encode::ready(out, self.transaction);
        }
        Turn::Open
    }

    fn statements_of(&mut self, sql: &[u8], shared: &SharedAnswers, out: &mut Vec<u8>) -> Result<(), Stop> {
        let mut rest = sql;
        let mut answered = false;
        loop {
            let (one, others) = sql::split(rest);
            let last = sql::is_blank(others);
            let answer = self.resolve(classify(one))?;
            if answer != Answer::Empty {
                self.check_transaction(answer)?;
                if answer == Answer::CopyIn && !last {
                    let text = "COPY FROM STDIN must be the last statement of a query";
                    return Err(Trouble::new(SqlState::FEATURE_NOT_SUPPORTED, text).into());
                }
                self.run(answer, Rows::Described, shared, out)?;
                answered = true;
            }
            if last {
                break;
            }
            rest = others;
        }
        if !answered {
            encode::bare(out, b'I');
        }
        Ok(())
    }
}
