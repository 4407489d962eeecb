use pgdyno_connect::Attempt;

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
    // one seed gives one sequence and another another
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
fn only_fatal_errors_end_a_session_and_what_only_a_hand_can_change_is_not_tried_again() {
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
    // only fatal errors end a session
    assert!(ends_session(&server_error("FATAL", "57P01")));
    assert!(ends_session(&server_error("PANIC", "XX000")));
    assert!(!ends_session(&server_error("ERROR", "08006")));
}
