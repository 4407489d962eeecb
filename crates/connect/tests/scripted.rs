//! Sessions with a scripted server on loopback.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pgdyno_connect::{Cause, Dialed, Dialer, Env, Interrupt, Params, Patience, Session, SessionError, cancel_all};
use pgdyno_wire::SqlState;

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("short").to_be_bytes();
    [&[kind][..], &length, body].concat()
}

fn hello() -> Vec<u8> {
    hello_of(false)
}

fn hello_of(standby: bool) -> Vec<u8> {
    let in_standby = if standby { "on" } else { "off" };
    [
        message(b'R', &[0; 4]),
        message(b'S', b"server_version\x0014.2\0"),
        message(b'S', format!("in_hot_standby\0{in_standby}\0").as_bytes()),
        message(b'S', b"default_transaction_read_only\0on\0"),
        message(b'Z', b"I"),
    ]
    .concat()
}

fn fatal(code: &str, text: &str) -> Vec<u8> {
    let body = format!("SFATAL\0VFATAL\0C{code}\0M{text}\0\0");
    message(b'E', body.as_bytes())
}

/// Reads one message with its type; `None` at the end of the stream.
fn read_message(socket: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut header = [0; 5];
    socket.read_exact(&mut header).ok()?;
    let length = u32::from_be_bytes(header[1..].try_into().expect("four"));
    let mut body = vec![0; length as usize - 4];
    socket.read_exact(&mut body).ok()?;
    Some((header[0], body))
}

fn read_startup(socket: &mut TcpStream) {
    let mut length = [0; 4];
    socket.read_exact(&mut length).expect("a start");
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    socket.read_exact(&mut body).expect("a start");
}

fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    (listener, port)
}

/// A server that accepts each connection and then follows the script.
fn serve(connections: usize, script: impl Fn(usize, TcpStream) + Send + 'static) -> (u16, JoinHandle<()>) {
    let (listener, port) = listen();
    let thread = thread::spawn(move || {
        for index in 0..connections {
            let (mut socket, _) = listener.accept().expect("a client");
            read_startup(&mut socket);
            script(index, socket);
        }
    });
    (port, thread)
}

fn params(text: &str) -> Params {
    let env = Env::empty("alice").with_socket_dirs([PathBuf::from("/nonexistent")]);
    Params::resolve(Some(text), &[], &env).expect(text)
}

fn local(port: u16, more: &str) -> Params {
    params(&format!("host=127.0.0.1 port={port} sslmode=disable {more}"))
}

#[test]
fn a_server_that_goes_away_is_named_also_right_after_the_start() {
    let (port, server) = serve(1, |_, mut socket| {
        socket.write_all(&hello()).expect("sent");
        read_message(&mut socket);
        let text = fatal("57P01", "terminating connection due to administrator command");
        socket.write_all(&text).expect("sent");
    });
    let mut session = Session::connect(&local(port, "")).expect("a session");
    assert_eq!(session.server_version_num, 140_002);
    let error = session.simple_query("select 1").expect_err("gone");
    assert_eq!(error.sqlstate(), Some(SqlState::ADMIN_SHUTDOWN));
    assert_eq!(
        error.to_string(),
        "FATAL:  terminating connection due to administrator command\nserver closed the connection unexpectedly\n\tThis probably means the server terminated abnormally\n\tbefore or while processing the request."
    );
    assert!(matches!(session.simple_query("select 1").expect_err("unusable"), SessionError::Unusable));
    assert!(session.into_transport().is_err());
    server.join().expect("the script");
    let (port, server) = serve(1, |_, mut socket| {
        socket.write_all(&[hello(), fatal("57P01", "terminating connection")].concat()).expect("sent");
    });
    let error = Session::connect(&local(port, "")).expect_err("no session");
    assert!(error.to_string().ends_with("FATAL:  terminating connection"), "{error}");
    server.join().expect("the script");
}

