//! Session starts with scripted servers, including hostile ones.

mod common;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use common::{auth, message, ready};
use pgdyno_wire::require_auth::RequireAuth;
use pgdyno_wire::{AuthMethod, Progress, ProtocolError, SqlState, Startup, StartupError, StartupParams, TxStatus};
use zeroize::Zeroizing;

fn params(password: Option<&str>) -> StartupParams {
    StartupParams {
        password: password.map(|text| Zeroizing::new(text.as_bytes().to_vec())),
        user: "alice".to_owned(),
        ..StartupParams::default()
    }
}

/// Passes the messages one after the other; returns the last progress and all answers.
fn play(startup: &mut Startup, messages: &[Vec<u8>]) -> Result<(Progress, Vec<u8>), StartupError> {
    let mut out = Vec::new();
    let mut progress = Progress::NeedMore;
    for message in messages {
        progress = startup.feed(&mut message.as_slice(), &mut out)?;
    }
    Ok((progress, out))
}

fn after_auth() -> Vec<Vec<u8>> {
    vec![
        auth(0, b""),
        message(b'S', b"server_version\x0015.18\0"),
        message(b'S', b"in_hot_standby\0off\0"),
        message(b'K', b"\0\0\x04\xd2\x01\x02\x03\x04"),
        ready(b'I'),
    ]
}

#[test]
fn trust_collects_the_facts_at_every_cut() {
    let stream = [
        message(b'v', b"\0\x03\0\0\0\0\0\x01_pq_.x\0"),
        message(b'N', b"SNOTICE\0VNOTICE\0Mhello\0\0"),
        after_auth().concat(),
    ]
    .concat();
    let rest = b"after";
    for cut in 0..stream.len() {
        let mut startup = Startup::new(params(None));
        let mut out = Vec::new();
        let mut head = &stream[..cut];
        assert_eq!(startup.feed(&mut head, &mut out), Ok(Progress::NeedMore));
        let tail = [&stream[cut..], rest].concat();
        let mut tail = tail.as_slice();
        assert_eq!(startup.feed(&mut tail, &mut out), Ok(Progress::Ready(TxStatus::Idle)));
        assert_eq!(tail, rest, "what follows stays");
        assert!(out.is_empty());
        assert_eq!(startup.method(), Some(AuthMethod::Trust));
        assert!(!startup.used_password());
        let facts = startup.into_facts();
        assert_eq!(facts.parameter("server_version"), Some("15.18"));
        let key = facts.cancel_key.expect("a key");
        assert_eq!((key.pid, key.key.as_slice()), (1234, &[1u8, 2, 3, 4][..]));
        assert_eq!(facts.negotiated.expect("negotiated").unrecognized, ["_pq_.x"]);
        assert_eq!(facts.notices.len(), 1);
    }
}

#[test]
fn long_cancel_keys_and_notifications_are_tolerated() {
    let key = [&b"\0\0\0\x07"[..], &[9; 256]].concat();
    let messages = [auth(0, b""), message(b'K', &key), ready(b'I')];
    let mut startup = Startup::new(params(None));
    play(&mut startup, &messages).expect("ready");
    let found = startup.facts().cancel_key.clone().expect("a key");
    assert_eq!(found.key, [9; 256]);
    assert_eq!(format!("{found:?}"), "CancelKey { pid: 7, key: *** }");
    let too_long = message(b'K', &[0; 300]);
    assert!(matches!(play(&mut Startup::new(params(None)), &[auth(0, b""), too_long]), Err(StartupError::Protocol(_))));
    // a notification before the first query is skipped
    let notification = message(b'A', b"\0\0\0\x07channel\0payload\0");
    let messages = [auth(0, b""), notification.clone(), ready(b'I')];
    let (progress, _) = play(&mut Startup::new(params(None)), &messages).expect("ready");
    assert_eq!(progress, Progress::Ready(TxStatus::Idle));
    assert!(matches!(play(&mut Startup::new(params(None)), &[notification]), Err(StartupError::Protocol(_))));
}

