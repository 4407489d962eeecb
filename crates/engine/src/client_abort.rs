//! Why a client gives up, in the lines that pgbench prints.

/// Why a client gave up, when the cause was not an error of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abort {
    /// What failed in an expression or a shell command; printed on a line of its own.
    pub cause: Option<String>,
    /// Which form the line that names the client has.
    pub form: Form,
    /// The end of the line that names the client.
    pub message: String,
}

/// The part of the line before the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Names a command, by its own name or by the one given here.
    Command(Option<&'static str>),
    /// Names a result whose rows `\gset` or `\aset` cannot use.
    Rows,
    /// Names a phase of the transaction: `aborted while rolling back…`.
    While,
    /// Names the end of the script.
    AtEnd,
}

/// Where in its script a client is.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub client: usize,
    pub script: usize,
    pub command: usize,
    /// Number of the result in which the failure happened.
    pub query: usize,
    /// Name of the command.
    pub word: &'a str,
}

impl Abort {
    pub fn command(word: &'static str, message: &str) -> Self {
        Self::new(Form::Command(Some(word)), message)
    }

    /// An abort of any form, without a cause.
    pub fn new(form: Form, message: impl Into<String>) -> Self {
        Self { cause: None, form, message: message.into() }
    }

    /// Adds the cause, which is printed on a line of its own.
    pub fn because(mut self, cause: impl ToString) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// The lines that pgbench writes.
    pub fn lines(&self, place: &Place<'_>) -> Vec<String> {
        let Place { client, script, command, query, word } = place;
        let message = &self.message;
        let line = match self.form {
            Form::Command(name) => {
                let name = name.unwrap_or(word);
                format!("client {client} aborted in command {command} ({name}) of script {script}; {message}")
            }
            Form::Rows => {
                format!("client {client} script {script} command {command} query {query}: {message}")
            }
            Form::While => format!("client {client} aborted while {message}"),
            Form::AtEnd => format!("client {client} aborted: {message}"),
        };
        self.cause.iter().cloned().chain([line]).collect()
    }

    /// What went wrong: the cause if there is one, otherwise the message.
    pub fn reason(&self) -> &str {
        self.cause.as_deref().unwrap_or(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_pgbenchs() {
        let place = Place { client: 3, script: 1, command: 2, query: 0, word: "set" };
        let failed = Abort::new(Form::Command(None), "evaluation of meta-command failed");
        assert_eq!(
            failed.because("division by zero").lines(&place),
            ["division by zero", "client 3 aborted in command 2 (set) of script 1; evaluation of meta-command failed"]
        );
        for (abort, line) in [
            (
                Abort::command("syncpipeline", "not in pipeline mode"),
                "client 3 aborted in command 2 (syncpipeline) of script 1; not in pipeline mode",
            ),
            (
                Abort::new(Form::Rows, "expected one row, got 0"),
                "client 3 script 1 command 2 query 0: expected one row, got 0",
            ),
            (Abort::new(Form::While, "establishing connection"), "client 3 aborted while establishing connection"),
            (
                Abort::new(Form::AtEnd, "end of script reached with pipeline open"),
                "client 3 aborted: end of script reached with pipeline open",
            ),
        ] {
            assert_eq!(abort.lines(&place), [line]);
        }
    }
}
