//! The parameters of queries, drawn as the specification requires (clause 2.4, "substitution parameters").

use pgdyno_dataset::tpch::Words;
use pgdyno_script::Rng;

use super::queries::{QUERIES, with_parameters};
use super::query_order::order;

/// The region of each nation, in the order of the generator's words.
const REGIONS: [usize; 25] = [0, 1, 1, 1, 4, 0, 3, 3, 2, 2, 4, 4, 2, 4, 0, 0, 0, 1, 2, 3, 4, 2, 3, 3, 1];
const COUNTRY_CODES: [u64; 2] = [10, 34];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Number of the query, from 1.
    pub number: usize,
    pub sql: String,
}

impl Query {
    pub fn name(&self) -> String {
        format!("Q{}", self.number)
    }
}

/// The queries of a stream, in its order. Streams draw their parameters from different seeds.
pub fn of_stream(stream: usize, scale_factor: f64, seed: u64) -> Vec<Query> {
    let mut rng = Rng::seed(seed.wrapping_add(stream as u64));
    // each query draws in the order of its number, so that a stream's order changes no parameter
    let all: Vec<Query> =
        (1..=QUERIES).map(|number| query(number, &draw_parameters(number, scale_factor, &mut rng))).collect();
    let queries = order(stream).into_iter();
    queries.map(|number| all[usize::from(number) - 1].clone()).collect()
}

/// The queries with the parameters for which the specification gives the answers, Q1 first.
pub fn of_validation(scale_factor: f64) -> Vec<Query> {
    let all = (1..=QUERIES).map(|number| query(number, &validation(number, scale_factor)));
    all.collect()
}

fn query(number: usize, parameters: &[String]) -> Query {
    Query { number, sql: with_parameters(number, parameters) }
}

fn validation(query: usize, scale_factor: f64) -> Vec<String> {
    let given: &[&str] = match query {
        1 => &["90"],
        2 => &["15", "BRASS", "EUROPE"],
        3 => &["BUILDING", "1995-03-15"],
        4 => &["1993-07-01"],
        5 => &["ASIA", "1994-01-01"],
        6 => &["1994-01-01", "0.06", "24"],
        7 => &["FRANCE", "GERMANY"],
        8 => &["BRAZIL", "AMERICA", "ECONOMY ANODIZED STEEL"],
        9 => &["green"],
        10 => &["1993-10-01"],
        11 => return vec!["GERMANY".to_owned(), fraction(scale_factor)],
        12 => &["MAIL", "SHIP", "1994-01-01"],
        13 => &["special", "requests"],
        14 => &["1995-09-01"],
        15 => &["1996-01-01"],
        16 => &["Brand#45", "MEDIUM POLISHED", "49, 14, 23, 45, 19, 3, 36, 9"],
        17 => &["Brand#23", "MED BOX"],
        18 => &["300"],
        19 => &["Brand#12", "Brand#23", "Brand#34", "1", "10", "20"],
        20 => &["forest", "1994-01-01", "CANADA"],
        21 => &["SAUDI ARABIA"],
        _ => &["'13', '31', '23', '29', '30', '18', '17'"],
    };
    given.iter().map(ToString::to_string).collect()
}

