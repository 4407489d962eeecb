//! pgbench's random numbers, identical to the bit: the same state gives the same values.
//!
//! Generator: xoroshiro128** 1.0 of Blackman and Vigna, its state filled by splitmix64 (<https://prng.di.unimi.it/>).

use std::f64::consts::TAU;

/// Smallest parameter of a gaussian distribution.
pub(crate) const MIN_GAUSSIAN: f64 = 2.0;
/// Range of the parameter of a zipfian distribution.
pub(crate) const ZIPFIAN: std::ops::RangeInclusive<f64> = 1.001..=1000.0;

/// A random generator. A copy continues with the same numbers: a retried transaction restores its random state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rng {
    s0: u64,
    s1: u64,
}

impl Rng {
    /// The generator that `--random-seed` sets: all others derive from it.
    pub fn seed(mut seed: u64) -> Rng {
        let (s0, s1) = (splitmix64(&mut seed), splitmix64(&mut seed));
        if s0 == 0 && s1 == 0 {
            // The only state that never leaves zero; these are Knuth's LCG parameters.
            return Rng { s0: 0x5851_F42D_4C95_7F2D, s1: 0x1405_7B7E_F767_814F };
        }
        Rng { s0, s1 }
    }

    /// A new generator, seeded by the next number of this one.
    pub fn derive(&mut self) -> Rng {
        Rng::seed(self.next_u64())
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let (s0, sx) = (self.s0, self.s1 ^ self.s0);
        self.s0 = s0.rotate_left(24) ^ sx ^ (sx << 16);
        self.s1 = sx.rotate_left(37);
        s0.wrapping_mul(5).rotate_left(7).wrapping_mul(9)
    }

    /// Uniform in [0, 1), with 52 random bits.
    #[inline]
    pub fn next_f64(&mut self) -> f64 {
        const SCALE: f64 = 1.0 / (1u64 << 52) as f64;
        (self.next_u64() >> 12) as f64 * SCALE
    }

    /// Uniform in [min, max]; min if that is empty. Draws until a number below the next power of two fits.
    #[inline]
    pub fn range_u64(&mut self, min: u64, max: u64) -> u64 {
        if max <= min {
            return min;
        }
        let range = max - min;
        let shift = range.leading_zeros();
        loop {
            let drawn = self.next_u64() >> shift;
            if drawn <= range {
                return min + drawn;
            }
        }
    }

    /// Uniform in [min, max]; max - min must fit a signed 64-bit integer.
    #[inline]
    pub fn range_i64(&mut self, min: i64, max: i64) -> i64 {
        min.wrapping_add(self.range_u64(0, max.wrapping_sub(min) as u64) as i64)
    }

    /// In [min, max], the density falling exponentially from min to exp(-parameter) of it at max. Parameter > 0.
    pub fn exponential(&mut self, min: i64, max: i64, parameter: f64) -> i64 {
        let cut = (-parameter).exp();
        let uniform = 1.0 - self.next_f64();
        let part = -(cut + (1.0 - cut) * uniform).ln() / parameter;
        value_at(min, max, part)
    }

    /// In [min, max], normal around the middle, cut at `parameter` (>= 2) standard deviations. Box-Muller transform.
    pub fn gaussian(&mut self, min: i64, max: i64, parameter: f64) -> i64 {
        let deviations = loop {
            let (u1, u2) = (1.0 - self.next_f64(), 1.0 - self.next_f64());
            let normal = (-2.0 * u1.ln()).sqrt() * (TAU * u2).sin();
            if !(normal < -parameter || normal >= parameter) {
                break normal;
            }
        };
        value_at(min, max, (deviations + parameter) / (parameter * 2.0))
    }

    /// In [min, max], with the probability of the k-th value proportional to k^-s, s in [1.001,
    /// 1000]. Rejection after Devroye, "Non-Uniform Random Variate Generation", 1986, p. 550.
    pub fn zipfian(&mut self, min: i64, max: i64, s: f64) -> i64 {
        let count = max.wrapping_sub(min).wrapping_add(1);
        if count <= 1 {
            return min;
        }
        let b = 2f64.powf(s - 1.0);
        loop {
            let (u, v) = (self.next_f64(), self.next_f64());
            let x = u.powf(-1.0 / (s - 1.0)).floor();
            let t = (1.0 + 1.0 / x).powf(s - 1.0);
            if v * x * (t - 1.0) / (b - 1.0) <= t / b && x <= count as f64 {
                return (min - 1).wrapping_add(x as i64);
            }
        }
    }
}

/// The value at the fraction `part` (0 to 1) of [min, max].
fn value_at(min: i64, max: i64, part: f64) -> i64 {
    let count = max.wrapping_sub(min).wrapping_add(1);
    min.wrapping_add((count as f64 * part) as i64)
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut value = *state;
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold() {
        let mut rng = Rng::seed(1);
        let mut seen = [false; 3];
        for _ in 0..1000 {
            let uniform = rng.range_i64(-1, 1);
            seen[(uniform + 1) as usize] = true;
            assert!((-5..=5).contains(&rng.exponential(-5, 5, 0.1)));
            assert!((-5..=5).contains(&rng.gaussian(-5, 5, 2.0)));
            assert!((-5..=5).contains(&rng.zipfian(-5, 5, 1.001)));
            assert!((0.0..1.0).contains(&rng.next_f64()));
        }
        assert_eq!(seen, [true; 3]);
        assert_eq!(rng.range_i64(7, 7), 7);
        assert_eq!(rng.zipfian(7, 7, 2.0), 7);
        assert_eq!(rng.range_u64(9, 3), 9);
    }
}
