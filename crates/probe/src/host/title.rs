//! The titles of PostgreSQL's processes, from version 10 to 18.

use crate::sample::Labels;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Title {
    /// `checkpointer`, `client backend` and so on, in the words of pg_stat_activity where it has one.
    pub kind: String,
    /// The user of a client backend, and of a walsender if it shows one.
    pub user: Option<String>,
    /// The database of a client backend or an autovacuum worker.
    pub database: Option<String>,
    /// The client's address, or `[local]`.
    pub client: Option<String>,
    /// The current activity, such as `UPDATE` or `idle in transaction`.
    pub activity: Option<String>,
}

/// Beginning of a title, and the kind.
const KINDS: &[(&str, &str)] = &[
    ("autovacuum launcher", "autovacuum launcher"),
    ("autovacuum worker", "autovacuum worker"),
    ("background writer", "background writer"),
    ("writer process", "background writer"),
    ("checkpointer", "checkpointer"),
    ("walwriter", "walwriter"),
    ("wal writer process", "walwriter"),
    ("walreceiver", "walreceiver"),
    ("wal receiver process", "walreceiver"),
    ("walsummarizer", "walsummarizer"),
    ("io worker", "io worker"),
    ("startup", "startup"),
    ("archiver", "archiver"),
    ("logger", "logger"),
    ("stats collector", "stats collector"),
    ("slotsync worker", "slotsync worker"),
    ("logical replication launcher", "logical replication launcher"),
    ("logical replication", "logical replication worker"),
    ("parallel worker", "parallel worker"),
];

const WALSENDERS: [&str; 2] = ["walsender ", "wal sender process "];

/// Parses a title; None if it is not one of PostgreSQL's, like that of a postmaster.
pub fn read(title: &str) -> Option<Title> {
    // the rest of the original arguments may come after its end
    let title = title.split('\0').next()?;
    let rest = title.trim_end().strip_prefix("postgres: ")?;
    if let Some(title) = background(rest) {
        return Some(title);
    }
    // a cluster's name comes first; one that contains ": " cannot be distinguished from a user's name
    if let Some((_, after)) = rest.split_once(": ") {
        return Some(background(after).unwrap_or_else(|| client(after)));
    }
    Some(client(rest))
}

fn background(rest: &str) -> Option<Title> {
    let rest = rest.strip_prefix("bgworker: ").unwrap_or(rest);
    for begin in WALSENDERS {
        if let Some(rest) = rest.strip_prefix(begin) {
            return Some(walsender(rest));
        }
    }
    let (begin, kind) = KINDS.iter().find(|(begin, _)| begins(rest, begin))?;
    let more = rest[begin.len()..].trim_start().trim_start_matches("process");
    let more = Some(more.trim()).filter(|more| !more.is_empty()).map(str::to_owned);
    let is_vacuum = *kind == "autovacuum worker";
    Some(Title {
        kind: (*kind).to_owned(),
        database: more.clone().filter(|_| is_vacuum),
        activity: more.filter(|_| !is_vacuum),
        ..Title::default()
    })
}

fn begins(rest: &str, begin: &str) -> bool {
    let after = rest.strip_prefix(begin);
    after.is_some_and(|after| after.is_empty() || after.starts_with(' '))
}

/// Parses `user host(port) streaming 0/3000000`.
fn walsender(rest: &str) -> Title {
    let mut title = client(rest);
    title.kind = "walsender".to_owned();
    // there is no database, so a name of two words is the user's
    let database = title.database.take();
    title.user = match (title.user.take(), database) {
        (Some(user), Some(rest)) if !user.is_empty() => Some(format!("{user} {rest}")),
        (user, database) => database.or(user),
    };
    title
}

/// Parses `user database host(port) activity`: names may contain spaces, but the host does not.
fn client(rest: &str) -> Title {
    let words: Vec<&str> = rest.split(' ').collect();
    let mut title = Title { kind: "client backend".to_owned(), ..Title::default() };
    let Some(place) = words.iter().position(|word| is_host(word)) else {
        // for example a worker of an extension, of which only the name is known
        title.kind = "background worker".to_owned();
        title.activity = Some(rest.to_owned()).filter(|rest| !rest.is_empty());
        return title;
    };
    let (names, after) = words.split_at(place);
    title.client = after.first().map(|&word| word.to_owned());
    title.activity = Some(after[1..].join(" ")).filter(|activity| !activity.is_empty());
    if let Some((database, user)) = names.split_last() {
        title.database = Some((*database).to_owned());
        title.user = Some(user.join(" ")).filter(|user| !user.is_empty());
    }
    title
}

fn is_host(word: &str) -> bool {
    let port = word.strip_suffix(')').and_then(|word| word.rsplit_once('('));
    word == "[local]" || port.is_some_and(|(_, port)| port.bytes().all(|c| c.is_ascii_digit()))
}

impl Title {
    pub fn labels(self) -> Labels {
        let rest =
            [("user", self.user), ("database", self.database), ("client", self.client), ("activity", self.activity)];
        let rest = rest.into_iter().filter_map(|(name, value)| Some((name, value?)));
        std::iter::once(("kind", self.kind)).chain(rest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(title: &str) -> String {
        let labels = read(title).expect("it is one").labels();
        let words = labels.iter().map(|(name, value)| format!("{name}={value}"));
        words.collect::<Vec<_>>().join(",")
    }

    #[test]
    fn titles_of_all_versions() {
        for (title, expected) in [
            ("postgres: checkpointer ", "kind=checkpointer"),
            ("postgres: checkpointer process  ", "kind=checkpointer"),
            ("postgres: main: checkpointer ", "kind=checkpointer"),
            ("postgres: wal writer process", "kind=walwriter"),
            ("postgres: writer process", "kind=background writer"),
            ("postgres: io worker 2", "kind=io worker,activity=2"),
            ("postgres: autovacuum worker shop", "kind=autovacuum worker,database=shop"),
            ("postgres: autovacuum worker process   shop", "kind=autovacuum worker,database=shop"),
            ("postgres: bgworker: logical replication launcher", "kind=logical replication launcher"),
            ("postgres: parallel worker for PID 77 ", "kind=parallel worker,activity=for PID 77"),
            (
                "postgres: startup recovering 000000010000000000000003",
                "kind=startup,activity=recovering 000000010000000000000003",
            ),
            (
                "postgres: walsender rep 10.0.0.2(5555) streaming 0/3000148",
                "kind=walsender,user=rep,client=10.0.0.2(5555),activity=streaming 0/3000148",
            ),
            (
                "postgres: alice shop [local] UPDATE waiting",
                "kind=client backend,user=alice,database=shop,client=[local],activity=UPDATE waiting",
            ),
            (
                "postgres: main: alice a shop ::1(40022) idle in transaction",
                "kind=client backend,user=alice a,database=shop,client=::1(40022),activity=idle in transaction",
            ),
            (
                "postgres: checkpointers shop [local] SELECT",
                "kind=client backend,user=checkpointers,database=shop,client=[local],activity=SELECT",
            ),
            ("postgres: pg_cron launcher ", "kind=background worker,activity=pg_cron launcher"),
        ] {
            assert_eq!(said(title), expected, "{title}");
        }
        assert_eq!(read("/usr/lib/postgresql/18/bin/postgres\0-D\0/data"), None);
    }
}
