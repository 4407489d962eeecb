//! Before the load: reads the database's contents, and determines the users.

use std::sync::Arc;

use pgdyno_connect::Session;
use pgdyno_dataset::Stamp;
use pgdyno_dataset::dataset_stamp::Reading;
use pgdyno_dataset::tpcc::nurand::{self, c_of_load, c_of_run};
use pgdyno_dataset::tpcc::{Profile, VERSION};
use pgdyno_engine::clock::Nanos;
use pgdyno_engine::driver::Drivers;
use pgdyno_engine::pacing::Pacing;
use pgdyno_engine::spec::{Limit, Spec, WeightedProgram};
use pgdyno_script::Rng;

use super::deferred::Deferred;
use super::inputs::{Constants, Rules};
use super::mix_and_pauses::pauses;
use super::server_counts::{self, ServerCounts};
use super::terminal::{Terminals, prepared_statements};
use super::transaction_kind::Kind;
use crate::messages::{Failure, Messages};
use crate::options::{PacingChoice, TpccLoad};
use crate::results::SetUp;

const LOAD_IT: &str = "Load it by \"pgdrive -i --dataset=tpcc --warehouses=NUM\", with the same profile.";
/// Separates users' inputs from other random numbers with the run's seed.
const INPUTS: u64 = 0x7463_5043;
const SEED_OF_LOAD: u64 = 1;

#[derive(Debug)]
pub struct Ready {
    pub rules: Rules,
    pub load: TpccLoad,
    pub pauses: bool,
    /// The queue of deliveries for which terminals do not wait.
    pub deferred: Option<Deferred>,
    /// The server's own counts; None if they are left to the first generator.
    pub server: Option<ServerCounts>,
    terminals: Arc<Terminals>,
}

impl Ready {
    /// Checks the database and connects the additional sessions.
    pub fn new(session: &mut Session, load: &TpccLoad, set_up: &SetUp<'_>) -> Result<Self, Failure> {
        let &SetUp { options, params, seed, clock, messages } = set_up;
        let rules = rules(session, load, seed, messages)?;
        let prepared = prepared_statements(load.variant, &rules)
            .map_err(|error| Failure::new(format!("could not prepare statements: {error}")))?;
        let deferred = match rules.profile {
            Profile::Spec => Some(Deferred::start(params, options.clients, clock)?),
            Profile::Hammerdb(_) => None,
        };
        let terminals = Terminals {
            rules,
            variant: load.variant,
            seed: seed ^ INPUTS,
            prepared: Arc::new(prepared),
            deferred: deferred.as_ref().map(Deferred::sender),
        };
        Ok(Self {
            rules,
            load: load.clone(),
            pauses: load.pauses(),
            deferred,
            server: match server_counts::is_asked_by(options.part, options.limit) {
                true => Some(ServerCounts::start(params, clock)?),
                false => None,
            },
            terminals: Arc::new(terminals),
        })
    }

    pub fn begin(&self, origin: Nanos, spec: &Spec) {
        let from = origin + spec.warmup.as_nanos() as Nanos;
        let end = match spec.limit {
            Limit::Duration(duration) => Some(from + duration.as_nanos() as Nanos),
            Limit::Transactions(_) | Limit::Driven => None,
        };
        if let Some(server) = &self.server {
            server.measure(from, end);
        }
        if let Some(deferred) = &self.deferred {
            deferred.measure_from(from);
        }
    }

    pub fn drivers(&self) -> Arc<dyn Drivers> {
        Arc::clone(&self.terminals) as Arc<dyn Drivers>
    }
}

/// The pauses of every script: those that the user gave, otherwise the standard's if they are enabled.
pub fn pacing(load: &TpccLoad, given: &PacingChoice, programs: &[WeightedProgram]) -> Result<Vec<Pacing>, Failure> {
    let chosen = given.resolve(programs)?;
    if !load.pauses() {
        return Ok(chosen);
    }
    let standard = Kind::ALL.into_iter().map(pauses);
    let both = standard.zip(chosen).map(|(standard, chosen)| Pacing {
        keying: if given.keying.is_empty() { standard.keying } else { chosen.keying },
        think: if given.think.is_empty() { standard.think } else { chosen.think },
    });
    Ok(both.collect())
}

fn rules(session: &mut Session, load: &TpccLoad, seed: u64, messages: &Messages) -> Result<Rules, Failure> {
    let there = warehouses(session)?;
    let warehouses = load.warehouses.unwrap_or(there);
    if warehouses > there {
        let message = format!("--warehouses={warehouses}, but the database has {there}");
        return Err(Failure::new(message).hint(LOAD_IT));
    }
    let last_name_of_load = match read_stamp(session)? {
        Some(stamp) => {
            agree(&stamp, load.profile)?;
            c_of_load(load.profile, stamp.seed.unwrap_or(SEED_OF_LOAD))
        }
        None => {
            messages.warning(
                "the database has no dataset stamp of TPC-C: its profile and its random constants are unknown",
            );
            c_of_load(load.profile, SEED_OF_LOAD)
        }
    };
    let mut rng = Rng::seed(seed ^ INPUTS);
    Ok(Rules {
        warehouses,
        profile: load.profile,
        is_bound: load.is_bound,
        c: Constants {
            last_name_of_load,
            last_name: c_of_run(load.profile, last_name_of_load, rng.next_u64()),
            customer: rng.range_u64(0, nurand::CUSTOMER),
            item: rng.range_u64(0, nurand::ITEM),
        },
    })
}

fn warehouses(session: &mut Session) -> Result<u32, Failure> {
    let counted = session.query_one_value("select count(*) from warehouse");
    let text =
        counted.map_err(|error| Failure::new(format!("could not count the warehouses: {error}")).hint(LOAD_IT))?;
    match text.as_deref().and_then(|text| text.parse().ok()) {
        Some(0) | None => Err(Failure::new("the database has no warehouses").hint(LOAD_IT)),
        Some(count) => Ok(count),
    }
}

fn read_stamp(session: &mut Session) -> Result<Option<Stamp>, Failure> {
    let reading = Stamp::read(session).map_err(|error| Failure::from(&error))?;
    Ok(match reading {
        Reading::Stamped(stamp) if stamp.dataset == "tpcc" => Some(*stamp),
        _ => None,
    })
}

/// The profile that a database was loaded for, by its stamp; None if the stamp has an unknown one.
pub fn profile_of(stamp: &Stamp) -> Option<Profile> {
    let name = stamp.options.get("tpcc-profile")?;
    Profile::from_stamp(name.as_str()?)
}

fn agree(stamp: &Stamp, profile: Profile) -> Result<(), Failure> {
    if stamp.version != VERSION {
        let message =
            format!("the database was loaded by another version of the dataset: {}, not {VERSION}", stamp.version);
        return Err(Failure::new(message).hint(LOAD_IT));
    }
    let loaded = profile_of(stamp);
    if loaded != Some(profile) {
        let message = format!(
            "the database was loaded for profile {}, not {}",
            loaded.map_or("unknown", Profile::name),
            profile.name()
        );
        return Err(Failure::new(message).hint(LOAD_IT));
    }
    Ok(())
}
