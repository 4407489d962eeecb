//! Customers' last names: three syllables, chosen by the digits of a number (clause 4.3.2.3).

const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
pub const COUNT: u64 = 1_000;

/// The syllables of name `number`, from 0 to 999.
pub fn syllables(number: u64) -> [&'static str; 3] {
    let digit = |weight: u64| SYLLABLES[(number / weight % 10) as usize];
    [digit(100), digit(10), digit(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standards_example() {
        assert_eq!(syllables(371).concat(), "PRICALLYOUGHT");
        assert_eq!(syllables(40).concat(), "BARPRESBAR");
        assert_eq!((0..COUNT).map(|number| syllables(number).concat().len()).max(), Some(15));
    }
}
