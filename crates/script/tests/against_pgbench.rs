//! Compares the same scripts with a real pgbench: values, errors, statements.
//!
//! `PGDYNO_TEST_PGBENCH` names the binary, `PGDYNO_TEST_DSN` a server (pgbench runs no script
//! without one; errors of syntax need none). Nothing is stored there. Minor versions of pgbench
//! reword messages, so only their meaning is compared, unless `PGDYNO_TEST_PGBENCH_WORDS` is
//! `known`: that version's wording is pgdrive's.
//!
//! ```text
//! PGDYNO_TEST_PGBENCH=/usr/bin/pgbench PGDYNO_TEST_DSN='host=/tmp user=postgres' \
//!     cargo test -p pgdyno-script --test against_pgbench -- --ignored
//! ```

mod common;

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use common::generate::{expression, fragment, sql_fragment};
use common::{compiled, run, source};
use pgdyno_script::{QueryMode, Sql, parse};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// The variables that `-D` defines in every run.
const DEFINES: [(&str, &str); 3] = [("x", "7"), ("text", "bla"), ("default_seed", "5432")];

/// Nothing listens here, so pgbench only checks the syntax.
const NO_SERVER: &str = "host=/nonexistent";

/// Runs a script once as one client; returns its standard error.
fn pgbench(name: &str, script: &str, dsn: &str, options: &[&str]) -> String {
    let binary = std::env::var("PGDYNO_TEST_PGBENCH").expect("PGDYNO_TEST_PGBENCH is not set");
    let path: PathBuf = std::env::temp_dir().join(format!("pgdyno-{}-{name}.sql", std::process::id()));
    fs::write(&path, script).unwrap();
    let mut command = Command::new(binary);
    command.env("LC_ALL", "C").args(["-n", "-t", "1", "--random-seed=5432"]);
    for (name, value) in DEFINES {
        command.arg(format!("-D{name}={value}"));
    }
    let output = command.args(options).arg("-f").arg(&path).arg(dsn).output().unwrap();
    fs::remove_file(&path).unwrap();
    let path = path.to_string_lossy().into_owned();
    String::from_utf8_lossy(&output.stderr).replace(&path, "f.sql")
}

fn dsn() -> String {
    std::env::var("PGDYNO_TEST_DSN").expect("PGDYNO_TEST_DSN is not set")
}

/// Asserts that pgbench's message and ours are equal: in the wording where that is known, and in
/// any case in the meaning.
fn assert_same_words(theirs: &str, ours: &str, script: &str) {
    assert_eq!(meaning(theirs), meaning(ours), "{script:?}\n{theirs}\n{ours}");
    if std::env::var("PGDYNO_TEST_PGBENCH_WORDS").is_ok_and(|words| words == "known") {
        assert_eq!(theirs, ours, "{script:?}");
    }
}

/// What the lines of a message contain in any wording: quoted texts and numbers, in any order.
fn meaning(message: &str) -> Vec<Vec<&str>> {
    let lines = message.lines().map(|line| {
        let mut values = Vec::new();
        for (place, part) in line.split('"').enumerate() {
            if place % 2 == 1 {
                values.push(part);
            } else {
                let numbers = part.split(|each: char| !each.is_ascii_digit());
                values.extend(numbers.filter(|number| !number.is_empty()));
            }
        }
        values.sort_unstable();
        values
    });
    lines.collect()
}

#[test]
fn meanings_are_values_and_not_words() {
    let message = "f.sql:12: syntax error, unexpected \"/\" in command \"set\"\n\\set x 1 /";
    assert_eq!(meaning(message), meaning("f.sql, line 12: command \"set\" has a wrong \"/\"\n\\set x 1 /"));
    for other in ["12:13", "\"set\":\"let\"", " 1 /:", "\n: "] {
        let (old, new) = other.split_once(':').unwrap();
        assert_ne!(meaning(message), meaning(&message.replace(old, new)));
    }
}

