//! What sessions wait for, and which sessions block those that wait for a lock.

use std::collections::BTreeMap;

use pgdyno_connect::ResultSet;
use serde_json::{Value, json};

/// The statement that samples active sessions and background processes.
///
/// A background process has no state; it is idle while it waits in its main loop (`Activity`) or in an extension's. The
/// same holds for a walsender, although its state is active. Sessions of the probe are left out.
///
/// The server copies the states of all sessions first and reads their waits afterwards, so that a session that ended a
/// short statement in between is active and waits for its client's next one. The last column but one is true for such a
/// session. An active session really waits for its client in a COPY, or for the rest of a pipeline. Without a COPY, it
/// counts as waiting only if its state is older than a second, because a statement of that length is unlikely to have
/// ended just then.
pub fn statement(major: i32) -> String {
    let query = if major >= 14 { "query_id" } else { "NULL" };
    // both are checked only if a session waits in this way; the list of COPYs belongs to the same instant as the states
    let copies = if major >= 14 {
        "pid IN (SELECT pid FROM pg_stat_get_progress_info('COPY'))"
    } else {
        r"query ~* '^\s*copy\M'"
    };
    format!(
        "SELECT backend_type, wait_event_type, wait_event, {query},
           wait_event = 'ClientRead' AND (state_change > now() - interval '1 ms'
             OR (state_change > now() - interval '1 s' AND NOT {copies})), count(*)
         FROM pg_stat_get_activity(NULL)
         WHERE application_name IS DISTINCT FROM 'pgprobe'
           AND (state IN ('active', 'fastpath function call')
             OR (state IS NULL AND wait_event_type IS DISTINCT FROM 'Extension'))
           AND wait_event_type IS DISTINCT FROM 'Activity'
         GROUP BY 1, 2, 3, 4, 5"
    )
}

/// The sessions that block the first 20 that wait.
pub const BLOCKERS: &str =
    "WITH /* pgprobe */ a AS (SELECT pid, state, wait_event_type, wait_event FROM pg_stat_get_activity(NULL))
     SELECT w.pid, w.wait_event, u.pid, b.state, b.wait_event_type, b.wait_event
     FROM (SELECT pid, wait_event FROM a WHERE wait_event_type = 'Lock' LIMIT 20) AS w
       CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS u(pid) LEFT JOIN a AS b ON b.pid = u.pid";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// Number of sessions by backend type, type of wait, wait and query.
    active: BTreeMap<[Option<String>; 4], u64>,
    /// Sessions whose state the role may not see.
    hidden: u64,
}

impl Look {
    pub fn read(answer: &ResultSet) -> Self {
        let mut look = Self::default();
        for row in &answer.rows {
            let [backend_type, wait_type, wait, query, ended, count] = row.as_slice() else {
                continue;
            };
            let count = count.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0);
            if backend_type.is_none() {
                look.hidden += count;
                continue;
            }
            // an active session without a wait is on a CPU, or ready to run
            let is_wait = wait_type.is_some() && ended.as_deref() != Some("t");
            let (wait_type, wait) =
                if is_wait { (wait_type.clone(), wait.clone()) } else { (Some("CPU".to_owned()), None) };
            let key = [backend_type.clone(), wait_type, wait, query.clone()];
            *look.active.entry(key).or_default() += count;
        }
        look
    }

    /// Sessions whose state the role may not see.
    pub fn hidden(&self) -> u64 {
        self.hidden
    }

    pub fn has_lock_waits(&self) -> bool {
        let mut types = self.active.keys().map(|[_, wait_type, ..]| wait_type);
        types.any(|wait_type| wait_type.as_deref() == Some("Lock"))
    }

    /// The fields of a `waits` line.
    pub fn fields(&self, took_us: u64) -> Value {
        let rows = self.active.iter().map(|([backend_type, wait_type, wait, query], sessions)| {
            json!({
                "backend_type": backend_type,
                "wait_type": wait_type,
                "wait": wait,
                "query_id": query.as_deref().and_then(|id| id.parse::<i64>().ok()),
                "sessions": sessions,
            })
        });
        json!({"took_us": took_us, "rows": rows.collect::<Value>()})
    }
}

/// The fields of a `blockers` line; None if nothing is blocked any more.
pub fn blockers(answer: &ResultSet) -> Option<Value> {
    let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<i64>().ok());
    let rows = answer.rows.iter().filter_map(|row| {
        let [pid, lock, blocker, state, wait_type, wait] = row.as_slice() else {
            return None;
        };
        Some(json!({
            "pid": number(pid),
            "lock": lock,
            "blocked_by": number(blocker),
            "state": state,
            "wait_type": wait_type,
            "wait": wait,
        }))
    });
    let rows: Vec<Value> = rows.collect();
    (!rows.is_empty()).then(|| json!({"rows": rows}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(rows: &[[&str; 6]]) -> ResultSet {
        let cell = |text: &&str| (!text.is_empty()).then(|| (*text).to_owned());
        ResultSet { rows: rows.iter().map(|row| row.iter().map(cell).collect()).collect(), ..ResultSet::default() }
    }

    #[test]
    fn no_wait_is_cpu_and_what_may_not_be_seen_is_counted_apart() {
        let look = Look::read(&answer(&[
            ["client backend", "", "", "-7", "", "3"],
            ["client backend", "Lock", "tuple", "5", "f", "2"],
            ["", "", "", "", "", "4"],
        ]));
        assert_eq!(look.hidden(), 4);
        assert!(look.has_lock_waits());
        let fields = look.fields(80);
        assert_eq!(fields["rows"][0]["wait_type"], "CPU");
        assert_eq!(fields["rows"][0]["query_id"], -7);
        assert_eq!(fields["rows"][0]["sessions"], 3);
        assert_eq!(fields["rows"][1]["wait"], "tuple");
        assert_eq!(fields["rows"].as_array().map(Vec::len), Some(2));
        // a statement that ended before its wait was read was on a cpu
        let look = Look::read(&answer(&[
            ["client backend", "", "", "7", "", "1"],
            ["client backend", "Client", "ClientRead", "7", "t", "5"],
            ["client backend", "Client", "ClientRead", "7", "f", "2"],
        ]));
        let fields = look.fields(80);
        assert_eq!(fields["rows"][0]["wait_type"], "CPU");
        assert_eq!(fields["rows"][0]["wait"], Value::Null);
        assert_eq!(fields["rows"][0]["sessions"], 6);
        assert_eq!(fields["rows"][1]["wait"], "ClientRead");
        assert_eq!(fields["rows"][1]["sessions"], 2);
    }
}
