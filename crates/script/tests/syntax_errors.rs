//! Every syntax error, with its exact message and column.

mod common;

use common::{run, source};
use pgdyno_script::parse;

fn check(text: &str, expected: &[&str]) {
    match parse(&source(text)) {
        Ok(_) => panic!("no error: {text}"),
        Err(error) => assert_eq!(error.to_string(), expected.join("\n"), "{text}"),
    }
}

/// Checks that a script of one command fails in it, at the end of `until`.
fn check_at(text: &str, message: &str, until: &str) {
    let command = text.trim_start_matches('\\').split([' ', '\n', '\r']).next().unwrap();
    let shown = text.trim_end_matches(['\r', '\n']).split("\n\\endif").next().unwrap();
    let caret = format!("{:>1$} error found here", '^', until.chars().count());
    check(text, &[&format!("f.sql:1: {message} in command \"{command}\""), shown, &caret]);
}

#[test]
fn expressions() {
    for (text, message, until) in [
        ("\\set i 1 +\n", "syntax error", "\\set i 1 +\n"),
        ("\\set i 1 +", "syntax error", "\\set i 1 +"),
        ("\\set d LN(1.0, 2.0))", "unexpected number of arguments (ln)", "\\set d LN(1.0, 2.0)"),
        ("\\set i greatest())", "at least one argument expected (greatest)", "\\set i greatest()"),
        ("\\set i ;", "unexpected character (;)", "\\set i ;"),
        ("\\set i : ", "unexpected character (:)", "\\set i :"),
        ("\\set i !", "unexpected character (!)", "\\set i !"),
        ("\\set i .", "unexpected character (.)", "\\set i ."),
        ("\\set i \\x", "unexpected character (\\)", "\\set i \\"),
        ("\\set i", "syntax error", "\\set i"),
        ("\\if\n\\endif\n", "syntax error", "\\if\n"),
        ("\\set i CASE TRUE THEN 1 ELSE 0 END\r\n", "syntax error", "\\set i CASE TRUE"),
        ("\\set i 1 < 2 < 3\n", "syntax error", "\\set i 1 < 2 <"),
        ("\\set i \\\n 1 1\n", "syntax error", "\\set i \\\n 1 1"),
        ("\\set i 9223372036854775808", "syntax error", "\\set i 9223372036854775808"),
        // a wrong character later in the line wins
        ("\\set i 1 + + ; * $\n", "unexpected character ($)", "\\set i 1 + + ; * $"),
    ] {
        check_at(text, message, until);
    }
    for (number, what) in [
        ("100000000000000000000", "bigint"),
        ("09223372036854775808", "bigint"),
        ("1.0E309", "double"),
        (".1E-400", "double"),
    ] {
        let line = format!("\\set i {number}");
        check_at(&line, &format!("{what} constant overflow ({number})"), &line);
    }
    check(
        "SELECT 1;\n\n  \\set i nosuch(1) \nSELECT 2;",
        &[
            "f.sql:3: unexpected function name (nosuch) in command \"set\"",
            "\\set i nosuch(1) ",
            "            ^ error found here",
        ],
    );
}

#[test]
fn commands() {
    let command = "f.sql:1: invalid command in command \"nosuch\"";
    check("\\nosuch", &[command, "\\nosuch"]);
    check("\\set", &["f.sql:1: missing argument in command \"set\""]);
    check("\\Shell", &["f.sql:1: missing command in command \"Shell\"", "\\Shell"]);
    check("\\setshell var\n", &["f.sql:1: missing argument in command \"setshell\"", "\\setshell var"]);
    let many = format!("\\shell{}", " arg".repeat(256));
    check(&many, &["f.sql:1: too many arguments in command \"shell\""]);
    assert!(parse(&source(&many[..many.len() - 4])).is_ok());
    for name in ["else", "endif", "startpipeline", "syncpipeline", "endpipeline"] {
        let message = format!("f.sql:2: unexpected argument in command \"{name}\"");
        check(&format!("\\if 0\n\\{name} BAD\n\\endif"), &[&message, &format!("\\{name} BAD")]);
    }
    check("\\sleep", &["f.sql:1: missing argument in command \"sleep\"", "\\sleep"]);
    for (text, message, until) in [
        ("\\sleep too many args", "too many arguments", "\\sleep too many a"),
        ("\\sleep 1 week", "unrecognized time unit, must be us, ms or s (week)", "\\sleep 1 w"),
        ("\\sleep 1week", "unrecognized time unit, must be us, ms or s (week)", "\\sleep 1w"),
        ("\\sleep abc", "invalid sleep time, must be an integer (abc)", "\\sleep a"),
        ("\\sleep -x", "invalid sleep time, must be an integer (-x)", "\\sleep -"),
        ("\\sleep 1x us", "invalid sleep time, must be an integer (1x)", "\\sleep 1"),
    ] {
        check_at(text, message, until);
    }
    let must = "\\gset must follow an SQL command";
    check("\\gset", &[&format!("f.sql:1: {must}")]);
    check("\\set i +1\n\\aset", &[&format!("f.sql:2: {must} (\\set i +1)")]);
    check("SELECT 1 AS i \\gset\n\\gset", &[&format!("f.sql:2: {must}")]);
    check("SELECT 1 \\gset a b", &["f.sql:1: too many arguments in command \"gset\"", "\\gset a b"]);
    for (text, command, message) in [
        ("\\if 1", 2, "\\if without matching \\endif"),
        ("\\elif 1", 1, "\\elif without matching \\if"),
        ("SELECT 1;\n\\else", 2, "\\else without matching \\if"),
        ("\\endif", 1, "\\endif without matching \\if"),
        ("\\if 1\n\\else\n\\elif 0\n\\endif", 3, "\\elif after \\else"),
        ("\\if 1\n\\else\n\\else\n\\endif", 3, "\\else after \\else"),
    ] {
        let expected = format!("condition error in script \"f.sql\" command {command}: {message}");
        check(text, &[&expected]);
    }
    for text in ["", " \n\t", "-- comment", "\\\n", "\0SELECT 1"] {
        check(text, &["empty command list for script \"f.sql\""]);
    }
}

#[test]
fn scripts_that_are_too_deep_or_too_long() {
    let nested =
        |open: &str, close: &str, depth: usize| format!("\\set i {}1{}", open.repeat(depth), close.repeat(depth));
    for (open, close) in [("(", ")"), ("-", ""), ("not ", ""), ("abs(", ")"), ("case when ", " then 1 end")] {
        assert_eq!(run(&nested(open, close, 240), &[]).sql, [""; 0], "{open}");
        let error = parse(&source(&nested(open, close, 100_000))).unwrap_err();
        assert!(error.to_string().starts_with("f.sql:1: memory exhausted in command \"set\"\n"));
    }
    let chain = |terms: usize| format!("\\set i debug({}:x)", ":x + ".repeat(terms - 1));
    assert_eq!(run(&chain(990), &[("x", "1")]).debug, ["debug(script=0,command=1): int 990"]);
    let error = parse(&source(&chain(100_000))).unwrap_err();
    assert!(error.to_string().starts_with("f.sql:1: memory exhausted in command \"set\"\n"));
}
