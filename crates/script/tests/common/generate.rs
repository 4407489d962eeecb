//! Random scripts and expressions.

use proptest::prelude::*;

/// Words of the language, so that random texts get past the first token.
pub fn fragment() -> impl Strategy<Value = String> {
    let words = [
        "\\set x ", "\\if ", "\\elif ", "\\else\n", "\\endif\n", "\\sleep ", "\\gset\n", "\\aset p\n", "\\shell echo ",
        "\\setshell x ", "\\startpipeline\n", "SELECT ", ":x", "::", "'", "\"", "$$", "$a$", "e'", "\\'", "/*", "*/",
        "--", ";", "\\;", "(", ")", "1", "9223372036854775808", "1.5e3", "1e999", "random(", "least(", "hash(",
        "case when ", " then ", " end ", " is null ", " and ", " not ", ",", "+", "-", "*", "/", "%", "<", ">=", "~",
        "\n", "\\\n", "\r\n", " ", "é", "\0", "create function ", "begin ", "us", "ms",
    ];
    prop_oneof![
        8 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

/// Expressions that parse.
pub fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(|i| format!("({i})")),
        (-3i64..4).prop_map(|i| format!("({i})")),
        any::<f64>().prop_filter("normal", |d| d.is_normal()).prop_map(|d| format!("({d:?})")),
        proptest::sample::select(vec!["null", "true", "false", ":x", ":none", "pi()", "0.0"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let binary = proptest::sample::select(vec![
            "+", "-", "*", "/", "%", "<", ">", "=", "<>", "<=", ">=", "&", "|", "#", "<<", ">>", "and", "or",
        ]);
        let unary = proptest::sample::select(vec![
            "-", "~", "not", "abs", "sqrt", "ln", "exp", "int", "double", "debug", "hash",
        ]);
        let pair = proptest::sample::select(vec!["pow", "mod", "random", "permute", "greatest"]);
        let triple = proptest::sample::select(vec![
            "random_gaussian", "random_exponential", "random_zipfian", "permute", "least",
        ]);
        prop_oneof![
            (inner.clone(), binary, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (unary, inner.clone()).prop_map(|(f, a)| format!("{f}({a})")),
            (pair, inner.clone(), inner.clone()).prop_map(|(f, a, b)| format!("{f}({a}, {b})")),
            (triple, inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(f, a, b, c)| format!("{f}({a}, {b}, {c})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("case when {a} then {b} else {c} end")),
            inner.prop_map(|a| format!("({a} is not null)")),
        ]
    })
}

/// SQL that needs all rules of psql's scanner.
pub fn sql_fragment() -> impl Strategy<Value = String> {
    let words = [
        "SELECT ", "1", ":x", ":no", "::int", ":'x'", ":", "'", "''", "\"", "$$", "$a$", "$1", "e'", "E'", "n'", "x'",
        "U&'", "\\'", "/*", "*/", "--", ";", "\\;", "\\:", "(", ")", "1.5e", "2", ".", "_", "a$b", "é", "+", "\n",
        "\r\n", " ", "\t", "create ", "or replace ", "function ", "begin ", "end", "case ", "=", "[1:x]", "-", "/",
        "*", "@",
    ];
    proptest::sample::select(words.to_vec()).prop_map(str::to_owned)
}
