//! Numbers that are too large for any type, malformed, or not a number: for every option, each is
//! accepted or refused with a message.

use std::panic::catch_unwind;

use super::*;

const NUMBERS: [&str; 27] = [
    "inf", "-inf", "nan", "1e300", "-1e300", "1e-300", "1e19", "2147483647.5", "-1", "0", "-0", "0.5", "1",
    "2147483647", "2147483648", "4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551615",
    "18446744073709551616", "99999999999999999999999999999999", "", " ", "1e", "0x10", "1_000", "\u{bd}",
];

/// The positions of a number within the value of an option.
const FORMS: [fn(&str) -> String; 10] = [
    |number| number.to_owned(),
    |number| format!(" {number} "),
    |number| format!("{number}s"),
    |number| format!("{number}h"),
    |number| format!("exponential:{number}min"),
    |number| format!("1={number}us"),
    |number| format!("x={number}"),
    |number| format!("a@{number}"),
    |number| format!("{number}/3"),
    |number| format!("1/{number}"),
];

#[test]
fn every_option_takes_or_refuses_them() {
    let modes: [&[&str]; 3] = [&["-T9"], &["-i"], &["--tpcc-check"]];
    for called_as in [CalledAs::Pgdrive, CalledAs::Pgbench] {
        for option in syntax(called_as) {
            for value in NUMBERS.iter().flat_map(|n| FORMS.map(|form| form(n))) {
                let given = format!("--{}={value}", option.long);
                for mode in modes {
                    let read = catch_unwind(|| request_as(called_as, &[&[given.as_str()], mode].concat()));
                    if let Err(words) = read.unwrap_or_else(|_| panic!("{given} panics")) {
                        assert!(!words.is_empty(), "{given} is refused without a word");
                    }
                }
            }
        }
    }
}

#[test]
fn times_fit_the_engines_clock() {
    let longest = ["-T2147483647", "--warmup=2147483647"];
    let given = load(&[&longest[..], &["--drain-limit=2147483647", "--lease=2147483647"]].concat());
    let Limit::Duration(duration) = given.limit else { panic!("{:?}", given.limit) };
    let drained = duration + given.warmup + given.drain_limit.unwrap_or_default();
    let ends_ns = u64::try_from(drained.as_nanos()).expect("nanoseconds in 64 bits");
    // added to the uptime of a host and to the greatest -L
    assert!(ends_ns < u64::MAX / 2);
    assert_eq!(load(&["-L", "2147483647000"]).latency_limit, Some(Duration::from_secs(i32::MAX as u64)));
    assert_eq!(load(&["-L", "1e-6"]).latency_limit, Some(Duration::from_nanos(1)));
}

#[test]
fn a_refusal_names_the_limit() {
    for (args, words) in [
        (&["-L1e300"][..], "from 1e-6 to 2147483647000"),
        (&["-L-1"], "from 1e-6 to 2147483647000"),
        (&["-Linf"], "from 1e-6 to 2147483647000"),
        (&["-R1e300"], "from 1e-9 to 1e9"),
        (&["-R1e-300"], "from 1e-9 to 1e9"),
        (&["-T1e300"], "in range 1..2147483647"),
        (&["--warmup=1e300"], "in range 0..2147483647"),
        (&["--drain-limit=-1"], "in range 0..2147483647"),
        (&["--lease=1e300"], "in range 1..2147483647"),
        (&["-P18446744073709551616"], "in range 1..2147483647"),
        (&["-c", "18446744073709551616"], "in range 1..2147483647"),
        (&["-j", "-99999999999999999999"], "in range 1..2147483647"),
        (&["--think-time=1e300s"], "up to a day"),
        (&["--keying-time=25h"], "up to a day"),
        (&["--reconnect=99999999999h"], "up to 366d"),
        (&["--timer-tick=2s"], "from 1us to 1s"),
        (&["--max-tries=4294967296"], "to 4294967295"),
        (&["--sampling-rate=2", "-l"], "up to 1"),
        (&["--percentiles=101"], "up to 100"),
        (&["-i", "--partitions=2147483647"], "in range 0..100000"),
    ] {
        let refused = read(args.iter().map(ToString::to_string).collect(), None, CalledAs::Pgdrive);
        let Err(UsageError::Failure(failure)) = refused else { panic!("{args:?}: {refused:?}") };
        let said = format!("{} {}", failure.message, failure.hint.unwrap_or_default());
        assert!(said.contains(words), "{args:?}: {said}");
    }
}
