//! `\shell` and `\setshell`: runs a system command and waits for it, as pgbench does.

use std::process::{Command, Stdio};

use pgdyno_script::{Program, ShellArg, Vars, shell_result};

/// Runs a command, which inherits standard output and standard error.
///
/// # Errors
/// The command cannot be started or does not exit with 0; in pgbench's words.
pub fn run(program: &Program, args: &[ShellArg], vars: &Vars) -> Result<(), String> {
    let line = command_line(program, args, vars)?;
    match Command::new("/bin/sh")
        .arg("-c")
        .arg(&line)
        .stdin(Stdio::null())
        .status()
    {
        Ok(status) if status.success() => Ok(()),
        _ => Err(not_launched(&line)),
    }
}

/// Runs a command and reads the integer on the first line of its output.
///
/// # Errors
/// The command cannot be run or prints something else; in pgbench's words.
pub fn output(program: &Program, args: &[ShellArg], vars: &Vars) -> Result<i64, String> {
    let line = command_line(program, args, vars)?;
    let output = Command::new("/bin/sh")
        .arg("-c")
        .arg(&line)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|_| not_launched(&line))?;
    let Some(first) = output.stdout.split_inclusive(|&byte| byte == b'\n').next() else {
        let program = first_word(&line);
        return Err(format!("{program}: could not read result of shell command"));
    };
    shell_result(args, first).map_err(|error| error.to_string())
}

fn not_launched(line: &str) -> String {
    format!("{}: could not launch shell command", first_word(line))
}

fn first_word(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

fn command_line(program: &Program, args: &[ShellArg], vars: &Vars) -> Result<String, String> {
    let mut line = Vec::new();
    program
        .shell_command(args, vars, &mut line)
        .map_err(|error| error.to_string())?;
    String::from_utf8(line).map_err(|_| "the shell command is not UTF-8".to_owned())
}
