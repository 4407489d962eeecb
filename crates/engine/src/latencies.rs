//! Latencies: exact moments, and a histogram.

use hdrhistogram::Histogram;

use crate::clock::{Nanos, SECOND};

/// Higher latencies are recorded as this value.
pub const HIGHEST_LATENCY: Nanos = 3600 * SECOND;
/// Significant decimal digits that histograms keep.
pub const SIGNIFICANT_DIGITS: u8 = 3;

/// Exact moments in addition to a histogram: a mean from buckets would be off by their width.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    pub count: u64,
    /// Sum, nanoseconds.
    pub sum: f64,
    /// Sum of the squares, nanoseconds squared.
    pub sum_of_squares: f64,
    /// Largest value, nanoseconds.
    pub max: Nanos,
    /// Smallest value, nanoseconds; 0 without values.
    pub min: Nanos,
}

impl Moments {
    #[inline]
    pub fn record(&mut self, value: Nanos) {
        let v = value as f64;
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += v;
        self.sum_of_squares += v * v;
    }

    pub fn add(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
    }

    /// Arithmetic mean, nanoseconds; 0 without values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    /// Standard deviation of the population, nanoseconds.
    pub fn stddev(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let mean = self.mean();
        (self.sum_of_squares / self.count as f64 - mean * mean).max(0.0).sqrt()
    }
}

/// Latencies: a histogram, and the exact moments of its values.
#[derive(Debug, Clone)]
pub struct Latencies {
    /// HDR histogram, nanoseconds.
    pub histogram: Histogram<u64>,
    /// Count, sums, minimum and maximum, exact.
    pub moments: Moments,
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, HIGHEST_LATENCY, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that the histogram takes");
        Self { histogram, moments: Moments::default() }
    }
}

impl Latencies {
    /// Counts one latency; one out of range is clamped.
    #[inline]
    pub fn record(&mut self, latency: Nanos) {
        self.histogram.saturating_record(latency.max(1));
        self.moments.record(latency);
    }

    /// The latency that the fraction `quantile` (0 to 1) of the values does not exceed. The end of the histogram's
    /// bucket may lie beyond every value in it, and values above [`HIGHEST_LATENCY`] lie beyond its last bucket: the
    /// result stays within the exact smallest and largest value.
    pub fn at_quantile(&self, quantile: f64) -> Nanos {
        let Moments { min, max, .. } = self.moments;
        if quantile >= 1.0 {
            return max;
        }
        let count = self.histogram.len() as f64;
        // the middle of the rank: the product with the count then rounds up to the rank itself
        let middle = (rank(quantile, self.histogram.len()) - 0.5) / count.max(1.0);
        self.histogram.value_at_quantile(middle).clamp(min, max)
    }

    pub fn add(&mut self, other: &Self) {
        if other.moments.count > 0 {
            self.histogram.add(&other.histogram).expect("all histograms have the same bounds");
            self.moments.add(&other.moments);
        }
    }

    /// Empties the record without releasing memory.
    pub fn clear(&mut self) {
        if self.moments.count > 0 {
            self.histogram.reset();
            self.moments = Moments::default();
        }
    }
}

/// How many of `count` values the fraction `quantile` includes, at least one. 99.9 / 100 is the next number above
/// 0.999, so a product that exceeds an integer by no more than rounding is that integer.
fn rank(quantile: f64, count: u64) -> f64 {
    let product = quantile * count as f64;
    (product * (1.0 - 4.0 * f64::EPSILON)).ceil().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_exact_and_merging_equals_recording_together() {
        let mut moments = Moments::default();
        for value in [2, 4, 4, 4, 5, 5, 7, 9] {
            moments.record(value);
        }
        assert_eq!((moments.mean(), moments.stddev()), (5.0, 2.0));
        assert_eq!((moments.min, moments.max), (2, 9));
        let (mut a, mut b, mut both) = (Latencies::default(), Latencies::default(), Latencies::default());
        for value in 1..1000u64 {
            let target = if value % 3 == 0 { &mut a } else { &mut b };
            target.record(value * 1000);
            both.record(value * 1000);
        }
        a.add(&b);
        assert_eq!(a.histogram, both.histogram);
        assert_eq!(a.moments, both.moments);
        // latencies out of range are kept
        let mut latencies = Latencies::default();
        latencies.record(0);
        latencies.record(2 * HIGHEST_LATENCY);
        assert_eq!(latencies.histogram.len(), 2);
        assert_eq!(latencies.moments.max, 2 * HIGHEST_LATENCY);
    }

    #[test]
    fn a_percentage_and_its_fraction_have_the_same_rank() {
        for (percent, fraction) in [(99.9, 0.999), (7.0, 0.07), (99.99, 0.9999), (50.0, 0.5)] {
            for count in [100, 1000, 10_000, 30_000, 1_000_000, 10_000_000_000] {
                let exact = (percent * 100.0_f64).round() as u64 * count;
                let expected = exact.div_ceil(10_000) as f64;
                assert_eq!(rank(percent / 100.0, count), expected, "{percent} {count}");
                assert_eq!(rank(fraction, count), expected, "{fraction} {count}");
            }
        }
        assert_eq!(rank(0.0, 10), 1.0);
        // one slow value in a thousand is above the last per mille
        let mut latencies = Latencies::default();
        (0..999).for_each(|_| latencies.record(1_000_000));
        latencies.record(SECOND);
        for quantile in [0.999, 99.9 / 100.0] {
            assert!(latencies.at_quantile(quantile) < 1_001_000, "{quantile}");
        }
        assert_eq!(latencies.at_quantile(0.9991), SECOND);
    }

    #[test]
    fn quantiles_lie_between_the_least_and_the_greatest() {
        let quantiles = [0.0, 1e-9, 0.5, 0.95, 0.9999, 1.0];
        let long = HIGHEST_LATENCY * 5;
        for values in [&[1_234_567, 7_654_321][..], &[987_654_321], &[0], &[long, long + 7]] {
            let mut latencies = Latencies::default();
            values.iter().for_each(|value| latencies.record(*value));
            let (least, most) = (values[0], values[values.len() - 1]);
            for quantile in quantiles {
                let at = latencies.at_quantile(quantile);
                assert!((least..=most).contains(&at), "{values:?} {quantile}: {at}");
            }
            assert_eq!(latencies.at_quantile(1.0), most, "{values:?}");
        }
        assert_eq!(Latencies::default().at_quantile(0.5), 0);
    }
}
