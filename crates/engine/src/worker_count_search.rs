//! Finds the number of workers: each possible number is tried in turn during the warm-up, and the
//! one with the most transactions is kept.
//!
//! On few cores, and with few clients, throughput depends more on where the scheduler puts the
//! generator's threads than on what they compute. No formula gives the best number, so it is
//! measured.

use crate::clock::{Nanos, SECOND};

/// The shortest and the longest time for which one number of workers is tried in a row.
const SLOT: (Nanos, Nanos) = (SECOND / 10, SECOND / 2);

/// How often each number is tried, if the warm-up is long enough for slots longer than the
/// shortest.
const ROUNDS: u64 = 4;

/// Rounds come in pairs, one in each direction, so that a drift of the server does not favour a
/// number.
const PAIR: u64 = 2;

/// The fraction of a slot that is left out, while clients move and the scheduler settles.
const SETTLING: f64 = 0.3;

/// How many transactions the best slot of the first round needs: with fewer, rates are random.
const LEAST_TRANSACTIONS: u64 = 50;

/// A number of workers is not tried again if its throughput is below this fraction of the best.
const HOPELESS: f64 = 0.9;

/// The smallest number of workers within this fraction of the best throughput is chosen, because
/// fewer workers use less CPU.
const AS_GOOD: f64 = 0.985;

/// A number of workers with its measured rates.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// How many workers shared the clients.
    pub workers: usize,
    /// Transactions per second in each of its slots.
    pub rates_per_s: Vec<f64>,
}

/// The number of workers that was chosen, with the trials on which the choice is based.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The number of workers from now on.
    pub workers: usize,
    /// The numbers that were tried, in ascending order.
    pub tried: Vec<Tried>,
}

/// What to do after a check of the load.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Check again at [`Tuning::due`].
    Wait,
    /// Share the clients among this many workers.
    Arrange(usize),
    /// Do the same, as the final choice.
    Choose(Choice),
}

/// Tries numbers of workers, one slot after the other.
#[derive(Debug)]
pub struct Tuning {
    first: usize,
    /// The remaining candidates in the order of the current round; `at` is being tried.
    running: Vec<Tried>,
    at: usize,
    given_up: Vec<Tried>,
    round: u64,
    slot: Nanos,
    due: Nanos,
    end: Nanos,
    /// When counting began in this slot, and the number of transactions at that time.
    counting: Option<(Nanos, u64)>,
    has_begun: bool,
}

impl Tuning {
    /// Tries `numbers` of workers, beginning with `first`, from `from` to `end`. None if there is
    /// no choice, or no time for it.
    #[must_use]
    pub fn new(numbers: &[usize], first: usize, from: Nanos, end: Nanos) -> Option<Self> {
        let count = numbers.len() as u64;
        let time = end.saturating_sub(from);
        if count < 2 || time < PAIR * count * SLOT.0 {
            return None;
        }
        let tried = |workers: &usize| Tried { workers: *workers, rates_per_s: Vec::new() };
        Some(Self {
            first,
            running: numbers.iter().map(tried).collect(),
            at: 0,
            given_up: Vec::new(),
            round: 0,
            slot: (time / (ROUNDS * count)).clamp(SLOT.0, SLOT.1),
            due: from,
            end,
            counting: None,
            has_begun: false,
        })
    }

    /// When to check the load.
    #[must_use]
    pub fn due(&self) -> Nanos {
        self.due
    }

    /// Checks the load, which has ended `transactions` transactions by `now`.
    pub fn look(&mut self, now: Nanos, transactions: u64) -> Step {
        if now < self.due {
            return Step::Wait;
        }
        if !self.has_begun {
            self.has_begun = true;
            return self.try_current(now);
        }
        let Some((since, before)) = self.counting else {
            self.counting = Some((now, transactions));
            self.due = now + self.slot - self.settling();
            return Step::Wait;
        };
        let seconds = (now - since) as f64 / SECOND as f64;
        let rate = (transactions - before) as f64 / seconds.max(1e-9);
        self.running[self.at].rates_per_s.push(rate);
        self.at += 1;
        if self.at < self.running.len() {
            return self.try_current(now);
        }
        self.end_round(now)
    }

    fn settling(&self) -> Nanos {
        (self.slot as f64 * SETTLING) as Nanos
    }

    fn try_current(&mut self, now: Nanos) -> Step {
        self.counting = None;
        self.due = now + self.settling();
        Step::Arrange(self.running[self.at].workers)
    }

    fn end_round(&mut self, now: Nanos) -> Step {
        self.round += 1;
        let best = |rates: &mut dyn Iterator<Item = f64>| rates.fold(0.0, f64::max);
        let fastest = best(&mut self.running.iter().flat_map(|one| one.rates_per_s.clone()));
        let counted = fastest * (self.slot - self.settling()) as f64 / SECOND as f64;
        if counted < LEAST_TRANSACTIONS as f64 {
            return self.choose(self.first);
        }
        let is_pair = self.round.is_multiple_of(PAIR);
        if is_pair {
            let scores = scores(&self.running);
            let limit = HOPELESS * best(&mut scores.iter().copied());
            let all = std::mem::take(&mut self.running);
            for (one, score) in all.into_iter().zip(scores) {
                if score < limit {
                    self.given_up.push(one);
                } else {
                    self.running.push(one);
                }
            }
        }
        let another = PAIR * self.slot * self.running.len() as u64;
        if is_pair && (self.running.len() < 2 || now + another > self.end) {
            return self.choose(self.preferred());
        }
        // reversed: neighbours follow each other, and a drift cancels out
        self.running.reverse();
        self.at = 0;
        self.try_current(now)
    }

