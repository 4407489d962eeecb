//! The cost of statements, from pg_stat_statements if the database has it; the probe does not install it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use pgdyno_connect::{ResultSet, SessionError};
use serde_json::{Value, json};

use super::counters::readings;
use crate::catalogue::source;
use crate::clock::Stamp;
use crate::sample::{Differ, Labels, Row, Sample, find};

/// Time between two samples.
pub const EVERY: Duration = Duration::from_secs(10);
/// Longest time between two samples, after samples that failed.
pub const EVERY_AT_MOST: Duration = Duration::from_secs(80);

/// How many statements the last line contains.
const MOST_AT_THE_END: usize = 100;
/// Length limit of a statement's text, in characters.
const LONGEST_TEXT: usize = 2000;
const BY: &str = "exec_time";
const SOURCE: &str = "statements";

/// Metrics, each with its possible columns: those of the newest extension first.
const COLUMNS: &[(&str, &[&str])] = &[
    ("calls", &["calls"]),
    ("rows", &["rows"]),
    ("exec_time", &["total_exec_time", "total_time"]),
    ("plans", &["plans"]),
    ("plan_time", &["total_plan_time"]),
    ("blocks_hit", &["shared_blks_hit"]),
    ("blocks_read", &["shared_blks_read"]),
    ("blocks_dirtied", &["shared_blks_dirtied"]),
    ("blocks_written", &["shared_blks_written"]),
    ("read_time", &["shared_blk_read_time", "blk_read_time"]),
    ("write_time", &["shared_blk_write_time", "blk_write_time"]),
    ("temp_read", &["temp_blks_read"]),
    ("temp_written", &["temp_blks_written"]),
    ("wal_records", &["wal_records"]),
    ("wal_full_page_images", &["wal_fpi"]),
    ("wal", &["wal_bytes"]),
    ("wal_buffers_full", &["wal_buffers_full"]),
];

/// The queries for a server, after its version of the extension is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asking {
    pub counters: String,
    texts: String,
    metrics: Vec<&'static str>,
}

/// Finds the extension in the database, with its schema and columns.
pub const FIND: &str = "SELECT /* pgprobe */ quote_ident(n.nspname), string_agg(a.attname::text, ',')
     FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
       JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = e.extname
       JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
     WHERE e.extname = 'pg_stat_statements' GROUP BY 1";

/// Whether the server has loaded the library; no row without the right to see that.
pub const LOADED: &str = "SELECT /* pgprobe */ 1 FROM pg_settings WHERE name = 'shared_preload_libraries'
     AND setting LIKE '%pg_stat_statements%'";

impl Asking {
    /// Reads the answer to [`FIND`]; None if the database lacks the extension.
    pub fn read(answer: &ResultSet) -> Option<Self> {
        let [schema, columns] = answer.rows.first()?.as_slice() else {
            return None;
        };
        let known: HashSet<&str> = columns.as_deref()?.split(',').collect();
        let figures = COLUMNS.iter().filter_map(|(metric, candidates)| {
            let column = candidates.iter().find(|column| known.contains(*column))?;
            Some((*metric, format!("sum(s.{column}) AS {metric}")))
        });
        let (metrics, figures): (Vec<_>, Vec<_>) = figures.unzip();
        let figures = figures.join(", ");
        let schema = schema.as_deref()?;
        // the statements of the probe and of pgdyno are recognized by their text where no role excludes them
        let counters = format!(
            "SELECT /* pgprobe */ s.queryid AS query_id, pg_get_userbyid(s.userid) AS user, d.datname AS database, {figures}
             FROM {schema}.pg_stat_statements(true) AS s LEFT JOIN pg_database AS d ON d.oid = s.dbid
             WHERE s.queryid IS NULL OR (s.query NOT LIKE 'PREPARE pgprobe%'
               AND s.query NOT LIKE '% /* pgprobe */ %' AND s.query NOT LIKE '% /* pgdyno */ %') GROUP BY 1, 2, 3"
        );
        let texts = format!(
            "SELECT /* pgprobe */ queryid, CASE WHEN query ILIKE '%password%' THEN '(a statement with a password)'
               ELSE left(query, {LONGEST_TEXT}) END FROM {schema}.pg_stat_statements(true) WHERE queryid IN"
        );
        Some(Self { counters, texts, metrics })
    }
}

/// The costs since the last sample, and since the first one.
#[derive(Debug)]
pub struct Statements {
    differ: Differ,
    totals: HashMap<Labels, HashMap<&'static str, f64>>,
    first: Option<Stamp>,
    most: usize,
}

impl Statements {
    /// Samples contain the `most` statements that took the longest.
    pub fn new(most: usize) -> Self {
        Self { differ: Differ::new(source(SOURCE)), totals: HashMap::new(), first: None, most }
    }

    pub fn are_wanted(&self) -> bool {
        self.most > 0
    }

