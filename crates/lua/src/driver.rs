//! Runs a client's coroutine as a [`Driver`]: events go in, and requests of the script come out.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mlua::{String as LuaString, Table, Thread, Value};
use pgdyno_engine::clock::Nanos;
use pgdyno_engine::driver::{Answer, Change, Driver, Event, Outgoing, Refused, Request, StatementKind};

use crate::error::words;
use crate::lua_state::{State, ask, code};
use crate::random_string::Letters;
use crate::watchdog::Watch;

/// What a coroutine yields: a request and its arguments.
type Asked = (i64, Value, Value, Value, Value, Value, Value);

pub(crate) struct Session {
    state: Arc<State>,
    thread: Thread,
    /// The client's table, until the coroutine receives it.
    client: Option<Table>,
    /// Number of the current connection; the first is number 0.
    current: usize,
    /// The connection that was current before the change that is under way.
    left: usize,
    /// Indexed by connection and number of the statement: whether it is prepared.
    prepared: Vec<Vec<bool>>,
    /// The statement whose preparation the server has not answered yet.
    preparing: Option<usize>,
    letters: Letters,
    watch: Arc<Watch>,
}

/// A value with which a coroutine is resumed.
enum Word {
    Code(i64),
    /// Numbers of rows and columns, for an answer with rows, and the rows as the server sent them, if they were kept.
    Rows(usize, u16, Option<LuaString>),
    Failure {
        sqlstate: LuaString,
        message: LuaString,
        in_block: bool,
    },
}

enum Step {
    /// The engine has to carry it out.
    Ask(Request),
    /// It was carried out immediately.
    Answer(Word),
}

impl Session {
    pub fn new(state: Arc<State>, thread: Thread, client: Table, seed: u64, watch: Arc<Watch>) -> Self {
        Self {
            state,
            thread,
            client: Some(client),
            current: 0,
            left: 0,
            prepared: vec![Vec::new()],
            preparing: None,
            letters: Letters::new(seed),
            watch,
        }
    }

    /// Takes note of what an event means for the connections and their prepared statements.
    fn note(&mut self, event: &Event<'_>) {
        let preparing = self.preparing.take();
        match event {
            Event::Answered(answer) if answer.error().is_none() => {
                if let Some(number) = preparing {
                    self.prepared[self.current][number] = true;
                }
            }
            // the engine kept the session that it had, or replaced it
            Event::Changed(Some(_)) | Event::Connected => self.current = self.left,
            Event::Changed(None) => self.left = self.current,
            _ => {}
        }
    }

    fn word(&mut self, event: &Event<'_>) -> mlua::Result<Word> {
        self.note(event);
        Ok(match event {
            Event::Connected => {
                self.forget_prepared();
                Word::Code(code::CONNECTED)
            }
            Event::Begin { .. } => Word::Code(code::BEGIN),
            Event::Ending => Word::Code(code::ENDING),
            Event::Woken => Word::Code(code::ANSWERED),
            Event::Changed(None) => Word::Code(code::ANSWERED),
            Event::Changed(Some(why)) => Word::Failure {
                sqlstate: self.state.lua.create_string("")?,
                message: self.state.lua.create_string(why)?,
                in_block: false,
            },
            Event::Answered(answer) => self.read_answer(answer)?,
        })
    }

    fn read_answer(&self, answer: &Answer) -> mlua::Result<Word> {
        if let Some(error) = answer.error() {
            return Ok(Word::Failure {
                sqlstate: self.state.lua.create_string(error.sqlstate().as_str())?,
                message: self.state.lua.create_string(&error.message)?,
                in_block: answer.in_block(),
            });
        }
        // with several statements in one query, the last result counts
        Ok(match answer.results().last() {
            Some(result) if result.columns.is_some() || result.kind == StatementKind::Read => {
                let sent = answer.rows(answer.results().len() - 1);
                // the tags of SHOW, EXPLAIN and CALL have no number
                let rows = result.affected.map_or(sent.len(), |rows| rows as usize);
                let values = if sent.is_empty() { None } else { Some(self.state.lua.create_string(sent.as_bytes())?) };
                Word::Rows(rows, result.columns.unwrap_or(0), values)
            }
            _ => Word::Code(code::ANSWERED),
        })
    }

