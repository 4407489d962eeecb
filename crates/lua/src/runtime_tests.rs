//! The runtime and a client's session, driven by hand: the messages to the server and its answers.

use std::path::PathBuf;

use pgdyno_engine::driver::{Answer, Driver, Drivers, Event, Outgoing, Request};

use crate::{Script, Settings, Task, Workload};

const READY: &[u8] = b"Z\0\0\0\x05I";

pub(crate) fn settings(command: &str, options: &[(&str, &str)]) -> Settings {
    Settings {
        command: command.to_owned(),
        options: options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        threads: 2,
        part: (0, 1),
        seeds: vec![7, 8],
        ..Settings::default()
    }
}

pub(crate) fn open(text: &str, command: &str, options: &[(&str, &str)]) -> Workload {
    let script = Script::own("test.lua", text, &[]);
    Workload::open(script, settings(command, options)).expect("the script is right")
}

/// A client of a script; the test plays the server.
pub(crate) struct Client {
    driver: Box<dyn Driver>,
    sent: Vec<u8>,
    pub last: Request,
}

impl Client {
    pub fn of(workload: &Workload) -> Self {
        Self { driver: workload.driver(0, 1), sent: Vec::new(), last: Request::Done }
    }

    pub fn new(text: &str) -> Self {
        Self::of(&open(text, "run", &[]))
    }

    pub fn go(&mut self, event: Event<'_>) -> &mut Self {
        self.sent.clear();
        let mut out = Outgoing::new(&mut self.sent);
        self.last = self.driver.resume(event, 1, &mut out);
        self
    }

    pub fn connect(&mut self) -> &mut Self {
        self.go(Event::Connected)
    }

    pub fn begin(&mut self) -> &mut Self {
        self.go(Event::Begin { script: 0, tries: 1 })
    }

    pub fn answer(&mut self, bytes: &[u8]) -> &mut Self {
        let answer = Answer::read(&[bytes, READY].concat());
        self.go(Event::Answered(&answer))
    }

    pub fn sent(&self) -> String {
        String::from_utf8_lossy(&self.sent).into_owned()
    }

    pub fn is_done(&self) -> bool {
        matches!(self.last, Request::Done)
    }

    pub fn abort(&self) -> &str {
        match &self.last {
            Request::Abort(words) => words,
            other => panic!("not an abort: {other:?}"),
        }
    }
}

pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[kind][..], &length, body].concat()
}

pub(crate) fn rows(values: &[Option<&str>]) -> Vec<u8> {
    let column = [b"a\0".as_slice(), &[0; 18]].concat();
    let mut bytes = message(b'T', &[&[0, 1], column.as_slice()].concat());
    for value in values {
        let mut row = vec![0, 1];
        match value {
            Some(text) => {
                row.extend_from_slice(&(text.len() as u32).to_be_bytes());
                row.extend_from_slice(text.as_bytes());
            }
            None => row.extend_from_slice(&[0xff; 4]),
        }
        bytes.extend(message(b'D', &row));
    }
    bytes.extend(message(b'C', format!("SELECT {}\0", values.len()).as_bytes()));
    bytes
}

pub(crate) fn refusal(sqlstate: &str) -> Vec<u8> {
    message(b'E', format!("SERROR\0VERROR\0C{sqlstate}\0Mno\0\0").as_bytes())
}

