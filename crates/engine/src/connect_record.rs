//! What connecting took, with a connection for each transaction (-C).

use pgdyno_connect::ConnectTimes;

use crate::clock::Nanos;
use crate::latencies::Latencies;

/// How a connection was made.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attempt {
    /// When it was begun.
    pub began: Nanos,
    /// How long it took; with -C, as pgbench measures it: the time that the thread spent for it.
    pub took: Nanos,
    /// What its parts took; zero for one that failed.
    pub times: ConnectTimes,
}

/// Times to connect, and those of the parts that a connection had.
#[derive(Debug, Clone, Default)]
pub struct ConnectRecord {
    pub total: Latencies,
    pub socket: Latencies,
    pub tls: Latencies,
    pub authentication: Latencies,
    pub backend: Latencies,
}

impl ConnectRecord {
    pub fn record(&mut self, times: &ConnectTimes) {
        self.total.record(times.total().as_nanos() as Nanos);
        let parts = [
            (&mut self.socket, Some(times.socket)),
            (&mut self.tls, times.tls),
            (&mut self.authentication, times.authentication),
            (&mut self.backend, Some(times.backend)),
        ];
        for (latencies, took) in parts {
            if let Some(took) = took {
                latencies.record(took.as_nanos() as Nanos);
            }
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.total.add(&other.total);
        self.socket.add(&other.socket);
        self.tls.add(&other.tls);
        self.authentication.add(&other.authentication);
        self.backend.add(&other.backend);
    }

    /// The parts in their order, by name.
    pub fn parts(&self) -> [(&'static str, &Latencies); 4] {
        [
            ("socket", &self.socket),
            ("tls", &self.tls),
            ("authentication", &self.authentication),
            ("backend_start", &self.backend),
        ]
    }
}
