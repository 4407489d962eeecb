//! Histograms as text that all HDR tools read: V2, compressed, in base64.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

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