#[test]
fn passwords_are_sent_in_clear_or_as_md5_and_never_shown() {
    let mut startup = Startup::new(params(Some("secret")));
    let (_, out) = play(&mut startup, &[auth(3, b"")]).expect("an answer");
    assert_eq!(out, b"p\0\0\0\x0bsecret\0");
    let (progress, _) = play(&mut startup, &after_auth()).expect("ready");
    assert_eq!(progress, Progress::Ready(TxStatus::Idle));
    assert!(startup.used_password());
    assert_eq!(startup.method(), Some(AuthMethod::Cleartext));

    let mut startup = Startup::new(params(Some("secret")));
    let (_, out) = play(&mut startup, &[auth(5, &[1, 2, 3, 4])]).expect("an answer");
    let answer = pgdyno_wire::md5::response(b"alice", b"secret", [1, 2, 3, 4]);
    assert_eq!(&out[5..40], answer.as_bytes());
    assert_eq!((out[0], out.len()), (b'p', 5 + 35 + 1));
    // secrets are not shown
    let mut startup = Startup::new(params(Some("hunter2")));
    play(&mut startup, &[auth(10, b"SCRAM-SHA-256\0\0")]).expect("an answer");
    let shown = format!("{startup:?}");
    assert!(!shown.contains("hunter2") && shown.contains("***"), "{shown}");
    assert!(!shown.contains("104, 117, 110"), "{shown}");
}

#[test]
fn a_server_proves_that_it_knows_the_password() {
    let mut startup = Startup::new(params(Some("pencil")));
    let (_, out) = play(&mut startup, &[auth(10, b"SCRAM-SHA-256\0\0")]).expect("an answer");
    let first = String::from_utf8_lossy(&out[5 + 14 + 4..]).into_owned();
    let nonce = first.strip_prefix("n,,n=,r=").expect("no channel binding and a nonce");
    let challenge = format!("r={nonce}server,s={},i=4096", BASE64.encode(b"salt"));
    let forged = format!("v={}", BASE64.encode([0; 32]));
    let error = play(&mut startup, &[auth(11, challenge.as_bytes()), auth(12, forged.as_bytes())]);
    assert_eq!(error.expect_err("forged").to_string(), "incorrect server signature");
    // a server may not skip its proof
    let messages = [auth(10, b"SCRAM-SHA-256\0\0"), auth(0, b"")];
    let result = play(&mut Startup::new(params(Some("pencil"))), &messages);
    assert!(matches!(result, Err(StartupError::Protocol(ProtocolError::Malformed { kind: b'R', .. }))));
    // an allowed exchange must be complete
    let require_auth = RequireAuth::parse("scram-sha-256").expect("it can be read");
    let mut startup = Startup::new(StartupParams { require_auth, ..params(Some("secret")) });
    let refused = play(&mut startup, &messages).expect_err("the server has not shown its half");
    assert_eq!(
        refused.to_string(),
        "authentication method requirement \"scram-sha-256\" failed: server did not complete authentication"
    );
}

