//! Reports outages to people and programs: on standard error, in the summary, in events and --json.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use pgdyno_engine::clock::{Nanos, SECOND};
use pgdyno_engine::outage::{Outage, OutageNote, Outages, Tally};
use serde_json::{Value, json};

use crate::called_as::CalledAs;
use crate::events::Events;
use crate::messages::Messages;

/// How many outages the summary lists; all are in --json and in the event `end`.
const MOST_IN_SUMMARY: usize = 20;
/// How many outages standard error reports.
const MOST_SAID: u64 = 20;
/// How many clients that give up are reported one by one.
const MOST_ABORTED_SAID: u64 = 20;

/// Reports outages, and no more than a person can read.
#[derive(Debug, Default)]
pub struct OutageReporter {
    origin: Nanos,
    said: u64,
    aborted: u64,
}

impl OutageReporter {
    pub fn begin(&mut self, origin: Nanos) {
        self.origin = origin;
    }

    /// Reports a note to the events and on standard error.
    pub fn tell(&mut self, note: &OutageNote, events: &mut Events, messages: &Messages) -> io::Result<()> {
        match note {
            OutageNote::Began(outage) => {
                self.said += 1;
                let fields = json!({
                    "state": "began",
                    "number": outage.number,
                    "began_us": self.since_origin(outage.began),
                    "began_epoch_us": epoch_us(outage.began_at),
                });
                events.write("outage", fields)
            }
            OutageNote::Lost { note, clients } => {
                if self.said <= MOST_SAID {
                    let who = match clients {
                        1 => format!("client {} lost its connection", note.client),
                        _ => format!("{clients} clients lost their connections"),
                    };
                    let words = match (&note.severity, &note.sqlstate, messages.called_as()) {
                        (Some(severity), Some(sqlstate), CalledAs::Pgdrive) => {
                            format!("{severity}:  {sqlstate}: {}", note.message)
                        }
                        (Some(severity), _, _) => format!("{severity}:  {}", note.message),
                        _ => note.message.clone(),
                    };
                    messages.warning(format!("{who}, reconnecting: {words}"));
                }
                events.error(note, *clients)
            }
            OutageNote::Ended(outage) => {
                if self.said <= MOST_SAID {
                    messages.warning(format!("outage {}: {}", outage.number, in_short(outage, self.origin)));
                }
                let mut fields = value(outage, self.origin);
                fields["state"] = json!("ended");
                events.write("outage", fields)
            }
        }
    }

    pub fn says_aborted(&mut self) -> bool {
        self.aborted += 1;
        self.aborted <= MOST_ABORTED_SAID
    }

    /// Reports how many clients gave up without a report.
    pub fn end(&self, messages: &Messages) {
        let more = self.aborted.saturating_sub(MOST_ABORTED_SAID);
        if more > 0 {
            messages.error(format!("{more} more clients were aborted"));
        }
    }

    fn since_origin(&self, instant: Nanos) -> u64 {
        instant.saturating_sub(self.origin) / 1000
    }
}

/// The fields of outages for the event `end` and --json; instants count from `origin`.
pub fn end_fields(outages: &Outages, origin: Nanos) -> Value {
    let Tally { connections_lost, reconnects, failed_attempts, .. } = outages.tally;
    let list: Vec<Value> = outages.outages.iter().map(|o| value(o, origin)).collect();
    json!({
        "connections_lost": connections_lost,
        "reconnects": reconnects,
        "failed_attempts": failed_attempts,
        "outage_count": outages.count,
        "outages": list,
    })
}

fn value(outage: &Outage, origin: Nanos) -> Value {
    let since_began = |instant: Nanos| instant.saturating_sub(outage.began) / 1000;
    let since_origin = |instant: Nanos| instant.saturating_sub(origin) / 1000;
    let all_away = outage.all_away_in.iter();
    let all_away: Vec<_> = all_away.map(|(from, to)| [since_origin(*from), since_origin(*to)]).collect();
    json!({
        "number": outage.number,
        "began_us": since_origin(outage.began),
        "began_epoch_us": epoch_us(outage.began_at),
        "length_us": outage.ended.map(since_began),
        "all_away_us": outage.all_away / 1000,
        "all_away_in_us": all_away,
        "first_success_us": outage.first_success.map(since_began),
        "clients": outage.most_away,
        "connections_lost": outage.tally.connections_lost,
        "transactions_lost": outage.tally.transactions_lost,
        "reconnects": outage.tally.reconnects,
        "failed_attempts": outage.tally.failed_attempts,
        "clients_never_back": outage.tally.never_back,
    })
}

