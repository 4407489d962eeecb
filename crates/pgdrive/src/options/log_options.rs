//! `-l` and its related options: which combinations are allowed, and the files.

use std::fs::File;
use std::sync::OnceLock;
use std::time::Duration;

use pgdyno_engine::log_spec::{Detail, LogFile, LogSpec};

use crate::messages::{Failure, plain};

#[derive(Debug, Default)]
pub(super) struct LogOptions {
    pub wanted: bool,
    pub prefix: Option<String>,
    pub sampling_rate: Option<f64>,
    pub interval_s: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LogChoice {
    pub prefix: String,
    pub detail: Detail,
}

impl LogOptions {
    /// Checks the options against one another and against the duration (-T).
    ///
    /// # Errors
    /// The options contradict each other; in pgbench's words.
    pub fn resolve(self, duration: Option<Duration>) -> Result<Option<LogChoice>, Failure> {
        let refuse = |why: &str| Err(Failure::new(why));
        if self.sampling_rate.is_some() && !self.wanted {
            return refuse("log sampling (--sampling-rate) is allowed only when logging transactions (-l)");
        }
        if self.sampling_rate.is_some() && self.interval_s.is_some() {
            return refuse(
                "log sampling (--sampling-rate) and aggregation (--aggregate-interval) cannot be used at the same time",
            );
        }
        if self.interval_s.is_some() && !self.wanted {
            return refuse("log aggregation is allowed only when actually logging transactions");
        }
        if self.prefix.is_some() && !self.wanted {
            return refuse("log file prefix (--log-prefix) is allowed only when logging transactions (-l)");
        }
        if let (Some(length_s), Some(duration)) = (self.interval_s, duration) {
            check_interval(length_s, duration.as_secs_f64())?;
        }
        let detail = match self.interval_s {
            Some(length_s) => Detail::Interval { length_s },
            None => Detail::Transaction { sampling_rate: self.sampling_rate.unwrap_or(1.0) },
        };
        Ok(self.wanted.then(|| LogChoice { prefix: self.prefix.unwrap_or_else(|| "pgbench_log".to_owned()), detail }))
    }
}

fn check_interval(length_s: u64, duration_s: f64) -> Result<(), Failure> {
    if length_s as f64 > duration_s {
        return Err(Failure::new(format!(
            "number of seconds for aggregation ({length_s}) must not be higher than test duration ({duration_s})"
        )));
    }
    if duration_s % length_s as f64 != 0.0 {
        return Err(Failure::new(format!(
            "duration ({duration_s}) must be a multiple of aggregation interval ({length_s})"
        )));
    }
    Ok(())
}

impl LogChoice {
    /// Creates the files: `prefix.PID` for the first worker, `prefix.PID.N` for the others.
    pub fn open(&self, workers: usize, failures_detailed: bool) -> Result<LogSpec, Failure> {
        let pid = std::process::id();
        let create = |worker: usize| {
            let path = match worker {
                0 => format!("{}.{pid}", self.prefix),
                _ => format!("{}.{pid}.{worker}", self.prefix),
            };
            let file = File::create(&path);
            let file =
                file.map_err(|error| Failure::new(format!("could not open logfile \"{path}\": {}", plain(&error))));
            Ok(LogFile { path: path.into(), file: file? })
        };
        let files = (0..workers).map(create).collect::<Result<_, Failure>>()?;
        Ok(LogSpec { files, detail: self.detail, failures_detailed, failure: OnceLock::new() })
    }
}