#[test]
fn rows_are_what_the_script_prints() {
    let mut client = Client::new(
        "function thread_init() con = sysbench.sql.driver():connect() end
         function event()
            local rs = con:query('SELECT a')
            local seen = { rs.nrows, rs.nfields }
            for _ = 1, rs.nrows do
               local row = rs:fetch_row()
               seen[#seen + 1] = row[1] or 'NULL'
            end
            assert(rs:fetch_row() == nil)
            con:query(table.concat(seen, ' '))
            assert(con:query_row('SELECT b') == 'x')
            assert(con:query('UPDATE') == nil)
         end",
    );
    assert!(client.connect().is_done());
    assert_eq!(client.begin().sent(), "Q\0\0\0\x0dSELECT a\0");
    client.answer(&rows(&[Some("7"), None, Some("")]));
    assert_eq!(client.sent(), "Q\0\0\0\x103 1 7 NULL \0");
    client.answer(&message(b'C', b"INSERT 0 1\0"));
    client.answer(&rows(&[Some("x"), Some("y")]));
    assert!(client.answer(&message(b'C', b"UPDATE 1\0")).is_done());
    // rows that a script cannot look at are not described
    let text = |look: &str| {
        format!(
            "function thread_init()
                stmt = sysbench.sql.driver():connect():prepare('SELECT 1')
                stmt:execute()
             end
             function event() assert(stmt:execute().nrows == 3) {look} end"
        )
    };
    for (look, is_described) in [("", false), ("local f = 'fetch_row'", true)] {
        let mut client = Client::of(&open(&text(look), "run", &[]));
        client.connect();
        client.answer(b"1\0\0\0\x04");
        assert_eq!(client.sent().contains("D\0\0\0\x06P\0"), is_described);
        assert!(client.answer(&message(b'C', b"SELECT 3\0")).is_done());
        assert!(!client.begin().is_done());
        assert!(client.answer(&message(b'C', b"SELECT 3\0")).is_done());
    }
}

#[test]
fn a_statement_is_prepared_once_a_session_and_bound_in_place() {
    let mut client = Client::new(
        "function thread_init()
            con = sysbench.sql.driver():connect()
            local t = sysbench.sql.type
            stmt = con:prepare('UPDATE t SET a=?, b=? WHERE c=?')
            params = { stmt:bind_create(t.INT), stmt:bind_create(t.CHAR, 9), stmt:bind_create(t.INT) }
            stmt:bind_param(unpack(params))
         end
         function event()
            params[1]:set(42)
            params[2]:set_rand_str('x###')
            params[3]:set(nil)
            stmt:execute()
         end",
    );
    client.connect();
    assert!(client.sent().contains("UPDATE t SET a=$1, b=$2 WHERE c=$3\0\0\x03\0\0\0\x14"));
    assert!(client.answer(b"1\0\0\0\x04").is_done());
    client.begin();
    let sent = client.sent();
    assert!(sent.contains("\0\x03\0\0\0\x0242\0\0\0\x04x"), "{sent:?}");
    assert!(!sent.contains("UPDATE"), "it is prepared");
    assert!(client.answer(&message(b'C', b"UPDATE 1\0")).is_done());
    // a new session has no prepared statements
    assert!(client.connect().sent().contains("UPDATE t SET"));
}

#[test]
fn errors_that_sysbench_ignores_end_the_transaction_and_others_the_client() {
    let text = "function thread_init() con = sysbench.sql.driver():connect() end
        function event() con:query('SELECT 1') end
        function sysbench.hooks.sql_error_ignorable(e) return e.sql_state == '55000' end
        function sysbench.hooks.before_restart_event(e) restarts = (restarts or 0) + 1 end";
    let mut client = Client::new(text);
    client.connect();
    for (sqlstate, is_ignorable) in [("40001", true), ("23505", true), ("55000", true), ("42P01", false)] {
        client.begin().answer(&refusal(sqlstate));
        let Request::Refused(refused) = &client.last else { panic!("{:?}", client.last) };
        assert_eq!(refused.ignorable, is_ignorable, "{sqlstate}");
        let words = refused.words.clone().unwrap_or_default();
        assert!(words.starts_with(&format!("SQL error, SQLSTATE {sqlstate}: no")), "{words}");
        assert!(words.ends_with("\n  test.lua:2"), "{words}");
    }
}

#[test]
fn what_is_wrong_in_a_script_is_said_with_its_line() {
    let mut client = Client::new("function event()\n  local x = nil\n  return x.field\nend");
    client.connect().begin();
    assert!(client.abort().starts_with("test.lua:3: attempt to index local 'x'"));
    assert!(client.abort().contains("\n  test.lua:3"));
    assert!(!client.abort().contains("[client]"), "only the script's own lines");
    let broken = Script::own("broken.lua", "function event()\n  if then\nend", &[]);
    let error = Workload::open(broken, settings("run", &[])).expect_err("it does not compile");
    assert!(error.message.starts_with("broken.lua:2: unexpected symbol"), "{error}");
    // an error of another client does not reach the globals of this one
    let workload = open(
        "count = 0
         function event() count = count + 1; if count > 1 then error('second') end end",
        "run",
        &[],
    );
    let mut one = Client::of(&workload);
    let mut other = Client::of(&workload);
    assert!(one.connect().begin().is_done());
    assert!(other.connect().begin().is_done());
    assert!(one.begin().abort().contains("test.lua:2: second"));
}

#[test]
fn commands_are_called_once_and_a_true_event_stops_its_client() {
    let text = "sysbench.cmdline.commands = { load = { function() con = sysbench.sql.driver():connect()
            con:query('L' .. sysbench.opt.rows) end, sysbench.cmdline.PARALLEL_COMMAND } }
        sysbench.cmdline.options = { rows = { 'rows', 10 } }
        function cleanup() end";
    let workload = open(text, "load", &[("rows", "5")]);
    assert_eq!(workload.task(), Task::OnceEach);
    let mut client = Client::of(&workload);
    assert!(client.connect().is_done());
    assert_eq!(client.begin().sent(), "Q\0\0\0\x07L5\0");
    client.answer(&message(b'C', b"INSERT 0 5\0"));
    assert!(matches!(client.last, Request::Stop));
    assert!(client.go(Event::Ending).is_done());
    assert_eq!(open(text, "cleanup", &[]).task(), Task::Once);
    let script = Script::own("test.lua", text, &[]);
    let error = Workload::open(script, settings("dance", &[])).expect_err("there is none");
    assert_eq!(error.message, "script \"test.lua\" has no command \"dance\"");
    assert!(error.hint.is_some_and(|hint| hint.contains("cleanup, help, load, run")));
    // a true event stops its client and thread done ends it
    let text = "function event() return true end function thread_done(tid) error('done ' .. tid) end";
    let mut client = Client::new(text);
    client.connect().begin();
    assert!(matches!(client.last, Request::Stop));
    assert!(client.go(Event::Ending).abort().contains("done 1"));
}