pub fn summary(out: &mut impl Write, outages: &Outages, origin: Nanos) -> io::Result<()> {
    let Tally { connections_lost, reconnects, failed_attempts, .. } = outages.tally;
    writeln!(
        out,
        "connections lost: {connections_lost}, reconnects: {reconnects}, failed attempts: {failed_attempts}"
    )?;
    writeln!(out, "number of outages: {}", outages.count)?;
    for outage in outages.outages.iter().take(MOST_IN_SUMMARY) {
        let number = outage.number;
        writeln!(out, "outage {number}: {}", in_short(outage, origin))?;
        let tally = &outage.tally;
        writeln!(
            out,
            " - connections lost: {}, transactions lost: {}, reconnects: {}, failed attempts: {}",
            tally.connections_lost, tally.transactions_lost, tally.reconnects, tally.failed_attempts
        )?;
    }
    Ok(())
}

/// When it began, how long it lasted, and how many clients it affected.
fn in_short(outage: &Outage, origin: Nanos) -> String {
    let seconds = |nanos: Nanos| nanos as f64 / SECOND as f64;
    let since_began = |instant: Nanos| seconds(instant.saturating_sub(outage.began));
    let length = match outage.ended {
        Some(ended) => format!("all back after {:.3} s", since_began(ended)),
        None => match outage.tally.never_back {
            0 => "no client had to reconnect".to_owned(),
            never => format!("{never} never back"),
        },
    };
    let success = match outage.first_success {
        Some(first) => format!("first success after {:.3} s", since_began(first)),
        None => "no success after it".to_owned(),
    };
    let clients = if outage.most_away == 1 { "1 client".to_owned() } else { format!("{} clients", outage.most_away) };
    format!(
        "began {} ({:.3} s after the start), {clients} at once; {length}, {success}; all away for {:.3} s",
        utc(outage.began_at),
        seconds(outage.began.saturating_sub(origin)),
        seconds(outage.all_away),
    )
}

fn epoch_us(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}

/// A time as `2026-11-21 04:05:06.789 UTC`.
fn utc(at: SystemTime) -> String {
    let ms = epoch_us(at) / 1000;
    let (days, of_day) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{:03} UTC",
        of_day / 3_600_000,
        of_day / 60_000 % 60,
        of_day / 1000 % 60,
        of_day % 1000
    )
}

/// Year, month and day for a number of days since 1970 (Gregorian calendar).
fn date(mut days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn outage() -> Outage {
        let tally =
            Tally { connections_lost: 9, transactions_lost: 7, reconnects: 9, failed_attempts: 30, never_back: 0 };
        Outage {
            number: 1,
            began: 3 * SECOND,
            began_at: UNIX_EPOCH,
            ended: Some(5 * SECOND),
            all_away: SECOND,
            all_away_in: vec![(3 * SECOND, 4 * SECOND)],
            first_success: Some(4 * SECOND),
            most_away: 8,
            tally,
        }
    }

    #[test]
    fn outages_are_lines_with_dates_and_counts() {
        let outages = Outages { outages: vec![outage()], count: 1, tally: outage().tally };
        let mut out = Vec::new();
        summary(&mut out, &outages, SECOND).expect("a Vec takes everything");
        assert_eq!(
            String::from_utf8_lossy(&out),
            "connections lost: 9, reconnects: 9, failed attempts: 30\n\
             number of outages: 1\n\
             outage 1: began 1970-01-01 00:00:00.000 UTC (2.000 s after the start), 8 clients at once; \
             all back after 2.000 s, first success after 1.000 s; all away for 1.000 s\n \
             - connections lost: 9, transactions lost: 7, reconnects: 9, failed attempts: 30\n"
        );
        let fields = end_fields(&outages, SECOND);
        assert_eq!(fields["outages"][0]["began_us"], 2_000_000);
        assert_eq!(fields["outages"][0]["length_us"], 2_000_000);
        assert_eq!(fields["outages"][0]["all_away_in_us"], json!([[2_000_000, 3_000_000]]));
        assert_eq!(fields["outages"][0]["first_success_us"], 1_000_000);
        // one that was not over has no length
        let mut outage = outage();
        outage.ended = None;
        outage.first_success = None;
        outage.most_away = 1;
        outage.tally.never_back = 1;
        assert!(value(&outage, 0)["length_us"].is_null());
        assert!(
            in_short(&outage, 0).contains("1 client at once; 1 never back, no success after it;"),
            "{}",
            in_short(&outage, 0)
        );
        // instants are dates
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00.000 UTC"),
            (951_782_399, "2000-02-28 23:59:59.000 UTC"),
            (951_782_400, "2000-02-29 00:00:00.000 UTC"),
            (1_735_689_599, "2024-12-31 23:59:59.000 UTC"),
            (1_740_787_200, "2025-03-01 00:00:00.000 UTC"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        // of many that give up some are said
        let mut teller = OutageReporter::default();
        assert_eq!((0..10_000).filter(|_| teller.says_aborted()).count(), 20);
    }
}
