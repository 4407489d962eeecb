use std::collections::HashMap;

use super::super::Profile;
use super::*;
use crate::chunk::cut;
use crate::dataset::Dataset;

fn tpcc(warehouses: u32, profile: Profile) -> Tpcc {
    Tpcc { warehouses, profile, order_line_partitions: None, seed: 1 }
}

fn text(tpcc: &Tpcc, table: TableName, units: Range<u64>, most: u64) -> String {
    let mut out = Vec::new();
    let mut rows = RowWriter::new(tpcc, table, units);
    while rows.append(most, &mut out) > 0 {}
    String::from_utf8(out).expect("text")
}

fn columns(line: &str) -> Vec<&str> {
    line.split('\t').collect()
}

/// The standard deviation of the number of events with this probability in `draws`.
fn deviation(draws: f64, share: f64) -> f64 {
    (draws * share * (1.0 - share)).sqrt()
}

#[test]
fn rows_do_not_depend_on_the_cut() {
    let mut tpcc = tpcc(3, Profile::Spec);
    tpcc.order_line_partitions = Some(2);
    for (place, table) in TableName::ALL.into_iter().enumerate() {
        let tables = tpcc.tables();
        let units = tables[place].units;
        // the ends of long tables, where warehouses and districts change
        let some = units.saturating_sub(40_000)..units;
        let whole = text(&tpcc, table, some.clone(), u64::MAX);
        let mut pieces = String::new();
        for chunk in cut(&tables, 7_001).iter().filter(|chunk| chunk.table == place) {
            let units = chunk.units.start.max(some.start)..chunk.units.end;
            pieces.push_str(&text(&tpcc, table, units, 999));
        }
        assert!(whole == pieces, "{table:?}");
    }
}

#[test]
fn orders_are_a_permutation_and_know_their_lines() {
    let tpcc = tpcc(2, Profile::HAMMERDB);
    let orders = text(&tpcc, TableName::Orders, 33_000..36_000, 100);
    let lines = text(&tpcc, TableName::OrderLine, 33_000..36_000, 100);
    let mut counts: HashMap<u64, u64> = HashMap::new();
    for line in lines.lines() {
        let line = columns(line);
        assert_eq!((line[2], line[4], line[5], line[7]), ("2", "2", "2", "5"));
        let order: u64 = line[1].parse().expect("a number");
        assert_eq!(line[0] == "\\N", order > 2_100);
        assert_eq!(line[8] == "0.00", order <= 2_100);
        assert_eq!(line[9].len(), 24);
        *counts.entry(order).or_default() += 1;
        assert_eq!(line[6], counts[&order].to_string());
    }
    let mut customers = Vec::new();
    for (place, line) in orders.lines().enumerate() {
        let line = columns(line);
        assert_eq!(line[1], (place + 1).to_string());
        assert_eq!((line[2], line[4], line[7]), ("2", "2", "1"));
        assert_eq!(line[5] == "\\N", place >= 2_100);
        assert_eq!(line[6], counts[&(place as u64 + 1)].to_string());
        customers.push(line[3].parse::<u64>().expect("a number"));
    }
    assert_ne!(customers[..3], [1, 2, 3]);
    customers.sort_unstable();
    assert_eq!(customers, (1..=3_000).collect::<Vec<_>>());
    let mean = counts.values().sum::<u64>() as f64 / 3_000.0;
    // uniform from 5 to 15: the standard deviation of the mean is 3.16 / sqrt(3000)
    assert!((mean - 10.0).abs() < 0.3, "{mean}");
    assert!(counts.values().all(|lines| (5..=15).contains(lines)));
}

#[test]
fn customers_are_those_of_the_profile() {
    for (profile, share) in [(Profile::HAMMERDB, 0.5), (Profile::Spec, 0.1)] {
        let text = text(&tpcc(1, profile), TableName::Customer, 0..30_000, 1_000);
        let mut bad = 0;
        for (place, line) in text.lines().enumerate() {
            let line = columns(line);
            assert_eq!(line.len(), 21);
            let number = place as u64 % 3_000;
            if number < 1_000 {
                assert_eq!(line[8], last_names::syllables(number).concat());
            }
            bad += u32::from(line[15] == "BC");
            assert!((8..=16).contains(&line[6].len()) && (300..=500).contains(&line[20].len()));
            assert!(line[14].len() == 16 && line[14].bytes().all(|byte| byte.is_ascii_digit()));
            assert!(line[13].len() == 9 && line[13].ends_with("11111"));
            assert_eq!((line[16], line[18], line[19]), ("50000.00", "-10.00", "10.00"));
        }
        assert!((f64::from(bad) - 30_000.0 * share).abs() < 5.0 * deviation(30_000.0, share), "{profile:?} {bad}");
    }
}

#[test]
fn a_tenth_of_the_data_is_original_and_letters_are_even() {
    let tpcc = tpcc(1, Profile::Spec);
    for (table, rows) in [(TableName::Item, 0..100_000), (TableName::Stock, 0..30_000)] {
        let count = (rows.end - rows.start) as f64;
        let text = text(&tpcc, table, rows, 1_000);
        let data = text.lines().map(|line| columns(line)[columns(line).len() - 1]);
        let original = data.filter(|data| {
            assert!((26..=50).contains(&data.len()));
            data.contains("ORIGINAL")
        });
        let off = (original.count() as f64 - count / 10.0).abs();
        assert!(off < 5.0 * deviation(count, 0.1), "{table:?} {off}");
    }
    // letters are even
    let mut out = Vec::new();
    let mut draws = Draws::of_row(9, 9);
    for _ in 0..20_000 {
        push_text(&mut draws, 24, 24, &mut out);
    }
    let mut counts = [0u32; 256];
    out.iter().for_each(|letter| counts[usize::from(*letter)] += 1);
    let expected = out.len() as f64 / 62.0;
    let used: Vec<_> = counts.iter().filter(|count| **count > 0).collect();
    assert_eq!(used.len(), 62);
    let limit = 5.0 * deviation(out.len() as f64, 1.0 / 62.0);
    assert!(used.iter().all(|count| (f64::from(**count) - expected).abs() < limit));
}

#[test]
fn another_seed_makes_other_rows() {
    let (one, other) = (tpcc(1, Profile::Spec), Tpcc { seed: 2, ..tpcc(1, Profile::Spec) });
    // the open orders are those of the last numbers, and have nothing that is drawn
    for table in TableName::ALL.into_iter().filter(|table| !matches!(table, TableName::NewOrder)) {
        assert_ne!(text(&one, table, 0..1, u64::MAX), text(&other, table, 0..1, u64::MAX), "{table:?}");
    }
}
