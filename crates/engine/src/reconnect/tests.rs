use std::io::Read;
use std::net::TcpListener;

use pgdyno_connect::{Attempt, Env};

use super::*;

#[test]
fn waits_double_up_to_a_second_with_jitter() {
    let mut backoff = Backoff::new(7);
    let mut longest = FIRST_WAIT;
    for _ in 0..12 {
        let wait = backoff.next_wait();
        assert!((longest / 2..=longest).contains(&wait), "{wait}");
        longest = (longest * 2).min(SECOND);
    }
    assert_eq!(longest, SECOND);
}

#[test]
fn one_seed_gives_one_sequence_and_another_another() {
    let waits = |seed| {
        let mut backoff = Backoff::new(seed);
        (0..5).map(|_| backoff.next_wait()).collect::<Vec<_>>()
    };
    assert_eq!(waits(1), waits(1));
    assert_ne!(waits(1), waits(2));
}

fn server_error(severity: &str, code: &str) -> ServerError {
    ServerError::parse(format!("S{severity}\0V{severity}\0C{code}\0Mno\0\0").as_bytes())
}

#[test]
fn only_fatal_errors_end_a_session() {
    assert!(ends_session(&server_error("FATAL", "57P01")));
    assert!(ends_session(&server_error("PANIC", "XX000")));
    assert!(!ends_session(&server_error("ERROR", "08006")));
}

#[test]
fn what_only_a_hand_can_change_is_not_tried_again() {
    let refused = |error| {
        let cause = Cause::Startup { error, password_file: None };
        let attempts = vec![Attempt { what: String::new(), cause }];
        Refusal::from(ConnectError { attempts }).is_transient
    };
    let server = |code| refused(StartupError::Server(Box::new(server_error("FATAL", code))));
    for code in ["28P01", "28000", "3D000", "42501"] {
        assert!(!server(code), "{code}");
    }
    for code in ["57P03", "53300", "08006", "XX000"] {
        assert!(server(code), "{code}");
    }
    assert!(!refused(StartupError::PasswordRequired));
    assert!(refused(StartupError::Refused("could not fork".to_owned())));
}

#[test]
fn the_end_of_a_connection_has_no_number() {
    let reset = io::Error::from_raw_os_error(104);
    assert_eq!(describe_disconnect(Some(&reset)), "Connection reset by peer");
    assert_eq!(describe_disconnect(None), "server closed the connection unexpectedly");
}

fn connector_to(port: u16) -> Arc<Connector> {
    let target = format!("host=127.0.0.1 port={port} user=u dbname=d");
    let params = Params::resolve(Some(&target), &[], &Env::empty("u")).expect("it is complete");
    Arc::new(Connector::new(&params))
}

#[test]
fn refusals_ring_the_bell() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let port = listener.local_addr().expect("it is bound").port();
    drop(listener);
    let (dispatch, mut bell) = Dispatch::new(connector_to(port)).expect("there are descriptors");
    let mut tokens = Vec::new();
    for token in 0..20 {
        dispatch.ask(token, 5);
    }
    while tokens.len() < 20 {
        bell.read_exact(&mut [0]).expect("it rings for each");
        let made = dispatch.take().expect("it rings when it is there");
        let refusal = made.result.expect_err("nobody listens");
        assert!(refusal.is_transient && refusal.message.contains("Connection refused"));
        assert_eq!(made.since, 5);
        tokens.push(made.token);
    }
    tokens.sort_unstable();
    assert_eq!(tokens, (0..20).collect::<Vec<_>>());
}

#[test]
fn a_server_that_says_nothing_holds_up_nobody() {
    // more connections than threads: the kernel accepts each, and nothing ever answers
    let silent = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let connector = connector_to(silent.local_addr().expect("it is bound").port());
    let (dispatch, _bell) = Dispatch::new(Arc::clone(&connector)).expect("there are descriptors");
    for token in 0..3 * THREADS {
        dispatch.ask(token, 0);
    }
    assert!(dispatch.take().is_none());
    assert_eq!(connector.common.lock().threads, THREADS);
    drop((dispatch, connector));
}
