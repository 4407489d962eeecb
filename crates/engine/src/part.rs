//! What one of several generators has of a load that they make together.

use std::ops::Range;

use crate::spec::share_of;

/// The part of one generator: its clients, and as much of the rate as they are of all clients.
///
/// Clients keep the numbers, and with them the random sequences, that they have in the whole load,
/// and each draws its own scripts: what a client does depends neither on the number of generators
/// nor on that of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Of this generator, from 0.
    pub number: usize,
    /// Generators of the load.
    pub of: usize,
    /// Clients of all of them; at least as many as generators.
    pub clients: usize,
}

impl Part {
    /// Numbers of this generator's clients.
    #[must_use]
    pub fn range(self) -> Range<usize> {
        share_of(self.clients, self.of, self.number)
    }

    /// Its share of the rate, above 0 and up to 1.
    #[must_use]
    pub fn fraction(self) -> f64 {
        self.range().len() as f64 / self.clients as f64
    }

    /// How much of a gap its first evenly spaced start is behind the load's: generators take turns.
    #[must_use]
    pub fn turn(self) -> f64 {
        self.range().start as f64 / self.clients as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_to_rounding() {
        for (clients, of) in [(7, 3), (3, 3), (100, 7), (10_000, 64), (5, 1)] {
            let parts = (0..of).map(|number| Part {
                number,
                of,
                clients,
            });
            let all: Vec<usize> = parts.clone().flat_map(Part::range).collect();
            assert_eq!(all, (0..clients).collect::<Vec<_>>());
            let rate: f64 = parts.map(Part::fraction).sum();
            assert!((rate - 1.0).abs() < 1e-12, "{rate}");
        }
    }
}