#[test]
fn what_follows_the_start_in_its_segment_belongs_to_it() {
    let (port, server) = serve(2, |index, mut socket| {
        let notice = message(b'N', b"SNOTICE\0Mhello\0\0");
        let setting = message(b'S', b"server_version\x0014.3\0");
        let (whole, rest) = setting.split_at(if index == 0 { setting.len() } else { 7 });
        socket.write_all(&[&hello(), &notice, whole].concat()).expect("sent");
        thread::sleep(Duration::from_millis(20));
        socket.write_all(rest).expect("sent");
        read_message(&mut socket);
    });
    for _ in 0..2 {
        let mut session = Session::connect(&local(port, "")).expect("a session");
        assert_eq!(session.take_notices().len(), 1);
        assert_eq!(session.parameter("server_version"), Some("14.3"));
        // a load can have its socket
        assert!(session.into_transport().is_ok());
    }
    server.join().expect("the script");
}

/// Answers all requests of a dialer.
fn finish(dialer: &mut Dialer<usize>) -> Vec<Dialed<usize>> {
    let mut done = Vec::new();
    while !dialer.is_idle() {
        done.extend(dialer.advance(Duration::from_secs(10)).expect("waiting"));
    }
    done
}

#[test]
fn connections_made_at_once_share_their_time() {
    let (port, server) = serve(32, |_, mut socket| {
        thread::sleep(Duration::from_millis(5));
        socket.write_all(&hello()).expect("sent");
    });
    let mut dialer = Dialer::new(local(port, ""), 64).expect("descriptors");
    let began = Instant::now();
    (0..32).for_each(|client| dialer.request(client));
    let done = finish(&mut dialer);
    let (elapsed, sum) = (began.elapsed(), done.iter().map(|dialed| dialed.time_share).sum::<Duration>());
    assert!(sum <= elapsed && sum > elapsed / 2, "{sum:?} of {elapsed:?}");
    server.join().expect("the script");
}

#[test]
fn names_are_looked_up_without_waiting() {
    let (port, server) = serve(2, |_, mut socket| socket.write_all(&hello()).expect("sent"));
    let mut dialer =
        Dialer::new(params(&format!("host=localhost port={port} sslmode=disable")), 1).expect("descriptors");
    (3..5).for_each(|client| dialer.request(client));
    let done = finish(&mut dialer);
    assert_eq!(done.iter().map(|dialed| dialed.tag).collect::<Vec<_>>(), [3, 4], "one at a time");
    assert!(done.iter().all(|dialed| dialed.result.is_ok()), "{done:?}");
    server.join().expect("the script");
}

#[test]
fn kinds_of_session_are_chosen() {
    // Connections arrive in the order in which the cases below make them.
    let kinds = [false, false, false, true, true, false, true, false, false];
    let (port, server) = serve(kinds.len(), move |index, mut socket| {
        socket.write_all(&hello_of(kinds[index])).expect("sent");
    });
    for (attrs, message) in [
        ("any", None),
        ("primary", None),
        ("standby", Some("server is not in hot standby mode")),
        ("standby", None),
        ("primary", Some("server is in hot standby mode")),
        ("read-write", Some("session is read-only")),
        ("read-only", None),
    ] {
        let result = Session::connect(&local(port, &format!("target_session_attrs={attrs}")));
        let expected = message.map(|text| format!("connection to server at \"127.0.0.1\", port {port} failed: {text}"));
        assert_eq!(result.err().map(|error| error.to_string()), expected);
    }
    // The first round finds no standby, and the second accepts any session.
    assert!(Session::connect(&local(port, "target_session_attrs=prefer-standby")).is_ok());
    server.join().expect("the script");
}

