//! The least that any engine does: sends ready-made messages to PostgreSQL and waits for each
//! answer, over the engine's poller. No scripts, variables, schedule, histograms or events.
//!
//! `make bench` runs it alternately with pgdrive: the difference is the cost of pgdrive's own work,
//! and the rest is the kernel's. It takes the server from the `PG*` variables and prints as pgbench
//! does.
//!
//! ```text
//! bare_loop select-only|tpcb-like CLIENTS SECONDS SCALE
//! ```

use std::io;
use std::time::{Duration, Instant};

use pgdyno_connect::{Env, Params, Session, Sources};
use pgdyno_engine::clock::{Clock, SECOND};
use pgdyno_engine::poller::{Handler, Next, Poller, Uring};
use pgdyno_wire::frontend;

/// How many messages of each statement are prepared before the load, each with other values.
const VARIANTS: usize = 4096;

/// ReadyForQuery without its last byte, the transaction's state.
const READY: &[u8] = b"Z\0\0\0\x05";

struct Statement {
    name: &'static str,
    sql: &'static str,
    values: fn(&mut Random, u64) -> Vec<u64>,
}

const SELECT: Statement = Statement {
    name: "select",
    sql: "PREPARE \"select\" (int) AS SELECT abalance FROM pgbench_accounts WHERE aid = $1",
    values: |random, scale| vec![random.up_to(100_000 * scale)],
};

const TPCB: [Statement; 7] = [
    Statement { name: "begin", sql: "", values: |_, _| vec![] },
    Statement {
        name: "accounts",
        sql: "PREPARE accounts (int, int) AS UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2",
        values: |random, scale| vec![random.up_to(5000), random.up_to(100_000 * scale)],
    },
    SELECT,
    Statement {
        name: "tellers",
        sql: "PREPARE tellers (int, int) AS UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2",
        values: |random, scale| vec![random.up_to(5000), random.up_to(10 * scale)],
    },
    Statement {
        name: "branches",
        sql: "PREPARE branches (int, int) AS UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2",
        values: |random, scale| vec![random.up_to(5000), random.up_to(scale)],
    },
    Statement {
        name: "history",
        sql: "PREPARE history (int, int, int, int) AS INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) \
              VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)",
        values: |random, scale| {
            vec![random.up_to(10 * scale), random.up_to(scale), random.up_to(100_000 * scale), random.up_to(5000)]
        },
    },
    Statement { name: "end", sql: "", values: |_, _| vec![] },
];

/// Marsaglia's xorshift, which draws a number in about a nanosecond.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn up_to(&mut self, most: u64) -> u64 {
        self.next() % most + 1
    }
}

#[derive(Clone, Copy, Default)]
struct Client {
    statement: usize,
    variant: usize,
    /// The last bytes received, because the end of an answer may arrive in parts.
    tail: [u8; 6],
}

struct Loop {
    /// Indexed by statement and variant.
    messages: Vec<Vec<Vec<u8>>>,
    clients: Vec<Client>,
    random: Random,
    transactions: u64,
    running: bool,
    live: usize,
}

impl Handler for Loop {
    fn received(&mut self, token: usize, bytes: &[u8]) -> Next {
        let client = &mut self.clients[token];
        let fresh = bytes.len().min(6);
        client.tail.rotate_left(fresh);
        client.tail[6 - fresh..].copy_from_slice(&bytes[bytes.len() - fresh..]);
        if !client.tail.starts_with(READY) {
            return Next::Wait;
        }
        client.tail = [0; 6];
        client.statement += 1;
        if client.statement == self.messages.len() {
            client.statement = 0;
            self.transactions += 1;
            if !self.running {
                self.live -= 1;
                return Next::Wait;
            }
        }
        client.variant = self.random.next() as usize % VARIANTS;
        Next::Send
    }

    fn closed(&mut self, token: usize, why: Option<io::Error>) {
        panic!("connection {token} ended: {why:?}");
    }

    fn outgoing(&self, token: usize) -> &[u8] {
        let client = &self.clients[token];
        &self.messages[client.statement][client.variant]
    }
}

fn message(statement: &Statement, random: &mut Random, scale: u64) -> Vec<u8> {
    let texts: Vec<String> = (statement.values)(random, scale).iter().map(u64::to_string).collect();
    let mut out = Vec::new();
    frontend::bind(&mut out, "", statement.name, texts.iter().map(|text| Some(text.as_bytes())))
        .and_then(|()| frontend::execute(&mut out, "", 0))
        .expect("names and values are short");
    frontend::sync(&mut out);
    out
}

/// BEGIN and END cannot be prepared, so they go as Query messages.
fn plain(sql: &str) -> Vec<u8> {
    let mut out = Vec::new();
    frontend::query(&mut out, sql).expect("a word");
    out
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, load, clients, seconds, scale] = &words[..] else {
        panic!("usage: bare_loop select-only|tpcb-like CLIENTS SECONDS SCALE");
    };
    let (clients, seconds, scale): (usize, u64, u64) =
        (clients.parse().expect("clients"), seconds.parse().expect("seconds"), scale.parse().expect("scale"));
    let statements = if load == "select-only" { &[SELECT][..] } else { &TPCB[..] };
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let messages = statements
        .iter()
        .map(|statement| {
            (0..VARIANTS)
                .map(|_| match statement.name {
                    "begin" | "end" => plain(statement.name),
                    _ => message(statement, &mut random, scale),
                })
                .collect()
        })
        .collect();
    let mut state = Loop {
        messages,
        clients: vec![Client::default(); clients],
        random,
        transactions: 0,
        running: true,
        live: clients,
    };

    let began = Instant::now();
    let params = Params::resolve_from(Sources::default(), &Env::from_process()).expect("PG* variables");
    let clock = Clock::start();
    let mut poller = Uring::new(clients, clock).expect("io_uring");
    for token in 0..clients {
        let mut session = Session::connect(&params).expect("a session");
        for statement in statements.iter().filter(|each| !each.sql.is_empty()) {
            session.simple_query(statement.sql).expect("PREPARE");
        }
        let transport = session.into_transport().expect("a socket");
        poller.add(token, transport.socket).expect("a watched socket");
    }
    let connecting = began.elapsed();

    let start = Instant::now();
    for token in 0..clients {
        poller.send(token, &mut state);
    }
    while state.live > 0 {
        poller.wait(Some(clock.now() + SECOND), &mut state).expect("waiting");
        state.running &= start.elapsed() < Duration::from_secs(seconds);
    }
    let took = start.elapsed().as_secs_f64();
    println!("number of transactions actually processed: {}", state.transactions);
    println!("initial connection time = {:.3} ms", connecting.as_secs_f64() * 1e3);
    println!("tps = {:.6}", state.transactions as f64 / took);
}
