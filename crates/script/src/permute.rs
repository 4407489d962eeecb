//! pgbench's pseudorandom permutation of [0, size).

use crate::random::Rng;

const ROUNDS: usize = 6;

/// The position of `value` (modulo size) in the permutation that `seed` chooses. 0 if there is
/// nothing to permute (size < 2).
///
/// Each round mixes the lower and the upper power-of-two part of the range by a bijection (odd
/// multiplier, xor, rotation), then shifts the whole range.
pub(crate) fn permute(value: i64, size: i64, seed: i64) -> i64 {
    let Ok(size @ 2..) = u64::try_from(size) else {
        return 0;
    };
    let mut rng = Rng::seed(seed as u64);
    let mut place = value as u64 % size;
    let bits = size.ilog2();
    for _ in 0..ROUNDS {
        place = mix(place, bits, &mut rng);
        let mirrored = mix(size - 1 - place, bits, &mut rng);
        place = size - 1 - mirrored;
        let offset = rng.range_u64(0, size - 1);
        // The sum is below 2 * 2^63, so it cannot wrap.
        place = (place + offset) % size;
    }
    place as i64
}

/// A random bijection of [0, 2^bits); greater numbers remain unchanged. Draws random numbers in either case.
fn mix(place: u64, bits: u32, rng: &mut Rng) -> u64 {
    let mask = (1u64 << bits) - 1;
    let multiplier = (rng.next_u64() & mask) | 1;
    let flip = rng.next_u64() & mask;
    if place > mask {
        return place;
    }
    let mixed = (place.wrapping_mul(multiplier) ^ flip) & mask;
    ((mixed << 1) & mask) | (mixed >> (bits - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_are_pgbenchs() {
        let size = i64::MAX - 10;
        for (back, expected) in [
            (1, 520382784483822430),
            (2, 1143715004660802862),
            (3, 447293596416496998),
            (4, 916527772266572956),
            (5, 2763809008686028849),
            (6, 8648551549198294572),
            (7, 4542876852200565125),
        ] {
            assert_eq!(permute(size - back, size, 5432), expected);
        }
        assert_eq!([permute(0, 2, 5431), permute(1, 2, 5431)], [0, 1]);
        assert_eq!([permute(0, 2, 5433), permute(1, 2, 5433)], [1, 0]);
        // every size is permuted
        for size in 1..200 {
            let mut places: Vec<i64> = (0..size).map(|v| permute(v, size, 42)).collect();
            places.sort_unstable();
            assert_eq!(places, (0..size).collect::<Vec<_>>());
        }
        assert_eq!(permute(5, 16, 1), permute(21, 16, 1));
    }
}
