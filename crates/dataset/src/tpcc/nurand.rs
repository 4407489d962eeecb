//! The standard's non-uniform random numbers (clause 2.1.6): `NURand(A, x, y)`.

use super::Profile;
use crate::random_values::mix;

/// The constant `A` for last names.
pub const LAST_NAME: u64 = 255;
/// The constant `A` for customer numbers.
pub const CUSTOMER: u64 = 1_023;
/// The constant `A` for items.
pub const ITEM: u64 = 8_191;
/// HammerDB's only `C` for last names.
const HAMMERDB_C: u64 = 123;
/// The allowed differences between the last names' `C` of a run and that of the load (clause
/// 2.1.6.1).
const DELTA: std::ops::RangeInclusive<u64> = 65..=119;
/// Differences in that range that are not allowed.
const NOT_ALLOWED: [u64; 2] = [96, 112];

/// `(((random(0, A) | random(x, y)) + C) mod (y - x + 1)) + x`: `low` is the draw from 0 to A,
/// `draw` the one from x to y.
pub fn nurand(low: u64, draw: u64, c: u64, x: u64, y: u64) -> u64 {
    ((low | draw) + c) % (y - x + 1) + x
}

/// The `C` for last names in a load.
pub fn c_of_load(profile: Profile, seed: u64) -> u64 {
    match profile {
        Profile::Hammerdb(_) => HAMMERDB_C,
        Profile::Spec => mix(seed ^ 0xC) % (LAST_NAME + 1),
    }
}

/// The `C` for last names in a run on rows that were loaded with `load`; `draw` chooses among the allowed values.
pub fn c_of_run(profile: Profile, load: u64, draw: u64) -> u64 {
    if matches!(profile, Profile::Hammerdb(_)) {
        return load;
    }
    let allowed: Vec<u64> = (0..=LAST_NAME)
        .filter(|run| {
            let delta = run.abs_diff(load);
            DELTA.contains(&delta) && !NOT_ALLOWED.contains(&delta)
        })
        .collect();
    allowed[(draw % allowed.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_has_runs() {
        for load in 0..=LAST_NAME {
            for draw in 0..300 {
                let run = c_of_run(Profile::Spec, load, draw);
                let delta = run.abs_diff(load);
                assert!(run <= LAST_NAME && (65..=119).contains(&delta), "{load} {run}");
                assert!(delta != 96 && delta != 112);
            }
            assert_eq!(c_of_run(Profile::HAMMERDB, load, 5), load);
        }
        assert_eq!(c_of_load(Profile::HAMMERDB, 77), 123);
        assert!((0..1_000).all(|seed| c_of_load(Profile::Spec, seed) <= LAST_NAME));
        // numbers stay in their range
        assert_eq!(nurand(0, 1, 0, 1, 3_000), 2);
        assert_eq!(nurand(LAST_NAME, 999, 255, 0, 999), (1_023 + 255) % 1_000);
        for draw in 1..=3_000 {
            assert!((1..=3_000).contains(&nurand(draw % 1_024, draw, 1_023, 1, 3_000)));
        }
    }
}