fn generated(strategy: &impl Strategy<Value = String>, count: usize) -> Vec<String> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

fn set_debug(expr: &str) -> String {
    format!("\\set y debug({expr})\n")
}

/// Whether pgbench's C is undefined, or draws forever, where we report an error: abs() of a
/// boolean, and parameters of distributions that are not finite.
fn undefined_in_c(expr: &str, error: &str) -> bool {
    (expr.contains("abs(") && error == "cannot coerce boolean to double") || error.ends_with("(not NaN)")
}

#[test]
#[ignore = "needs PGDYNO_TEST_PGBENCH"]
fn values() {
    let mut lines: Vec<String> = generated(&expression(), 3000)
        .iter()
        .map(|expr| set_debug(expr))
        .filter(|line| run(line, &DEFINES).error.is_none())
        .collect();
    // Some expressions fail only with the random numbers that earlier ones leave.
    let ours = loop {
        let ours = run(&lines.concat(), &DEFINES);
        if ours.error.is_none() {
            break ours;
        }
        lines.remove(ours.steps - 1);
    };
    let good = lines.concat();
    assert!(ours.debug.len() > 500, "only {} values", ours.debug.len());
    let stderr = pgbench("values", &good, &dsn(), &[]);
    let theirs: Vec<&str> = stderr.lines().filter(|line| line.starts_with("debug(")).collect();
    for (ours, theirs) in ours.debug.iter().zip(&theirs) {
        let number: usize = ours.split(['=', ')']).nth(2).and_then(|n| n.parse().ok()).unwrap_or(1);
        assert_eq!(ours, theirs, "{:?}", good.lines().nth(number - 1));
    }
    assert_eq!(ours.debug.len(), theirs.len(), "{stderr}");
}

#[test]
#[ignore = "needs PGDYNO_TEST_PGBENCH"]
fn errors_of_evaluation() {
    let mut seen = HashSet::new();
    let fixed = [":text", ":nosuch + 1", "hash(true)", "least(1, true)", "pow(true, 1)", "1 % 0"];
    for expr in fixed.map(str::to_owned).into_iter().chain(generated(&expression(), 3000)) {
        let script = set_debug(&expr);
        let Some(error) = run(&script, &DEFINES).error else { continue };
        if undefined_in_c(&expr, &error) || seen.len() > 100 {
            continue;
        }
        let stderr = pgbench("errors", &script, &dsn(), &[]);
        let messages: Vec<_> = stderr
            .lines()
            .filter_map(|line| line.strip_prefix("pgbench: error: "))
            // and the run's end
            .take(2)
            .collect();
        let abort = "client 0 aborted in command 0 (set) of script 0; evaluation of meta-command failed";
        assert_same_words(&messages.join("\n"), &format!("{error}\n{abort}"), &expr);
        seen.insert(expr);
    }
    assert!(seen.len() > 100, "only {} errors", seen.len());
}

#[test]
#[ignore = "needs PGDYNO_TEST_PGBENCH"]
fn errors_of_syntax() {
    let strategy = prop::collection::vec(fragment(), 1..12).prop_map(|parts| parts.concat());
    let in_set = prop::collection::vec(fragment(), 1..6).prop_map(|parts| format!("\\set x {}", parts.concat()));
    let (mut good, mut bad) = (0, 0);
    for text in generated(&strategy, 250).into_iter().chain(generated(&in_set, 250)) {
        if text.contains("\\syncpipeline") {
            continue; // newer than some binaries
        }
        let stderr = pgbench("syntax", &text, NO_SERVER, &[]);
        match parse(&source(&text)) {
            Ok(_) => {
                good += 1;
                assert!(stderr.contains("/nonexistent"), "{text:?}\n{stderr}");
            }
            Err(error) => {
                bad += 1;
                let expected = format!("pgbench: error: {error}\n");
                let found = stderr.find("pgbench: error: ").map_or("", |at| &stderr[at..]);
                assert_same_words(&without_gset_line(found), &without_gset_line(&expected), &text);
            }
        }
    }
    assert!(good > 25 && bad > 250, "{good} good, {bad} bad");
}

