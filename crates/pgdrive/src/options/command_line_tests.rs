//! Command lines and their results.

use std::time::Duration;

use pgdyno_dataset::Step;
use pgdyno_dataset::pgbench::{Method, Partitions, Persistence, Schema};
use pgdyno_engine::log_spec::Detail;
use pgdyno_engine::schedule::Arrivals;
use pgdyno_engine::spec::{Limit, OnLoss, Pipelining, Tries};
use pgdyno_script::QueryMode;

use super::initialize_options::DatasetChoice;
use super::log_options::LogChoice;
use super::*;
use crate::percentiles::Percentiles;
use crate::worker_options::Workers;

mod odd_numbers;

fn request(args: &[&str]) -> Result<Request, String> {
    request_as(CalledAs::Pgdrive, args)
}

fn request_as(called_as: CalledAs, args: &[&str]) -> Result<Request, String> {
    let args = args.iter().map(ToString::to_string).collect();
    read(args, None, called_as).map_err(|error| match error {
        UsageError::Getopt(text) => text,
        UsageError::Failure(failure) => failure.message,
    })
}

#[test]
fn seeds_scram_keys_and_reconnecting_are_resolved() {
    for (text, expected) in [
        ("0", Some(0)),
        (" +7", Some(7)),
        ("-1", Some(u64::MAX)),
        ("-2", Some(u64::MAX - 1)),
        ("18446744073709551616", Some(u64::MAX)),
        ("", None),
        ("-", None),
        ("1 ", None),
        ("1.5", None),
        ("- 1", None),
    ] {
        assert_eq!(seed(text, "test").ok(), expected.map(Seed::Fixed), "{text:?}");
    }
    let keys = |called_as, args: &[&str]| match request_as(called_as, args) {
        Ok(Request::Benchmark(benchmark)) => benchmark.connection.scram_keys,
        other => panic!("{other:?}"),
    };
    assert_eq!(keys(CalledAs::Pgdrive, &[]), ScramKeys::Kept);
    assert_eq!(keys(CalledAs::Pgdrive, &["--scram-cache=on"]), ScramKeys::Kept);
    assert_eq!(keys(CalledAs::Pgdrive, &["--scram-cache=off"]), ScramKeys::Derived);
    assert_eq!(keys(CalledAs::Pgbench, &[]), ScramKeys::Derived);
    let patience = |seconds| OnLoss::Reconnect { patience: Some(Duration::from_secs(seconds)) };
    assert_eq!(load(&[]).on_loss, OnLoss::Abort);
    assert_eq!(load(&["-C", "--count-refusals"]).on_loss, OnLoss::Count);
    assert_eq!(load(&["--reconnect"]).on_loss, patience(60));
    assert_eq!(load(&["--reconnect=2min"]).on_loss, patience(120));
    assert_eq!(load(&["--reconnect=90"]).on_loss, patience(90));
    assert_eq!(load(&["--reconnect=always"]).on_loss, OnLoss::Reconnect { patience: None });
    assert_eq!(load(&["--reconnect", "-T", "5"]).on_loss, OnLoss::Reconnect { patience: None });
}

fn load(args: &[&str]) -> Benchmark {
    match request(args) {
        Ok(Request::Benchmark(benchmark)) => *benchmark,
        other => panic!("not a benchmark: {other:?}"),
    }
}