    fn resume_thread(&mut self, word: Word) -> mlua::Result<Asked> {
        if let Some(client) = self.client.take() {
            return self.thread.resume(client);
        }
        match word {
            Word::Code(code) => self.thread.resume(code),
            Word::Rows(rows, columns, values) => self.thread.resume((code::ANSWERED, rows, columns, values)),
            Word::Failure { sqlstate, message, in_block } => {
                self.thread.resume((code::REFUSED, sqlstate, message, in_block))
            }
        }
    }

    fn carry_out(&mut self, asked: Asked, out: &mut Outgoing<'_>) -> mlua::Result<Step> {
        let (op, a, b, c, d, e, f) = asked;
        let request = match op {
            ask::DONE => Request::Done,
            ask::STOP => Request::Stop,
            ask::QUERY => self.query(&a, out)?,
            ask::PREPARE => return self.prepare(number(&a)?, out),
            ask::EXECUTE => self.execute(number(&a)?, number(&b)?, &[c, d, e, f], out)?,
            ask::EXECUTE_MANY => {
                let count = number(&c)?;
                let Value::Table(values) = d else {
                    return Err(mlua::Error::runtime("the values are no table"));
                };
                let values: mlua::Result<Vec<Value>> = (1..=count).map(|at| values.get(at)).collect();
                self.execute(number(&a)?, number(&b)?, &values?, out)?
            }
            ask::OPEN => {
                self.left = std::mem::replace(&mut self.current, number(&a)?);
                self.forget_prepared();
                Request::Change(Change::Open(self.current))
            }
            ask::USE => {
                self.left = std::mem::replace(&mut self.current, number(&a)?);
                Request::Change(Change::Use(self.current))
            }
            ask::REPLACE => {
                self.forget_prepared();
                let counts = matches!(a, Value::Boolean(true));
                Request::Change(Change::Replace { counts })
            }
            ask::CLOSE => Request::Close(number(&a)?),
            ask::SLEEP => {
                let seconds = a.as_f64().or_else(|| a.as_i64().map(|whole| whole as f64));
                let length = Duration::try_from_secs_f64(seconds.unwrap_or_default());
                Request::Sleep(length.unwrap_or_default())
            }
            ask::REFUSED => {
                Request::Refused(Refused { ignorable: matches!(a, Value::Boolean(true)), words: Some(text(&b)) })
            }
            _ => Request::Abort(text(&a)),
        };
        Ok(Step::Ask(request))
    }

    fn query(&self, sql: &Value, out: &mut Outgoing<'_>) -> mlua::Result<Request> {
        let Value::String(sql) = sql else {
            return Err(not_text(sql));
        };
        let sql = sql.as_bytes();
        out.query(&*sql).map_err(mlua::Error::runtime)?;
        if self.state.by_statement {
            out.command(self.state.statements().command(&sql));
        }
        Ok(Request::Await)
    }

    /// Forgets the prepared statements, because the current connection is a new one.
    fn forget_prepared(&mut self) {
        if self.prepared.len() <= self.current {
            self.prepared.resize(self.current + 1, Vec::new());
        }
        self.prepared[self.current].clear();
    }

    fn prepare(&mut self, number: usize, out: &mut Outgoing<'_>) -> mlua::Result<Step> {
        let prepared = &mut self.prepared[self.current];
        if prepared.len() <= number {
            prepared.resize(number + 1, false);
        }
        // without prepared statements, each execution sends the text
        if !self.state.prepares || prepared[number] {
            return Ok(Step::Answer(Word::Code(code::ANSWERED)));
        }
        self.preparing = Some(number);
        let statements = self.state.statements();
        let statement = statements.get(number).ok_or_else(|| no_statement(number))?;
        out.parse_typed(&statement.name, &statement.sql, &statement.types).map_err(mlua::Error::runtime)?;
        Ok(Step::Ask(Request::Await))
    }

