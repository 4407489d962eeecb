//! Replay files: what is read of them, and what is wrong with them.

use proptest::prelude::*;
use serde_json::json;

use crate::replay_file::ReplayFile;
use crate::session_reader::{SessionReader, check};
use crate::statement::Statement;
use crate::tests::samples::{Sample, Temporary, statement};

/// What `--check` says of a file with this content; empty if it is valid.
fn complaint(content: &str) -> String {
    let file = Temporary::new(content);
    let path = file.path().display().to_string();
    match check(file.path()) {
        Ok(()) => String::new(),
        Err(error) => {
            let words = error.to_string().replace(&path, "FILE");
            // the order of a line's keys depends on the features of serde_json
            words.split(" at column ").next().unwrap_or(&words).to_owned()
        }
    }
}

fn one_session(lines: &[&str]) -> String {
    let mut sample = Sample::default();
    let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    sample.session(10, 100, &lines);
    sample.content()
}

#[test]
fn a_statement_has_its_text_its_parameters_and_what_it_did() {
    let mut sample = Sample::default();
    sample.session(
        5,
        100,
        &[
            json!({"at_us": 7, "text": 0, "name": "s", "params": ["a\n", null, ""], "us": 9,
                "rows": 3, "error": "23505", "copy": ["1\t2", "é"]})
            .to_string(),
            json!({"at_us": 8, "sql": "SELECT 'ü'", "of": 0, "block": true, "unknown": {}}).to_string(),
        ],
    );
    let file = sample.open().expect("it is valid");
    let mut session = SessionReader::open(&file, 0).expect("one").expect("readable");
    let mut one = Statement::default();
    assert_eq!(session.next(&file, &mut one), Ok(true));
    assert_eq!(one.sql(&file), "SELECT $1::int");
    let parameters: Vec<_> = one.parameters().collect();
    assert_eq!(parameters, [Some(&b"a\n"[..]), None, Some(b"")]);
    assert_eq!((one.name.as_str(), one.us, one.rows), ("s", Some(9), Some(3)));
    assert_eq!(one.error, Some(*b"23505"));
    assert_eq!(one.copy.as_deref(), Some("1\t2\né\n".as_bytes()));
    assert!(one.is_extended && !one.in_block);
    assert_eq!(session.next(&file, &mut one), Ok(true));
    assert_eq!(one.sql(&file), "SELECT 'ü'");
    assert_eq!(one.parameters().count(), 0);
    assert_eq!((one.error, one.us, one.rows, &one.copy), (None, None, None, &None));
    assert!(one.in_block && !one.is_extended && one.name.is_empty());
    assert_eq!(session.next(&file, &mut one), Ok(false));
    assert!(SessionReader::open(&file, 1).is_none());
}

