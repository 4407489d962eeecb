//! Tests that every poller must pass, on pairs of sockets.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use super::fuzz_tests::noise;
use super::{Epoll, Handler, Next, Poller, Uring};
use crate::clock::{Clock, Nanos, SECOND};

/// Runs each test with each poller.
macro_rules! with_both {
    ($($test:ident,)*) => {
        mod on_epoll {
            $(#[test] fn $test() { super::$test::<super::Epoll>(); })*
        }
        mod on_io_uring {
            $(#[test] fn $test() {
                if super::io_uring_is_to_work() {
                    super::$test::<super::Uring>();
                }
            })*
        }
    };
}

with_both!(
    a_timeout_without_data,
    a_short_wait_is_shorter_than_a_long_one,
    a_wait_ends_by_the_earlier_of_two_instants,
    what_is_watched_ends_every_wait_while_it_is_readable,
    last_words_are_heard_before_the_end,
    a_reply_before_the_message_went,
    many_tokens,
    a_token_that_many_had_before,
    a_closed_connection_is_silent,
    a_peer_that_does_not_read_and_goes,
    a_peer_that_never_stops,
    a_peer_that_answers_and_never_reads,
    flushed_before_the_end,
    dropped_while_busy,
);

mod release;

/// Whether these tests require io_uring: they do unless the environment says that the kernel lacks it.
pub(super) fn io_uring_is_to_work() -> bool {
    match Uring::new(1, Clock::start()) {
        Ok(_) => true,
        Err(_) if std::env::var_os("PGDYNO_NO_IO_URING").is_some_and(|v| v == "1") => false,
        Err(error) => panic!("{error}; where that is so, test with PGDYNO_NO_IO_URING=1"),
    }
}

/// Records what it receives, and answers as scripted.
#[derive(Default)]
struct Script {
    outgoing: Vec<Vec<u8>>,
    received: Vec<Vec<u8>>,
    closed: Vec<Vec<Option<io::ErrorKind>>>,
    /// Messages to answer with, one for each call of `received`; after them, it waits.
    answers: Vec<Vec<Vec<u8>>>,
}

impl Script {
    fn new(connections: usize) -> Self {
        Self {
            outgoing: vec![Vec::new(); connections],
            received: vec![Vec::new(); connections],
            closed: vec![Vec::new(); connections],
            answers: vec![Vec::new(); connections],
        }
    }
}

impl Handler for Script {
    fn receive(&mut self, token: usize, bytes: &[u8]) -> Next {
        assert!(!bytes.is_empty());
        self.received[token].extend_from_slice(bytes);
        if self.answers[token].is_empty() {
            return Next::Wait;
        }
        self.outgoing[token] = self.answers[token].remove(0);
        Next::Send
    }

    fn handle_close(&mut self, token: usize, why: Option<io::Error>) {
        self.closed[token].push(why.map(|error| error.kind()));
    }

    fn outgoing(&self, token: usize) -> &[u8] {
        &self.outgoing[token]
    }
}

/// A poller with `N` connections, their other ends, and the script.
struct Bench<P> {
    clock: Clock,
    poller: P,
    peers: Vec<UnixStream>,
    script: Script,
}

impl<P: Poller> Bench<P> {
    fn new(connections: usize) -> Self {
        let clock = Clock::start();
        let mut bench = Self {
            clock,
            poller: P::new(connections, clock).expect("the kernel has it"),
            peers: Vec::new(),
            script: Script::new(connections),
        };
        for token in 0..connections {
            let peer = bench.connect(token);
            bench.peers.push(peer);
        }
        bench
    }

    fn connect(&mut self, token: usize) -> UnixStream {
        let (ours, peer) = UnixStream::pair().expect("descriptors");
        self.poller.add(token, OwnedFd::from(ours)).expect("added");
        peer
    }

    fn send(&mut self, token: usize, bytes: &[u8]) {
        self.script.outgoing[token] = bytes.to_vec();
        self.poller.send(token, &mut self.script);
    }

    fn turn(&mut self) {
        self.wait(0);
    }

    fn wait(&mut self, timeout: Nanos) {
        let until = self.clock.now() + timeout;
        let waited = self.poller.wait(Some(until), &mut self.script);
        waited.expect("it is no error");
    }

    fn until(&mut self, mut done: impl FnMut(&mut Script) -> bool) {
        while !done(&mut self.script) {
            self.wait(SECOND / 100);
        }
    }

    fn read(&mut self, token: usize, length: usize) -> Vec<u8> {
        let mut peer = self.peers[token].try_clone().expect("descriptors");
        let reader = thread::spawn(move || {
            let mut bytes = vec![0; length];
            peer.read_exact(&mut bytes).map(|()| bytes)
        });
        while !reader.is_finished() {
            self.wait(SECOND / 1000);
        }
        reader.join().expect("no panic").expect("all of it")
    }
}

fn write(mut peer: &UnixStream, bytes: &[u8]) {
    peer.write_all(bytes).expect("room");
}

