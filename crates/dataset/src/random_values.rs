//! Random values that are functions of their position, and digits.

/// The output of splitmix64 for its `number`-th state.
pub(crate) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Draws {
    number: u64,
}

impl Draws {
    /// The values of a row of a stream: different rows and streams have unrelated values.
    pub fn of_row(stream: u64, row: u64) -> Self {
        Self { number: mix(stream.wrapping_add(row)) }
    }

    /// Draws 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.number = self.number.wrapping_add(1);
        mix(self.number)
    }

    /// Draws a number from `least` to `most`; the bias is that of a division of 2^64 values.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        let values = u128::from(most - least + 1);
        least + ((u128::from(self.bits()) * values) >> 64) as u64
    }

    /// Returns true in `share` percent of all cases.
    pub fn percent(&mut self, share: u64) -> bool {
        self.between(1, 100) <= share
    }
}

pub(crate) fn push_number(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}