    /// The sample that follows from the answer, and the number of statements that the role may not see.
    pub fn sample(&mut self, at: Stamp, answer: &ResultSet) -> (Sample, usize) {
        let mut readings = readings(SOURCE, answer);
        let all = readings.len();
        readings.retain(|reading| id(&reading.key).is_some());
        let hidden = all - readings.len();
        self.first.get_or_insert(at);
        let mut sample = self.differ.sample(at, readings);
        for row in &sample.rows {
            let total = self.totals.entry(row.labels.clone()).or_default();
            for (metric, value) in &row.values {
                *total.entry(metric).or_default() += value;
            }
        }
        // statements without a call in the meantime are left out
        sample.rows.retain(|row| value(&row.values, "calls") > 0.0 || value(&row.values, BY) > 0.0);
        sort(&mut sample.rows);
        sample.rows.truncate(self.most);
        (sample, hidden)
    }

    /// The statements that took the longest in total, and the start of the count.
    pub fn totals(&self) -> Option<(Stamp, Vec<Row>)> {
        let first = self.first?;
        let rows = self.totals.iter().map(|(labels, total)| {
            let metrics = source(SOURCE).metrics.iter();
            let values = metrics.filter_map(|metric| Some((metric.name, *total.get(metric.name)?)));
            Row { labels: labels.clone(), values: values.collect() }
        });
        let mut rows: Vec<Row> = rows.filter(|row| value(&row.values, "calls") > 0.0).collect();
        sort(&mut rows);
        rows.truncate(MOST_AT_THE_END);
        Some((first, rows))
    }
}

fn value(values: &[(&'static str, f64)], name: &str) -> f64 {
    find(values, name).copied().unwrap_or(0.0)
}

fn sort(rows: &mut [Row]) {
    rows.sort_by(|a, b| value(&b.values, BY).total_cmp(&value(&a.values, BY)));
}

/// The fields of a `statements` line. `query` gets the texts from the server; if it fails, they are missing.
pub fn line(
    query: impl FnOnce(&str) -> Result<ResultSet, SessionError>, asking: &Asking, since: Stamp, rows: &[Row],
) -> Value {
    let mut texts = HashMap::new();
    let ids: Vec<&str> = rows.iter().filter_map(|row| id(&row.labels)).collect();
    if !ids.is_empty() {
        let sql = format!("{} ({})", asking.texts, ids.join(", "));
        for row in query(&sql).unwrap_or_default().rows {
            if let [Some(id), text] = row.as_slice() {
                texts.insert(id.clone(), text.clone());
            }
        }
    }
    let rows = rows.iter().map(|row| {
        let text = id(&row.labels).and_then(|id| texts.get(id).cloned().flatten());
        let of_metric = |metric: &&'static str| (*metric, value(&row.values, metric));
        let mut line =
            Row { labels: row.labels.clone(), values: asking.metrics.iter().map(of_metric).collect() }.json();
        line["text"] = text.into();
        line
    });
    json!({"since_us": since.t_us, "rows": rows.collect::<Value>()})
}

/// The statement's identifier, as the server wrote it.
fn id(labels: &Labels) -> Option<&str> {
    find(labels, "query_id").map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    fn answer(columns: &[&str], rows: &[&[&str]]) -> ResultSet {
        let cell = |text: &&str| (!text.is_empty()).then(|| (*text).to_owned());
        ResultSet {
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            rows: rows.iter().map(|row| row.iter().map(cell).collect()).collect(),
            ..ResultSet::default()
        }
    }

    #[test]
    fn columns_are_the_extensions_and_new_statements_count_from_zero() {
        let old = answer(&[], &[&["public", "userid,dbid,queryid,calls,total_time,rows"]]);
        let asking = Asking::read(&old).expect("it is there");
        assert!(asking.counters.contains("sum(s.total_time) AS exec_time"));
        assert!(!asking.counters.contains("wal_bytes"));
        assert_eq!(Asking::read(&answer(&[], &[])), None);
        // a statement that is new counts from zero and totals are of all
        let columns = ["query_id", "user", "database", "calls", "exec_time"];
        let at = Clock::start().now();
        let mut statements = Statements::new(1);
        let first: &[&[&str]] = &[&["1", "u", "d", "10", "5"], &["", "", "", "3", "3"]];
        let (sample, hidden) = statements.sample(at, &answer(&columns, first));
        assert_eq!((sample.rows.len(), hidden), (0, 1));
        let second: &[&[&str]] = &[&["1", "u", "d", "12", "6"], &["2", "u", "d", "4", "9"]];
        let (sample, _) = statements.sample(at, &answer(&columns, second));
        assert_eq!(sample.rows.len(), 1);
        assert_eq!(id(&sample.rows[0].labels), Some("2"));
        let (_, totals) = statements.totals().expect("there are some");
        let sums: Vec<_> = totals.iter().map(|row| (id(&row.labels), value(&row.values, "calls"))).collect();
        assert_eq!(sums, [(Some("2"), 4.0), (Some("1"), 2.0)]);
    }
}
