//! Invariants of a poller, whatever happens to its connections. The fuzz target calls [`pollers`]
//! with fuzzed bytes, and the test below with every file of its corpus.
//!
//! The bytes are the steps of a play: of the load that uses the poller, and of the scripted peers at the other ends of
//! its socket pairs. The value of every byte follows from its position, so that a lost, repeated or misplaced byte is
//! detected. At the end, everything must have arrived, and every end must have been reported once.

mod link;
mod step;

#[cfg(test)]
pub(super) use self::link::noise;

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use rustix::net::sockopt::set_socket_send_buffer_size;

use self::link::{IN, Link, OUT, Place, bytes};
use self::step::{Reaction, STEP_BYTES, Step};
use super::{Epoll, Handler, Next, Poller, Released, Uring};
use crate::clock::{Clock, Nanos, SECOND};

/// How many connections exist at a time.
const SLOTS: usize = 4;
/// How many pollers there are, between which clients move.
const POLLERS: usize = 2;
const MOST_STEPS: usize = 100;
/// How much one connection carries in each direction: less than a poller keeps for a stuck one.
const MOST_BYTES: usize = 1 << 20;
/// How long, and in how many rounds, nothing may happen while something is missing: rounds of a busy machine are long.
const PATIENCE: (Nanos, usize) = (10 * SECOND, 1000);

/// Plays the same steps with each poller; both must end in the same state.
pub fn pollers(data: &[u8]) {
    let by_epoll = play::<Epoll>(data);
    assert_eq!(by_epoll, play::<Uring>(data));
}

fn play<P: Poller>(data: &[u8]) -> Vec<String> {
    let Some((&conditions, steps)) = data.split_first() else { return Vec::new() };
    let mut play = Play::<P>::new(conditions);
    for step in steps.chunks_exact(STEP_BYTES).take(MOST_STEPS) {
        play.step(Step::from_bytes([step[0], step[1], step[2]]));
    }
    if conditions & DROPPED != 0 {
        return play.drop_pollers();
    }
    play.settle();
    play.world.links.iter().map(Link::outcome).collect()
}

// bits of the first byte
const SMALL_BUFFERS: u8 = 1;
const SMALL_PEER_BUFFERS: u8 = 2;
const DROPPED: u8 = 4;

/// All connections of a play, and which poller has each of them.
#[derive(Default)]
struct World {
    links: Vec<Link>,
    /// Indexed by poller and token.
    tokens: [[Option<usize>; SLOTS]; POLLERS],
}

impl World {
    fn link(&mut self, poller: usize, token: usize) -> &mut Link {
        let number = self.tokens[poller][token].expect("a connection of this poller");
        let link = &mut self.links[number];
        assert!(matches!(link.place, Place::With(p, t) if (p, t) == (poller, token)));
        link
    }

    fn leave(&mut self, number: usize, place: Place) {
        if let Place::With(poller, token) = self.links[number].place {
            self.tokens[poller][token] = None;
        }
        self.links[number].place = place;
    }
}

/// The load, as one of the pollers sees it.
struct Load<'a> {
    world: &'a mut World,
    poller: usize,
}

impl Handler for Load<'_> {
    fn receive(&mut self, token: usize, got: &[u8]) -> Next {
        let link = self.world.link(self.poller, token);
        let number = link.number;
        assert!(!got.is_empty(), "no bytes came");
        let end = link.received + got.len();
        assert!(end <= link.written, "more than was written");
        assert!(got == bytes(number, IN, link.received..end), "other bytes came");
        link.received = end;
        // from here on, the handler may change the message
        link.outgoing = MOST_BYTES - link.outgoing.len()..MOST_BYTES;
        link.is_outgoing_kept = false;
        let (due, later) = link.reactions.iter().partition(|(at, _)| *at <= end);
        link.reactions = later;
        let due: Vec<(usize, Reaction)> = due;
        let mut length = 0;
        for (_, reaction) in due {
            match reaction {
                Reaction::Send(more) => length += more,
                Reaction::Close => {
                    self.world.leave(number, Place::Closed);
                    return Next::Close;
                }
            }
        }
        link.compose(length);
        if link.outgoing.is_empty() {
            return Next::Wait;
        }
        link.is_outgoing_kept = true;
        Next::Send
    }

    fn handle_close(&mut self, token: usize, why: Option<io::Error>) {
        let link = self.world.link(self.poller, token);
        let number = link.number;
        assert!(link.peer_ended_writing, "an end that the peer did not make");
        let kind = why.as_ref().map(io::Error::kind);
        assert!(matches!(kind, None | Some(io::ErrorKind::ConnectionReset)), "ended by {why:?}");
        assert_eq!(link.received, link.written, "bytes before the end are lost");
        self.world.leave(number, Place::Ended);
    }

    fn outgoing(&self, token: usize) -> &[u8] {
        let number = self.world.tokens[self.poller][token].expect("a connection of this poller");
        bytes(number, OUT, self.world.links[number].outgoing.clone())
    }
}