#[test]
fn methods_that_are_refused() {
    for (request, text) in [
        (auth(7, b""), "GSSAPI authentication not supported"),
        (auth(9, b""), "SSPI authentication not supported"),
        (auth(2, b""), "Kerberos authentication not supported"),
        (auth(99, b""), "authentication method 99 not supported"),
        (auth(10, b"SCRAM-SHA-512\0\0"), "none of the server's SASL authentication mechanisms are supported"),
        (
            auth(10, b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"),
            "server offered SCRAM-SHA-256-PLUS authentication over a non-SSL connection",
        ),
    ] {
        assert_eq!(play(&mut Startup::new(params(Some("x"))), &[request]).expect_err(text).to_string(), text);
    }
    // no password is sent in a way that is not allowed
    for (allowed, asked) in [
        ("scram-sha-256", auth(3, b"")),
        ("scram-sha-256", auth(5, b"salt")),
        ("md5", auth(10, b"SCRAM-SHA-256\0\0")),
        ("oauth", auth(10, b"SCRAM-SHA-256\0\0")),
        ("!none", auth(0, b"")),
    ] {
        let require_auth = RequireAuth::parse(allowed).expect("it can be read");
        let mut startup = Startup::new(StartupParams { require_auth, ..params(Some("secret")) });
        let mut out = Vec::new();
        let refused = startup.feed(&mut asked.as_slice(), &mut out);
        assert!(matches!(refused, Err(StartupError::AuthNotAllowed { .. })), "{allowed}: {refused:?}");
        assert!(out.is_empty());
    }
    // a missing password is named as libpq names it
    for request in [auth(3, b""), auth(5, b"salt"), auth(10, b"SCRAM-SHA-256\0\0")] {
        for password in [None, Some("")] {
            let mut startup = Startup::new(params(password));
            let error = play(&mut startup, std::slice::from_ref(&request)).expect_err("none");
            assert_eq!(error, StartupError::PasswordRequired);
            assert_eq!(error.to_string(), "fe_sendauth: no password supplied");
            assert!(startup.used_password());
        }
    }
}

#[test]
fn refusals_of_the_server() {
    let refusal = message(b'E', b"SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed for user \"alice\"\0\0");
    let messages = [auth(3, b""), refusal];
    let result = play(&mut Startup::new(params(Some("wrong"))), &messages);
    let Err(StartupError::Server(error)) = result else { panic!("not refused: {result:?}") };
    assert_eq!(error.sqlstate(), SqlState::INVALID_PASSWORD);
    assert_eq!(error.to_string(), "FATAL:  password authentication failed for user \"alice\"");
    // The postmaster sends this message without a length when it cannot fork.
    let bare = b"Ecould not fork new process for connection: Resource temporarily unavailable\n\0";
    for cut in 0..bare.len() {
        let (a, b) = bare.split_at(cut);
        let result = play(&mut Startup::new(params(None)), &[a.to_vec(), b.to_vec()]);
        let error = result.expect_err("refused").to_string();
        assert_eq!(error, "could not fork new process for connection: Resource temporarily unavailable");
    }
}

#[test]
fn messages_out_of_turn_are_refused() {
    for messages in [
        vec![ready(b'I')],
        vec![message(b'S', b"a\0b\0")],
        vec![message(b'K', &[0; 8])],
        vec![message(b'D', b"\0\0")],
        vec![auth(0, b""), auth(0, b"")],
        vec![auth(3, b""), auth(5, b"salt")],
        vec![auth(3, b""), auth(3, b"")],
        vec![auth(11, b"")],
        vec![auth(12, b"v=")],
        vec![auth(5, b"long salt")],
        vec![auth(10, b"SCRAM-SHA-256")],
        vec![message(b'R', b"\0")],
        vec![message(b'v', b"\0\x03\0\0\xff\xff\xff\xff")],
        vec![b"HTTP/1.1 400 Bad Request".to_vec()],
    ] {
        let result = play(&mut Startup::new(params(Some("x"))), &messages);
        assert!(matches!(result, Err(StartupError::Protocol(_))), "{messages:?}: {result:?}");
    }
}

#[test]
fn an_endless_start_comes_to_an_end_and_a_storm_is_kept_in_part() {
    let notice = message(b'N', &vec![b'x'; 1 << 20]);
    let mut startup = Startup::new(params(None));
    let ended = (0..100).find_map(|_| startup.feed(&mut notice.as_slice(), &mut Vec::new()).err());
    assert_eq!(ended, Some(StartupError::Protocol(ProtocolError::EndlessStartup)));
    let parameters = startup.facts().parameters.len();
    assert!(startup.facts().notices.len() <= 64 && parameters == 0);
    assert!(startup.feed(&mut notice.as_slice(), &mut Vec::new()).is_err());
    // a storm of parameters is kept in part
    let mut startup = Startup::new(params(None));
    let mut storm = auth(0, b"");
    for number in 0..1000 {
        let body = format!("name{number}\0old\0");
        storm.extend_from_slice(&message(b'S', body.as_bytes()));
    }
    storm.extend_from_slice(&message(b'S', b"name7\0new\0"));
    storm.extend_from_slice(&ready(b'I'));
    let (progress, _) = play(&mut startup, &[storm]).expect("a session");
    assert_eq!(progress, Progress::Ready(TxStatus::Idle));
    let facts = startup.into_facts();
    assert_eq!(facts.parameters.len(), 256);
    assert_eq!(facts.parameter("name7"), Some("new"));
    assert_eq!(facts.parameter("name255"), Some("old"));
    assert_eq!(facts.parameter("name256"), None);
}
