//! Bytes in, bytes out; what comes out is read by the client's own protocol crate.

use pgdyno_wire::{Capture, Exchange, Progress, Reply, Startup, StartupParams, frontend};
use proptest::prelude::*;

use super::*;
use crate::options::tests::options;

fn shared() -> Shared {
    shared_with("")
}

fn shared_with(faults: &str) -> Shared {
    Shared::new(options(&format!("--listen=::1 --scale=3 {faults}")).expect("good"))
}

/// A session that has begun.
fn session() -> Session {
    let mut session = Session::default();
    let mut first = Vec::new();
    frontend::startup(&mut first, [("user", "u")]).expect("encodable");
    let mut out = Vec::new();
    assert_eq!(session.receive(&first, &shared(), &mut out), Turn::Open);
    assert!(session.has_begun);
    session
}

/// Appends a message that pgdrive never sends, but other clients do.
fn message(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    out.push(kind);
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(body);
}

/// The bytes of a client's messages.
fn messages(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

fn query(sql: &str) -> Vec<u8> {
    messages(|out| frontend::query(out, sql).expect("encodable"))
}

/// Bind, Execute and Sync of a statement with these values.
fn execute(name: &str, values: &[&str]) -> Vec<u8> {
    messages(|out| {
        let values = values.iter().map(|value| Some(value.as_bytes()));
        frontend::bind(out, "", name, values).expect("encodable");
        frontend::execute(out, "", 0).expect("encodable");
        frontend::sync(out);
    })
}

fn parse(name: &str, sql: &str) -> Vec<u8> {
    messages(|out| frontend::parse(out, name, sql, &[]).expect("encodable"))
}

/// A summary of the server's messages: `[columns] (row) TAG !sqlstate` and the transaction status.
fn read(bytes: &[u8]) -> String {
    let mut exchange = Exchange::new(Capture::Rows, true);
    let mut chunk = bytes;
    let mut said = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    while let Some(reply) = exchange.next(&mut chunk).expect("well-formed messages") {
        said.push(match reply {
            Reply::Ready(TxStatus::Idle) => "I".to_owned(),
            Reply::Ready(TxStatus::InBlock) => "T".to_owned(),
            Reply::Ready(TxStatus::Failed) => "E".to_owned(),
            Reply::Complete(tag) => tag.to_text(),
            Reply::EmptyQuery => "empty".to_owned(),
            Reply::Error(error) => format!("!{}", error.sqlstate()),
            Reply::RowDescription(columns) => {
                let names: Vec<String> = columns.fields().map(|f| text(f.name)).collect();
                format!("[{}]", names.join(","))
            }
            Reply::Row(row) => {
                let values = row.values().map(|v| v.map_or("NULL".to_owned(), text));
                format!("({})", values.collect::<Vec<_>>().join(","))
            }
            other => format!("{other:?}"),
        });
    }
    assert!(chunk.is_empty(), "half a message: {chunk:?}");
    said.join(" ")
}

fn ask(connection: &mut Session, input: &[u8]) -> String {
    let mut out = Vec::new();
    assert_eq!(connection.receive(input, &shared(), &mut out), Turn::Open);
    read(&out)
}

#[test]
fn a_session_starts_behind_requests_for_encryption() {
    let mut connection = Session::default();
    let (shared, mut out) = (shared(), Vec::new());
    connection.receive(&messages(frontend::ssl_request), &shared, &mut out);
    // GSSENCRequest
    connection.receive(b"\0\0\0\x08\x04\xd2\x16\x30", &shared, &mut out);
    assert_eq!(out, b"NN");
    out.clear();
    let mut startup = Startup::new(StartupParams { user: "somebody".to_owned(), ..StartupParams::default() });
    let mut first = Vec::new();
    startup.first(&mut first).expect("encodable");
    assert_eq!(connection.receive(&first, &shared, &mut out), Turn::Open);
    let mut input = &out[..];
    assert_eq!(startup.feed(&mut input, &mut Vec::new()), Ok(Progress::Ready(TxStatus::Idle)));
    let facts = startup.into_facts();
    assert_eq!(facts.parameter("server_version"), Some("18.0 (pgnull)"));
    assert_eq!(facts.parameter("standard_conforming_strings"), Some("on"));
    assert_eq!(facts.cancel_key.map(|key| key.pid), Some(1));
}

#[test]
fn newer_minor_versions_are_negotiated_and_older_protocols_and_cancels_refused() {
    let (shared, mut out) = (shared(), Vec::new());
    let newer = b"\0\0\0\x19\0\x03\0\x02user\0u\0_pq_.x\0y\0\0";
    assert_eq!(Session::default().receive(newer, &shared, &mut out), Turn::Open);
    assert!(out.starts_with(b"v\0\0\0\x13\0\x03\0\0\0\0\0\x01_pq_.x\0R"));
    for refused in [&b"\0\0\0\x09\0\x02\0\0\0"[..], b"\0\0\0\x0d\0\x03\0\0user\0", b"\xff\xff\xff\xff", b"\0\0\0\x04"] {
        out.clear();
        assert_eq!(Session::default().receive(refused, &shared, &mut out), Turn::Close, "{refused:?}");
        assert!(read(&out).starts_with('!'), "{refused:?}");
    }
    // a cancel request is closed without a word
    let cancel = messages(|out| frontend::cancel_request(out, 1, b"key!").expect("encodable"));
    let mut out = Vec::new();
    assert_eq!((Session::default().receive(&cancel, &shared, &mut out), out), (Turn::Close, Vec::new()));
}

#[test]
fn simple_queries_are_answered_with_their_description() {
    let mut connection = session();
    let cases = [
        ("SELECT abalance FROM pgbench_accounts WHERE aid = 1;", "[value] (1) SELECT 1 I"),
        ("select count(*) from pgbench_branches", "[count] (3) SELECT 1 I"),
        ("select o.n, p.partstrat, count(i) from x", "[n,partstrat,count] (1,NULL,0) SELECT 1 I"),
        ("select p.partstrat, count(i) from x", "[partstrat,count] SELECT 0 I"),
        ("vacuum pgbench_branches", "VACUUM I"),
        ("", "empty I"),
        ("; -- nothing", "empty I"),
        ("BEGIN; UPDATE t SET a = ';'; END;", "BEGIN UPDATE 1 COMMIT I"),
        ("begin", "BEGIN T"),
        ("selekt 1; select 2", "!42601 E"),
        ("select 1", "!25P02 E"),
        ("rollback to savepoint a", "ROLLBACK T"),
        ("insert into t values (1) returning a", "[value] (1) INSERT 0 1 T"),
        ("nonsense", "!42601 E"),
        ("end", "ROLLBACK I"),
    ];
    for (sql, expected) in cases {
        assert_eq!(ask(&mut connection, &query(sql)), expected, "{sql}");
    }
}

#[test]
fn prepared_statements_are_executed_again_and_again() {
    let mut connection = session();
    let sql = "SELECT c FROM sbtest1 WHERE id = $1";
    assert_eq!(ask(&mut connection, &parse("s", sql)), "");
    for _ in 0..3 {
        let said = ask(&mut connection, &execute("s", &["17"]));
        assert!(said.starts_with('(') && said.ends_with(") SELECT 1 I"), "{said}");
    }
    assert_eq!(ask(&mut connection, &execute("s", &[])), "!08P01 I");
    assert_eq!(ask(&mut connection, &execute("t", &[])), "!26000 I");
    assert_eq!(ask(&mut connection, &[parse("s", sql), messages(frontend::sync)].concat()), "!42P05 I");
    assert_eq!(ask(&mut connection, &messages(|out| frontend::close_statement(out, "s").expect("encodable"))), "");
    assert_eq!(ask(&mut connection, &execute("s", &["17"])), "!26000 I");
    // sql can prepare and execute
    let mut connection = session();
    let cases = [
        ("prepare p(int) as update t set a = $1", "PREPARE I"),
        ("execute p(1)", "UPDATE 1 I"),
        ("prepare p as select 1", "!42P05 I"),
        ("begin; nonsense", "BEGIN !42601 E"),
        ("deallocate p", "!25P02 E"),
        ("prepare z as select 1", "!25P02 E"),
        ("rollback; execute p(1)", "ROLLBACK UPDATE 1 I"),
        ("deallocate p", "DEALLOCATE I"),
        ("execute p(1)", "!26000 I"),
        ("prepare q as prepare r as select 1", "!42601 I"),
    ];
    for (sql, expected) in cases {
        assert_eq!(ask(&mut connection, &query(sql)), expected, "{sql}");
    }
}

#[test]
fn statements_and_portals_are_described() {
    let mut connection = session();
    let described = messages(|out| {
        frontend::parse(out, "", "SELECT a FROM t WHERE b = $1 AND c = $2", &[23]).expect("good");
        message(out, b'D', b"S\0");
        frontend::bind(out, "p", "", [Some(&b"1"[..]), None]).expect("good");
        frontend::describe_portal(out, "p").expect("good");
        frontend::execute(out, "p", 0).expect("good");
        frontend::sync(out);
        frontend::execute(out, "p", 0).expect("good");
        frontend::sync(out);
    });
    let mut out = Vec::new();
    connection.receive(&described, &shared(), &mut out);
    assert_eq!(read(&out), "[value] [value] (1) SELECT 1 I !34000 I");
    // ParseComplete, then two parameters of type text
    assert!(out.starts_with(b"1\0\0\0\x04t\0\0\0\x0e\0\x02\0\0\0\x19\0\0\0\x19T"));
    // results are binary where that is asked for
    let mut input = parse("", "select 1");
    input.extend_from_slice(b"B\0\0\0\x0e\0\0\0\0\0\0\0\x01\0\x01");
    input.extend_from_slice(b"D\0\0\0\x06P\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04");
    let mut out = Vec::new();
    session().receive(&input, &shared(), &mut out);
    let row = b"D\0\0\0\x0e\0\x01\0\0\0\x04\0\0\0\x01";
    assert!(out.windows(row.len()).any(|bytes| bytes == row), "{out:?}");
    let described = b"\0\x04\xff\xff\xff\xff\0\x01";
    assert!(out.windows(described.len()).any(|bytes| bytes == described));
    // a mixture of formats is refused
    let mut input = parse("", "select 1");
    input.extend_from_slice(b"B\0\0\0\x10\0\0\0\0\0\0\0\x02\0\x01\0\0S\0\0\0\x04");
    assert_eq!(ask(&mut session(), &input), "!0A000 I");
}

#[test]
fn after_an_error_all_is_skipped_until_sync() {
    let mut connection = session();
    let pipeline = [
        parse("", "BEGIN"),
        execute("", &[]),
        execute("nosuch", &[]),
        parse("", "UPDATE t SET a = 1"),
        messages(|out| frontend::bind(out, "", "nosuch", []).expect("encodable")),
        query("select 1"),
        execute("", &[]),
        parse("", "ROLLBACK"),
        execute("", &[]),
    ]
    .concat();
    assert_eq!(ask(&mut connection, &pipeline), "BEGIN T !26000 E !25P02 E ROLLBACK I");
}

#[test]
fn copied_rows_are_counted() {
    let copied = [
        query("copy t from stdin"),
        messages(|out| {
            message(out, b'd', b"1\n2\n3");
            message(out, b'd', b"\n");
            frontend::copy_done(out);
        }),
        query("copy t from stdin"),
        messages(|out| frontend::copy_fail(out, "enough").expect("encodable")),
        query("copy t from stdin"),
        query("select 1"),
        query("copy t to stdout"),
    ]
    .concat();
    let expected = "CopyIn COPY 3 I CopyIn !57014 I CopyIn !08P01 I \
                    CopyOut CopyData([49, 10]) CopyDone COPY 1 I";
    assert_eq!(ask(&mut session(), &copied), expected);
}

#[test]
fn faults_fall_on_the_load_and_on_nothing_else() {
    let shared = shared_with("--error-every=2 --error-sqlstate=40P01");
    let mut connection = session();
    let mut out = Vec::new();
    let queries = [
        "select count(*) from pgbench_branches", "vacuum t", "begin", "select 1", "update t set a = 1", "rollback",
        "select 1",
    ];
    for sql in queries {
        connection.receive(&query(sql), &shared, &mut out);
    }
    let expected = "[count] (3) SELECT 1 I VACUUM I BEGIN T [value] (1) SELECT 1 T !40P01 E \
                    ROLLBACK I [value] (1) SELECT 1 I";
    assert_eq!(read(&out), expected);
    // a connection that is closed on demand sends what came before
    let shared = shared_with("--close-every=2");
    let pipeline = [parse("", "select 1"), execute("", &[]), execute("", &[])].concat();
    let mut out = Vec::new();
    assert_eq!(session().receive(&pipeline, &shared, &mut out), Turn::Close);
    assert_eq!(read(&out), "(1) SELECT 1 I");
}

#[test]
fn hostile_lengths_end_the_connection_and_a_session_keeps_little() {
    for hostile in [&b"Q\xff\xff\xff\xff"[..], b"Q\x7f\xff\xff\xff", b"Q\0\0\0\x03", b"?\0\0\0\x04"] {
        let mut connection = session();
        let mut out = Vec::new();
        assert_eq!(connection.receive(hostile, &shared(), &mut out), Turn::Close, "{hostile:?}");
        assert!(read(&out).starts_with("!08P01"), "{hostile:?}");
        assert!(connection.pending.is_empty());
    }
    assert_eq!(ask(&mut session(), b"B\0\0\0\x05\0E\0\0\0\x04P\0\0\0\x06aaS\0\0\0\x04"), "!08P01 I");
    // an idle session is small
    let mut connection = session();
    ask(&mut connection, &parse("s", "select $1"));
    ask(&mut connection, &execute("s", &["1"]));
    assert_eq!(connection.pending.capacity(), 0);
    assert!(mem::size_of::<Session>() <= 256);
}

/// An arbitrary message of a client.
fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let name = || prop::sample::select(vec!["", "a", "b"]);
    let sql = prop::sample::select(vec![
        "select $1", "begin", "end", "rollback", "copy t from stdin", "copy t to stdout", "", "nonsense",
        "select 1; update t set a = 1", "prepare a as select 1", "execute a", "deallocate all", "'open",
    ]);
    prop_oneof![
        sql.clone().prop_map(query),
        (name(), sql).prop_map(|(name, sql)| parse(name, sql)),
        name().prop_map(|name| execute(name, &["1"])),
        name().prop_map(|name| messages(|o| frontend::describe_portal(o, name).expect("good"))),
        name().prop_map(|name| messages(|o| message(o, b'D', format!("S{name}\0").as_bytes()))),
        name().prop_map(|name| messages(|o| frontend::close_statement(o, name).expect("good"))),
        Just(messages(frontend::sync)),
        Just(messages(|out| out.extend_from_slice(b"H\0\0\0\x04"))),
        Just(messages(frontend::copy_done)),
        Just(messages(|out| message(out, b'd', b"1\n"))),
    ]
}

