//! `\shell` and `\setshell`: a command of the system, waited for as pgbench does.

use std::process::{Command, Stdio};

use pgdyno_script::{Program, ShellArg, Vars, shell_result};

/// Runs a command; what it prints goes where ours goes.
///
/// # Errors
/// When it cannot be started or does not exit with 0.
pub fn run(program: &Program, args: &[ShellArg], vars: &Vars) -> Result<(), String> {
    let line = command_line(program, args, vars)?;
    match Command::new("/bin/sh")
        .arg("-c")
        .arg(&line)
        .stdin(Stdio::null())
        .status()
    {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{line}: shell command failed: {status}")),
        Err(error) => Err(format!("{line}: could not launch shell command: {error}")),
    }
}

/// Runs a command and reads the whole number on the first line that it prints.
///
/// # Errors
/// When it cannot be run, fails, or prints something else.
pub fn output(program: &Program, args: &[ShellArg], vars: &Vars) -> Result<i64, String> {
    let line = command_line(program, args, vars)?;
    let output = Command::new("/bin/sh")
        .arg("-c")
        .arg(&line)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{line}: could not launch shell command: {error}"))?;
    if !output.status.success() {
        return Err(format!("{line}: shell command failed: {}", output.status));
    }
    let first = output
        .stdout
        .split_inclusive(|&byte| byte == b'\n')
        .next()
        .unwrap_or_default();
    shell_result(args, first).map_err(|error| error.to_string())
}

fn command_line(program: &Program, args: &[ShellArg], vars: &Vars) -> Result<String, String> {
    let mut line = Vec::new();
    program
        .shell_command(args, vars, &mut line)
        .map_err(|error| error.to_string())?;
    String::from_utf8(line).map_err(|_| "the shell command is not UTF-8".to_owned())
}
