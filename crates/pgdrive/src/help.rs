//! The options with their help, in the order and layout of PostgreSQL's programs.

use crate::called_as::CalledAs;
use crate::getopt::{OPTIONAL, Opt, no_word};
use crate::{options, percentiles};

/// Options of `-i`.
pub const INITIALIZE: &[Opt] = &[
    opt("initialize", 'i', "invokes initialization mode"),
    arg(
        "init-steps",
        'I',
        "[dtgGvpf]+ (default \"dtgvp\")",
        "run selected initialization steps, in this order\n\
         d: drop any existing pgbench tables\n\
         t: create the four tables of pgbench\n\
         g: generate data, client-side\n\
         G: generate data, server-side\n\
         v: invoke VACUUM on the tables\n\
         p: create primary key indexes on the tables\n\
         f: create foreign keys between the tables",
    ),
    arg("fillfactor", 'F', "NUM", "set fill factor"),
    opt("no-vacuum", 'n', "do not run VACUUM during initialization"),
    opt("quiet", 'q', "quiet logging (one message each 5 seconds)"),
    arg("scale", 's', "NUM", "scaling factor"),
    long(
        "foreign-keys",
        "create foreign key constraints between tables",
    ),
    long_arg(
        "index-tablespace",
        "TABLESPACE",
        "create indexes in the specified tablespace",
    ),
    long_arg(
        "partition-method",
        "(range|hash)",
        "partition pgbench_accounts with this method\n(default: range)",
    ),
    long_arg(
        "partitions",
        "NUM",
        "partition pgbench_accounts into NUM parts\n(default: 0)",
    ),
    long_arg(
        "tablespace",
        "TABLESPACE",
        "create tables in the specified tablespace",
    ),
    long("unlogged-tables", "create tables as unlogged tables"),
    long_arg(
        "dataset",
        "pgbench|sbtest|tpcc",
        "tables of pgbench, of sysbench's oltp scripts or of\nTPC-C (default: pgbench)",
    ),
    long_arg(
        "tables",
        "NUM",
        "number of tables of dataset sbtest (default: 1)",
    ),
    long_arg(
        "table-size",
        "NUM",
        "rows in each table of dataset sbtest\n(default: 10000)",
    ),
    long_arg(
        "load-workers",
        "NUM",
        "load over NUM connections (default: as many as CPUs,\nat most 8, a table or partition each)",
    ),
    long_arg(
        "load-chunk",
        "NUM",
        "commit each NUM rows, so that the load can be resumed\nwithin a table (0: tables as wholes, frozen)",
    ),
    long(
        "resume",
        "go on with a load that was broken off, begun with the\nsame options",
    ),
];