#[test]
fn defaults_and_a_usual_line_are_pgbenchs() {
    let plain = load(&[]);
    assert_eq!((plain.clients, plain.limit), (1, Limit::Transactions(10)));
    assert_eq!(plain.workers, Workers::Automatic { most: usize::MAX });
    assert_eq!(plain.scripts[0].origin, Origin::Builtin("tpcb-like".into()));
    assert_eq!((plain.busy_share, plain.pipelining), (0.7, Pipelining::Explicit));
    assert_eq!((plain.mode, plain.tries, plain.vacuum), (QueryMode::Simple, Tries::AtMost(1), Vacuum::Small));
    let usual = load(&["-c64", "-j", "100", "-T", "30", "-M", "prepared", "-S", "-f", "a@b.sql@3", "bench"]);
    assert_eq!((usual.clients, usual.workers), (64, Workers::Fixed(100)));
    assert_eq!(usual.limit, Limit::Duration(Duration::from_secs(30)));
    assert_eq!(usual.scripts[1], ScriptChoice { origin: Origin::File("a@b.sql".into()), weight: 3 });
    assert_eq!(usual.connection.dbname.as_deref(), Some("bench"));
    // logs
    let log = load(&["-l", "--log-prefix=x", "--aggregate-interval=2", "-T", "4"]).log;
    assert_eq!(log, Some(LogChoice { prefix: "x".into(), detail: Detail::Interval { length_s: 2 } }));
    let plain = LogChoice { prefix: "pgbench_log".into(), detail: Detail::Transaction { sampling_rate: 1.0 } };
    assert_eq!(load(&["--log"]).log, Some(plain));
    assert_eq!(load(&[]).log, None);
}

#[test]
fn arrivals_and_timers_are_resolved() {
    let rate_per_s = 5.0;
    let default = load(&["-R5"]);
    assert_eq!(default.arrivals, Arrivals::Poisson { rate_per_s });
    assert_eq!(default.timer_tick, Duration::ZERO);
    let regular = load(&["-R5", "--arrivals=regular", "--timer-tick=500us"]);
    assert_eq!(regular.arrivals, Arrivals::Regular { rate_per_s });
    assert_eq!(regular.timer_tick, Duration::from_micros(500));
    // unlimited tries are allowed for loads that end by time, as those with phases do
    let endless = load(&["--phases=f", "--max-tries=0", "--auto-pipeline"]);
    assert_eq!((endless.tries, endless.pipelining), (Tries::Unlimited, Pipelining::Auto));
    assert_eq!(load(&["-T", "2.5"]).limit, Limit::Duration(Duration::from_millis(2500)));
    let given = load(&["--think-time=1s", "--keying-time=exponential:2s", "--think-time=1=5ms"]);
    assert_eq!((given.pacing.think.len(), given.pacing.keying.len()), (2, 1));
}

/// Asserts the complaint about each line of `arguments => complaint`; `''` is an empty argument.
fn assert_refused(called_as: CalledAs, lines: &str) {
    for line in lines.trim().lines() {
        let (args, complaint) = line.split_once(" => ").expect("an arrow");
        let args: Vec<&str> = args.split(' ').map(|arg| if arg == "''" { "" } else { arg }).collect();
        assert_eq!(request_as(called_as, &args), Err(complaint.to_owned()), "{args:?}");
    }
}

#[test]
fn what_does_not_go_together_or_is_not_utf8_is_refused() {
    assert_refused(CalledAs::Pgdrive, COMPLAINTS);
    // a replay takes its load from its file
    for other in [
        "-c4", "-R4", "-t4", "-fx.sql", "--phases=x.toml", "--part=1/2", "--lua=x.lua", "--workload=tpcc",
        "--warmup=1 -T2", "--reconnect",
    ] {
        let args: Vec<&str> = other.split(' ').chain(["--replay=f"]).collect();
        let refused = request(&args).expect_err("it excludes a replay");
        assert!(refused.ends_with(" cannot be used with --replay"), "{other:?}: {refused}");
    }
    // a word that is not utf8 is refused
    use std::os::unix::ffi::OsStringExt;
    let args = ["-D", "x=caf\u{e9}"].map(|word| {
        let latin1 = word.chars().map(|c| c as u8).collect();
        OsString::from_vec(latin1)
    });
    let error = words(args.into_iter()).expect_err("it is not UTF-8");
    let UsageError::Failure(failure) = error else { panic!("{error:?}") };
    assert_eq!(failure.message, "command-line argument \"x=caf\u{fffd}\" is not UTF-8");
}

