//! Loads into a real server, and the dataset stamps that they leave.
//!
//! Run with `PGDYNO_TEST_DSN` set to a connection string of a database whose owner it names, and `--ignored`.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pgdyno_connect::{Env, Params, Session};
use pgdyno_dataset::dataset_stamp::Reading;
use pgdyno_dataset::{Beginning, Chunks, Dataset, LoadMode, Order, Pieces, Rows, Sbtest, Stamp, Step, Watcher, load};

#[derive(Default)]
struct Heard {
    rows: u64,
    resumed: Option<(u64, u64)>,
    warnings: Vec<String>,
}

impl Watcher for Heard {
    fn step(&mut self, _: Step) {}
    fn step_done(&mut self, _: Step, _: Duration, rows: u64, _: u64) {
        self.rows += rows;
    }
    fn partitions(&mut self, _: usize) {}
    fn rows(&mut self, _: &Rows<'_>) {}
    fn resumable(&mut self) {}
    fn resumed(&mut self, chunks_done: u64, chunks: u64) {
        self.resumed = Some((chunks_done, chunks));
    }
    fn notice(&mut self, _: &str) {}
    fn warning(&mut self, text: &str) {
        self.warnings.push(text.to_owned());
    }
}

fn params() -> Params {
    let dsn = std::env::var("PGDYNO_TEST_DSN").expect("PGDYNO_TEST_DSN is not set");
    Params::resolve(Some(&dsn), &[], &Env::from_process()).expect("a connection string")
}

fn order(beginning: Beginning) -> Order {
    Order {
        steps: Step::DEFAULT.to_vec(),
        mode: LoadMode::Chunks(Chunks { workers: 3, pieces: Pieces::Rows(100), beginning }),
        program_version: "0.0.0",
    }
}

/// Tables that only this test uses, because others may run in the same database.
const SBTEST: Sbtest = Sbtest { tables: 2, table_size: 1_050, seed: 3 };

#[test]
#[ignore = "needs a server: PGDYNO_TEST_DSN"]
fn a_load_is_marked_and_the_stamp_is_trusted_as_long_as_it_is_true() {
    let params = params();
    let mut session = Session::connect(&params).expect("a session");
    let connect = || Session::connect(&params);
    let stop = AtomicBool::new(false);
    let mut heard = Heard::default();
    let anew = order(Beginning::Anew);
    load(&mut session, &connect, &SBTEST, &anew, &stop, &mut heard).expect("a load");
    assert_eq!((heard.rows, heard.warnings), (2_100, Vec::new()));

    let Reading::Stamped(stamp) = Stamp::read(&mut session).expect("an answer") else {
        panic!("no stamp");
    };
    assert_eq!((stamp.dataset.as_str(), stamp.scale, stamp.seed), ("sbtest", 1_050, Some(3)));
    let rows: Vec<u64> = stamp.tables.iter().map(|table| table.rows).collect();
    assert_eq!(rows, [1_050, 1_050]);

    // there is no interrupted load
    let error = load(&mut session, &connect, &SBTEST, &order(Beginning::Resume), &stop, &mut Heard::default())
        .expect_err("nothing to resume");
    assert!(error.to_string().contains("no load was broken off"), "{error}");

    // a table of the same name that was created again is another table
    session.execute("drop table sbtest2; create table sbtest2()").expect("another table");
    let reading = Stamp::read(&mut session).expect("an answer");
    let why = "sbtest2 is not the table that was loaded";
    assert_eq!(reading, Reading::Refused(why.to_owned()));

    // a load that is stopped before it begins has removed the stamp
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    load(&mut session, &connect, &SBTEST, &anew, &stop, &mut Heard::default()).expect_err("stopped");
    assert_eq!(Stamp::read(&mut session).expect("an answer"), Reading::Unstamped);
    for sql in SBTEST.drop_tables() {
        session.execute(&sql).expect("gone");
    }
}
