//! `-j`, `--max-workers` and `--worker-busy`: the number of threads, and warnings when they are too few.

use std::net::{IpAddr, ToSocketAddrs};
use std::num::NonZero;
use std::thread::available_parallelism;

use pgdyno_connect::{Host, Params, Place};
use pgdyno_engine::clock::SECOND;
use pgdyno_engine::phases::Phases;
use pgdyno_engine::report::Report;
use pgdyno_engine::spec::{Io, Spec};

use crate::called_as::CalledAs;
use crate::messages::{Failure, Messages};

/// Share of a core above which a thread may no longer keep up: its answers wait for it.
pub const BUSY_SHARE: f64 = 0.7;

/// Clients for each core up to which a thread for each client is best, and the most such clients.
const FEW_CLIENTS: (usize, usize) = (4, 8);

/// Clients for each core from which threads use all cores even next to a server: their messages take
/// more than half of a core from it anyway, and one thread becomes the ceiling.
const VERY_MANY_CLIENTS: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    Fixed(usize),
    /// A number that suits the clients, the cores and the server's place, up to --max-workers.
    Automatic {
        most: usize,
    },
}

impl Workers {
    pub fn resolve(jobs: Option<usize>, most: Option<usize>, called_as: CalledAs) -> Result<Self, Failure> {
        match (jobs, most) {
            (Some(_), Some(_)) => {
                Err(Failure::new("specify either a number of threads (-j) or their limit (--max-workers), not both"))
            }
            (Some(jobs), None) => Ok(Self::Fixed(jobs)),
            (None, None) if called_as == CalledAs::Pgbench => Ok(Self::Fixed(1)),
            (None, most) => Ok(Self::Automatic { most: most.unwrap_or(usize::MAX) }),
        }
    }

    /// How many threads `clients` clients have, for a server at `params`. Threads share a rate, so
    /// in phases with a rate each needs a client.
    pub fn number(self, clients: usize, phases: Option<&Phases>, params: &Params) -> usize {
        match self {
            Self::Fixed(workers) => workers.min(clients),
            Self::Automatic { most } => {
                let fewest = phases.map_or(clients, |phases| phases.fewest_clients().min(clients));
                automatic(clients, cores(), nearness(params)).min(most).min(fewest).max(1)
            }
        }
    }

    /// The fewest threads that `clients` clients may have, wherever the server is.
    pub fn fewest(self, clients: usize) -> usize {
        match self {
            Self::Fixed(workers) => workers.min(clients),
            Self::Automatic { .. } => 1,
        }
    }
}

/// Where the server runs, as far as it matters to the generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nearness {
    SameHost,
    Elsewhere,
}

/// The number of threads for `clients` clients if this process may use `cores` cores: one for each
/// of a few clients; otherwise one for each core, or for every second one next to a server on this
/// host unless the clients are very many (docs/design/performance.md).
fn automatic(clients: usize, cores: usize, server: Nearness) -> usize {
    if are_few(clients, cores) {
        return clients;
    }
    let ours = match server {
        Nearness::SameHost if clients < VERY_MANY_CLIENTS * cores => cores / 2,
        Nearness::SameHost | Nearness::Elsewhere => cores,
    };
    ours.clamp(1, clients)
}

/// Whether this many clients are best served by a thread each. Such a thread sleeps while its server
/// works, so it needs no core of its own, and the scheduler wakes a server where its client runs.
fn are_few(clients: usize, cores: usize) -> bool {
    let (of_a_core, most) = FEW_CLIENTS;
    clients <= (of_a_core * cores).min(most)
}

/// The poller for `clients` clients if `asked` is automatic: epoll for a few, because it wakes a
/// worker on the core of the backend that answers. This depends only on the clients, so that every
/// trial of a load has the same, whatever number of threads it is given.
pub fn io_for(asked: Io, clients: usize) -> Io {
    match asked {
        Io::Auto if are_few(clients, cores()) => Io::Epoll,
        asked => asked,
    }
}

fn cores() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

/// Where the servers are; one of several on this host is enough to count as near.
fn nearness(params: &Params) -> Nearness {
    if params.hosts.iter().any(is_local) { Nearness::SameHost } else { Nearness::Elsewhere }
}

fn is_local(host: &Host) -> bool {
    let is_loopback = |name: &str| match name.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        // a name that cannot be resolved counts as elsewhere, and connecting will report it
        Err(_) => (name, host.port)
            .to_socket_addrs()
            .is_ok_and(|addresses| addresses.into_iter().any(|address| address.ip().is_loopback())),
    };
    match &host.place {
        Place::Socket(_) | Place::AbstractSocket(_) => true,
        Place::Address { address, .. } => is_loopback(address),
        Place::Name(name) => is_loopback(name),
    }
}