#[test]
fn draws_follow_the_distribution_that_was_asked_for() {
    let text = "function event()
        local d, low, high, sum, top = sysbench.rand.default, 1e9, 0, 0, 0
        for _ = 1, 20000 do
           local x = d(1, 1000)
           low, high, sum = math.min(low, x), math.max(high, x), sum + x
           if x <= 10 then top = top + 1 end
        end
        error(string.format('%d %d %.0f %d', low, high, sum / 20000, top), 0)
     end";
    let drawn = |distribution: &str| -> Vec<f64> {
        let mut client = Client::of(&open(text, "run", &[("rand-type", distribution)]));
        client.connect().begin();
        let words = client.abort().lines().next().unwrap_or_default().to_owned();
        words.split(' ').map(|word| word.parse().expect(&words)).collect()
    };
    // least, greatest and mean, and how many of 20000 are among the first ten of a thousand
    let uniform = drawn("uniform");
    assert_eq!((uniform[0], uniform[1]), (1.0, 1000.0));
    assert!((490.0..511.0).contains(&uniform[2]) && (150.0..250.0).contains(&uniform[3]));
    let gaussian = drawn("gaussian");
    assert!((495.0..506.0).contains(&gaussian[2]) && gaussian[3] == 0.0);
    let special = drawn("special");
    assert!((495.0..506.0).contains(&special[2]) && special[3] == 0.0);
    let pareto = drawn("pareto");
    assert!((10.0..200.0).contains(&pareto[2]) && pareto[3] > 8000.0, "{pareto:?}");
    let zipfian = drawn("zipfian");
    // the share of the first ten is a sum of the series, divided by H(1000, 0.8)
    let weight = |n: u32| (1..=n).map(|k| f64::from(k).powf(-0.8)).sum::<f64>();
    let expected = 20_000.0 * weight(10) / weight(1000);
    assert!((zipfian[3] - expected).abs() < 0.05 * expected, "{zipfian:?} {expected}");
}

