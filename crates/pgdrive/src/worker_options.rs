//! `-j`, `--max-workers` and `--worker-busy`: the number of threads, and warnings when they are too
//! few.

use std::net::{IpAddr, ToSocketAddrs};
use std::num::NonZero;
use std::thread::available_parallelism;

use pgdyno_connect::{Host, Params, Place};
use pgdyno_engine::clock::SECOND;
use pgdyno_engine::report::Report;
use pgdyno_engine::spec::{Io, Spec};
use pgdyno_engine::worker_scaling::{Nearness, Rule, Scaling, are_few, even_workers, first_workers};

use crate::called_as::CalledAs;
use crate::messages::{Failure, Messages};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// The number of -j.
    Fixed(usize),
    /// The number that gives the most throughput, or the smallest that carries the load, up to
    /// --max-workers or a suitable number for the host.
    Automatic {
        first: usize,
        /// --max-workers, if given.
        most: Option<usize>,
    },
}

impl Workers {
    /// Resolves the options, whose default depends on the program's name; `fixing` is a given
    /// option that fixes the number of threads.
    ///
    /// # Errors
    /// The options contradict each other.
    pub fn resolve(
        jobs: Option<usize>,
        most: Option<usize>,
        clients: usize,
        called_as: CalledAs,
        fixing: Option<&str>,
    ) -> Result<Self, Failure> {
        let first = first_workers(clients, cores());
        match (jobs, most, fixing) {
            (Some(_), Some(_), _) => {
                Err(Failure::new("specify either a number of threads (-j) or their limit (--max-workers), not both"))
            }
            (None, Some(_), Some(option)) => Err(Failure::new(format!("--max-workers cannot be used with {option}"))
                .hint("Give the fixed number of threads with -j.")),
            (Some(jobs), None, _) => Ok(Self::Fixed(jobs.min(clients))),
            (None, None, _) if called_as == CalledAs::Pgbench => Ok(Self::Fixed(1)),
            (None, None, Some(_)) => Ok(Self::Fixed(first)),
            (None, most, None) => {
                Ok(Self::Automatic { first: even_workers(first.min(most.unwrap_or(first)), clients), most })
            }
        }
    }

    /// The initial number of threads.
    #[must_use]
    pub fn first(self) -> usize {
        match self {
            Self::Fixed(workers) => workers,
            Self::Automatic { first, .. } => first,
        }
    }

    /// The most threads that there may be, wherever the server is.
    #[must_use]
    pub fn upper(self, clients: usize) -> usize {
        match self {
            Self::Fixed(workers) => workers,
            Self::Automatic { most, .. } => most.unwrap_or_else(cores).min(clients),
        }
    }

    /// The rules for adding threads, for a server at `params`, if one uses more than `busy_share`
    /// of a core.
    #[must_use]
    pub fn scaling(self, clients: usize, params: &Params, busy_share: f64) -> Scaling {
        match self {
            Self::Fixed(_) => Scaling::Fixed,
            Self::Automatic { most, .. } => {
                let rule = match most {
                    Some(most) => Rule::up_to(even_workers(most, clients)),
                    None => Rule::of(clients, cores(), nearness(params)),
                };
                Scaling::Automatic(Rule { busy_share, ..rule })
            }
        }
    }
}

/// The poller for `clients` clients if `asked` is automatic: epoll for a few, because it wakes a
/// worker on the core of the backend that answers. This depends only on the clients, so that every
/// trial of a load has the same, whatever number of threads it is given.
#[must_use]
pub fn io_for(asked: Io, clients: usize) -> Io {
    match asked {
        Io::Auto if are_few(clients, cores()) => Io::Epoll,
        asked => asked,
    }
}

/// The number of cores that this process may use.
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

/// Warns if the figures may show the limit of the generator rather than of the server. Does not
/// warn under pgbench's name, while another worker could still be added, or for less than a second.
pub fn warn_of_ceiling(spec: &Spec, report: &Report, busy_share: f64, messages: &Messages) {
    let workers = report.health.workers.len();
    let Some(share) = report.health.busiest(SECOND).filter(|share| *share >= busy_share) else {
        return;
    };
    if messages.called_as() == CalledAs::Pgbench || workers < spec.scaling.most(spec.workers) {
        return;
    }
    let percent = 100.0 * share;
    messages.warning(format!("the generator used {percent:.0} % of a core: these figures may be its own ceiling"));
    messages.hint(hint(workers, spec.clients, cores(), spec.scaling));
}

