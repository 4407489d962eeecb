//! Values that the server makes during a replay, in the places that statements of the file name: slots.

use std::sync::OnceLock;

/// The values so far. Each slot is filled once, by whatever session has its statement.
#[derive(Debug)]
pub struct Slots(Vec<OnceLock<Option<Box<[u8]>>>>);

impl Slots {
    pub fn new(count: usize) -> Self {
        Self((0..count).map(|_| OnceLock::new()).collect())
    }

    /// Notes a value; None if there will be none, because the statement failed or returned other rows.
    pub fn fill(&self, slot: usize, value: Option<&[u8]>) {
        if let Some(place) = self.0.get(slot) {
            place.get_or_init(|| value.map(Into::into));
        }
    }

    pub fn is_filled(&self, slot: usize) -> bool {
        self.0.get(slot).is_none_or(|place| place.get().is_some())
    }

    /// The value; None before it is filled, and if it was filled without one.
    pub fn value(&self, slot: usize) -> Option<&[u8]> {
        self.0.get(slot)?.get()?.as_deref()
    }
}
