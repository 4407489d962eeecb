//! Connections that go from one poller to another.

use super::*;
use crate::poller::Released;

with_both!(
    what_came_before_is_read_after,
    a_peer_that_dies_is_heard_and_noticed_once,
    nothing_to_release,
    others_are_served_meanwhile,
    a_slot_is_free_for_another,
    many_busy_connections_delay_a_release_and_do_not_fail_it,
    one_that_sends_instead_goes_on,
);

impl<P: Poller> Bench<P> {
    fn release(&mut self, token: usize) -> Released {
        loop {
            match self.poller.release(token) {
                Released::Pending => self.wait(SECOND / 100),
                released => return released,
            }
        }
    }

    fn move_to_another(&mut self, token: usize) {
        let Released::Socket(socket) = self.release(token) else { panic!("nothing is in its way") };
        self.poller = P::new(self.peers.len(), self.clock).expect("the kernel has it");
        self.poller.add(token, socket).expect("added");
    }
}

fn what_came_before_is_read_after<P: Poller>() {
    let mut bench = Bench::<P>::new(1);
    // once with a poller that has never waited for the connection, and once with one that has
    for turns in 0..2 {
        (0..turns).for_each(|_| bench.turn());
        write(&bench.peers[0], b"notice");
        bench.move_to_another(0);
        bench.until(|script| script.received[0].len() == 6 * (turns + 1));
    }
    assert_eq!(bench.script.received[0], b"noticenotice");
}

fn a_peer_that_dies_is_heard_and_noticed_once<P: Poller>() {
    for (turns, words) in [(0, ""), (1, ""), (0, "FATAL: I am shut down"), (1, "FATAL: I am shut down")] {
        let mut bench = Bench::<P>::new(1);
        (0..turns).for_each(|_| bench.turn());
        write(&bench.peers[0], words.as_bytes());
        bench.peers.clear();
        match bench.release(0) {
            Released::Socket(socket) => {
                assert!(bench.script.closed[0].is_empty(), "it is still to be found");
                bench.poller.add(0, socket).expect("added");
            }
            Released::Gone => assert_eq!(bench.script.closed[0].len(), 1),
            Released::Pending | Released::Busy => assert!(!words.is_empty(), "nothing was to be sent"),
        }
        bench.until(|script| !script.closed[0].is_empty());
        bench.turn();
        assert_eq!(bench.script.received[0], words.as_bytes());
        assert_eq!(bench.script.closed[0], [None]);
    }
}

fn nothing_to_release<P: Poller>() {
    let mut bench = Bench::<P>::new(1);
    bench.poller.close(0);
    assert!(matches!(bench.release(0), Released::Gone));
    assert!(matches!(bench.release(1), Released::Gone));
    assert!(bench.script.closed[0].is_empty());
}

fn others_are_served_meanwhile<P: Poller>() {
    let mut bench = Bench::<P>::new(40);
    bench.turn();
    for token in 0..40 {
        bench.script.answers[token] = vec![b"answer".to_vec()];
        write(&bench.peers[token], b"question");
    }
    let mut sockets = Vec::new();
    for token in (0..40).step_by(2) {
        match bench.release(token) {
            Released::Socket(socket) => sockets.push(socket),
            // the question arrived before the release, and is answered first
            Released::Pending | Released::Busy => {}
            Released::Gone => panic!("nobody left"),
        }
    }
    for token in (1..40).step_by(2) {
        assert_eq!(bench.read(token, 6), b"answer");
        assert_eq!(bench.script.received[token], b"question");
    }
    assert!(bench.script.closed.iter().all(Vec::is_empty));
}

fn a_slot_is_free_for_another<P: Poller>() {
    let mut bench = Bench::<P>::new(1);
    for round in 0..3 {
        let Released::Socket(socket) = bench.release(0) else { panic!("nothing is in its way") };
        // the peer sees the end when the last of our descriptors is closed, so the poller has none
        drop(socket);
        assert!(rest(&bench.peers[0]).is_empty(), "round {round}");
        let peer = bench.connect(0);
        bench.peers[0] = peer;
        bench.send(0, b"hello");
        assert_eq!(bench.read(0, 5), b"hello");
    }
}

fn many_busy_connections_delay_a_release_and_do_not_fail_it<P: Poller>() {
    // the kernel reports the end of a receive after everything that arrived before
    let others = 4500;
    let mut bench = Bench::<P>::new(others + 1);
    // a turn submits at most 1024 receives
    (0..5).for_each(|_| bench.turn());
    for peer in &bench.peers[1..] {
        write(peer, b"answer");
    }
    assert!(matches!(bench.release(0), Released::Socket(_)));
    bench.until(|script| script.received[1..].iter().all(|got| got == b"answer"));
    assert!(bench.script.closed.iter().all(Vec::is_empty));
}

fn one_that_sends_instead_goes_on<P: Poller>() {
    let mut bench = Bench::<P>::new(1);
    bench.turn();
    if let Released::Pending = bench.poller.release(0) {
        bench.send(0, b"question");
        assert_eq!(bench.read(0, 8), b"question");
        write(&bench.peers[0], b"answer");
        bench.until(|script| !script.received[0].is_empty());
        assert!(bench.script.closed[0].is_empty());
        bench.move_to_another(0);
        write(&bench.peers[0], b"again");
        bench.until(|script| script.received[0].len() == 11);
    }
}