const COMPLAINTS: &str = r#"
-c 0 => -c/--client must be in range 1..2147483647
-c x => invalid value "x" for option -c/--client
-M odd => invalid query mode (-M): "odd"
-t1 -T1 => specify either a number of transactions (-t) or a duration (-T), not both
-D x => invalid variable definition: "x"
--io poll => invalid I/O method (--io): "poll"
-R1 --arrivals=uniform => invalid arrivals (--arrivals): "uniform"
--arrivals=regular => --arrivals needs a rate
--timer-tick=1 => invalid value "1" for option --timer-tick
--timer-tick=2s => invalid value "2s" for option --timer-tick
--phases=f -T1 => -T/--time cannot be used with --phases
--phases=f -t1 => -t/--transactions cannot be used with --phases
--phases=f -R1 => -R/--rate cannot be used with --phases
--phases=f --warmup=1 => --warmup cannot be used with --phases
--phases=f --think-time=1ms => --think-time cannot be used with --phases
-f a@x => invalid weight specification: @x
-b s@0 => total script weight must not be zero
-j1 --max-workers=2 => specify either a number of threads (-j) or their limit (--max-workers), not both
--max-workers=0 => --max-workers must be in range 1..2147483647
--worker-busy=101 => --worker-busy must be in range 1..100
-i -S => some of the specified options cannot be used in initialization (-i) mode
-F 50 => some of the specified options cannot be used in benchmarking mode
a b => too many command-line arguments (first is "b")
-i -I dx => unrecognized initialization step "x"
-i -I '' => no initialization steps specified
-i --partition-method=hash => --partition-method requires greater than zero --partitions
-i --partition-method=list => invalid partition method, expecting "range" or "hash", got: "list"
-i --partitions=-1 => --partitions must be in range 0..2147483647
--foreign-keys => some of the specified options cannot be used in benchmarking mode
--max-tries=0 => an unlimited number of transaction tries can only be used with --latency-limit or a duration (-T)
-L -1 => invalid latency limit: "-1"
--sampling-rate=0.5 => log sampling (--sampling-rate) is allowed only when logging transactions (-l)
-l --sampling-rate=1.1 => invalid sampling rate: "1.1"
-l --sampling-rate=1 --aggregate-interval=1 => log sampling (--sampling-rate) and aggregation (--aggregate-interval) cannot be used at the same time
--aggregate-interval=1 => log aggregation is allowed only when actually logging transactions
--log-prefix=x => log file prefix (--log-prefix) is allowed only when logging transactions (-l)
-l --aggregate-interval=6 -T5 => number of seconds for aggregation (6) must not be higher than test duration (5)
-l --aggregate-interval=2 -T5 => duration (5) must be a multiple of aggregation interval (2)
--progress-timestamp => --progress-timestamp is allowed only under --progress
-S --percentiles=101 => invalid percentile: "101"
--workload=tpcc -S => -S/--select-only cannot be used with --workload=tpcc
--workload=tpcc --tpcc-variant=fast => unrecognized TPC-C variant: "fast"
--workload=tpcc --tpcc-pauses=maybe => invalid value of --tpcc-pauses: "maybe"
--workload=tpcc --order-line-partitions=2 => --order-line-partitions can only be used with -i
--workload=tpcc --tpcc-pauses=on -R100 => TPC-C's keying and think times cannot be used with a rate (-R/--rate)
--workload=tpcc --tpcc-check => --workload cannot be used with -i or --tpcc-check
-i --dataset=tpch --scale-factor=0.001 => invalid scale factor "0.001"
-i --scale-factor=1 => --scale-factor can only be used with --dataset=tpch
--scale-factor=1 => --scale-factor can only be used with -i or --tpch-queries
--workload=tpch -T5 => -T/--time cannot be used with --workload=tpch
--workload=tpch -R5 => -R/--rate cannot be used with --workload=tpch
--tpch-queries=x => invalid stream "x"
--reconnect=soon => invalid time (--reconnect): "soon"
--reconnect=0 => invalid time (--reconnect): "0"
-i --reconnect => some of the specified options cannot be used in initialization (-i) mode
--count-refusals => --count-refusals is allowed only under --connect
-C --count-refusals --reconnect => --count-refusals cannot be used with --reconnect
-R5 --think-time=1s => --think-time cannot be used with a rate (-R/--rate)
-R5 --keying-time=1s => --keying-time cannot be used with a rate (-R/--rate)
-R5 --keying-time=soon => invalid time for --keying-time: "soon"
--replay=f --pace=0 => invalid argument of --pace: "0"
-i --replay=f => some of the specified options cannot be used in initialization (-i) mode
--workload=tpcc -Mprepared => -M/--protocol cannot be used with --workload=tpcc
--workload=tpcc --auto-pipeline => --auto-pipeline cannot be used with --workload=tpcc
--workload=tpcc -Dscale=3 => -D/--define cannot be used with --workload=tpcc
--workload=tpch -Mprepared => -M/--protocol cannot be used with --workload=tpch
--workload=tpch --auto-pipeline => --auto-pipeline cannot be used with --workload=tpch
--workload=tpch -Dscale=3 => -D/--define cannot be used with --workload=tpch
--lua=a -S => -S/--select-only cannot be used with --lua and --workload
--lua=a -M prepared => -M/--protocol cannot be used with --lua and --workload
--lua=a --workload=oltp-insert => give one --lua or --workload: a load has one Lua script
--lua=a --tables=3 => --tables and --table-size cannot be used with --lua
--lua-opt a=1 => --lua-opt and --lua-command need --lua or --workload
--lua=a --check=twice => invalid argument of --check: "twice"
--lua=a --lua-opt a => invalid option of a script: "a"
-i --dataset=tpcds => unrecognized dataset "tpcds"
-i --dataset=tpch -s2 => --scale can only be used with --dataset=pgbench
-i --dataset=tpcc -s2 => --scale can only be used with --dataset=pgbench
-i --warehouses=2 => --warehouses can only be used with --dataset=tpcc
-i --dataset=tpcc --warehouses=2 --order-line-partitions=3 => --order-line-partitions requires at least as many warehouses as partitions
-i --dataset=tpcc --tpcc-profile=tpc => unrecognized TPC-C profile: "tpc"
-i --dataset=sbtest -s2 => --scale can only be used with --dataset=pgbench
-i --tables=2 => --tables can only be used with --dataset=sbtest
-i --random-seed=2 => --random-seed can only be used with --dataset=sbtest or --dataset=tpcc
-i --dataset=sbtest --random-seed=time => a load needs a number as its random seed, so that it can be repeated
-i --load-workers=0 => --load-workers must be in range 1..1000
"#;