/// Options of a load.
pub const BENCHMARK: &[Opt] = &[
    arg(
        "builtin",
        'b',
        "NAME[@W]",
        "add builtin script NAME weighted at W (default: 1)\n(use \"-b list\" to list available scripts)",
    ),
    arg(
        "file",
        'f',
        "FILENAME[@W]",
        "add script FILENAME weighted at W (default: 1)",
    ),
    opt(
        "skip-some-updates",
        'N',
        "skip updates of pgbench_tellers and pgbench_branches\n(same as \"-b simple-update\")",
    ),
    opt(
        "select-only",
        'S',
        "perform SELECT-only transactions\n(same as \"-b select-only\")",
    ),
    arg(
        "client",
        'c',
        "NUM",
        "number of concurrent database clients (default: 1)",
    ),
    opt(
        "connect",
        'C',
        "establish new connection for each transaction",
    ),
    arg(
        "define",
        'D',
        "VARNAME=VALUE",
        "define variable for use by custom script",
    ),
    arg(
        "jobs",
        'j',
        "NUM",
        "number of threads (default: as few as carry the\nload; 1 if called pgbench)",
    ),
    opt("log", 'l', "write transaction times to log file"),
    arg(
        "latency-limit",
        'L',
        "NUM",
        "count transactions lasting more than NUM ms as late",
    ),
    arg(
        "protocol",
        'M',
        "simple|extended|prepared",
        "protocol for submitting queries (default: simple)",
    ),
    opt("no-vacuum", 'n', "do not run VACUUM before tests"),
    arg(
        "progress",
        'P',
        "NUM",
        "show thread progress report every NUM seconds",
    ),
    opt(
        "report-per-command",
        'r',
        "report latencies, failures, and retries per command",
    ),
    arg("rate", 'R', "NUM", "target rate in transactions per second"),
    arg(
        "scale",
        's',
        "NUM",
        "scaling factor: with -i, of the tables; else reported\nfor custom scripts",
    ),
    arg(
        "transactions",
        't',
        "NUM",
        "number of transactions each client runs (default: 10)",
    ),
    arg("time", 'T', "NUM", "duration of benchmark test in seconds"),
    opt(
        "vacuum-all",
        'v',
        "vacuum all four standard tables before tests",
    ),
    long_arg(
        "aggregate-interval",
        "NUM",
        "aggregate data over NUM seconds",
    ),
    long("continue-on-error", "continue running after an SQL error"),
    long("exit-on-abort", "exit when any client is aborted"),
    long(
        "failures-detailed",
        "report the failures grouped by basic types",
    ),
    long_arg(
        "log-prefix",
        "PREFIX",
        "prefix for transaction time log file\n(default: \"pgbench_log\")",
    ),
    long_arg(
        "max-tries",
        "NUM",
        "max number of tries to run transaction (default: 1)",
    ),
    long(
        "progress-timestamp",
        "use Unix epoch timestamps for progress",
    ),
    long_arg(
        "random-seed",
        "SEED",
        "set random seed (\"time\", \"rand\", integer)",
    ),
    long_arg(
        "sampling-rate",
        "NUM",
        "fraction of transactions to log (e.g., 0.01 for 1%)",
    ),
    long_arg("show-script", "NAME", "show builtin script code, then exit"),
    long("verbose-errors", "print messages of all errors"),
    long_maybe(
        "percentiles",
        "[=LIST]",
        percentiles::is_list,
        "show latency percentiles (default:\n50,90,95,99,99.9,99.99), with -r also per statement",
    ),
    long_arg(
        "histogram",
        "FILE",
        "write an HdrHistogram interval log, one line a second",
    ),
    long_arg(
        "lua",
        "SCRIPT",
        "run a Lua script of sysbench: a file, or one that is\ninstalled with it (oltp_read_write)",
    ),
    long_arg(
        "lua-command",
        "COMMAND",
        "run (default), prepare, cleanup, prewarm, help or\na command of the script",
    ),
    long_arg("lua-opt", "NAME=VALUE", "set an option of the script"),
    long(
        "allow-lua-system",
        "trust the Lua script: let it start programs, write\nfiles and call C",
    ),
    long_arg(
        "workload",
        "NAME",
        "run a workload of sysbench's, on dataset sbtest\n(oltp-read-write, oltp-point-select...; with --tables\nand --table-size), or tpcc: see TPC-C options",
    ),
    long_arg("json", "FILE", "write the results as one JSON object"),
    long_arg(
        "warmup",
        "SECONDS",
        "load before measuring begins, left out of all results",
    ),
    long(
        "auto-pipeline",
        "send statements that need no earlier result in one\nround trip",
    ),
    long_arg(
        "keying-time",
        "[SCRIPT=]TIME",
        "pause before every transaction (100ms, 2s, fixed:2s,\nexponential:12s), of all scripts or one by name or\nnumber; latency counts from its end",
    ),
    long_arg(
        "think-time",
        "[SCRIPT=]TIME",
        "pause after every transaction, likewise",
    ),
    long_arg(
        "drain-limit",
        "SECONDS",
        "abort clients busy so long after -T (default: 60)",
    ),
    long_arg(
        "io",
        "auto|epoll|io_uring",
        "how the kernel is asked for replies (default: auto)",
    ),
    long_maybe(
        "reconnect",
        "[=TIME]",
        options::is_patience,
        "a client that loses its connection comes back, or\nis aborted after TIME (60s, 500ms; default: the run's\nend, with -t 60s)",
    ),
    long(
        "ledger",
        "leave the number of every write transaction in the\ntable pgdyno_ledger, and say which were acknowledged",
    ),
    long_arg(
        "arrivals",
        "poisson|regular",
        "how starts at a rate are spaced (default: poisson)",
    ),
    long_arg(
        "timer-tick",
        "TIME",
        "wake sleeping clients at multiples of TIME (\"1ms\"):\nless CPU, more schedule lag (default: each exactly)",
    ),
    long_arg(
        "phases",
        "FILE",
        "change rate, clients and scripts over time as the\nTOML file says",
    ),
    long_arg(
        "events",
        "FILE",
        "write what happens as JSON Lines (\"-\": to standard\noutput, and the summary to standard error)",
    ),
    long_arg(
        "max-workers",
        "NUM",
        "most threads when their number is automatic (default:\n\
         the cores, half of them beside a server on this host)",
    ),
    long_arg(
        "worker-busy",
        "PERCENT",
        "use of a core above which a thread is too busy, and\n\
         another is added or a warning given (default: 70)",
    ),
    long_maybe(
        "check",
        "[=execute]",
        no_word,
        "read and compile the scripts, then exit; with execute\n\
         also run a Lua script's top level and its init()",
    ),
    long("parent-lease", "stop when standard input closes"),
    long_arg(
        "lease",
        "SECONDS",
        "likewise, and when no line has come for so long",
    ),
    long_arg(
        "part",
        "K/N",
        "be generator K of N that make one load together: of\n-c clients and of the rate take that part",
    ),
    long(
        "await-start",
        "when connected, wait for a line \"start INSTANT\" on\nstandard input, in microseconds since 1970",
    ),
];