proptest! {
    #[test]
    fn chunks_make_no_difference(
        sent in prop::collection::vec(any_message(), 0..20),
        cuts in prop::collection::vec(1..40usize, 1..8),
    ) {
        let input = sent.concat();
        let mut whole = Vec::new();
        let turn = session().receive(&input, &shared(), &mut whole);
        prop_assert_eq!(turn, Turn::Open);
        read(&whole);
        let mut connection = session();
        let (mut pieces, mut rest) = (Vec::new(), &input[..]);
        for &cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, tail) = rest.split_at(cut.min(rest.len()));
            connection.receive(piece, &shared(), &mut pieces);
            rest = tail;
        }
        prop_assert_eq!(pieces, whole);
        prop_assert!(connection.pending.is_empty());
    }

    #[test]
    fn no_bytes_break_it(input in prop::collection::vec(any::<u8>(), 0..400), begun: bool) {
        let mut connection = if begun { session() } else { Session::default() };
        let mut out = Vec::new();
        let turn = connection.receive(&input, &shared(), &mut out);
        if begun {
            read(&out);
        }
        prop_assert!(turn == Turn::Close || connection.pending.len() <= input.len());
    }

    #[test]
    fn no_text_breaks_the_lexer(sql in "[a$'\"/*;\\-e1 \n]{0,60}") {
        let said = ask(&mut session(), &query(&sql));
        prop_assert!(said.ends_with('I'), "{}", said);
    }
}