#[test]
fn pgbench_does_not_know_what_is_ours() {
    assert_refused(CalledAs::Pgbench, OF_PGBENCH);
    for ours in ["--auto-pipeline", "--arrivals", "--phases", "--timer-tick"] {
        assert!(crate::help::text("pgdrive").contains(ours));
        assert!(!crate::help::text("pgbench").contains(ours));
    }
}

const OF_PGBENCH: &str = r#"
-T 2.5 => invalid value "2.5" for option -T/--time
--auto-pipeline => unrecognized option '--auto-pipeline'
--arrivals=x => unrecognized option '--arrivals'
--phases=x => unrecognized option '--phases'
--timer-tick=x => unrecognized option '--timer-tick'
--a=5 => log aggregation is allowed only when actually logging transactions
--think-time=1s => unrecognized option '--think-time'
--lua=a => unrecognized option '--lua'
-i --random-seed=2 => some of the specified options cannot be used in initialization (-i) mode
-i --dataset=x => unrecognized option '--dataset'
-i --tables => option '--tablespace' requires an argument
-i --table-size=x => unrecognized option '--table-size'
-i --load-workers=x => unrecognized option '--load-workers'
-i --load-chunk=x => unrecognized option '--load-chunk'
-i --resume => unrecognized option '--resume'
"#;

fn init(args: &[&str]) -> Initialize {
    match request(&[&["-i"], args].concat()) {
        Ok(Request::Initialize(init)) => *init,
        other => panic!("{other:?}"),
    }
}