/// Options of TPC-C.
pub const TPCC: &[Opt] = &[
    long_arg(
        "tpcc-profile",
        "hammerdb|spec",
        "go by HammerDB's rules or by the standard's\n(default: hammerdb)",
    ),
    long_arg(
        "tpcc-variant",
        "VARIANT",
        "how transactions reach the server: functions,\nprocedures, sql or sql-pipelined (default: functions)",
    ),
    long_arg(
        "warehouses",
        "NUM",
        "warehouses to make (default: 1), or to use (default:\nall that the database has)",
    ),
    long(
        "all-warehouses",
        "a client draws its warehouse for each transaction",
    ),
    long_arg(
        "tpcc-pauses",
        "on|off",
        "keying and think time as the standard has it\n(default: on for spec, off for hammerdb)",
    ),
    long_arg(
        "order-line-partitions",
        "NUM",
        "with -i: partition order_line into NUM ranges of\nwarehouses (default: none)",
    ),
    long(
        "tpcc-check",
        "check the standard's consistency conditions 1 to 4,\nwith -i after the load; exit with 3 if one is broken",
    ),
    long("thorough", "with --tpcc-check: all 12 conditions"),
];

/// Options that a program called pgbench does not have: results with them are no pgbench results,
/// and loads no pgbench loads.
const NOT_PGBENCHS: [&str; 22] = [
    "allow-lua-system",
    "arrivals",
    "auto-pipeline",
    "await-start",
    "dataset",
    "keying-time",
    "lease",
    "ledger",
    "load-chunk",
    "load-workers",
    "lua",
    "lua-command",
    "lua-opt",
    "part",
    "phases",
    "resume",
    "scram-cache",
    "table-size",
    "tables",
    "think-time",
    "timer-tick",
    "workload",
];

/// Whether the program has the option under this name.
#[must_use]
pub fn is_known_as(called_as: CalledAs, option: &Opt) -> bool {
    let is_ours = |option: &Opt| {
        NOT_PGBENCHS.contains(&option.long) || TPCC.iter().any(|known| known.long == option.long)
    };
    called_as != CalledAs::Pgbench || !is_ours(option)
}

