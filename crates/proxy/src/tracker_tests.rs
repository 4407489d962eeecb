use super::*;

fn message(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let mut out = vec![kind];
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(&body);
    out
}

fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &[sql.as_bytes(), b"\0"])
}

fn columns(names: &[(&str, u32)]) -> Vec<u8> {
    let mut body = (names.len() as u16).to_be_bytes().to_vec();
    for (name, oid) in names {
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(&[0; 7]);
        body.extend_from_slice(&oid.to_be_bytes());
        body.extend_from_slice(&[0; 8]);
    }
    message(b'T', &[&body])
}

fn row(values: &[&[u8]]) -> Vec<u8> {
    let mut body = (values.len() as u16).to_be_bytes().to_vec();
    for value in values {
        body.extend_from_slice(&(value.len() as u32).to_be_bytes());
        body.extend_from_slice(value);
    }
    message(b'D', &[&body])
}

fn done(tag: &str) -> Vec<u8> {
    message(b'C', &[tag.as_bytes(), b"\0"])
}

fn ready(status: &[u8]) -> Vec<u8> {
    message(b'Z', &[status])
}

fn failed(code: &str) -> Vec<u8> {
    message(b'E', &[b"SERROR\0C", code.as_bytes(), b"\0Mno\0\0"])
}

/// Parse, Bind with values in these formats, Describe, Execute; without Sync.
fn extended(name: &str, sql: Option<&str>, values: &[&[u8]], format: u16, answer_format: u16) -> Vec<u8> {
    let mut out = Vec::new();
    let name = [name.as_bytes(), b"\0"].concat();
    if let Some(sql) = sql {
        out.extend(message(b'P', &[&name, sql.as_bytes(), b"\0\0\x01\0\0\0\x17"]));
    }
    let mut body = [&b"\0"[..], &name, b"\0\x01", &format.to_be_bytes()].concat();
    body.extend_from_slice(&row(values)[5..]);
    body.extend_from_slice(b"\0\x01");
    body.extend_from_slice(&answer_format.to_be_bytes());
    out.extend(message(b'B', &[&body]));
    out.extend(message(b'D', &[b"P\0"]));
    out.extend(message(b'E', &[b"\0\0\0\0\0"]));
    out
}

fn sync() -> Vec<u8> {
    message(b'S', &[])
}

/// What a session records: bytes of the client and of the server in turn, at 10, 20, 30, … µs.
fn recorded(turns: &[&[Vec<u8>]]) -> Vec<Statement> {
    let mut tracker = Tracker::new(String::new(), true, 0);
    for (number, turn) in turns.iter().enumerate() {
        let now = 10 * (number as i64 + 1);
        // however it is cut
        for byte in turn.concat() {
            if number % 2 == 0 { tracker.client_sent(&[byte], now) } else { tracker.server_sent(&[byte], now) }
        }
    }
    assert!(tracker.is_idle());
    tracker.take().collect()
}

fn texts(values: &[&str]) -> Option<Vec<Value>> {
    Some(values.iter().map(|&text| Value::Text(text.to_owned())).collect())
}

#[test]
fn a_query_has_its_time_rows_and_answer() {
    let found = recorded(&[
        &[query("INSERT INTO t VALUES (1) RETURNING id, note")],
        &[columns(&[("id", 23), ("note", 3802)]), row(&[b"7", b"{}"]), done("INSERT 0 1"), ready(b"I")],
    ]);
    let [one] = &found[..] else { panic!("{found:?}") };
    assert_eq!((one.at, one.us, one.rows), (10, Some(10), Some(1)));
    assert_eq!(one.answer, Some(vec![Value::Text("7".to_owned()), Value::Null]));
    assert_eq!((one.name.as_deref(), one.parameters.as_ref()), (None, None));
}