    /// The smallest number of workers that is as good as the best.
    fn preferred(&self) -> usize {
        let scores = scores(&self.running);
        let limit = AS_GOOD * scores.iter().copied().fold(0.0, f64::max);
        let good = self.running.iter().zip(scores);
        let good = good.filter(|(_, score)| *score >= limit);
        good.map(|(one, _)| one.workers).min().unwrap_or(self.first)
    }

    fn choose(&mut self, workers: usize) -> Step {
        self.due = Nanos::MAX;
        let mut tried = std::mem::take(&mut self.running);
        tried.append(&mut self.given_up);
        tried.sort_by_key(|one| one.workers);
        Step::Choose(Choice { workers, tried })
    }
}

/// By number of workers: the median over the pairs of rounds of its rate, relative to that pair's
/// mean.
fn scores(running: &[Tried]) -> Vec<f64> {
    let pairs: Vec<Vec<f64>> = running
        .iter()
        .map(|one| one.rates_per_s.chunks_exact(PAIR as usize))
        .map(|pairs| pairs.map(|rates| rates.iter().sum()).collect())
        .collect();
    let mean = |pair: usize| {
        let sum: f64 = pairs.iter().map(|rates| rates[pair]).sum();
        (sum / pairs.len() as f64).max(1e-9)
    };
    let score = |rates: &Vec<f64>| {
        let ratios = rates.iter().enumerate();
        median(ratios.map(|(pair, rate)| rate / mean(pair)).collect())
    };
    pairs.iter().map(score).collect()
}

/// The median; 0 without values.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a load whose throughput depends on the number of workers, and on time.
    fn drive(
        numbers: &[usize],
        first: usize,
        seconds: f64,
        tps: impl Fn(usize, f64) -> f64,
    ) -> Option<(Choice, Vec<usize>)> {
        let end = (seconds * SECOND as f64) as Nanos;
        let mut tuning = Tuning::new(numbers, first, 0, end)?;
        let (mut workers, mut transactions, mut now) = (first, 0.0, 0);
        let mut arranged = vec![];
        loop {
            let due = tuning.due();
            let step = (due - now) as f64 / SECOND as f64;
            transactions += tps(workers, now as f64 / SECOND as f64) * step;
            now = due;
            match tuning.look(now, transactions as u64) {
                Step::Wait => {}
                Step::Arrange(number) => {
                    workers = number;
                    arranged.push(number);
                }
                Step::Choose(choice) => {
                    assert!(now <= end, "it is over when the warm-up is");
                    return Some((choice, arranged));
                }
            }
        }
    }

    #[test]
    fn what_gives_more_is_kept() {
        let best_at = |best: usize| move |workers: usize, _: f64| if workers == best { 5000.0 } else { 4000.0 };
        for best in [1, 2, 4, 8] {
            let (choice, _) = drive(&[1, 2, 4, 8], 2, 4.0, best_at(best)).expect("there is time");
            assert_eq!(choice.workers, best);
            assert_eq!(choice.tried.len(), 4);
        }
    }

    #[test]
    fn the_fewest_of_equals_are_taken() {
        let (choice, arranged) = drive(&[1, 2, 4], 2, 2.0, |_, _| 1000.0).expect("there is time");
        assert_eq!(choice.workers, 1);
        assert_eq!(arranged[..6], [1, 2, 4, 4, 2, 1]);
    }

    #[test]
    fn a_drift_favours_nobody() {
        let rising = |workers: usize, at: f64| (1000.0 + 2000.0 * at) * if workers == 2 { 1.05 } else { 1.0 };
        let (choice, _) = drive(&[1, 2, 4], 1, 3.0, rising).expect("there is time");
        assert_eq!(choice.workers, 2);
    }

    #[test]
    fn those_far_behind_are_tried_no_more() {
        let tps = |workers: usize, _: f64| if workers == 4 { 500.0 } else { 1000.0 };
        let (choice, arranged) = drive(&[1, 2, 4], 1, 6.0, tps).expect("there is time");
        assert_eq!(choice.workers, 1);
        assert_eq!(arranged.iter().filter(|number| **number == 4).count(), 2);
        assert!(arranged.len() > 8, "{arranged:?}");
    }

    #[test]
    fn too_few_transactions_choose_nothing() {
        let (choice, arranged) = drive(&[1, 2], 2, 2.0, |_, _| 20.0).expect("there is time");
        assert_eq!(choice.workers, 2);
        assert_eq!(arranged.len(), 2, "one round is enough to see it");
        let (choice, _) = drive(&[1, 2], 2, 2.0, |_, _| 0.0).expect("there is time");
        assert_eq!(choice.workers, 2);
    }

    #[test]
    fn nothing_to_choose_or_no_time() {
        assert!(Tuning::new(&[1], 1, 0, 10 * SECOND).is_none());
        assert!(Tuning::new(&[1, 2], 1, 0, SECOND / 3).is_none());
        assert!(Tuning::new(&[1, 2], 1, SECOND, 0).is_none());
        assert!(Tuning::new(&[1, 2], 1, 0, SECOND / 2).is_some());
    }

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), 0.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