#[test]
fn a_host_that_starts_up_is_passed_over_and_one_that_refuses_is_not() {
    let (port, server) = serve(3, |index, mut socket| {
        let answer = match index {
            0 => fatal("57P03", "the database system is starting up"),
            2 => fatal("3D000", "database \"alice\" does not exist"),
            _ => hello(),
        };
        socket.write_all(&answer).expect("sent");
    });
    let two = params(&format!("host=127.0.0.1,127.0.0.1 port={port},{port} sslmode=disable"));
    assert!(Session::connect(&two).is_ok());
    let error = Session::connect(&two).expect_err("refused for good");
    assert_eq!(
        error.to_string(),
        format!("connection to server at \"127.0.0.1\", port {port} failed: FATAL:  database \"alice\" does not exist")
    );
    assert_eq!(error.server_error().map(|error| error.sqlstate()), Some(SqlState::INVALID_CATALOG_NAME));
    server.join().expect("the script");
}

#[test]
fn failures_to_connect_read_as_libpqs() {
    let (free, port) = listen();
    drop(free);
    let refused = Session::connect(&local(port, "")).expect_err("nobody listens");
    assert_eq!(
        refused.to_string(),
        format!(
            "connection to server at \"127.0.0.1\", port {port} failed: Connection refused\n\tIs the server running on that host and accepting TCP/IP connections?"
        )
    );
    let named = params(&format!("host=somewhere hostaddr=127.0.0.1 port={port}"));
    let error = Session::connect(&named).expect_err("nobody listens");
    let start = format!("connection to server at \"somewhere\" (127.0.0.1), port {port} failed: ");
    assert!(error.to_string().starts_with(&start), "{error}");
    let socket = Session::connect(&params("port=7")).expect_err("no socket");
    assert_eq!(
        socket.to_string(),
        "connection to server on socket \"/nonexistent/.s.PGSQL.7\" failed: No such file or directory\n\tIs the server running locally and accepting connections on that socket?"
    );
    let both = params(&format!("host=/nonexistent,127.0.0.1 port={port}"));
    let error = Session::connect(&both).expect_err("nobody listens");
    assert_eq!(error.attempts.len(), 2);
    assert_eq!(error.to_string().matches("connection to server").count(), 2);
}

#[test]
fn servers_that_hang_up_talk_nonsense_or_say_nothing() {
    let (port, server) = serve(2, |index, mut socket| {
        if index == 1 {
            socket.write_all(b"HTTP/1.1 400 Bad Request\r\n").expect("sent");
        }
    });
    let hung_up = Session::connect(&local(port, "")).expect_err("closed");
    assert!(hung_up.to_string().contains("server closed the connection unexpectedly"));
    let nonsense = Session::connect(&local(port, "")).expect_err("not the protocol");
    assert!(nonsense.to_string().contains("lost synchronization with server"));
    server.join().expect("the script");
    let (port, server) = serve(1, |_, mut socket| {
        // Waits until the client gives up.
        assert!(read_message(&mut socket).is_none());
    });
    let error = Session::connect(&local(port, "connect_timeout=1")).expect_err("silence");
    let said = format!("connection to server at \"127.0.0.1\", port {port} failed: timeout expired");
    assert_eq!(error.to_string(), said);
    server.join().expect("the script");
}

/// A server floods its client with notices while the client sends: neither may wait for the other forever.
#[test]
fn both_sides_may_send_at_once() {
    let (port, server) = serve(1, |_, mut socket| {
        socket.write_all(&hello()).expect("sent");
        assert_eq!(read_message(&mut socket).expect("a query").0, b'Q');
        socket.write_all(&message(b'G', &[0, 0, 0])).expect("sent");
        let notice = message(b'N', &[b"SNOTICE\0M", &vec![b'x'; 60_000][..], b"\0\0"].concat());
        let mut copied = 0;
        loop {
            match read_message(&mut socket).expect("data") {
                (b'd', data) => {
                    copied += data.len();
                    for _ in 0..40 {
                        socket.write_all(&notice).expect("sent");
                    }
                }
                (b'c', _) => break,
                other => panic!("not COPY: {other:?}"),
            }
        }
        let tag = format!("COPY {copied}\0");
        let end = [message(b'C', tag.as_bytes()), message(b'Z', b"I")].concat();
        socket.write_all(&end).expect("sent");
    });
    let mut session = Session::connect(&local(port, "")).expect("a session");
    let mut copy = session.copy_in("copy t from stdin").expect("COPY");
    let line = vec![b'1'; 100_000];
    for _ in 0..200 {
        copy.write(&line).expect("taken");
    }
    // longer than one message may be
    copy.write(&vec![b'1'; 70_000_000]).expect("taken");
    assert_eq!(copy.finish().expect("copied"), 90_000_000);
    assert_eq!(session.take_notices().len(), 64);
    server.join().expect("the script");
}