/// How long nothing has happened.
#[derive(Default)]
struct Idle {
    moved: usize,
    rounds: usize,
    since: Nanos,
}

impl Idle {
    fn is_over(&mut self, moved: usize, now: Nanos) -> bool {
        if self.rounds == 0 || moved != self.moved {
            (self.moved, self.rounds, self.since) = (moved, 0, now);
        }
        self.rounds += 1;
        let (longest, most_rounds) = PATIENCE;
        now - self.since > longest && self.rounds > most_rounds
    }
}

struct Play<P> {
    pollers: [P; POLLERS],
    world: World,
    /// The latest connection of each slot.
    slots: [Option<usize>; SLOTS],
    clock: Clock,
    conditions: u8,
}

impl<P: Poller> Play<P> {
    fn new(conditions: u8) -> Self {
        let clock = Clock::start();
        let poller = |_| P::new(SLOTS, clock).expect("the kernel has it");
        Self { pollers: std::array::from_fn(poller), world: World::default(), slots: [None; SLOTS], clock, conditions }
    }

    fn turn_until(&mut self, poller: usize, until: Nanos) {
        // pending messages are sent or copied now; a message after that must stay unchanged
        for number in self.world.tokens[poller].iter().flatten() {
            self.world.links[*number].is_outgoing_kept = false;
        }
        let world = &mut self.world;
        let mut load = Load { world, poller };
        self.pollers[poller].wait(Some(until), &mut load).expect("waited");
    }

    fn turn(&mut self, poller: usize) {
        self.turn_until(poller, 0);
    }

    fn turn_all(&mut self) {
        for poller in 0..POLLERS {
            if self.world.tokens[poller].iter().any(Option::is_some) {
                self.turn(poller);
            }
        }
    }