/// Warns if the busiest thread used so much of a core that the figures may show the limit of the generator rather than
/// of the server. Does not warn under pgbench's name, or for less than a second.
pub fn warn_of_ceiling(spec: &Spec, report: &Report, busy_share: f64, messages: &Messages) {
    let Some(share) = report.health.busiest(SECOND).filter(|share| *share >= busy_share) else {
        return;
    };
    if messages.called_as() == CalledAs::Pgbench {
        return;
    }
    let percent = 100.0 * share;
    messages.warning(format!("the generator used {percent:.0} % of a core: these figures may be its own ceiling"));
    messages.hint(hint(spec.workers, spec.clients, cores()));
}

fn hint(workers: usize, clients: usize, cores: usize) -> String {
    if workers >= clients {
        return "Use more clients: each has a thread of its own already.".to_owned();
    }
    if workers >= cores {
        return format!("It used all cores ({cores}): use a larger host, or several.");
    }
    let more = workers + 1;
    format!("It used {workers} of {cores} cores; -j {more} uses more, if they are not the server's.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgdyno_connect::Env;
    use pgdyno_engine::phases::{PhaseSpec, Ramp};
    use std::time::Duration;

    fn params(target: &str) -> Params {
        Params::resolve(Some(target), &[], &Env::empty("u")).expect("it is complete")
    }

    /// More clients than have a thread each on any machine that runs the test.
    const MANY: usize = 64;

    #[test]
    fn the_number_suits_clients_cores_and_server_and_its_limits() {
        use Nearness::{Elsewhere, SameHost};
        for (clients, cores, near, far) in [
            (1, 2, 1, 1),
            (2, 2, 2, 2),
            (8, 2, 8, 8),
            (9, 2, 1, 2),
            (199, 2, 1, 2),
            (200, 2, 2, 2),
            (2, 1, 2, 2),
            (5, 1, 1, 1),
            (3, 64, 3, 3),
            (8, 64, 8, 8),
            (16, 64, 16, 16),
            (500, 16, 8, 16),
            (299, 3, 1, 3),
        ] {
            let both = [SameHost, Elsewhere].map(|server| automatic(clients, cores, server));
            assert_eq!(both, [near, far], "{clients} clients, {cores} cores");
        }
        // the number is limited as asked
        let far = params("host=192.0.2.1");
        let number = |jobs, most, clients, called_as| {
            let workers = Workers::resolve(jobs, most, called_as).map_err(|failure| failure.message);
            workers.map(|workers| workers.number(clients, None, &far))
        };
        for called_as in [CalledAs::Pgbench, CalledAs::Pgdrive] {
            assert_eq!(number(Some(65), None, MANY, called_as), Ok(MANY));
            assert_eq!(number(Some(3), None, MANY, called_as), Ok(3));
            assert_eq!(number(None, Some(1), MANY, called_as), Ok(1));
            assert!(number(Some(1), Some(3), MANY, called_as).is_err());
        }
        assert_eq!(number(None, None, MANY, CalledAs::Pgbench), Ok(1));
        assert_eq!(number(None, None, MANY, CalledAs::Pgdrive), Ok(cores().min(MANY)));
        assert_eq!(number(None, Some(1), 2, CalledAs::Pgdrive), Ok(1));
        // every thread has a client in phases with a rate
        let phase = |rate_per_s: Option<f64>, from, to| PhaseSpec {
            name: "p".into(),
            duration: Duration::from_secs(1),
            rate_per_s: rate_per_s.map(Ramp::constant),
            clients: Ramp { from, to },
            weights: vec![1],
            result: true,
        };
        let server = params("host=/tmp");
        let number = |phases: &Phases| Workers::Automatic { most: 9 }.number(4, Some(phases), &server);
        assert_eq!(number(&Phases::new(vec![phase(Some(9.0), 4.0, 4.0), phase(Some(9.0), 1.0, 2.0)])), 1);
        assert_eq!(number(&Phases::new(vec![phase(None, 1.0, 4.0)])), if are_few(4, cores()) { 4 } else { 1 });
    }

    #[test]
    fn a_server_on_this_host_is_recognised_and_hints_suit_the_load() {
        for here in [
            "host=/tmp", "host=@name", "host=127.0.0.1", "hostaddr=::1 host=db.example", "host=localhost",
            "host=192.0.2.1,127.0.0.2",
        ] {
            assert_eq!(nearness(&params(here)), Nearness::SameHost, "{here}");
        }
        for elsewhere in ["host=192.0.2.1", "hostaddr=2001:db8::1 host=localhost"] {
            assert_eq!(nearness(&params(elsewhere)), Nearness::Elsewhere, "{elsewhere}");
        }
        // a few clients are served by epoll unless told
        assert_eq!(io_for(Io::Auto, 1), Io::Epoll);
        assert_eq!(io_for(Io::Auto, MANY), Io::Auto);
        assert_eq!(io_for(Io::IoUring, 1), Io::IoUring);
        // the hint is what can be done
        for (workers, clients, cores, word) in
            [(1, 8, 4, "-j 2"), (4, 8, 4, "larger host"), (2, 2, 4, "more clients"), (8, 64, 4, "larger host")]
        {
            let hint = hint(workers, clients, cores);
            assert!(hint.contains(word), "{hint}");
        }
    }
}
