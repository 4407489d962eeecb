//! sysbench's own options: for scripts, for the connection, and those that pgdrive has under other names.

use crate::option_kinds::{Kind, OptionSpec, key};

/// sysbench's own options that scripts depend on, with its defaults.
const GENERAL: [(&str, Kind, Option<&str>, &str); 18] = [
    (
        "rand_type",
        Kind::Text,
        Some("special"),
        "distribution of sysbench.rand.default: uniform, gaussian, special, pareto or zipfian",
    ),
    ("rand_spec_iter", Kind::Int, Some("12"), "uniform numbers a gaussian one is the mean of"),
    ("rand_spec_pct", Kind::Int, Some("1"), "special: percent of the values that are special"),
    ("rand_spec_res", Kind::Int, Some("75"), "special: percent of the draws that give a special value"),
    ("rand_pareto_h", Kind::Double, Some("0.2"), "pareto: parameter h"),
    ("rand_zipfian_exp", Kind::Double, Some("0.8"), "zipfian: exponent"),
    ("db_driver", Kind::Text, Some("pgsql"), "database driver: pgsql is the only one"),
    (
        "db_ps_mode",
        Kind::Text,
        Some("auto"),
        "prepared statements: auto, or disable to send their values within the text",
    ),
    ("db_debug", Kind::Bool, Some("off"), "for the script to read: print what concerns the database"),
    ("validate", Kind::Bool, Some("off"), "for the script to read: check what the server answers"),
    ("debug", Kind::Bool, Some("off"), "for the script to read: print more"),
    ("verbosity", Kind::Int, Some("3"), "for the script to read: from 0 to 5"),
    ("pgsql_host", Kind::Text, None, "server's host, unless -h or a connection string gives one"),
    ("pgsql_port", Kind::Text, None, "server's port, unless -p or a connection string gives one"),
    ("pgsql_user", Kind::Text, None, "user, unless -U or a connection string gives one"),
    ("pgsql_password", Kind::Text, None, "password, unless a connection string gives one"),
    ("pgsql_db", Kind::Text, None, "database, unless the last argument gives one"),
    ("pgsql_sslmode", Kind::Text, None, "SSL mode, unless a connection string gives one"),
];

/// The allowed values of some of them; with others, a draw would not end, or all draws would be equal.
const RANGES: [(&str, f64, f64); 5] = [
    ("rand_spec_iter", 1.0, 1e6),
    ("rand_spec_pct", 0.0, 100.0),
    ("rand_spec_res", 0.0, 100.0),
    // at 0 and 1 all draws would be equal
    ("rand_pareto_h", 1e-6, 1.0 - 1e-6),
    // above it, all draws but one in 2^100 are the first value
    ("rand_zipfian_exp", 0.0, 100.0),
];

/// The connection's options, by sysbench's and by libpq's names.
const CONNECTION: [(&str, &str); 6] = [
    ("pgsql_host", "host"),
    ("pgsql_port", "port"),
    ("pgsql_user", "user"),
    ("pgsql_password", "password"),
    ("pgsql_db", "dbname"),
    ("pgsql_sslmode", "sslmode"),
];

/// sysbench's options that pgdrive has under another name.
const ELSEWHERE: [(&str, &str); 18] = [
    ("threads", "-c"),
    ("num_threads", "-c"),
    ("events", "-t, of each client"),
    ("max_requests", "-t, of each client"),
    ("time", "-T"),
    ("max_time", "-T"),
    ("rate", "-R"),
    ("tx_rate", "-R"),
    ("report_interval", "-P"),
    ("report_checkpoints", "--phases"),
    ("warmup_time", "--warmup"),
    ("forced_shutdown", "--drain-limit"),
    ("thread_init_timeout", "PGCONNECT_TIMEOUT"),
    ("histogram", "--histogram=FILE"),
    ("percentile", "--percentiles"),
    ("rand_seed", "--random-seed"),
    ("version", "--version"),
    ("config_file", "plans of pgdyno"),
];

pub(crate) fn general() -> Vec<OptionSpec> {
    let spec = |(name, kind, default, description)| {
        let spec = OptionSpec::new(name, description, kind, default);
        match RANGES.iter().find(|(known, ..)| *known == name) {
            Some((_, least, most)) => spec.within(*least, *most),
            None => spec,
        }
    };
    GENERAL.into_iter().map(spec).collect()
}

/// The parameters of the connection among a script's options, by libpq's names.
pub fn connection(given: &[(String, String)]) -> Vec<(&'static str, String)> {
    let keyword = |name: &str| {
        let name = key(name);
        let found = CONNECTION.iter().find(|(option, _)| *option == name);
        found.map(|(_, keyword)| *keyword)
    };
    given.iter().filter_map(|(name, value)| Some((keyword(name)?, value.clone()))).collect()
}

/// The option of pgdrive that replaces an option of sysbench itself.
pub(crate) fn elsewhere(name: &str) -> Option<String> {
    if name.starts_with("mysql_") {
        return Some("pgdrive is for PostgreSQL: its options begin with pgsql-.".to_owned());
    }
    let (_, option) = ELSEWHERE.iter().find(|(known, _)| *known == name)?;
    Some(format!("pgdrive's is {option}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_connection_are_libpqs() {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let given =
            [("tables", "4"), ("pgsql-host", "a,b"), ("pgsql_db", "bench"), ("--pgsql-sslmode", "require")].map(owned);
        let expected = [("host", "a,b"), ("dbname", "bench"), ("sslmode", "require")];
        assert_eq!(connection(&given), expected.map(|(name, value)| (name, value.to_owned())));
    }
}