#[test]
fn a_refused_copy_ends_early_and_an_endless_answer_is_given_up() {
    let (port, server) = serve(1, |_, mut socket| {
        socket.write_all(&hello()).expect("sent");
        read_message(&mut socket);
        let refusal = b"SERROR\0VERROR\0C22P04\0Mmissing data\0\0";
        let answer = [message(b'G', &[0, 0, 0]), message(b'E', refusal), message(b'Z', b"I")];
        socket.write_all(&answer.concat()).expect("sent");
        while let Some((kind, _)) = read_message(&mut socket) {
            if kind == b'Q' {
                let answer = [message(b'C', b"SELECT 0\0"), message(b'Z', b"I")];
                socket.write_all(&answer.concat()).expect("sent");
            }
        }
    });
    let mut session = Session::connect(&local(port, "")).expect("a session");
    let mut copy = session.copy_in("copy t from stdin").expect("COPY");
    let chunk = vec![b'x'; 1 << 20];
    let refused = (0..1_000).find_map(|_| copy.write(&chunk).err());
    assert_eq!(refused.and_then(|error| error.sqlstate()), Some(SqlState::BAD_COPY_FILE_FORMAT));
    assert!(matches!(copy.write(b"x"), Err(SessionError::Unusable)));
    assert!(matches!(copy.finish(), Err(SessionError::Unusable)));
    assert!(session.simple_query("select").is_ok());
    session.close().expect("taken leave");
    server.join().expect("the script");
    // an answer without an end is given up
    let (port, server) = serve(1, |_, mut socket| {
        socket.write_all(&hello()).expect("sent");
        read_message(&mut socket).expect("a query");
        let rows = message(b'D', b"\0\x01\0\0\0\x01x").repeat(10_000);
        while socket.write_all(&rows).is_ok() {}
    });
    let mut session = Session::connect(&local(port, "")).expect("a session");
    let error = session.simple_query("select").expect_err("too long");
    assert!(matches!(error, SessionError::TooLong(_)), "{error}");
    assert!(matches!(session.simple_query("select").expect_err("it is lost"), SessionError::Unusable));
    drop(session);
    server.join().expect("the script");
}

#[test]
fn servers_without_tls_and_those_that_answer_strangely() {
    for (mode, answer, said) in [
        ("prefer", b'N', "lost synchronization with server"),
        ("require", b'N', "server does not support SSL, but SSL was required"),
        ("prefer", b'E', "server sent an error response during SSL exchange"),
        ("require", b'x', "received invalid response to SSL negotiation: x"),
        ("require", b'S', "SSL error: "),
    ] {
        let (listener, port) = listen();
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("a client");
            let mut request = [0; 8];
            socket.read_exact(&mut request).expect("a request");
            assert_eq!(request, [0, 0, 0, 8, 4, 210, 22, 47]);
            socket.write_all(&[answer]).expect("sent");
            if answer == b'N' && mode == "prefer" {
                read_startup(&mut socket);
            }
            socket.write_all(b"HTTP/1.1 400 Bad Request\r\n").expect("sent");
            // until the client has read everything and gives up
            let _ = socket.read_to_end(&mut Vec::new());
        });
        let text = format!("host=127.0.0.1 port={port} sslmode={mode}");
        let error = Session::connect(&params(&text)).expect_err("no session");
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!(error.attempts.len(), 1, "{error}");
        server.join().expect("the script");
    }
}

