//! Random strings and amounts, by clauses 4.3.2.2 and 4.3.2.7: no allocations, and one draw for eight letters.

use crate::random_values::{Draws, push_number};

const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const PAIR_COUNT: usize = LETTERS.len() * LETTERS.len();
/// All pairs of letters: a draw is the most expensive part of a letter.
static PAIRS: [[u8; 2]; PAIR_COUNT] = pairs();
/// Pairs in one draw: 62^8 is 2^47.6, so letters are uniform to one part in 2^16.
const PAIRS_A_DRAW: usize = 4;
const ORIGINAL: &[u8] = b"ORIGINAL";

const fn pairs() -> [[u8; 2]; PAIR_COUNT] {
    let mut pairs = [[0; 2]; PAIR_COUNT];
    let mut place = 0;
    while place < PAIR_COUNT {
        pairs[place] = [LETTERS[place / LETTERS.len()], LETTERS[place % LETTERS.len()]];
        place += 1;
    }
    pairs
}

/// Appends `least` to `most` letters and digits.
pub(super) fn push_text(draws: &mut Draws, least: u64, most: u64, out: &mut Vec<u8>) {
    let length = if least == most { least } else { draws.between(least, most) };
    let end = out.len() + length as usize;
    while out.len() < end {
        let mut chunk = [0; 2 * PAIRS_A_DRAW];
        let mut random = draws.bits();
        for pair in chunk.chunks_exact_mut(2) {
            let product = u128::from(random) * PAIR_COUNT as u128;
            pair.copy_from_slice(&PAIRS[(product >> 64) as usize]);
            random = product as u64;
        }
        let wanted = chunk.len().min(end - out.len());
        out.extend_from_slice(&chunk[..wanted]);
    }
}

/// Appends 26 to 50 letters; in `original_percent` percent of all cases they contain the word ORIGINAL.
pub(super) fn push_data(draws: &mut Draws, original_percent: u64, out: &mut Vec<u8>) {
    let begin = out.len();
    push_text(draws, 26, 50, out);
    if draws.percent(original_percent) {
        let last = out.len() - begin - ORIGINAL.len();
        let at = begin + draws.between(0, last as u64) as usize;
        out[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
}

/// Appends `count` random digits, at most 18.
pub(super) fn push_digits(draws: &mut Draws, count: usize, out: &mut Vec<u8>) {
    let mut random = draws.bits();
    for _ in 0..count {
        let product = u128::from(random) * 10;
        out.push(b'0' + (product >> 64) as u8);
        random = product as u64;
    }
}

/// Appends four random digits and `11111`.
pub(super) fn push_zip(draws: &mut Draws, out: &mut Vec<u8>) {
    push_digits(draws, 4, out);
    out.extend_from_slice(b"11111");
}

pub(super) fn push_cents(cents: u64, out: &mut Vec<u8>) {
    push_number(cents / 100, out);
    out.push(b'.');
    out.push(b'0' + (cents / 10 % 10) as u8);
    out.push(b'0' + (cents % 10) as u8);
}