#[test]
fn clients_are_those_of_the_busiest_moment_and_classes_are_one_line() {
    let mut sample = Sample::default();
    for (from, to) in [(0, 10), (0, 30), (10, 20), (20, 40), (25, 26), (50, 60)] {
        sample.session(from, to, &[statement(to, "SELECT 1")]);
    }
    let file = sample.open().expect("it is valid");
    assert_eq!((file.clients, file.at_start, file.places.len()), (3, 2, 6));
    // classes are shown in one line
    let content = one_session(&[&statement(20, "SELECT 1")]);
    let long = format!("SELECT\\n  {}", "é".repeat(2000));
    let content = content.replacen("SELECT $1", &long, 1);
    let file = Temporary::new(content);
    let class = &ReplayFile::open(file.path()).expect("it is valid").classes[0];
    assert!(class.starts_with("SELECT é") && class.ends_with('…'), "{class}");
    assert_eq!(class.chars().count(), 1001);
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_line() {
    let valid = one_session(&[&statement(20, "SELECT 1"), &statement(30, "SELECT 2")]);
    assert_eq!(complaint(&valid), "");
    assert_eq!(complaint(valid.trim_end()), "");
    assert_eq!(complaint(""), "FILE: the file is empty");
    for (from, to, expected) in [
        ("pgdyno-replay", "other", "FILE:1: not a replay file: format is not \"pgdyno-replay\""),
        ("\"version\":1", "\"version\":2", "FILE:1: version 2 of the format; this pgdrive reads version 1"),
        ("\"sessions\":1", "\"sessions\":2", "FILE: the file has 1 sessions, and its first line says 2"),
        ("\"statements\":2", "\"statements\":3", "FILE: the file has 2 statements, and its first line says 3"),
        (
            "\"most_sessions\":1",
            "\"most_sessions\":0",
            "FILE:4: 1 sessions are open at the same time; the first line says at most 0 (most_sessions)",
        ),
        ("\"span_us\":100", "\"span_us\":99", "FILE:4: the session ends after the capture (span_us of the first line)"),
        ("\"class\":0", "\"class\":1", "FILE:2: class 1, where class 0 comes next"),
        ("\"text\":0,\"of\":0", "\"text\":0,\"of\":1", "FILE:3: unknown class 1 (of); the file has 1"),
        ("\"text\":0", "\"text\":5", "FILE:3: text 5, where text 0 comes next"),
        ("{\"text\":0,\"of\":0,", "{", "FILE:3: neither a class, nor a text with \"of\", nor the begin of a session"),
        ("\"session\":0", "\"session\":3", "FILE:4: session 3, where session 0 comes next"),
        ("\"at_us\":10,", "\"at_us\":101,", "FILE:4: the session ends before it begins (until_us)"),
        ("{\"end\":100}\n", "", "FILE:6: the file ends in the midst of session 0"),
        ("{\"end\":100}", "{\"end\":99}", "FILE:7: the session ends at 99, and its first line says 100 (until_us)"),
        ("{\"end\":100}", "{\"end\":100}\nmore", "FILE:8: a line outside of a session"),
        ("\"at_us\":30", "\"at_us\":19", "FILE:6: at_us goes back from 20 to 19"),
        ("\"at_us\":20", "\"at_us\":9", "FILE:5: at_us goes back from 10 to 9"),
        ("\"at_us\":30", "\"at_us\":101", "FILE:6: at_us is after the end of the session"),
        ("\"sql\":\"SELECT 2\"", "\"text\":0", "FILE:6: a statement has either \"sql\" and \"of\", or \"text\""),
        (
            "\"sql\":\"SELECT 2\"",
            "\"sql\":\"\\u0000\"",
            "FILE:6: a text with a zero byte, which PostgreSQL does not accept",
        ),
        ("\"sql\":\"SELECT 2\"", "\"sql\":2", "FILE:6: invalid line: invalid type: integer `2`, expected a string"),
        ("\"at_us\":30", "\"at_us\":-1", "FILE:6: invalid line: invalid value: integer `-1`, expected u64"),
        (
            "\"at_us\":30",
            "\"error\":\"1\",\"at_us\":30",
            "FILE:6: \"error\" is not a SQLSTATE of five letters and digits",
        ),
        ("\"at_us\":30", "\"name\":\"a\",\"at_us\":30", "FILE:6: \"name\" needs \"params\""),
        ("\"at_us\":20", "\"block\":true,\"at_us\":20", "FILE:5: \"block\" in the first statement of a session"),
    ] {
        assert!(valid.contains(from), "{from} in {valid}");
        assert_eq!(complaint(&valid.replacen(from, to, 1)), expected);
    }
    let unknown = one_session(&[r#"{"at_us":20,"text":1}"#]);
    assert_eq!(complaint(&unknown), "FILE:5: unknown text 1; the file has 1");
    let unknown = one_session(&[r#"{"at_us":20,"sql":"","of":1}"#]);
    assert_eq!(complaint(&unknown), "FILE:5: unknown class 1 (of); the file has 1");
    assert_eq!(complaint(&one_session(&["[1]"])), "FILE:5: the line is not a JSON object");
    let none = one_session(&[]);
    assert_eq!(complaint(&none), "FILE: the file has no statements");
    // sessions are in order and complete
    let mut sample = Sample::default();
    sample.session(50, 60, &[statement(55, "SELECT 1")]);
    sample.session(40, 60, &[statement(55, "SELECT 1")]);
    assert_eq!(complaint(&sample.content()), "FILE:7: the session begins before the one above it");
    let unended = sample.content().replacen("{\"end\":60}\n", "", 1);
    assert_eq!(complaint(&unended), "FILE:6: session 0 has no line that ends it");
    // the name of a missing file and of a folder is said
    let missing = check("/nonexistent/shop.jsonl".as_ref()).expect_err("there is none");
    assert_eq!(missing.to_string(), "/nonexistent/shop.jsonl: could not open the file: No such file or directory");
    assert_eq!(check("/".as_ref()).expect_err("it has no lines").to_string(), "/: is not a regular file");
    // short lines have a limit
    let long = format!("\"at_us\":10,\"x\":\"{}\"", "x".repeat(70_000));
    let content = one_session(&[&statement(20, "SELECT 1")]).replacen("\"at_us\":10", &long, 1);
    assert_eq!(complaint(&content), "FILE:4: the line has more than 65536 bytes");
}

/// A statement with any texts, as a line and as what is read of it.
type Written = (u64, String, Option<Vec<Option<String>>>, Option<Vec<String>>);

fn text() -> impl Strategy<Value = String> {
    // also longer than a reader's buffer
    prop_oneof!["[^\\x00]{0,40}", (1usize..60_000).prop_map(|length| "é\"\\\n".repeat(length / 4 + 1)),]
}

fn written() -> impl Strategy<Value = Written> {
    let params = prop::option::of(prop::collection::vec(prop::option::of(text()), 0..4));
    let copy = prop::option::of(prop::collection::vec(text(), 0..4));
    (0u64..1000, text(), params, copy)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(sessions in prop::collection::vec(prop::collection::vec(written(), 0..6), 1..5)) {
        prop_assume!(sessions.iter().any(|session| !session.is_empty()));
        let mut sample = Sample::default();
        let mut expected = Vec::new();
        for statements in sessions {
            let mut at_us = 0;
            let mut lines = Vec::new();
            let mut all = Vec::new();
            for (after, sql, params, copy) in statements {
                at_us += after;
                let mut line = json!({"at_us": at_us, "sql": sql, "of": 0});
                if let Some(params) = &params {
                    line["params"] = json!(params);
                }
                if let Some(copy) = &copy {
                    line["copy"] = json!(copy);
                }
                lines.push(line.to_string());
                all.push((at_us, sql, params, copy));
            }
            sample.session(0, 6000, &lines);
            expected.push(all);
        }
        let file = sample.open().expect("it is valid");
        let mut one = Statement::default();
        for (number, all) in expected.iter().enumerate() {
            let mut session = SessionReader::open(&file, number).expect("one").expect("readable");
            for (at_us, sql, params, copy) in all {
                prop_assert_eq!(session.next(&file, &mut one), Ok(true));
                prop_assert_eq!(one.at_us, *at_us);
                prop_assert_eq!(one.sql(&file), sql);
                prop_assert_eq!(one.is_extended, params.is_some());
                let read: Vec<_> = one.parameters().collect();
                let params: Vec<_> = params.iter().flatten().map(|param| param.as_deref().map(str::as_bytes)).collect();
                prop_assert_eq!(read, params);
                let copy = copy.as_ref().map(|rows| rows.iter().map(|row| format!("{row}\n")).collect::<String>());
                prop_assert_eq!(one.copy.as_deref(), copy.as_ref().map(String::as_bytes));
            }
            prop_assert_eq!(session.next(&file, &mut one), Ok(false));
        }
    }

    #[test]
    fn a_damaged_file_is_refused_or_read_without_a_panic(
        cut in 0usize..2000,
        at in 0usize..2000,
        byte in any::<u8>(),
    ) {
        let mut sample = Sample::default();
        for from in [0, 10] {
            let line = json!({"at_us": 20, "text": 0, "name": "s", "params": ["1", null], "us": 1, "rows": 1, "error": "00000"});
            sample.session(from, 50, &[line.to_string(), statement(30, "SELECT 1")]);
        }
        let mut content = sample.content().into_bytes();
        let length = content.len();
        content[at % length] = byte;
        content.truncate(length - cut % length);
        if let Err(error) = check(Temporary::new(&content).path()) {
            prop_assert!(error.to_string().contains("pgdyno-replay-"));
        }
    }
}