    fn execute(
        &mut self, number: usize, templates: usize, values: &[Value], out: &mut Outgoing<'_>,
    ) -> mlua::Result<Request> {
        let statements = self.state.statements();
        let statement = statements.get(number).ok_or_else(|| no_statement(number))?;
        out.command(statement.command);
        let letters = &mut self.letters;
        let rows = self.state.reads_rows.load(Ordering::Relaxed);
        let mut wrong = None;
        let mut write = |index: u16, out: &mut Vec<u8>| {
            let index = usize::from(index);
            let is_template = index < 64 && templates >> index & 1 == 1;
            match values.get(index) {
                Some(Value::String(template)) if is_template => letters.fill(&template.as_bytes(), out),
                Some(value) => {
                    return write_value(value, out).unwrap_or_else(|what| {
                        wrong = Some((index + 1, what));
                        false
                    });
                }
                None => return false,
            }
            true
        };
        let written = if self.state.prepares {
            out.execute(statement.bind(rows), write)
        } else {
            out.query(statement.with_values(|index, out| {
                let is_text = matches!(values.get(usize::from(index)), Some(Value::String(_)));
                write(index, out).then_some(is_text)
            }))
        };
        written.map_err(mlua::Error::runtime)?;
        match wrong {
            Some((index, what)) => {
                Err(mlua::Error::runtime(format!("parameter {index} is a {what}, which is no value of SQL")))
            }
            None => Ok(Request::Await),
        }
    }

    fn go_on(&mut self, event: &Event<'_>, out: &mut Outgoing<'_>) -> mlua::Result<Request> {
        let mut word = self.word(event)?;
        loop {
            let asked = self.resume_thread(word)?;
            if let Some(counted) = self.state.counted.take() {
                out.count(&counted);
            }
            if self.state.reads_rows.load(Ordering::Relaxed) {
                out.keep_rows();
            }
            match self.carry_out(asked, out)? {
                Step::Ask(request) => return Ok(request),
                Step::Answer(next) => word = next,
            }
        }
    }
}

impl Driver for Session {
    fn resume(&mut self, event: Event<'_>, _now: Nanos, out: &mut Outgoing<'_>) -> Request {
        self.watch.enter();
        let request = self.go_on(&event, out);
        self.watch.leave();
        request.unwrap_or_else(|error| Request::Abort(words(&error)))
    }
}

/// Appends a value as text; returns false for NULL.
fn write_value(value: &Value, out: &mut Vec<u8>) -> Result<bool, &'static str> {
    match value {
        Value::Nil => return Ok(false),
        Value::Boolean(value) => out.push(if *value { b't' } else { b'f' }),
        // writing to a vector cannot fail
        Value::Integer(value) => drop(write!(out, "{value}")),
        Value::Number(value) => drop(write!(out, "{value}")),
        Value::String(value) => out.extend_from_slice(&value.as_bytes()),
        Value::Other(_) => return Err("cdata"),
        other => return Err(other.type_name()),
    }
    Ok(true)
}

fn number(value: &Value) -> mlua::Result<usize> {
    value.as_usize().ok_or_else(|| mlua::Error::runtime("the script's runtime asks for no number"))
}

fn no_statement(number: usize) -> mlua::Error {
    mlua::Error::runtime(format!("there is no statement number {number}"))
}

fn not_text(value: &Value) -> mlua::Error {
    let kind = value.type_name();
    mlua::Error::runtime(format!("a query is a string, not a {kind}"))
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string_lossy(),
        other => other.type_name().to_owned(),
    }
}