#[test]
fn a_wait_can_be_interrupted() {
    for silent_in_the_start in [true, false] {
        let flag = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&flag);
        let (port, server) = serve(1, move |_, mut socket| {
            if !silent_in_the_start {
                socket.write_all(&hello()).expect("sent");
                read_message(&mut socket).expect("a query");
            }
            set.store(true, Ordering::Relaxed);
            assert!(read_message(&mut socket).is_none());
        });
        let mut params = local(port, "");
        params.interrupt = Interrupt::by(flag);
        match Session::connect(&params) {
            Err(error) => {
                assert!(silent_in_the_start && error.is_interrupted(), "{error}");
                assert!(error.to_string().ends_with("failed: interrupted"));
            }
            Ok(mut session) => {
                let error = session.simple_query("select").expect_err("interrupted");
                assert!(error.to_string().ends_with("server: interrupted"));
            }
        }
        server.join().expect("the script");
    }
}

/// The server's messages at a session's start, with this cancel key.
fn hello_with_key(pid: u32, key: &[u8]) -> Vec<u8> {
    let body = [&pid.to_be_bytes()[..], key].concat();
    [message(b'R', &[0; 4]), message(b'K', &body), message(b'Z', b"I")].concat()
}

#[test]
fn a_request_goes_where_the_session_is() {
    // a name with two addresses, of which only one listens; the first host refuses
    for key in [&b"\x01\x02\x03\x04"[..], &[7; 32]] {
        let (listener, port) = listen();
        let wanted = key.to_vec();
        let server = thread::spawn(move || {
            let (mut session, _) = listener.accept().expect("a client");
            read_startup(&mut session);
            let hello = hello_with_key(99, &wanted);
            session.write_all(&hello).expect("sent");
            let (mut request, _) = listener.accept().expect("a request");
            let mut bytes = Vec::new();
            // the client waits for the end, so the whole request has arrived
            let mut length = [0; 4];
            request.read_exact(&mut length).expect("a length");
            bytes.resize(u32::from_be_bytes(length) as usize - 4, 0);
            request.read_exact(&mut bytes).expect("a request");
            bytes
        });
        let text = format!("host=/nonexistent,localhost port={port} sslmode=disable");
        let params = params(&text);
        let session = Session::connect(&params).expect("a session");
        let token = session.cancel_token().expect("there is a key");
        let patience = Patience::from(Some(Instant::now() + Duration::from_secs(60)));
        token.send(&params, &patience).expect("it is taken");
        let bytes = server.join().expect("the script");
        assert_eq!(bytes, [&[4, 210, 22, 46, 0, 0, 0, 99][..], key].concat());
    }
    // a server without keys cannot be asked
    let (port, server) = serve(1, |_, mut socket| socket.write_all(&hello()).expect("sent"));
    assert!(Session::connect(&local(port, "")).expect("a session").cancel_token().is_none());
    server.join().expect("the script");
}

#[test]
fn requests_that_nobody_takes_end_with_the_patience() {
    let (listener, port) = listen();
    let server = thread::spawn(move || {
        let (mut session, _) = listener.accept().expect("a client");
        read_startup(&mut session);
        let hello = hello_with_key(99, b"abcd");
        session.write_all(&hello).expect("sent");
        // the kernel accepts the other connections, and nothing reads from them
        (session, listener)
    });
    let params = local(port, "");
    let session = Session::connect(&params).expect("a session");
    let held = server.join().expect("the script");
    let token = session.cancel_token().expect("there is a key");
    let soon = || Patience::from(Some(Instant::now() + Duration::from_millis(200)));
    let cause = token.send(&params, &soon()).expect_err("it is not taken");
    assert!(matches!(cause, Cause::Timeout), "{cause}");
    // all requests together, in any order
    let began = Instant::now();
    let cause = cancel_all(&params, &vec![token.clone(); 100], &soon()).expect_err("likewise");
    assert!(matches!(cause, Cause::Timeout), "{cause}");
    assert!(began.elapsed() < Duration::from_secs(5), "they wait together");
    drop(held);
}