fn hint(workers: usize, clients: usize, cores: usize, scaling: Scaling) -> String {
    if workers >= clients {
        return "Use more clients: each has a thread of its own already.".to_owned();
    }
    if workers >= cores {
        return format!("It used all cores ({cores}): use a larger host, or several.");
    }
    let more = workers + 1;
    match scaling {
        Scaling::Fixed => format!("Use more threads (-j {more}), or leave -j out."),
        Scaling::Automatic(_) => format!(
            "It was limited to {workers} of {cores} cores; --max-workers={more} allows more, \
             if they are not the server's."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgdyno_connect::Env;

    fn params(target: &str) -> Params {
        Params::resolve(Some(target), &[], &Env::empty("u")).expect("it is complete")
    }

    /// More clients than initial threads on any machine that runs the test.
    const MANY: usize = 64;

    fn automatic(most: Option<usize>) -> Workers {
        Workers::Automatic { first: 1, most }
    }

    #[test]
    fn a_few_clients_have_threads_of_their_own_unless_told() {
        let first = |clients, most, called_as, fixing| {
            Workers::resolve(None, most, clients, called_as, fixing)
                .map(Workers::first)
                .map_err(|failure| failure.message)
        };
        let several = first_workers(2, cores());
        assert_eq!(first(2, None, CalledAs::Pgdrive, None), Ok(several));
        assert_eq!(first(2, None, CalledAs::Pgdrive, Some("--lua")), Ok(several));
        assert_eq!(first(2, Some(1), CalledAs::Pgdrive, None), Ok(1));
        assert_eq!(first(2, None, CalledAs::Pgbench, None), Ok(1));
        assert_eq!(first(MANY, None, CalledAs::Pgdrive, Some("--lua")), Ok(1));
    }

    #[test]
    fn pgbench_has_one_thread_unless_told() {
        let resolve = |jobs, most, called_as| {
            Workers::resolve(jobs, most, MANY, called_as, None).map_err(|failure| failure.message)
        };
        let fixed = |jobs, most| {
            Workers::resolve(jobs, most, MANY, CalledAs::Pgdrive, Some("--phases")).map_err(|failure| failure.message)
        };
        assert_eq!(fixed(None, None), Ok(Workers::Fixed(1)));
        assert_eq!(fixed(Some(3), None), Ok(Workers::Fixed(3)));
        assert_eq!(fixed(None, Some(3)), Err("--max-workers cannot be used with --phases".to_owned()));
        for called_as in [CalledAs::Pgbench, CalledAs::Pgdrive] {
            assert_eq!(resolve(Some(65), None, called_as), Ok(Workers::Fixed(MANY)));
            let most = automatic(Some(3));
            assert_eq!(resolve(None, Some(3), called_as), Ok(most));
            assert!(resolve(Some(1), Some(3), called_as).is_err());
        }
        assert_eq!(resolve(None, None, CalledAs::Pgbench), Ok(Workers::Fixed(1)));
        assert_eq!(resolve(None, None, CalledAs::Pgdrive), Ok(automatic(None)));
    }

    #[test]
    fn a_few_clients_are_served_by_epoll_unless_told() {
        assert_eq!(io_for(Io::Auto, 1), Io::Epoll);
        assert_eq!(io_for(Io::Auto, MANY), Io::Auto);
        assert_eq!(io_for(Io::IoUring, 1), Io::IoUring);
    }

    #[test]
    fn a_server_on_this_host_is_recognised() {
        for here in [
            "host=/tmp",
            "host=@name",
            "host=127.0.0.1",
            "hostaddr=::1 host=db.example",
            "host=localhost",
            "host=192.0.2.1,127.0.0.2",
        ] {
            assert_eq!(nearness(&params(here)), Nearness::SameHost, "{here}");
        }
        for elsewhere in ["host=192.0.2.1", "hostaddr=2001:db8::1 host=localhost"] {
            assert_eq!(nearness(&params(elsewhere)), Nearness::Elsewhere, "{elsewhere}");
        }
    }

    #[test]
    fn the_limit_is_what_was_asked_for() {
        let server = params("host=/tmp");
        let most = |workers: Workers| workers.scaling(4, &server, 0.5).most(workers.first());
        assert_eq!(most(automatic(Some(3))), 2);
        assert_eq!(most(automatic(Some(4))), 4);
        assert_eq!(most(automatic(Some(9))), 4);
        assert_eq!(most(Workers::Fixed(2)), 2);
        assert_eq!(automatic(Some(9)).upper(4), 4);
    }

    #[test]
    fn the_hint_is_what_can_be_done() {
        let automatic = Scaling::Automatic(Rule::up_to(2));
        for (workers, clients, cores, scaling, word) in [
            (1, 8, 4, Scaling::Fixed, "(-j 2)"),
            (2, 8, 4, automatic, "--max-workers=3"),
            (4, 8, 4, automatic, "larger host"),
            (2, 2, 4, automatic, "more clients"),
        ] {
            let hint = hint(workers, clients, cores, scaling);
            assert!(hint.contains(word), "{hint}");
        }
    }
}