#[test]
fn a_pipeline_has_each_statement_and_what_follows_an_error_is_none() {
    let answer =
        |tag: &str| [message(b'2', &[]), columns(&[("id", 20)]), row(&[&8_i64.to_be_bytes()]), done(tag)].concat();
    let found = recorded(&[
        &[
            extended("s", Some("SELECT $1"), &[&5_i32.to_be_bytes()], 1, 1),
            extended("s", None, &[&6_i32.to_be_bytes()], 1, 1),
            extended("", Some("SELECT 1/$1"), &[b"0"], 0, 0),
            extended("s", None, &[b"1"], 0, 0),
            sync(),
            extended("s", None, &[b"9"], 0, 1),
            sync(),
        ],
        &[message(b'1', &[]), answer("SELECT 1"), answer("SELECT 1"), message(b'1', &[])],
        &[],
        &[failed("22012"), ready(b"I"), answer("SELECT 1"), ready(b"I")],
    ]);
    let seen: Vec<_> =
        found.iter().map(|it| (it.name.as_deref(), it.parameters.clone(), it.sqlstate.as_deref())).collect();
    assert_eq!(
        seen,
        [
            (Some("s"), texts(&["5"]), None),
            (Some("s"), texts(&["6"]), None),
            (Some(""), texts(&["0"]), Some("22012")),
            (Some("s"), texts(&["9"]), None),
        ]
    );
    assert_eq!((found[0].answer.clone(), found[2].answer.clone()), (texts(&["8"]), None));
    assert_eq!((found[1].at, found[1].us, found[3].at + found[3].us.unwrap()), (20, Some(0), 40));
}

#[test]
fn rows_that_the_client_knows_without_a_description_are_kept_as_text() {
    let bind = message(b'B', &[b"\0s\0\0\0\0\0\0\0"]);
    let execute = message(b'E', &[b"\0\0\0\0\0"]);
    let parse = message(b'P', &[b"s\0SELECT 7, 'a'\0\0\0"]);
    let answers = [message(b'1', &[]), message(b'2', &[]), row(&[b"7", b"a"]), done("SELECT 1"), ready(b"I")];
    let found = recorded(&[&[parse, bind, execute, sync()], &answers]);
    assert_eq!(
        (&found[0].answer, found[0].answer_columns.clone()),
        (&texts(&["7", "a"]), Some(vec![String::new(); 2]))
    );
}

#[test]
fn copied_rows_are_kept_and_a_sync_within_them_is_not_answered() {
    let copy_in = message(b'G', &[b"\0\0\x01\0\0"]);
    let rows = [message(b'd', &[b"1\ta\n2\t"]), message(b'd', &[b"b\n"]), message(b'c', &[])].concat();
    let kept = Some(vec!["1\ta".to_owned(), "2\tb".to_owned()]);
    let simple = recorded(&[
        &[query("COPY t FROM STDIN")],
        std::slice::from_ref(&copy_in),
        std::slice::from_ref(&rows),
        &[done("COPY 2"), ready(b"I")],
    ]);
    let first = [extended("", Some("COPY t FROM STDIN"), &[], 0, 0), sync()].concat();
    let begun = [message(b'1', &[]), message(b'2', &[]), message(b'n', &[]), copy_in].concat();
    let extended = recorded(&[&[first], &[begun], &[rows, sync()], &[done("COPY 2"), ready(b"I")]]);
    for found in [simple, extended] {
        assert_eq!((found.len(), &found[0].copy, found[0].copy_bytes, found[0].rows), (1, &kept, Some(8), Some(2)));
    }
}

#[test]
fn what_cannot_be_replayed_says_why() {
    let mut latin = Tracker::new(String::new(), false, 0);
    latin.server_sent(&message(b'S', &[b"client_encoding\0LATIN1\0"]), 0);
    latin.client_sent(&query("SELECT '\u{e9}'"), 1);
    latin.server_sent(&[done("SELECT 1"), ready(b"T")].concat(), 2);
    assert!(!latin.is_idle());
    latin.client_sent(b"Q\0\0\0\x01", 3);
    let reasons: Vec<_> = latin.take().map(|it| it.reason).collect();
    assert_eq!(reasons, [Some(Reason::Encoding), Some(Reason::Unreadable)]);
}
