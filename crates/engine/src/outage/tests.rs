use super::*;
use crate::interval::Consequence;

const MS: Nanos = SECOND / 1000;

fn note(client: usize) -> ErrorNote {
    ErrorNote { client, consequence: Consequence::Reconnecting, ..ErrorNote::default() }
}

fn lose(tracker: &mut OutageTracker, at: Nanos) {
    tracker.record_loss(at, true, Some("57P01"), || note(0));
}

fn outages(tracker: &mut OutageTracker, now: Nanos) -> Outages {
    tracker.finish(now, 0).1
}

#[test]
fn overlapping_absences_are_one_outage() {
    let mut tracker = OutageTracker::new(3);
    lose(&mut tracker, 100 * MS);
    lose(&mut tracker, 150 * MS);
    tracker.record_failed_attempt(200 * MS, true);
    tracker.record_return(250 * MS);
    tracker.record_success(260 * MS);
    tracker.record_success(265 * MS);
    tracker.record_return(300 * MS);
    let all = outages(&mut tracker, 10 * SECOND);
    let outage = &all.outages[0];
    assert_eq!((all.count, outage.number), (1, 1));
    assert_eq!((outage.began, outage.ended), (100 * MS, Some(300 * MS)));
    assert_eq!(outage.first_success, Some(260 * MS));
    assert_eq!((outage.most_away, outage.all_away), (2, 0));
    let tally = Tally { connections_lost: 2, transactions_lost: 2, reconnects: 2, failed_attempts: 1, never_back: 0 };
    assert_eq!((outage.tally, all.tally), (tally, tally));
    // losses close together are one outage and others are not
    for (gap, count) in [(GAP - 1, 1), (GAP, 2)] {
        let mut tracker = OutageTracker::new(2);
        lose(&mut tracker, 0);
        tracker.record_return(MS);
        tracker.record_success(2 * MS);
        lose(&mut tracker, MS + gap);
        tracker.record_return(2 * MS + gap);
        tracker.record_success(3 * MS + gap);
        let all = outages(&mut tracker, 10 * SECOND);
        assert_eq!(all.count, count);
        assert_eq!(all.outages.last().expect("there is one").ended, Some(2 * MS + gap));
    }
    // a server that takes clients only to drop them is one outage
    let mut tracker = OutageTracker::new(1);
    for second in 0..5 {
        lose(&mut tracker, 2 * second * SECOND);
        tracker.record_return((2 * second + 1) * SECOND);
    }
    tracker.record_success(10 * SECOND);
    let all = outages(&mut tracker, 20 * SECOND);
    assert_eq!(all.count, 1);
    assert_eq!(all.outages[0].ended, Some(9 * SECOND));
    assert_eq!(all.outages[0].all_away, 5 * SECOND);
    // outages of the warm up are left out
    let mut tracker = OutageTracker::new(1);
    for begin in [0, 5 * SECOND] {
        lose(&mut tracker, begin);
        tracker.record_return(begin + MS);
        tracker.record_success(begin + 2 * MS);
    }
    let (_, all) = tracker.finish(20 * SECOND, 2 * SECOND);
    assert_eq!((all.count, all.tally.connections_lost), (1, 1));
    assert_eq!(all.outages[0].began, 5 * SECOND);
}

#[test]
fn time_in_which_all_are_away_is_summed_without_clients_that_have_stopped() {
    let mut tracker = OutageTracker::new(2);
    lose(&mut tracker, 0);
    lose(&mut tracker, 10 * MS);
    tracker.record_return(30 * MS);
    lose(&mut tracker, 40 * MS);
    tracker.record_return(45 * MS);
    tracker.record_return(50 * MS);
    let outage = &outages(&mut tracker, SECOND).outages[0];
    assert_eq!(outage.all_away, 25 * MS);
    assert_eq!(outage.all_away_in.iter().map(|(from, to)| to - from).sum::<Nanos>(), 25 * MS);
    let mut tracker = OutageTracker::new(2);
    lose(&mut tracker, 0);
    tracker.record_stop(10 * MS);
    tracker.record_return(15 * MS);
    assert_eq!(outages(&mut tracker, SECOND).outages[0].all_away, 5 * MS);
}