#[test]
fn steps_of_initialization_are_resolved() {
    use Step::{CreateTables, Drop, ForeignKeys, GenerateHere, PrimaryKeys, Vacuum};
    for (args, steps) in [
        (&[][..], &[Drop, CreateTables, GenerateHere, Vacuum, PrimaryKeys][..]),
        (&["-n"], &[Drop, CreateTables, GenerateHere, PrimaryKeys]),
        (&["-n", "-I", "v d v "], &[Drop]),
        (&["-I", " "], &[]),
        (&["-I", "pf", "--foreign-keys"], &[PrimaryKeys, ForeignKeys]),
        (&["-I", "dv", "--foreign-keys"], &[Drop, Vacuum, ForeignKeys]),
    ] {
        assert_eq!(init(args).steps, steps, "{args:?}");
    }
}

#[test]
fn the_schema_is_complete() {
    let plain = Schema {
        scale: 1,
        fillfactor: 100,
        persistence: Persistence::Logged,
        partitions: None,
        tablespace: None,
        index_tablespace: None,
    };
    let schema = |args: &[&str]| match init(args).dataset {
        DatasetChoice::Pgbench(schema) => schema,
        other => panic!("{other:?}"),
    };
    assert_eq!(schema(&[]), plain);
    let by = |method, count| Some(Partitions { method, count });
    let partitions = |args: &[&str]| schema(args).partitions;
    assert_eq!(partitions(&["--partitions=0"]), None);
    assert_eq!(partitions(&["--partitions=4"]), by(Method::Range, 4));
    assert_eq!(partitions(&["--partitions=4", "--partition-method=HASH"]), by(Method::Hash, 4));
    let all = ["-s7", "-F50", "--unlogged-tables", "--tablespace=a", "--index-tablespace=b"];
    let expected = Schema {
        scale: 7,
        fillfactor: 50,
        persistence: Persistence::Unlogged,
        partitions: None,
        tablespace: Some("a".into()),
        index_tablespace: Some("b".into()),
    };
    assert_eq!(schema(&all), expected);
}

#[test]
fn an_optional_argument_may_follow_after_a_space() {
    let given = load(&["--percentiles", "50,99", "--reconnect", "60s", "bench"]);
    assert_eq!(given.connection.dbname.as_deref(), Some("bench"));
    assert_eq!(given.percentiles, Some(Percentiles::parse("50,99").expect("a list")));
    let patience = Some(Duration::from_secs(60));
    assert_eq!(given.on_loss, OnLoss::Reconnect { patience });
    for option in ["--percentiles", "--reconnect"] {
        for database in ["bench", "2024_bench", "host=10.0.0.1", "postgresql://h/50"] {
            assert_eq!(load(&[option, database]).connection.dbname.as_deref(), Some(database));
        }
    }
}

fn lua(load: &Benchmark) -> &LuaChoice {
    match &load.workload {
        WorkloadChoice::Lua(choice) => choice,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lua_script_is_the_only_script_of_its_load() {
    let inserts = load(&["--lua", "oltp_insert", "--lua-opt", "tables=4", "-c", "8"]);
    let choice = lua(&inserts);
    assert_eq!(choice.source, LuaSource::File("oltp_insert".into()));
    assert_eq!(choice.command, "run");
    assert_eq!(choice.options, [("tables".to_owned(), "4".to_owned())]);
    assert_eq!(inserts.scripts.len(), 1);
    assert_eq!(inserts.scripts[0].origin, Origin::Lua("oltp_insert".into()));
    assert_eq!(inserts.tries, Tries::Unlimited);
    assert!(matches!(inserts.workers, Workers::Automatic { .. }));
    // sizes of tables are options of a workload
    let sized = load(&["--workload=oltp-insert", "--tables=4", "--table-size=50"]);
    let size = ("table_size".to_owned(), "50".to_owned());
    assert_eq!(lua(&sized).options, [("tables".to_owned(), "4".to_owned()), size]);
    assert_eq!(load(&["--lua=a"]).check, None);
    assert_eq!(load(&["--lua=a", "--check"]).check, Some(Check::Compile));
    assert_eq!(load(&["--lua=a", "--check=execute"]).check, Some(Check::Execute));
    assert_eq!(load(&["--check=statements"]).check, Some(Check::Statements));
}
