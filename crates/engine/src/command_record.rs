//! One command's executions. A load has one record for every statement of every script and thread,
//! so a record takes memory only for the latencies that occur.

use crate::clock::Nanos;
use crate::latencies::{HIGHEST_LATENCY, Latencies, Moments};

/// Each latency below two to this power has its own bucket, as for [`crate::latencies::SIGNIFICANT_DIGITS`].
const EXACT_BITS: u32 = 11;
/// How many buckets share the latencies between two higher powers of two.
const HALF: usize = 1 << (EXACT_BITS - 1);
const BUCKETS: usize = bucket(HIGHEST_LATENCY) + 1;

/// The results whose tags say a number of rows, and their rows: returned or changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowCounts {
    pub results: u64,
    pub rows: u64,
}

impl RowCounts {
    #[inline]
    pub fn add(&mut self, other: Self) {
        self.results += other.results;
        self.rows += other.rows;
    }
}

/// One command's executions since measuring began.
#[derive(Debug, Clone, Default)]
pub struct CommandRecord {
    /// Exact moments of the latency of one execution.
    pub moments: Moments,
    /// Executions by latency: the buckets of an HDR histogram; empty before the first execution.
    counts: Vec<u64>,
    /// Executions that failed and were not retried.
    pub failures: u64,
    /// Executions that failed and were retried.
    pub retries: u64,
    /// None of executions within an explicit pipeline, whose results come later.
    pub row_counts: RowCounts,
}

impl CommandRecord {
    #[inline]
    pub fn record(&mut self, latency: Nanos) {
        if self.counts.is_empty() {
            self.allocate();
        }
        self.counts[bucket(latency.min(HIGHEST_LATENCY))] += 1;
        self.moments.record(latency);
    }

    #[cold]
    fn allocate(&mut self) {
        self.counts = vec![0; BUCKETS];
    }

    /// The latencies as a histogram of the usual kind.
    pub fn latencies(&self) -> Latencies {
        let mut latencies = Latencies::default();
        for bucket in self.occupied() {
            let count = self.counts[bucket];
            if count > 0 {
                let value = lowest_value(bucket).max(1);
                latencies.histogram.saturating_record_n(value, count);
            }
        }
        latencies.moments = self.moments;
        latencies
    }

    pub fn add(&mut self, other: &Self) {
        let occupied = other.occupied();
        if self.counts.is_empty() && !occupied.is_empty() {
            self.allocate();
        }
        for bucket in occupied {
            self.counts[bucket] += other.counts[bucket];
        }
        self.moments.add(&other.moments);
        self.failures += other.failures;
        self.retries += other.retries;
        self.row_counts.add(other.row_counts);
    }

    /// Empties the record without releasing memory.
    pub fn clear(&mut self) {
        let occupied = self.occupied();
        self.counts[occupied].fill(0);
        self.moments = Moments::default();
        self.failures = 0;
        self.retries = 0;
        self.row_counts = RowCounts::default();
    }

    fn occupied(&self) -> std::ops::Range<usize> {
        if self.moments.count == 0 {
            return 0..0;
        }
        let [min, max] = [self.moments.min, self.moments.max].map(|at| at.min(HIGHEST_LATENCY));
        bucket(min)..bucket(max) + 1
    }
}

const fn bucket(latency: Nanos) -> usize {
    let exact = (1 << EXACT_BITS) - 1;
    let shift = Nanos::BITS - EXACT_BITS - (latency | exact).leading_zeros();
    shift as usize * HALF + (latency >> shift) as usize
}

const fn lowest_value(bucket: usize) -> Nanos {
    let shift = (bucket / HALF).saturating_sub(1);
    ((bucket - shift * HALF) as Nanos) << shift
}

#[cfg(test)]
mod tests {
    use pgdyno_script::Rng;

    use super::*;
    use crate::clock::SECOND;

    fn recorded(values: impl Iterator<Item = Nanos>) -> CommandRecord {
        let mut record = CommandRecord::default();
        values.for_each(|value| record.record(value));
        record
    }

    #[test]
    fn the_buckets_are_those_of_a_histogram() {
        let mut rng = Rng::seed(1);
        let drawn = (0..10_000).map(|_| rng.range_i64(1, i64::MAX) as u64 >> (rng.range_i64(22, 62)));
        let edges = (0..41).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        let values: Vec<Nanos> = drawn.chain(edges).chain([0, HIGHEST_LATENCY]).collect();
        let mut latencies = Latencies::default();
        values.iter().for_each(|value| latencies.record(*value));
        let same = recorded(values.into_iter()).latencies();
        assert_eq!(same.histogram, latencies.histogram);
        assert_eq!(same.moments, latencies.moments);
        // latencies out of range are kept
        let record = recorded([0, 2 * HIGHEST_LATENCY, Nanos::MAX].into_iter());
        assert_eq!(record.latencies().histogram.len(), 3);
        assert_eq!(record.moments.max, Nanos::MAX);
    }

    #[test]
    fn merging_equals_recording_together() {
        let values = |skip: bool| (1..1000).filter(move |n| (n % 3 == 0) == skip).map(|n| n * 1000);
        let (mut one, other) = (recorded(values(true)), recorded(values(false)));
        one.add(&other);
        let both = recorded(values(true).chain(values(false)));
        assert_eq!(one.latencies().histogram, both.latencies().histogram);
        let mut empty = CommandRecord::default();
        empty.add(&both);
        assert_eq!(empty.latencies().histogram, both.latencies().histogram);
        // a cleared record is empty
        let mut record = recorded([5, SECOND].into_iter());
        record.failures = 1;
        record.clear();
        assert!(record.counts.iter().all(|count| *count == 0));
        assert_eq!((record.moments.count, record.failures), (0, 0));
    }

    #[test]
    fn only_the_first_execution_allocates_memory() {
        let mut record = CommandRecord::default();
        record.add(&CommandRecord::default());
        record.clear();
        assert_eq!(record.counts.capacity(), 0);
        assert_eq!(record.latencies().moments.count, 0);
        let mut record = recorded([1].into_iter());
        let buffer = record.counts.as_ptr();
        for shift in 0..64 {
            record.record(1 << shift);
        }
        assert_eq!(record.counts.as_ptr(), buffer);
        assert_eq!(record.counts.capacity(), BUCKETS);
    }
}