#[test]
fn one_that_never_comes_back_leaves_the_outage_without_an_end() {
    let mut tracker = OutageTracker::new(2);
    lose(&mut tracker, 0);
    lose(&mut tracker, 0);
    tracker.record_return(5 * MS);
    tracker.record_success(6 * MS);
    tracker.record_leave(SECOND, Leave::NeverBack);
    tracker.record_stop(SECOND);
    let all = outages(&mut tracker, 2 * SECOND);
    assert_eq!(all.outages[0].ended, None);
    assert_eq!(all.tally.never_back, 1);
    // one that has nothing more to do is not waited for
    let mut tracker = OutageTracker::new(2);
    lose(&mut tracker, 0);
    lose(&mut tracker, 0);
    tracker.record_leave(0, Leave::Done);
    tracker.record_stop(0);
    tracker.record_return(5 * MS);
    let all = outages(&mut tracker, 2 * SECOND);
    assert_eq!((all.outages[0].ended, all.tally.never_back), (Some(5 * MS), 0));
    // those that are away at the end of the run were never back
    let mut tracker = OutageTracker::new(3);
    lose(&mut tracker, SECOND);
    lose(&mut tracker, SECOND);
    let outage = &outages(&mut tracker, 4 * SECOND).outages[0];
    assert_eq!((outage.ended, outage.tally.never_back), (None, 2));
}

#[test]
fn outages_begin_without_a_loss_and_are_over_when_no_loss_can_join_them() {
    let mut tracker = OutageTracker::new(1);
    tracker.record_failed_attempt(MS, false);
    tracker.record_failed_attempt(2 * MS, true);
    tracker.record_return(3 * MS);
    let tally = outages(&mut tracker, SECOND).tally;
    assert_eq!((tally.connections_lost, tally.failed_attempts), (0, 2));
    assert_eq!(tally.reconnects, 1);
    // an outage is told to be over when no loss can join it
    let mut tracker = OutageTracker::new(1);
    lose(&mut tracker, 0);
    while tracker.take_note(0).is_some() {}
    tracker.record_return(MS);
    assert_eq!(tracker.take_note(MS + GAP), None, "nobody has succeeded yet");
    tracker.record_success(2 * MS);
    assert_eq!(tracker.take_note(MS + GAP - 1), None);
    let Some(OutageNote::Ended(outage)) = tracker.take_note(MS + GAP) else { panic!("it is over") };
    assert_eq!(outage.ended, Some(MS));
}

#[test]
fn losses_are_told_at_most_once_a_second() {
    let mut tracker = OutageTracker::new(10);
    let mut told = Vec::new();
    for at in [0, 1, 2, 3, SECOND, SECOND + 1] {
        lose(&mut tracker, at);
        told.extend(std::iter::from_fn(|| tracker.take_note(at)));
    }
    told.extend(tracker.finish(2 * SECOND, 0).0);
    let clients = |note: &OutageNote| if let OutageNote::Lost { clients, .. } = note { Some(*clients) } else { None };
    assert_eq!(told.iter().filter_map(clients).collect::<Vec<_>>(), [1, 4, 1]);
    // and ten thousand at once in one line
    let mut tracker = OutageTracker::new(10_000);
    for client in 0..10_000 {
        tracker.record_loss(MS, true, Some("57P01"), || note(client));
    }
    let told: Vec<_> = std::iter::from_fn(|| tracker.take_note(2 * MS)).collect();
    assert_eq!(told.len(), 2, "its begin, and the losses");
    assert!(matches!(told[0], OutageNote::Began(_)));
    let OutageNote::Lost { note, clients } = &told[1] else { panic!("{told:?}") };
    assert_eq!((note.client, *clients), (0, 10_000));
}