/// Without the line of a misplaced \\gset, which versions before 18 get wrong.
fn without_gset_line(message: &str) -> String {
    match message.split_once("\\gset must follow") {
        Some((_, detail)) => format!("\\gset must follow{detail}"),
        None => message.to_owned(),
    }
}

/// The statements that pgbench reports as sent.
fn sent(stderr: &str) -> Vec<String> {
    stderr
        .split("pgbench: ")
        .filter_map(|message| message.split_once("client 0 sending "))
        .map(|(_, sql)| sql.trim_end_matches('\n').to_owned())
        .collect()
}

/// The statements that we would send.
fn ours(script: &str, mode: QueryMode) -> Vec<String> {
    if mode == QueryMode::Simple {
        return run(script, &DEFINES).sql;
    }
    let (program, _) = compiled(script, mode);
    let statements = program.statements.into_iter().map(|statement| match statement.sql {
        Sql::Extended { sql, .. } => sql,
        Sql::Simple(_) => panic!("not extended"),
    });
    statements.collect()
}

const MODES: [(QueryMode, &str); 2] = [(QueryMode::Simple, "simple"), (QueryMode::Extended, "extended")];

#[test]
#[ignore = "needs PGDYNO_TEST_PGBENCH"]
fn statements() {
    let scripts = [
        "-- c\n SELECT 1; SELECT :x::int, :x::int -- d\n, 2;\nSELECT 3",
        "SELECT ';' , 'it''s;', e'\\';', \"a;\" FROM (SELECT 1 AS \"a;\") AS s; SELECT (1);",
        "/* ; /* ; */ */ SELECT $$;$a$;$$, $a$;$$;$a$; ;SELECT 2",
        "SELECT e'a' -- c\n 'b\\';' ; SELECT 1 \\set z 5 \\\n + 1\nSELECT :z::int;",
        "\\if :x = 7\nSELECT 7;\n\\elif 1/0\nSELECT 8;\n\\else\nSELECT 9;\n\\endif\nSELECT 10;",
    ];
    for script in scripts {
        for (mode, option) in MODES {
            let stderr = pgbench("statements", script, &dsn(), &["--debug", "-M", option]);
            let mut expected = ours(script, mode);
            expected.retain(|sql| mode == QueryMode::Simple || !["SELECT 8;", "SELECT 9;"].contains(&sql.as_str()));
            assert_eq!(sent(&stderr), expected, "{option}: {script}\n{stderr}");
        }
    }
}

#[test]
#[ignore = "needs PGDYNO_TEST_PGBENCH"]
fn first_statements() {
    let strategy = prop::collection::vec(sql_fragment(), 1..14).prop_map(|parts| parts.concat());
    let mut compared = 0;
    for mut text in generated(&strategy, 300) {
        // After a colon or a variable at the very end, pgbench reads beyond the end.
        text.push(' ');
        if parse(&source(&text)).is_err() {
            continue;
        }
        for (mode, option) in MODES {
            let stderr = pgbench("first", &text, &dsn(), &["--debug", "-M", option]);
            let (theirs, ours) = (sent(&stderr), ours(&text, mode));
            // The server refuses most statements, and then nothing more is sent.
            assert!(!theirs.is_empty(), "{text:?}\n{stderr}");
            let ours: Vec<&str> = ours.iter().map(|sql| sql.trim_end_matches('\n')).collect();
            assert!(
                ours.starts_with(&theirs.iter().map(String::as_str).collect::<Vec<_>>()),
                "{option}: {text:?}\n{ours:?}\n{theirs:?}"
            );
            compared += 1;
        }
    }
    assert!(compared > 150, "only {compared}");
}
