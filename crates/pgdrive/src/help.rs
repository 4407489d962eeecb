//! The options with their help, in the order and layout of PostgreSQL's programs.

use crate::getopt::Opt;

/// Options of `-i`.
pub const INITIALIZE: &[Opt] = &[
    opt("initialize", 'i', "invokes initialization mode"),
    arg(
        "init-steps",
        'I',
        "STEPS",
        "run selected initialization steps, in this order\n(steps are: d t g G v p f)",
    ),
    arg("fillfactor", 'F', "NUM", "set fill factor"),
    opt("no-vacuum", 'n', "do not run VACUUM during initialization"),
    opt("quiet", 'q', "quiet logging (one message each 5 seconds)"),
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
    arg(
        "define",
        'D',
        "VARNAME=VALUE",
        "define variable for use by custom script",
    ),
    arg("jobs", 'j', "NUM", "number of threads (default: 1)"),
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
    long("exit-on-abort", "exit when any client is aborted"),
    long(
        "failures-detailed",
        "report the failures grouped by basic types",
    ),
    long_arg(
        "max-tries",
        "NUM",
        "max number of tries to run transaction (default: 1)",
    ),
    long_arg(
        "random-seed",
        "SEED",
        "set random seed (\"time\", \"rand\", integer)",
    ),
    long_arg("show-script", "NAME", "show builtin script code, then exit"),
    long_arg(
        "warmup",
        "SECONDS",
        "load before measuring begins, left out of all results",
    ),
    long_arg(
        "events",
        "FILE",
        "write what happens as JSON Lines (\"-\": to standard\noutput, and the summary to standard error)",
    ),
    long("check", "read and compile the scripts, then exit"),
    long("parent-lease", "stop when standard input closes"),
];

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
    opt("version", 'V', "output version information, then exit"),
    opt("help", '?', "show this help, then exit"),
];

const fn opt(long: &'static str, short: char, help: &'static str) -> Opt {
    Opt {
        long,
        short: Some(short),
        argument: None,
        help,
    }
}

const fn arg(long: &'static str, short: char, argument: &'static str, help: &'static str) -> Opt {
    Opt {
        long,
        short: Some(short),
        argument: Some(argument),
        help,
    }
}

const fn long(long: &'static str, help: &'static str) -> Opt {
    Opt {
        long,
        short: None,
        argument: None,
        help,
    }
}

const fn long_arg(long: &'static str, argument: &'static str, help: &'static str) -> Opt {
    Opt {
        long,
        short: None,
        argument: Some(argument),
        help,
    }
}

/// The whole help.
#[must_use]
pub fn text(program: &str) -> String {
    let mut text = format!(
        "{program} is a load engine for PostgreSQL that takes pgbench's options.\n\n\
         Usage:\n  {program} [OPTION]... [DBNAME]\n"
    );
    for (title, options) in [
        ("Initialization options", INITIALIZE),
        ("Benchmarking options", BENCHMARK),
        ("Common options", COMMON),
    ] {
        text.push_str(&format!("\n{title}:\n"));
        options
            .iter()
            .for_each(|option| text.push_str(&entry(option)));
    }
    text.push_str(
        "\nExit status: 0 when all went well; 1 when the load could not begin; 2 when a\n\
         client was aborted; 130 or 143 after SIGINT or SIGTERM, with the summary so far.\n\
         Connection defaults come from the PG* environment variables, as for psql.\n",
    );
    text
}

fn entry(option: &Opt) -> String {
    let mut head = match option.short {
        Some(letter) => format!("  -{letter}, --{}", option.long),
        None => format!("  --{}", option.long),
    };
    if let Some(argument) = option.argument {
        head.push('=');
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
    }
}