/// Options of both.
pub const COMMON: &[Opt] = &[
    arg(
        "dbname",
        'd',
        "DBNAME",
        "database name or connection string",
    ),
    arg(
        "host",
        'h',
        "HOSTNAME",
        "database server host or socket directory",
    ),
    arg("port", 'p', "PORT", "database server port number"),
    arg(
        "username",
        'U',
        "USERNAME",
        "connect as specified database user",
    ),
    long_arg(
        "scram-cache",
        "on|off",
        "keep the keys that SCRAM derives from the password\nfor further connections (default: on)",
    ),
    long("debug", "print debugging output"),
    opt("version", 'V', "output version information, then exit"),
    opt("help", '?', "show this help, then exit"),
];

const fn opt(long: &'static str, short: char, help: &'static str) -> Opt {
    Opt {
        long,
        short: Some(short),
        argument: None,
        help,
        is_argument: no_word,
    }
}

const fn arg(long: &'static str, short: char, argument: &'static str, help: &'static str) -> Opt {
    Opt {
        long,
        short: Some(short),
        argument: Some(argument),
        help,
        is_argument: no_word,
    }
}

const fn long(long: &'static str, help: &'static str) -> Opt {
    Opt {
        long,
        short: None,
        argument: None,
        help,
        is_argument: no_word,
    }
}

const fn long_arg(long: &'static str, argument: &'static str, help: &'static str) -> Opt {
    Opt {
        long,
        short: None,
        argument: Some(argument),
        help,
        is_argument: no_word,
    }
}

/// An option whose argument may be left out.
const fn long_maybe(
    long: &'static str,
    argument: &'static str,
    is_argument: fn(&str) -> bool,
    help: &'static str,
) -> Opt {
    Opt {
        long,
        short: None,
        argument: Some(argument),
        help,
        is_argument,
    }
}

/// The whole help.
#[must_use]
pub fn text(program: &str) -> String {
    let what = match CalledAs::of(program) {
        CalledAs::Pgdrive => "load engine, with pgbench's options,",
        CalledAs::Pgbench => "benchmarking tool",
    };
    let mut text = format!(
        "{program} is a {what} for PostgreSQL.\n\n\
         Usage:\n  {program} [OPTION]... [DBNAME]\n"
    );
    for (title, options) in [
        ("Initialization options", INITIALIZE),
        ("Benchmarking options", BENCHMARK),
        ("TPC-C options", TPCC),
        ("Common options", COMMON),
    ] {
        let mut known = options
            .iter()
            .filter(|option| is_known_as(CalledAs::of(program), option))
            .peekable();
        if known.peek().is_some() {
            text.push_str(&format!("\n{title}:\n"));
        }
        known.for_each(|option| text.push_str(&entry(option)));
    }
    text.push_str(
        "\nExit status: 0 when all went well; 1 when the load could not begin; 2 when a\n\
         client was aborted; 4 when an output could not be written; 130 or 143 after\n\
         SIGINT or SIGTERM, with the summary so far.\n\
         Connection defaults come from the PG* environment variables, as for psql.\n",
    );
    text.push_str(concat!(
        "\nReport bugs to <",
        env!("CARGO_PKG_REPOSITORY"),
        "/issues>.\n"
    ));
    text
}

fn entry(option: &Opt) -> String {
    let mut head = match option.short {
        Some(letter) => format!("  -{letter}, --{}", option.long),
        None => format!("  --{}", option.long),
    };
    if let Some(argument) = option.argument {
        if !argument.starts_with(OPTIONAL) {
            head.push('=');
        }
        head.push_str(argument);
    }
    const COLUMN: usize = 27;
    let mut text = if head.len() + 1 > COLUMN {
        format!("{head}\n{:COLUMN$}", "")
    } else {
        format!("{head:COLUMN$}")
    };
    text.push_str(&option.help.replace('\n', &format!("\n{:COLUMN$}", "")));
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_help_fits_80_columns() {
        let text = super::text("pgdrive");
        for line in text.lines() {
            assert!(line.len() <= 80, "{line}");
        }
        assert!(text.contains("  -c, --client=NUM         number of"));
        let last = "Report bugs to <https://github.com/pgdyno/pgdyno/issues>.\n";
        assert!(text.ends_with(last));
    }
}
