//! `\shell` and `\setshell`: runs a system command and waits for it, as pgbench does.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use pgdyno_script::{Program, ShellArg, Vars, shell_result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// How often a wait checks whether the load is to stop.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// How many such periods a command has to end after SIGTERM, before SIGKILL.
const PERIODS_TO_END: usize = 20;

/// Runs a command with our standard output and error. When `stopped` says so, ends all processes of its group.
pub fn run(program: &Program, args: &[ShellArg], vars: &Vars, stopped: impl Fn() -> bool) -> Result<(), String> {
    let line = command_line(program, args, vars)?;
    let ended = command(&line).spawn().and_then(|child| end(child, &stopped));
    match ended {
        Ok(status) if status.success() => Ok(()),
        _ => Err(not_launched(&line)),
    }
}

/// Runs a command as [`run`] does, and reads the integer on the first line of its output.
pub fn output(program: &Program, args: &[ShellArg], vars: &Vars, stopped: impl Fn() -> bool) -> Result<i64, String> {
    let line = command_line(program, args, vars)?;
    let output = command(&line)
        .stdout(Stdio::piped())
        .spawn()
        .and_then(|child| read(child, &stopped))
        .map_err(|_| not_launched(&line))?;
    let Some(first) = output.split_inclusive(|&byte| byte == b'\n').next() else {
        let program = first_word(&line);
        return Err(format!("{program}: could not read result of shell command"));
    };
    shell_result(args, first).map_err(|error| error.to_string())
}

/// A command in a process group of its own, so that its children end with it.
fn command(line: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line).stdin(Stdio::null());
    command.process_group(0);
    command
}

fn read(mut child: Child, stopped: &impl Fn() -> bool) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = child.stdout.take() {
        let mut piece = [0; 4096];
        loop {
            if !is_ready(pipe.as_fd())? {
                if stopped() {
                    break;
                }
                continue;
            }
            match pipe.read(&mut piece)? {
                0 => break,
                count => bytes.extend_from_slice(&piece[..count]),
            }
        }
    }
    end(child, stopped)?;
    Ok(bytes)
}

fn end(mut child: Child, stopped: &impl Fn() -> bool) -> io::Result<ExitStatus> {
    let group = Pid::from_child(&child);
    let Ok(process) = pidfd_open(group, PidfdFlags::empty()) else {
        return child.wait();
    };
    let mut periods = 0;
    while !is_ready(process.as_fd())? {
        if !stopped() {
            continue;
        }
        match periods {
            // fails if the group has just ended
            0 => drop(kill_process_group(group, Signal::TERM)),
            PERIODS_TO_END => drop(kill_process_group(group, Signal::KILL)),
            _ => {}
        }
        periods += 1;
    }
    child.wait()
}

fn is_ready(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    match poll(&mut fds, Some(&LOOK_EVERY)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn not_launched(line: &str) -> String {
    format!("{}: could not launch shell command", first_word(line))
}

fn first_word(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

fn command_line(program: &Program, args: &[ShellArg], vars: &Vars) -> Result<String, String> {
    let mut line = Vec::new();
    program.shell_command(args, vars, &mut line).map_err(|error| error.to_string())?;
    String::from_utf8(line).map_err(|_| "the shell command is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn a_load_that_stops_ends_a_command_and_its_children_and_does_not_wait_for_output() {
        let file = std::env::temp_dir().join(format!("pgdyno-shell-{}", std::process::id()));
        let child = || std::fs::read_to_string(&file).unwrap_or_default();
        for trap in ["", "trap '' TERM; "] {
            let _ = std::fs::remove_file(&file);
            let path = file.display();
            let line = format!("{trap}sleep 3600 & echo $! > {path}; sleep 3600");
            let stopped = || child().ends_with('\n');
            assert!(!end(command(&line).spawn().expect("a shell"), &stopped).expect("it has ended").success());
            while runs(&child()) {
                std::thread::yield_now();
            }
        }
        let _ = std::fs::remove_file(&file);
        let mut spawned = command("sleep 3600");
        let child = spawned.stdout(Stdio::piped()).spawn().expect("a shell");
        assert!(read(child, &|| true).expect("it has ended").is_empty());
    }
}
