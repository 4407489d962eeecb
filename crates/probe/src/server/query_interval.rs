//! When each statement is repeated: at its own interval, except that a statement whose cost grows
//! with the number of tables may use at most 1 % of the time. Other statements are as fast as the
//! server: if they take long, the server is busy, and their samples are most useful.

use std::time::Duration;

use super::queries::Query;

/// A statement may use at most this fraction of the time, as a divisor.
const MOST: u32 = 100;
/// The longest interval, however long a statement takes.
const LONGEST_S: u64 = 60;
/// Statements that read every table.
const GROWING: [&str; 3] = ["tables", "relations", "indexes"];

#[derive(Debug, Clone, Copy, Default)]
struct Turn {
    next_s: u64,
    cost: Duration,
}

/// The intervals of statements, by their indexes.
#[derive(Debug, Default)]
pub struct Cadence {
    turns: Vec<Turn>,
    /// The fastest answer so far, as an estimate of the network round trip.
    way: Option<Duration>,
}

impl Cadence {
    /// For this many statements, all of which are due.
    pub fn new(statements: usize) -> Self {
        Self { turns: vec![Turn::default(); statements], way: None }
    }

    /// Whether the statement at `place` is due in this second.
    pub fn is_due(&self, place: usize, second: u64) -> bool {
        self.turns.get(place).is_some_and(|turn| turn.next_s <= second)
    }

    /// Records an answer. One slow answer may be an accident; two show the cost.
    pub fn answered(&mut self, place: usize, second: u64, query: &Query, took: Duration) {
        let way = self.way.map_or(took, |way| way.min(took));
        self.way = Some(way);
        let Some(turn) = self.turns.get_mut(place) else {
            return;
        };
        let cost = took.saturating_sub(way);
        let both = cost.min(turn.cost);
        turn.cost = cost;
        let rest_s = (both * MOST).as_secs().min(LONGEST_S);
        let grows = GROWING.contains(&query.source);
        turn.next_s = second + query.every_s.max(if grows { rest_s } else { 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_costs_much_is_asked_less_often() {
        let ms = Duration::from_millis;
        let query = |source, every_s| Query { source, every_s, from: 10, to: 18, sql: "" };
        let (tables, slots) = (query("tables", 1), query("slots", 10));
        let mut cadence = Cadence::new(2);
        assert!(cadence.is_due(0, 0) && cadence.is_due(1, 0) && !cadence.is_due(2, 0));
        cadence.answered(0, 0, &tables, ms(40));
        cadence.answered(1, 0, &slots, ms(40));
        assert!(cadence.is_due(0, 1) && !cadence.is_due(1, 9) && cadence.is_due(1, 10));
        // one slow answer changes nothing
        cadence.answered(0, 1, &tables, ms(190));
        assert!(cadence.is_due(0, 2));
        // a second one does: 100 ms in addition to the round trip are a hundredth of ten seconds
        cadence.answered(0, 2, &tables, ms(140));
        assert!(!cadence.is_due(0, 11) && cadence.is_due(0, 12));
        cadence.answered(0, 12, &tables, ms(41));
        assert!(cadence.is_due(0, 13));
        // a statement whose cost does not grow keeps its interval, however busy the server is
        cadence.answered(1, 10, &slots, ms(900));
        cadence.answered(1, 20, &slots, ms(900));
        assert!(cadence.is_due(1, 30));
    }
}
