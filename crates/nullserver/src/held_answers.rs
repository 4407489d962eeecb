//! Answers that are sent with a delay.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::answer_times::Nanos;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub token: u64,
    pub bytes: Box<[u8]>,
    pub closes: bool,
}

/// A heap ordered by time; answers for the same time keep their order.
#[derive(Debug, Default)]
pub(crate) struct HeldAnswers {
    heap: BinaryHeap<Reverse<Entry>>,
    count: u64,
}

#[derive(Debug)]
struct Entry {
    order: (Nanos, u64),
    answer: Answer,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

impl HeldAnswers {
    pub fn push(&mut self, due: Nanos, answer: Answer) {
        self.count += 1;
        let order = (due, self.count);
        self.heap.push(Reverse(Entry { order, answer }));
    }

    pub fn next_due(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(entry)| entry.order.0)
    }

    pub fn pop_due(&mut self, now: Nanos) -> Option<Answer> {
        if self.next_due()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry.answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(token: u64) -> Answer {
        Answer { token, bytes: Box::default(), closes: false }
    }

    #[test]
    fn answers_come_in_the_order_of_their_time_and_then_of_their_coming() {
        let mut held = HeldAnswers::default();
        for (due, token) in [(30, 1), (10, 2), (20, 3), (10, 4)] {
            held.push(due, answer(token));
        }
        assert_eq!(held.next_due(), Some(10));
        assert_eq!(held.pop_due(9), None);
        let tokens: Vec<u64> = std::iter::from_fn(|| held.pop_due(20)).map(|answer| answer.token).collect();
        assert_eq!(tokens, [2, 4, 3]);
        assert_eq!(held.next_due(), Some(30));
    }
}
