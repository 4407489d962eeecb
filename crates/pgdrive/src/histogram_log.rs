//! `--histogram`: writes a histogram for each interval, in the text format of HdrHistogram's tools.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use pgdyno_engine::clock::{Nanos, SECOND};
use pgdyno_engine::interval::{Merged, Phase};
use pgdyno_engine::latencies::Latencies;

/// Interval_Max is in milliseconds, as the format requires; histograms are in nanoseconds.
const MAX_DIVISOR: f64 = 1e6;

/// Writes one line for each interval after the warm-up, for all scripts together.
pub struct HistogramLog {
    path: String,
    out: BufWriter<File>,
    encoder: HistogramEncoder,
    /// The instant of the first transaction on the engine's clock.
    origin: Nanos,
    phases: Vec<String>,
    phase: Option<usize>,
}

impl HistogramLog {
    pub fn create(path: &str) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            out: BufWriter::new(File::create(path)?),
            encoder: HistogramEncoder::new(),
            origin: 0,
            phases: Vec::new(),
            phase: None,
        })
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn set_phases(&mut self, names: Vec<String>) {
        self.phases = names;
    }

    pub fn begin(&mut self, origin: Nanos) -> io::Result<()> {
        self.origin = origin;
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        writeln!(
            self.out,
            "#[Latencies of succeeded transactions, nanoseconds; Interval_Max in milliseconds]\n\
             #[Histogram log format version 1.3]\n\
             #[StartTime: {since_1970:.3} (seconds since epoch)]\n\
             \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\""
        )?;
        self.out.flush()
    }

    pub fn interval(&mut self, merged: &Merged) -> io::Result<()> {
        if merged.phase == Phase::WarmUp {
            return Ok(());
        }
        if merged.planned != self.phase
            && let Some(name) = merged.planned.and_then(|number| self.phases.get(number))
        {
            // a comment, because tools skip lines with a tag that they were not asked for
            writeln!(self.out, "#[Phase: {name}]")?;
        }
        self.phase = merged.planned;
        let mut latency = Latencies::default();
        merged.scripts.iter().for_each(|script| latency.add(&script.latency));
        let seconds = |nanos: Nanos| nanos as f64 / SECOND as f64;
        writeln!(
            self.out,
            "{:.3},{:.3},{:.3},{}",
            seconds(merged.from - self.origin),
            seconds(merged.to - merged.from),
            latency.moments.max as f64 / MAX_DIVISOR,
            self.encoder.encode(&latency.histogram)?
        )?;
        self.out.flush()
    }
}

/// Encodes one histogram after the other in the same memory.
pub struct HistogramEncoder {
    serializer: V2DeflateSerializer,
    blob: Vec<u8>,
}

impl HistogramEncoder {
    pub fn new() -> Self {
        Self { serializer: V2DeflateSerializer::new(), blob: Vec::new() }
    }

    pub fn encode(&mut self, histogram: &Histogram<u64>) -> io::Result<String> {
        self.blob.clear();
        self.serializer.serialize(histogram, &mut self.blob).map_err(|error| io::Error::other(format!("{error:?}")))?;
        Ok(STANDARD.encode(&self.blob))
    }
}
