//! Samples the host, once a second.

mod cgroup;
mod cpu;
mod disks;
mod files;
mod kernel;
mod mounts;
mod network;
mod postmaster;
mod processes;
mod title;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock::Stamp;
use crate::output::{Output, Reason};
use crate::probe_cost::Queries;
use crate::probe_stop::Stop;
use crate::sample::{Differs, Reading};
use crate::ticks::Ticks;
use disks::Device;
pub use files::Files;
use mounts::Mount;
pub use postmaster::{Postmaster, ServerIdentity};
use processes::Processes;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogChoice {
    /// The log that the server's files and its postmaster indicate.
    Find,
    File(PathBuf),
    None,
}

/// The parts of the host that belong to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// How the server's processes are found.
    pub server: ServerIdentity,
    pub data: Option<PathBuf>,
    pub wal: Option<PathBuf>,
    pub most_clients: usize,
    pub log: LogChoice,
}

pub fn run(choice: &Choice, period: Duration, output: &Output, queries: &Queries, stop: &Stop) {
    let mut host = Host::new(choice, output, queries);
    let mut ticks = Ticks::new(output.clock().at(Duration::ZERO), period);
    while let Some(tick) = ticks.wait(stop) {
        output.missed("host", tick.missed);
        host.sample();
    }
}

struct Host<'a> {
    output: &'a Output,
    queries: &'a Queries,
    files: Files,
    devices: Vec<Device>,
    mounts: Vec<(Mount, Vec<&'static str>)>,
    postmaster: Postmaster,
    processes: Processes,
    differs: Differs,
}

impl<'a> Host<'a> {
    fn new(choice: &Choice, output: &'a Output, queries: &'a Queries) -> Self {
        let files = Files::below(Path::new("/"));
        let places = mounts::places(choice.data.as_deref(), choice.wal.as_deref());
        let mounts = mounts::mounts(&files, &places);
        let (devices, problems) = disks::devices(places, &mounts);
        for problem in problems {
            output.warning("disk", &problem, None);
        }
        Self {
            output,
            queries,
            files,
            devices,
            mounts,
            postmaster: Postmaster::new(choice.server.clone()),
            processes: Processes::new(choice.most_clients),
            differs: Differs::default(),
        }
    }

    fn sample(&mut self) {
        self.cpu();
        self.take("pressure", |host| kernel::pressure(&host.files));
        self.take("memory", |host| kernel::memory(&host.files));
        self.take("paging", |host| kernel::paging(&host.files));
        self.take("disk", |host| disks::disks(&host.files, &host.devices));
        self.take("mount", |host| mounts::room(&host.mounts));
        self.take("network", |host| network::interfaces(&host.files));
        self.take("tcp", |host| network::tcp(&host.files));
        let mut group_of = "self".to_owned();
        if self.postmaster.is_wanted() {
            match self.postmaster.pid(&self.files) {
                Ok(pid) => {
                    self.server(pid);
                    group_of = pid.to_string();
                }
                Err(absent) => {
                    let reason = absent.is_down.then_some(Reason::ServerDown);
                    return self.output.warning("process", &absent.problem, reason);
                }
            }
        }
        self.take("cgroup", |host| cgroup::cgroup(&host.files, &group_of));
    }

    fn cpu(&mut self) {
        let at = self.output.clock().now();
        let stat = match self.files.text("proc/stat") {
            Ok(stat) => stat,
            Err(problem) => return self.output.warning("cpu", &problem, None),
        };
        self.write_readings("cpu", at, cpu::all(&stat));
        self.write_readings("core", at, Ok(cpu::each(&stat, &self.files)));
        self.write_readings("kernel", at, kernel::kernel(&stat, &self.files));
    }

    fn server(&mut self, postmaster: u32) {
        let at = self.output.clock().now();
        let samples = self.processes.samples(&self.files, at, postmaster, self.queries);
        for sample in samples {
            self.output.sample(&sample);
        }
        if self.processes.io_refused() {
            let message = "could not read what processes read and wrote: run the probe as the server's user or as root";
            self.output.warning("process", message, None);
        }
    }

    fn take(&mut self, name: &'static str, read: impl FnOnce(&Self) -> Result<Vec<Reading>, String>) {
        let at = self.output.clock().now();
        let readings = read(self);
        self.write_readings(name, at, readings);
    }

    fn write_readings(&mut self, name: &'static str, at: Stamp, readings: Result<Vec<Reading>, String>) {
        match readings {
            Ok(readings) => self.output.sample(&self.differs.sample(name, at, readings)),
            Err(problem) => self.output.warning(name, &problem, None),
        }
    }
}
