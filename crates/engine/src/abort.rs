//! Why a client gives up, in the lines that pgbench prints.

/// What ended a client, when it was not an error of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abort {
    /// What failed in an expression or a shell command, said on a line of its own.
    pub cause: Option<String>,
    /// How the line that names the client is built.
    pub form: Form,
    /// The end of that line.
    pub message: String,
}

/// The part of the line in front of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A command, under its own name or the one given here.
    Command(Option<&'static str>),
    /// Rows that `\gset` or `\aset` cannot take.
    Rows,
    /// A phase of the transaction: `aborted while rolling back…`.
    While,
    /// The end of the script.
    AtEnd,
}

/// Where a client is.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Its number.
    pub client: usize,
    /// Script's number.
    pub script: usize,
    /// Command's number in it.
    pub command: usize,
    /// Number of the result in which it happened.
    pub query: usize,
    /// What the command is called.
    pub word: &'a str,
}

impl Abort {
    /// A command that cannot go on.
    #[must_use]
    pub fn command(word: &'static str, message: &str) -> Self {
        Self::new(Form::Command(Some(word)), message)
    }

    /// Any form without a cause.
    #[must_use]
    pub fn new(form: Form, message: impl Into<String>) -> Self {
        Self {
            cause: None,
            form,
            message: message.into(),
        }
    }

    /// With what failed inside of it.
    #[must_use]
    pub fn because(mut self, cause: impl ToString) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// The lines that pgbench writes.
    #[must_use]
    pub fn lines(&self, place: &Place<'_>) -> Vec<String> {
        let Place {
            client,
            script,
            command,
            query,
            word,
        } = place;
        let message = &self.message;
        let line = match self.form {
            Form::Command(name) => {
                let name = name.unwrap_or(word);
                format!(
                    "client {client} aborted in command {command} ({name}) of script {script}; {message}"
                )
            }
            Form::Rows => {
                format!(
                    "client {client} script {script} command {command} query {query}: {message}"
                )
            }
            Form::While => format!("client {client} aborted while {message}"),
            Form::AtEnd => format!("client {client} aborted: {message}"),
        };
        self.cause.iter().cloned().chain([line]).collect()
    }

    /// The one thing that went wrong.
    #[must_use]
    pub fn reason(&self) -> &str {
        self.cause.as_deref().unwrap_or(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_pgbenchs() {
        let place = Place {
            client: 3,
            script: 1,
            command: 2,
            query: 0,
            word: "set",
        };
        let failed = Abort::new(Form::Command(None), "evaluation of meta-command failed");
        assert_eq!(
            failed.because("division by zero").lines(&place),
            [
                "division by zero",
                "client 3 aborted in command 2 (set) of script 1; evaluation of meta-command failed"
            ]
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
            (
                Abort::new(Form::While, "establishing connection"),
                "client 3 aborted while establishing connection",
            ),
            (
                Abort::new(Form::AtEnd, "end of script reached with pipeline open"),
                "client 3 aborted: end of script reached with pipeline open",
            ),
        ] {
            assert_eq!(abort.lines(&place), [line]);
        }
    }
}