#[test]
fn special_draws_bounds_and_seeds_are_those_of_sysbench() {
    let text = "function event()
        local counts = { 0, 0, 0, 0, 0, 0, 0 }
        for _ = 1, 40000 do
           local two, five = sysbench.rand.special(1, 2), sysbench.rand.special(1, 5)
           counts[two], counts[2 + five] = counts[two] + 1, counts[2 + five] + 1
        end
        error(table.concat(counts, ' '), 0)
     end";
    let mut client = Client::new(text);
    client.connect().begin();
    let words = client.abort().lines().next().unwrap_or_default().to_owned();
    // shares as sysbench 1.0.20 draws them
    for (count, share) in words.split(' ').zip([0.5, 0.5, 0.0, 0.124, 0.856, 0.020, 0.0]) {
        assert!((count.parse::<f64>().expect(&words) / 40_000.0 - share).abs() < 0.01, "{words}");
    }
    // bounds of draws are numbers of any kind
    let text = "local rand, huge = sysbench.rand, math.huge
        function event()
           assert(rand.uniform(3LL, 3) == 3 and rand.default(7, 7ULL) == 7)
           assert(sb_rand_uniq(4294967000LL, 4294967295) >= 4294967000)
           for _, bounds in ipairs({ { 0.2, 0.8 }, { 0 / 0, 5 }, { 5, 4 }, { -5, -1 } }) do
              local ok, why = pcall(rand.unique, unpack(bounds))
              assert(not ok and why:find('no number of 32 bits'), why)
           end
           assert(#rand.varstring(4LL, 4) == 4)
           rand.zipfian(1, huge)
           rand.zipfian(1, 0 / 0)
        end";
    let mut client = Client::new(text);
    assert!(client.connect().begin().is_done(), "{:?}", client.last);
    // a seed gives the same draws again
    let text = "function event()
        error(sysbench.rand.uniform(1, 1e9) .. sysbench.rand.string('####'), 0) end";
    let drawn = || {
        let mut client = Client::new(text);
        client.connect().begin().abort().to_owned()
    };
    assert_eq!(drawn(), drawn());
}

#[test]
fn a_script_may_begin_with_a_byte_order_mark_and_a_line_for_the_shell() {
    for begin in ["\u{feff}", "#!/usr/bin/env sysbench\n", "# --[[ a script\n", "#[[\n", "\u{feff}#!/bin/x\n"] {
        let text = format!("{begin}function event() error('here') end");
        let script = Script::own("test.lua", &text, &[]);
        script.compile().expect(begin);
        let mut client = Client::new(&text);
        let line = 1 + begin.matches('\n').count();
        assert!(client.connect().begin().abort().starts_with(&format!("test.lua:{line}: here")));
    }
    // texts of a script keep their encoding
    let name = format!("pgdyno-latin1-{}.lua", std::process::id());
    let path = std::env::temp_dir().join(name);
    let text = b"function thread_init() con = sysbench.sql.driver():connect() end
        function event() con:query('SELECT \xe9') end";
    std::fs::write(&path, text).expect("a file");
    let script = Script::find(&path.to_string_lossy()).expect("it is there");
    std::fs::remove_file(&path).expect("it is ours");
    let mut client = Client::of(&Workload::open(script, settings("run", &[])).expect("it is right"));
    client.connect().begin();
    let sent = client.sent.windows(8).any(|bytes| bytes == b"SELECT \xe9");
    assert!(sent, "{}", client.sent());
}

#[test]
fn modules_are_found_beside_the_script_and_have_its_globals() {
    let folder = std::env::temp_dir().join(format!("pgdyno-lua-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("a file");
    write("shared.lua", "#!/usr/bin/sysbench\nfunction event() error(mine) end");
    write("main.lua", "mine = 'of ' .. sysbench.tid\nrequire('shared')\nrequire('shared')");
    let path: PathBuf = folder.join("main");
    let script = Script::find(&path.to_string_lossy()).expect("it is there");
    let mut client = Client::of(&Workload::open(script, settings("run", &[])).expect("it is right"));
    client.connect().begin();
    assert!(client.abort().contains("shared.lua:2: of 1"), "{}", client.abort());
    std::fs::remove_dir_all(&folder).expect("it is ours");
}
