//! What clients request of their worker: to be woken, connected, or given another session.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::clock::Nanos;
use crate::spec::Spec;

#[derive(Debug)]
pub struct Requests {
    timers: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// Sleeping clients are woken at multiples of this.
    timer_tick: Nanos,
    /// Clients that wait for a connection.
    unconnected: VecDeque<usize>,
    /// Clients that want to change their session.
    changing: VecDeque<usize>,
}

impl Requests {
    /// No requests, with the timer tick of `spec`.
    pub fn new(spec: &Spec) -> Self {
        Self {
            timers: BinaryHeap::new(),
            timer_tick: (spec.timer_tick.as_nanos() as Nanos).max(1),
            unconnected: VecDeque::new(),
            changing: VecDeque::new(),
        }
    }

    pub fn connect(&mut self, client: usize) {
        self.unconnected.push_back(client);
    }

    pub fn next_unconnected(&mut self) -> Option<usize> {
        self.unconnected.pop_front()
    }

    pub fn change_session(&mut self, client: usize) {
        self.changing.push_back(client);
    }

    pub fn changes(&self) -> usize {
        self.changing.len()
    }

    pub fn next_change(&mut self) -> Option<usize> {
        self.changing.pop_front()
    }

    pub fn wake_at(&mut self, instant: Nanos, client: usize) {
        self.timers.push(Reverse((instant, client)));
    }

    /// Sets a timer that wakes `client` at the first tick that is not before `instant`.
    pub fn sleep_until(&mut self, instant: Nanos, client: usize) {
        let tick = self.timer_tick;
        let at = if tick > 1 { instant.div_ceil(tick).saturating_mul(tick) } else { instant };
        self.wake_at(at, client);
    }

    /// The next client whose timer has expired by `now`.
    pub fn due(&mut self, now: Nanos) -> Option<usize> {
        let Reverse((instant, client)) = *self.timers.peek()?;
        (instant <= now).then(|| {
            self.timers.pop();
            client
        })
    }

    pub fn next_timer(&self) -> Option<Nanos> {
        self.timers.peek().map(|Reverse((instant, _))| *instant)
    }
}
