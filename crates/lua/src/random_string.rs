//! Random strings by a template, as `sysbench.rand.string` and `set_rand_str` make them.

/// A generator for the characters of strings (splitmix64, Steele, Lea and Flood 2014).
#[derive(Debug, Clone)]
pub(crate) struct Letters(u64);

impl Letters {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Appends `template` with a random digit for every `#` and a random lower-case letter for every `@`.
    pub fn fill(&mut self, template: &[u8], out: &mut Vec<u8>) {
        let mut left = 0;
        let mut bits = 0;
        // a tenth of 64 bits is uniform to one in a million
        let mut below = |count: u64| {
            if left == 0 {
                bits = self.next();
                left = 9;
            }
            left -= 1;
            let product = u128::from(bits) * u128::from(count);
            bits = product as u64;
            (product >> 64) as u8
        };
        out.extend(template.iter().map(|byte| match byte {
            b'#' => b'0' + below(10),
            b'@' => b'a' + below(26),
            other => *other,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digit_and_letter_comes_about_as_often() {
        let mut letters = Letters::new(7);
        let mut counts = [0u32; 256];
        for _ in 0..10_000 {
            let mut out = Vec::new();
            letters.fill(b"###-@@@@@", &mut out);
            assert_eq!(out[3], b'-');
            out.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        }
        for digit in b'0'..=b'9' {
            let count = counts[usize::from(digit)];
            assert!((2700..3300).contains(&count), "{digit}: {count} of 30000");
        }
        for letter in b'a'..=b'z' {
            let count = counts[usize::from(letter)];
            assert!((1700..2150).contains(&count), "{letter}: {count} of 50000");
        }
    }
}
