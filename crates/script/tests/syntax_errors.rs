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

#[test]
fn expressions() {
    check(
        "\\set i 1 +\n",
        &["f.sql:1: syntax error in command \"set\"", "\\set i 1 +", "          ^ error found here"],
    );
    check("\\set i 1 +", &["f.sql:1: syntax error in command \"set\"", "\\set i 1 +", "         ^ error found here"]);
    check(
        "SELECT 1;\n\n  \\set i nosuch(1) \nSELECT 2;",
        &[
            "f.sql:3: unexpected function name (nosuch) in command \"set\"",
            "\\set i nosuch(1) ",
            "            ^ error found here",
        ],
    );
    check(
        "\\set d LN(1.0, 2.0))",
        &[
            "f.sql:1: unexpected number of arguments (ln) in command \"set\"",
            "\\set d LN(1.0, 2.0))",
            "                  ^ error found here",
        ],
    );
    check(
        "\\set i greatest())",
        &[
            "f.sql:1: at least one argument expected (greatest) in command \"set\"",
            "\\set i greatest())",
            "                ^ error found here",
        ],
    );
    check(
        "\\set i ;",
        &["f.sql:1: unexpected character (;) in command \"set\"", "\\set i ;", "       ^ error found here"],
    );
    check("\\set i", &["f.sql:1: syntax error in command \"set\"", "\\set i", "     ^ error found here"]);
    check("\\if\n\\endif\n", &["f.sql:1: syntax error in command \"if\"", "\\if", "   ^ error found here"]);
    check(
        "\\set i CASE TRUE THEN 1 ELSE 0 END\r\n",
        &[
            "f.sql:1: syntax error in command \"set\"",
            "\\set i CASE TRUE THEN 1 ELSE 0 END",
            "               ^ error found here",
        ],
    );
    check(
        "\\set i 1 < 2 < 3\n",
        &["f.sql:1: syntax error in command \"set\"", "\\set i 1 < 2 < 3", "             ^ error found here"],
    );
    check(
        "\\set i \\\n 1 1\n",
        &["f.sql:1: syntax error in command \"set\"", "\\set i \\", " 1 1", "            ^ error found here"],
    );
}

#[test]
fn constants_out_of_range() {
    for (number, what) in [("100000000000000000000", "bigint"), ("1.0E309", "double"), (".1E310", "double")] {
        let line = format!("\\set i {number}");
        check(
            &line,
            &[
                &format!("f.sql:1: {what} constant overflow ({number}) in command \"set\""),
                &line,
                &format!("{:>1$} error found here", '^', line.len()),
            ],
        );
    }
    check(
        "\\set i 9223372036854775808",
        &[
            "f.sql:1: syntax error in command \"set\"",
            "\\set i 9223372036854775808",
            "                         ^ error found here",
        ],
    );
}

#[test]
fn a_wrong_character_later_in_the_line_wins() {
    check(
        "\\set i 1 + + ; * $\n",
        &[
            "f.sql:1: unexpected character ($) in command \"set\"",
            "\\set i 1 + + ; * $",
            "                 ^ error found here",
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
        check(
            &format!("\\if 0\n\\{name} BAD\n\\endif"),
            &[&format!("f.sql:2: unexpected argument in command \"{name}\""), &format!("\\{name} BAD")],
        );
    }
}

#[test]
fn sleep() {
    check("\\sleep", &["f.sql:1: missing argument in command \"sleep\"", "\\sleep"]);
    check(
        "\\sleep too many args",
        &[
            "f.sql:1: too many arguments in command \"sleep\"",
            "\\sleep too many args",
            "                ^ error found here",
        ],
    );
    check(
        "\\sleep 1 week",
        &[
            "f.sql:1: unrecognized time unit, must be us, ms or s (week) in command \"sleep\"",
            "\\sleep 1 week",
            "         ^ error found here",
        ],
    );
    check(
        "\\sleep 1week",
        &[
            "f.sql:1: unrecognized time unit, must be us, ms or s (week) in command \"sleep\"",
            "\\sleep 1week",
            "        ^ error found here",
        ],
    );
    for amount in ["abc", "-x", "1x us"] {
        let word = amount.split(' ').next().unwrap();
        check(
            &format!("\\sleep {amount}"),
            &[
                &format!("f.sql:1: invalid sleep time, must be an integer ({word}) in command \"sleep\""),
                &format!("\\sleep {amount}"),
                "       ^ error found here",
            ],
        );
    }
}

#[test]
fn gset() {
    let must = "\\gset must follow an SQL command";
    check("\\gset", &[&format!("f.sql:1: {must}")]);
    check("\\set i +1\n\\aset", &[&format!("f.sql:2: {must} (\\set i +1)")]);
    check("SELECT 1 AS i \\gset\n\\gset", &[&format!("f.sql:2: {must}")]);
    check("SELECT 1 \\gset a b", &["f.sql:1: too many arguments in command \"gset\"", "\\gset a b"]);
}

#[test]
fn conditions() {
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
}

#[test]
fn nothing_at_all() {
    for text in ["", " \n\t", "-- comment", "\\\n", "\0SELECT 1"] {
        check(text, &["empty command list for script \"f.sql\""]);
    }
}

#[test]
fn too_deep() {
    let nested =
        |open: &str, close: &str, depth: usize| format!("\\set i {}1{}", open.repeat(depth), close.repeat(depth));
    for (open, close) in [("(", ")"), ("-", ""), ("not ", ""), ("abs(", ")"), ("case when ", " then 1 end")] {
        assert_eq!(run(&nested(open, close, 240), &[]).sql, [""; 0], "{open}");
        let error = parse(&source(&nested(open, close, 100_000))).unwrap_err();
        assert!(error.to_string().starts_with("f.sql:1: memory exhausted in command \"set\"\n"));
    }
}

#[test]
fn too_long() {
    let chain = |terms: usize| format!("\\set i debug({}:x)", ":x + ".repeat(terms - 1));
    let sum = run(&chain(990), &[("x", "1")]).debug;
    assert_eq!(sum, ["debug(script=0,command=1): int 990"]);
    let error = parse(&source(&chain(100_000))).unwrap_err();
    assert!(error.to_string().starts_with("f.sql:1: memory exhausted in command \"set\"\n"));
}