fn draw_parameters(query: usize, scale_factor: f64, rng: &mut Rng) -> Vec<String> {
    let words = Words::static_default();
    match query {
        1 => vec![number(rng, 60, 120)],
        2 => vec![
            number(rng, 1, 50),
            last_word(pick(rng, words.part_types().get_values())),
            pick(rng, words.regions().get_values()),
        ],
        3 => vec![pick(rng, words.market_segments().get_values()), format!("1995-03-{:02}", rng.range_u64(1, 31))],
        // the first months of 1993 to October 1997
        4 | 15 => vec![month(rng.range_u64(0, 57))],
        5 => vec![pick(rng, words.regions().get_values()), year(rng)],
        6 => vec![year(rng), format!("0.{:02}", rng.range_u64(2, 9)), number(rng, 24, 25)],
        7 => distinct(rng, 2, |rng| pick(rng, words.nations().get_values())),
        8 => {
            let nation = rng.range_u64(0, REGIONS.len() as u64 - 1) as usize;
            vec![
                words.nations().get_value(nation).to_owned(),
                words.regions().get_value(REGIONS[nation]).to_owned(),
                pick(rng, words.part_types().get_values()),
            ]
        }
        9 => vec![pick(rng, words.part_colors().get_values())],
        // February 1993 to January 1995
        10 => vec![month(rng.range_u64(1, 24))],
        11 => vec![pick(rng, words.nations().get_values()), fraction(scale_factor)],
        12 => {
            let modes = |rng: &mut Rng| pick(rng, words.ship_modes().get_values());
            let mut values = distinct(rng, 2, modes);
            values.push(year(rng));
            values
        }
        13 => vec![
            pick(rng, &["special", "pending", "unusual", "express"]),
            pick(rng, &["packages", "requests", "accounts", "deposits"]),
        ],
        // 1993 to 1997
        14 => vec![month(rng.range_u64(0, 59))],
        16 => {
            let kind = pick(rng, words.part_types().get_values());
            let beginning = kind.rsplit_once(' ').map_or("", |(beginning, _)| beginning);
            let sizes = distinct(rng, 8, |rng| number(rng, 1, 50));
            vec![brand(rng), beginning.to_owned(), sizes.join(", ")]
        }
        17 => vec![brand(rng), pick(rng, words.part_containers().get_values())],
        18 => vec![number(rng, 312, 315)],
        19 => vec![brand(rng), brand(rng), brand(rng), number(rng, 1, 10), number(rng, 10, 20), number(rng, 20, 30)],
        20 => vec![pick(rng, words.part_colors().get_values()), year(rng), pick(rng, words.nations().get_values())],
        21 => vec![pick(rng, words.nations().get_values())],
        _ => {
            let [least, most] = COUNTRY_CODES;
            let codes = distinct(rng, 7, |rng| format!("'{}'", rng.range_u64(least, most)));
            vec![codes.join(", ")]
        }
    }
}

fn number(rng: &mut Rng, least: u64, most: u64) -> String {
    rng.range_u64(least, most).to_string()
}

fn pick(rng: &mut Rng, words: &[&str]) -> String {
    words[rng.range_u64(0, words.len() as u64 - 1) as usize].to_owned()
}

fn last_word(words: String) -> String {
    words.rsplit(' ').next().unwrap_or_default().to_owned()
}

/// The first day of a year from 1993 to 1997.
fn year(rng: &mut Rng) -> String {
    format!("{}-01-01", rng.range_u64(1993, 1997))
}

/// The first day of a month; 0 is January 1993.
fn month(number: u64) -> String {
    format!("{}-{:02}-01", 1993 + number / 12, number % 12 + 1)
}

fn brand(rng: &mut Rng) -> String {
    format!("Brand#{}{}", rng.range_u64(1, 5), rng.range_u64(1, 5))
}

/// The share of a nation's stock that counts as important.
fn fraction(scale_factor: f64) -> String {
    format!("{:.10}", 0.0001 / scale_factor)
}

fn distinct(rng: &mut Rng, count: usize, mut draw: impl FnMut(&mut Rng) -> String) -> Vec<String> {
    let mut values = Vec::new();
    while values.len() < count {
        let value = draw(rng);
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_is_replaced_by_seed_and_stream() {
        for seed in 0..50 {
            for query in of_stream(seed as usize, 1.0, seed).iter().chain(&of_validation(1.0)) {
                assert!(!query.sql.contains(['{', '}']), "{query:?}");
            }
        }
        // parameters depend on the seed and the stream alone
        let sorted = |stream, seed| {
            let mut queries = of_stream(stream, 1.0, seed);
            queries.sort_by_key(|query| query.number);
            queries
        };
        assert_eq!(sorted(3, 7), sorted(3, 7));
        assert_ne!(sorted(3, 7), sorted(4, 7));
        assert_ne!(sorted(3, 7), sorted(3, 8));
        // a nation is in its region
        let words = Words::static_default();
        let named = |nation: &str| {
            let mut nations = words.nations().get_values().iter();
            let place = nations.position(|name| *name == nation).expect("a nation");
            words.regions().get_value(REGIONS[place])
        };
        for (nation, region) in [
            ("BRAZIL", "AMERICA"),
            ("UNITED STATES", "AMERICA"),
            ("CHINA", "ASIA"),
            ("SAUDI ARABIA", "MIDDLE EAST"),
            ("RUSSIA", "EUROPE"),
            ("MOZAMBIQUE", "AFRICA"),
        ] {
            assert_eq!(named(nation), region, "{nation}");
        }
    }
}