fn rest(mut peer: &UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match peer.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        // a socket that is closed with unread bytes may report that, after everything that it sent
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("{error}"),
    }
}

fn a_timeout_without_data<P: Poller>() {
    let mut bench = Bench::<P>::new(1);
    for timeout in [0, 1, SECOND / 1000] {
        bench.wait(timeout);
    }
    assert!(bench.script.received[0].is_empty() && bench.script.closed[0].is_empty());
    // the connection still works as before
    write(&bench.peers[0], b"late");
    bench.poller.wait(None, &mut bench.script).expect("bytes came");
    assert_eq!(bench.script.received[0], b"late");
}

fn shortest_wait<P: Poller>(bench: &mut Bench<P>, timeout: Nanos) -> Nanos {
    let waits = (0..50).map(|_| {
        let began = bench.clock.now();
        while bench.clock.now() < began + timeout {
            bench.wait(began + timeout - bench.clock.now());
        }
        bench.clock.now() - began
    });
    waits.min().expect("50 of them")
}

fn a_short_wait_is_shorter_than_a_long_one<P: Poller>() {
    let mut bench = Bench::<P>::new(1);
    let short = shortest_wait(&mut bench, SECOND / 20_000);
    let long = shortest_wait(&mut bench, SECOND / 1100);
    assert!(short < long / 2, "{short} ns, {long} ns");
}

fn a_wait_ends_by_the_earlier_of_two_instants<P: Poller>() {
    let mut bench = Bench::<P>::new(1);
    let began = bench.clock.now();
    // the wait ends with the bytes, and leaves a distant timer or none
    write(&bench.peers[0], b"at once");
    bench.wait(3600 * SECOND);
    assert_eq!(bench.script.received[0], b"at once");
    bench.wait(SECOND / 1000);
    let (near, far) = (bench.clock.now() + SECOND / 1000, began + 3600 * SECOND);
    // an instant in the past ends the wait immediately
    for until in [near, 0, near + 1, began] {
        let waited = bench.poller.wait(Some(until), &mut bench.script);
        waited.expect("it is no error");
        assert!(bench.clock.now() < far);
    }
}

fn what_is_watched_ends_every_wait_while_it_is_readable<P: Poller>() {
    let mut bench = Bench::<P>::new(1);
    let (watched, mut peer) = UnixStream::pair().expect("descriptors");
    bench.poller.watch(watched.as_fd()).expect("watched");
    bench.wait(SECOND / 1000);
    peer.write_all(b"x").expect("room");
    for _ in 0..3 {
        bench.poller.wait(None, &mut bench.script).expect("it is readable");
    }
    (&watched).read_exact(&mut [0]).expect("a byte");
    write(&bench.peers[0], b"as before");
    bench.until(|script| script.received[0] == b"as before");
}

fn last_words_are_heard_before_the_end<P: Poller>() {
    let mut bench = Bench::<P>::new(1);
    let words = noise(100_000);
    write(&bench.peers[0], &words);
    bench.peers.clear();
    bench.until(|script| !script.closed[0].is_empty());
    assert!(bench.script.received[0] == words);
    assert_eq!(bench.script.closed[0], [None]);
    // bytes and the end arrive together, after other bytes
    let peer = bench.connect(0);
    bench.turn();
    write(&peer, b"one");
    write(&peer, b"two");
    drop(peer);
    bench.until(|script| script.closed[0].len() > 1);
    assert!(bench.script.received[0].ends_with(b"onetwo"));
    bench.script.closed[0].pop();
    // sending to a closed peer causes neither an event nor a signal
    bench.send(0, b"anyone?");
    bench.turn();
    assert_eq!(bench.script.closed[0], [None]);
}

fn a_reply_before_the_message_went<P: Poller>() {
    let mut bench = Bench::<P>::new(2);
    let message = noise(3 << 20);
    bench.script.answers[0] = vec![b"I see".to_vec()];
    bench.send(0, &message);
    bench.turn();
    write(&bench.peers[0], b"too long");
    bench.until(|script| !script.received[0].is_empty());
    assert!(bench.read(0, message.len() + 5) == [&message[..], b"I see"].concat());
    // the bytes arrived before the message was submitted: it is sent first, and then the answer
    bench.turn();
    bench.script.answers[1] = vec![b"answer".to_vec()];
    write(&bench.peers[1], b"unasked");
    bench.send(1, b"message");
    assert_eq!(bench.read(1, 13), b"messageanswer");
}

fn many_tokens<P: Poller>() {
    let mut bench = Bench::<P>::new(300);
    for token in 0..300 {
        bench.script.answers[token] = vec![format!("answer {token:3}").into_bytes()];
        write(&bench.peers[token], format!("question {token}").as_bytes());
    }
    for token in (0..300).rev() {
        assert_eq!(bench.read(token, 10), format!("answer {token:3}").as_bytes());
        assert_eq!(bench.script.received[token], format!("question {token}").into_bytes());
    }
}