    fn step(&mut self, (slot, step): (usize, Step)) {
        match step {
            Step::Turn(poller) => return self.turn(poller),
            Step::Flush(poller) => {
                let world = &mut self.world;
                let mut load = Load { world, poller };
                return self.pollers[poller].flush(&mut load).expect("flushed");
            }
            Step::Connect => return self.connect(slot),
            _ => {}
        }
        let Some(number) = self.slots[slot] else { return };
        match step {
            Step::Send(length) => self.send(number, length),
            Step::Close => self.close(number),
            Step::Release => self.release(number),
            Step::Adopt => self.adopt(number),
            Step::EndWriting => self.end_writing(number),
            Step::Leave => self.leave(number),
            _ => {
                let link = &mut self.world.links[number];
                match step {
                    Step::React(after, reaction) => {
                        link.reactions.push((link.wanted + after, reaction));
                    }
                    Step::Write(length) if !link.peer_ended_writing => {
                        link.wanted = (link.wanted + length).min(MOST_BYTES);
                        link.write();
                    }
                    Step::Read(length) => drop(link.read(length)),
                    Step::EndReading => {
                        if let Some(peer) = &link.peer {
                            // our end may be closed already
                            let _ = peer.shutdown(Shutdown::Read);
                            link.peer_ended_reading = true;
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn connect(&mut self, slot: usize) {
        let mut place = None;
        if let Some(old) = self.slots[slot] {
            if let Place::With(poller, token) = self.world.links[old].place {
                place = Some((poller, token));
            }
            self.close(old);
        }
        let (poller, token) = place.unwrap_or_else(|| (0, self.vacant(0)));
        let (ours, peer) = UnixStream::pair().expect("descriptors");
        for (bit, socket) in [(SMALL_BUFFERS, &ours), (SMALL_PEER_BUFFERS, &peer)] {
            if self.conditions & bit != 0 {
                set_socket_send_buffer_size(socket, 1).expect("the kernel makes it its least");
            }
        }
        peer.set_nonblocking(true).expect("a socket of ours");
        self.pollers[poller].add(token, ours.into()).expect("there is room");
        let number = self.world.links.len();
        let link = Link::new(number, Place::With(poller, token), peer);
        self.world.links.push(link);
        self.world.tokens[poller][token] = Some(number);
        self.slots[slot] = Some(number);
    }

    fn vacant(&self, poller: usize) -> usize {
        let tokens = self.world.tokens[poller].iter();
        let vacant = tokens.rev().position(Option::is_none);
        SLOTS - 1 - vacant.expect("as many tokens as slots")
    }

    fn send(&mut self, number: usize, length: usize) {
        // the release succeeds only if the poller has nothing left to send
        self.adopt(number);
        while let link = &self.world.links[number]
            && let Place::With(poller, _) = link.place
            && link.is_outgoing_kept
        {
            self.turn(poller);
        }
        let link = &mut self.world.links[number];
        let Place::With(poller, token) = link.place else { return };
        link.compose(length);
        if link.outgoing.is_empty() {
            return;
        }
        link.is_outgoing_kept = true;
        let world = &mut self.world;
        let mut load = Load { world, poller };
        self.pollers[poller].send(token, &mut load);
    }

    fn close(&mut self, number: usize) {
        if let Place::With(poller, token) = self.world.links[number].place {
            self.pollers[poller].close(token);
        }
        if self.world.links[number].is_open() {
            self.world.leave(number, Place::Closed);
        }
        self.world.links[number].is_cut = true;
    }

    fn release(&mut self, number: usize) {
        let Place::With(poller, token) = self.world.links[number].place else { return };
        let mut released = self.pollers[poller].release(token);
        while let Released::Pending = released {
            assert!(self.world.links[number].is_open());
            self.turn(poller);
            released = self.pollers[poller].release(token);
        }
        match released {
            Released::Socket(socket) => self.world.leave(number, Place::LetGo(poller, socket)),
            Released::Pending | Released::Busy => assert!(self.world.links[number].is_open()),
            Released::Gone => assert!(!self.world.links[number].is_open(), "it is there"),
        }
    }

    fn adopt(&mut self, number: usize) {
        let Place::LetGo(old, _) = self.world.links[number].place else { return };
        let poller = (old + 1) % POLLERS;
        let token = self.vacant(poller);
        let link = &mut self.world.links[number];
        if let Place::LetGo(_, socket) = std::mem::replace(&mut link.place, Place::With(poller, token)) {
            self.pollers[poller].add(token, socket).expect("there is room");
        }
        self.world.tokens[poller][token] = Some(number);
    }

    fn end_writing(&mut self, number: usize) {
        let mut idle = Idle::default();
        loop {
            let now = self.clock.now();
            let link = &mut self.world.links[number];
            link.write();
            if link.written == link.wanted {
                break;
            }
            assert!(!idle.is_over(link.written, now), "nobody reads: {link:?}");
            self.adopt(number);
            self.turn_all();
        }
        let link = &mut self.world.links[number];
        if let Some(peer) = &link.peer {
            // our end may be closed already
            let _ = peer.shutdown(Shutdown::Write);
        }
        link.peer_ended_writing = true;
    }

    fn leave(&mut self, number: usize) {
        if !self.world.links[number].peer_ended_writing {
            self.end_writing(number);
        }
        self.world.links[number].peer = None;
    }

    fn settle(&mut self) {
        (0..self.world.links.len()).for_each(|number| self.adopt(number));
        let mut idle = Idle::default();
        loop {
            self.turn_all();
            let links = &mut self.world.links;
            let unsettled =
                links.iter_mut().filter_map(|link| if link.is_settled() { None } else { Some(link.number) });
            let unsettled: Vec<usize> = unsettled.collect();
            if unsettled.is_empty() {
                return;
            }
            let moved = links.iter();
            let moved = moved.map(|l| l.read + l.received + usize::from(!l.is_open()));
            assert!(!idle.is_over(moved.sum(), self.clock.now()), "{} leaves {unsettled:?} of {links:?}", P::NAME);
        }
    }

    /// Drops the pollers while they have connections, which must be closed.
    fn drop_pollers(self) -> Vec<String> {
        let Self { pollers, mut world, .. } = self;
        drop(pollers);
        for number in 0..world.links.len() {
            if world.links[number].is_open() {
                world.leave(number, Place::Closed);
            }
            let link = &mut world.links[number];
            if link.peer.is_some() && !link.peer_ended_reading {
                assert!(link.read(usize::MAX / 2), "it was not closed: {link:?}");
            }
        }
        Vec::new()
    }
}

#[test]
fn the_corpus() {
    let has_both = super::tests::io_uring_is_to_work();
    let replay = |data: &[u8]| if has_both { pollers(data) } else { drop(play::<Epoll>(data)) };
    crate::fuzz_tests::corpus::replay("pollers", replay);
}
