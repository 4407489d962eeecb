//! Observes a load in which nothing may go wrong.

use pgdyno_engine::clock::{Clock, Nanos};
use pgdyno_engine::interval::{ErrorNote, Merged};
use pgdyno_engine::outage::OutageNote;
use pgdyno_engine::{Connected, Observer, RunError};

/// Panics at errors, outages and added workers; calls its function when the load is about to begin.
pub struct Faultless<F>(pub F);

impl<F: FnMut() + Send> Observer for Faultless<F> {
    fn ready(&mut self, clock: Clock, _: Nanos) -> Result<Nanos, RunError> {
        (self.0)();
        Ok(clock.now())
    }

    fn connected(&mut self, _: &Connected) {}

    fn interval(&mut self, _: &Merged) {}

    fn error(&mut self, note: &ErrorNote) {
        panic!("{note:?}");
    }

    fn outage(&mut self, note: &OutageNote) {
        panic!("{note:?}");
    }
}