/// Messages of closed connections must not take up room in a batch.
fn a_token_that_many_had_before<P: Poller>() {
    let mut bench = Bench::<P>::new(2);
    for _ in 0..20 {
        bench.send(0, b"of the old");
        bench.poller.close(0);
        bench.peers[0] = bench.connect(0);
    }
    bench.send(1, b"hello");
    bench.turn();
    let mut peer = &bench.peers[1];
    peer.set_nonblocking(true).expect("a socket of ours");
    let mut bytes = [0; 20];
    let count = peer.read(&mut bytes);
    assert_eq!(&bytes[..count.expect("sent with the first turn")], b"hello");
}

fn a_closed_connection_is_silent<P: Poller>() {
    let mut bench = Bench::<P>::new(2);
    bench.turn();
    write(&bench.peers[0], b"unheard");
    bench.poller.close(0);
    bench.poller.close(0);
    bench.send(0, b"unsent");
    write(&bench.peers[1], b"heard");
    bench.until(|script| !script.received[1].is_empty());
    assert!(bench.script.received[0].is_empty() && bench.script.closed[0].is_empty());
    assert!(rest(&bench.peers[0]).is_empty());
}

fn a_peer_that_does_not_read_and_goes<P: Poller>() {
    let mut bench = Bench::<P>::new(1);
    bench.send(0, &noise(3 << 20));
    bench.turn();
    bench.peers.clear();
    bench.until(|script| !script.closed[0].is_empty());
    bench.turn();
    assert_eq!(bench.script.closed[0].len(), 1);
}

/// A handler whose peer writes again each time that it has received something.
struct Chatter {
    peer: UnixStream,
    calls: usize,
    heard: usize,
    said: usize,
}

const CHATS: usize = 2000;

impl Chatter {
    fn say(&mut self) {
        if self.calls < CHATS {
            self.said += self.peer.write(&[7; 128 * 1024]).unwrap_or(0);
        }
    }
}

impl Handler for Chatter {
    fn receive(&mut self, _token: usize, bytes: &[u8]) -> Next {
        self.calls += 1;
        self.heard += bytes.len();
        self.say();
        Next::Wait
    }

    fn handle_close(&mut self, _token: usize, why: Option<io::Error>) {
        panic!("closed: {why:?}");
    }

    fn outgoing(&self, _token: usize) -> &[u8] {
        &[]
    }
}

fn a_peer_that_never_stops<P: Poller>() {
    let (ours, peer) = UnixStream::pair().expect("descriptors");
    peer.set_nonblocking(true).expect("it can be");
    let clock = Clock::start();
    let mut poller = P::new(1, clock).expect("the kernel has it");
    poller.add(0, ours.into()).expect("added");
    let mut chatter = Chatter { peer, calls: 0, heard: 0, said: 0 };
    chatter.say();
    while chatter.calls < CHATS || chatter.heard < chatter.said {
        let before = chatter.calls;
        let waited = poller.wait(Some(clock.now() + SECOND), &mut chatter);
        waited.expect("it is no error");
        assert!(chatter.calls > before, "what is there is heard");
        assert!(chatter.calls - before < CHATS / 4, "others have their turn, too");
    }
}

fn a_peer_that_answers_and_never_reads<P: Poller>() {
    let mut bench = Bench::<P>::new(1);
    bench.send(0, &noise(3 << 20));
    let message = noise(1 << 20);
    for _ in 0..30 {
        bench.turn();
        bench.send(0, &message);
    }
    bench.turn();
    assert_eq!(bench.script.closed[0], [Some(io::ErrorKind::Other)]);
}

fn flushed_before_the_end<P: Poller>() {
    let mut bench = Bench::<P>::new(40);
    for token in 0..40 {
        bench.send(token, b"farewell");
    }
    bench.poller.flush(&mut bench.script).expect("there is room");
    drop(bench.poller);
    for peer in &bench.peers {
        assert_eq!(rest(peer), b"farewell");
    }
}

fn dropped_while_busy<P: Poller>() {
    let mut bench = Bench::<P>::new(20);
    let message = noise(3 << 20);
    for token in 0..10 {
        bench.send(token, &message);
    }
    bench.turn();
    bench.peers[10..].iter().for_each(|peer| write(peer, b"unheard"));
    drop(bench.poller);
    for peer in &bench.peers[..10] {
        let got = rest(peer);
        assert!(got.len() < message.len() && message.starts_with(&got));
    }
}

#[test]
fn an_io_uring_has_no_token_beyond_its_size() {
    if !io_uring_is_to_work() {
        return;
    }
    let mut poller = Uring::new(2, Clock::start()).expect("the kernel has it");
    let (ours, _peer) = UnixStream::pair().expect("descriptors");
    let error = poller.add(2, ours.into()).expect_err("there is no room");
    assert_eq!(error.to_string(), "connection 2 of an io_uring for 2");
}
