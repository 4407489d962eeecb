//! The option `--reconnect[=TIME]`.

use std::time::Duration;

use pgdyno_engine::spec::{Limit, OnLoss};

use crate::durations;
use crate::messages::Failure;

/// The default where nothing else would end a run whose server stays down.
const OF_COUNTED_RUNS: Duration = Duration::from_secs(60);

/// How long a client may be without a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// The default, which depends on the limit of the run.
    Default,
    GivenOptions(Duration),
    Always,
}

/// Whether `word` is a time for this option, and so not a database's name.
pub fn is_patience(word: &str) -> bool {
    matches!(Patience::parse(word), Ok(Patience::GivenOptions(_)))
}

impl Patience {
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        match text {
            "" => return Ok(Self::Default),
            "always" => return Ok(Self::Always),
            _ => {}
        }
        let time = match text.parse() {
            Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            Err(_) => durations::parse(text),
        };
        match time.filter(|time| !time.is_zero() && *time <= durations::LONGEST) {
            Some(time) => Ok(Self::GivenOptions(time)),
            None => Err(Failure::new(format!("invalid time (--reconnect): \"{text}\""))
                .hint("Give a time above 0 and up to 366d, with ms, s, min or h, such as 60s; or always.")),
        }
    }

    /// The effect of a lost connection in a run with this limit; `patience` is None without the
    /// option.
    pub(super) fn resolve(patience: Option<Self>, limit: Limit) -> OnLoss {
        let patience = match (patience, limit) {
            (None, _) => return OnLoss::Abort,
            (Some(Self::GivenOptions(time)), _) => Some(time),
            (Some(Self::Default), Limit::Transactions(_) | Limit::Driven) => Some(OF_COUNTED_RUNS),
            (Some(Self::Default), Limit::Duration(_)) | (Some(Self::Always), _) => None,
        };
        OnLoss::Reconnect { patience }
    }
}
