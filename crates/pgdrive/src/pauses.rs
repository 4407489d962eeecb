//! Keying and think times in the summary and the events.

use std::io::{self, Write};
use std::time::Duration;

use pgdyno_engine::latencies::Moments;
use pgdyno_engine::pacing::{LONGEST_IN_MEANS, Pacing, Pause};
use pgdyno_engine::recorder::ScriptRecord;
use serde_json::{Value, json};

/// A pause for an event, with the time `spent` in it by the end; null without a pause.
pub fn event(pause: Pause, spent: Option<&Moments>) -> Value {
    let (distribution, mean) = match pause {
        Pause::None => return Value::Null,
        Pause::Fixed(length) => ("fixed", length),
        Pause::Exponential { mean } => ("exponential", mean),
    };
    let mut event = json!({ "distribution": distribution, "mean_s": mean.as_secs_f64() });
    if let Some(spent) = spent {
        event["count"] = json!(spent.count);
        event["spent_ns"] = match spent.count {
            0 => Value::Null,
            _ => json!({ "mean": spent.mean(), "min": spent.min, "max": spent.max }),
        };
    }
    event
}

pub fn write(out: &mut impl Write, prefix: &str, pacing: &Pacing, record: &ScriptRecord) -> io::Result<()> {
    for (what, pause, spent) in [("keying", pacing.keying, &record.keying), ("think", pacing.think, &record.think)] {
        if pause != Pause::None {
            writeln!(
                out,
                "{prefix}{what} time ({}) average = {:.3} ms, not part of latency",
                words(pause),
                spent.mean() / 1e6
            )?;
        }
    }
    Ok(())
}

fn words(pause: Pause) -> String {
    let ms = |length: Duration| length.as_secs_f64() * 1e3;
    match pause {
        Pause::None => "none".to_owned(),
        Pause::Fixed(length) => format!("fixed, {} ms", ms(length)),
        Pause::Exponential { mean } => {
            format!("exponential, mean {} ms, at most {} ms", ms(mean), ms(mean * LONGEST_IN_MEANS))
        }
    }
}
