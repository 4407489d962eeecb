//! Keying time before a transaction, and think time after it.
//!
//! As in clause 5.2.5 of TPC-C, a user keys in a transaction, waits for the answer, and thinks
//! before the next one. Neither time is the server's, so neither is latency.

use std::time::Duration;

use pgdyno_script::Rng;

use crate::clock::Nanos;

/// An exponential pause is at most this many times its mean (TPC-C 5.2.5.4).
pub const LONGEST_IN_MEANS: u32 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pause {
    #[default]
    None,
    Fixed(Duration),
    /// Exponentially distributed, cut at [`LONGEST_IN_MEANS`] times the mean.
    Exponential {
        /// The mean before the cut, which lowers it by 0.005 %.
        mean: Duration,
    },
}

impl Pause {
    /// The length of the next pause; only a random pause advances `rng`.
    pub fn draw(self, rng: &mut Rng) -> Nanos {
        match self {
            Self::None => 0,
            Self::Fixed(length) => length.as_nanos() as Nanos,
            Self::Exponential { mean } => {
                let mean = mean.as_nanos() as f64;
                // 1 - u is in (0, 1], so that the logarithm is finite
                let drawn = -(1.0 - rng.next_f64()).ln() * mean;
                drawn.min(mean * f64::from(LONGEST_IN_MEANS)) as Nanos
            }
        }
    }
}

/// The pauses around a script's transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pacing {
    /// The pause before each transaction; latency counts from its end.
    pub keying: Pause,
    /// The pause after the end of each transaction.
    pub think: Pause,
}

impl Pacing {
    pub fn pauses(&self) -> bool {
        *self != Self::default()
    }
}

/// The random numbers for the pauses of a client whose script functions have the seed
/// `client_seed`. They are a separate sequence, so that pauses do not change what scripts draw.
pub fn rng(client_seed: u64) -> Rng {
    Rng::seed(!client_seed).derive()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_pauses_have_their_mean_and_their_end() {
        let mut rng = rng(7);
        let mean = Duration::from_micros(100);
        let pause = Pause::Exponential { mean };
        let all: Vec<_> = (0..200_000).map(|_| pause.draw(&mut rng)).collect();
        let average = all.iter().sum::<Nanos>() as f64 / all.len() as f64;
        // 5 standard errors of a mean of 200,000
        assert!((average - 100_000.0).abs() < 1_120.0, "{average}");
        assert_eq!(all.iter().max(), Some(&1_000_000), "some are cut");
        let above = all.iter().filter(|&&pause| pause > 100_000).count() as f64 / all.len() as f64;
        assert!((above - (-1f64).exp()).abs() < 0.006, "{above}");
    }
}
