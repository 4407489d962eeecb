//! What the clients of a load run: scripts, a Lua script, a captured load, TPC-C, TPC-H, or queries of SQL files.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pgdyno_connect::{Params, Session};
use pgdyno_engine::clock::Nanos;
use pgdyno_engine::driver::Drivers;
use pgdyno_engine::report::Report;
use pgdyno_engine::spec::{Seeds, Spec};
use pgdyno_replay::Replay;
use serde_json::Value;

use crate::early_stop::Lease;
use crate::lua::{self, LuaResults};
use crate::messages::{Failure, Messages};
use crate::options::{Benchmark, WorkloadChoice};
use crate::queries::{self, Queries};
use crate::replay::{self, ReplayResults};
use crate::results::{Results, SetUp};
use crate::tpcc::tpcc_load::Ready;
use crate::tpcc::tpcc_result;
use crate::tpch;
use crate::tpch::stream::{Clients, Streams};

/// What the clients run. The last three begin as scripts, until the database has been read.
#[derive(Default)]
pub enum Workload {
    #[default]
    Scripts,
    Lua(Arc<pgdyno_lua::Workload>),
    Replay(Arc<Replay>),
    Tpcc(Box<Ready>),
    Tpch(Arc<Streams>),
    Queries(Arc<Queries>),
}

/// Scripts have the figures of every load.
struct ScriptResults;

impl Results for ScriptResults {}

impl Workload {
    pub fn open(
        self, options: &Benchmark, params: &Params, seeds: &Seeds, lease: &Lease, messages: &Messages,
    ) -> Result<Self, Failure> {
        match &options.workload {
            WorkloadChoice::Lua(choice) => {
                Ok(Self::Lua(lua::open(options, choice, Some(params), seeds, lease, messages)?))
            }
            _ => Ok(self),
        }
    }

    pub fn read_database(self, session: &mut Session, set_up: &SetUp<'_>) -> Result<Self, Failure> {
        Ok(match &set_up.options.workload {
            WorkloadChoice::Tpcc(load) => Self::Tpcc(Box::new(Ready::new(session, load, set_up)?)),
            WorkloadChoice::Tpch => Self::Tpch(Streams::open(session, set_up.options.clients, set_up.seed)?),
            WorkloadChoice::Queries(choice) => Self::Queries(Queries::open(choice, set_up.seed)?),
            _ => self,
        })
    }

    /// Changes the parameters of the clients' connections.
    pub fn adapt_params(&self, params: &mut Params, session: &mut Session) -> Result<(), Failure> {
        match self {
            Self::Replay(_) => replay::encode(params, session),
            _ => Ok(()),
        }
    }

    pub fn add_start_fields(&self, start: &mut Value) {
        if let Self::Replay(replay) = self {
            start["replay"] = replay::start_field(replay);
        }
    }

    /// Whether it is a load, not another command of a Lua script.
    pub fn is_load(&self) -> bool {
        match self {
            Self::Lua(script) => script.is_load(),
            _ => true,
        }
    }

    /// The value of `:scale`, if it is not that of pgbench's tables.
    pub fn scale(&self) -> Option<i64> {
        match self {
            Self::Tpcc(ready) => Some(ready.rules.warehouses.into()),
            _ => None,
        }
    }

    /// None if the engine runs scripts.
    pub fn drivers(&self) -> Option<Arc<dyn Drivers>> {
        Some(match self {
            Self::Scripts => return None,
            Self::Lua(script) => Arc::clone(script) as Arc<dyn Drivers>,
            Self::Replay(replay) => Arc::clone(replay) as Arc<dyn Drivers>,
            Self::Tpcc(ready) => ready.drivers(),
            Self::Tpch(streams) => Clients::of(streams),
            Self::Queries(queries) => Arc::new(queries::Clients(Arc::clone(queries))),
        })
    }

    pub fn shape(&self, spec: &mut Spec) {
        if let Self::Lua(script) = self {
            lua::shape(spec, script.task());
        }
    }

    /// Watches that the load can end.
    pub fn watch(&self, spec: &Spec, stop: &Arc<AtomicBool>, messages: &Messages) {
        if let Self::Lua(script) = self {
            lua::watch(script, spec, stop, messages);
        }
    }

    pub fn begin(&self, origin: Nanos, spec: &Spec) {
        if let Self::Tpcc(ready) = self {
            ready.begin(origin, spec);
        }
    }

    pub fn finish(self, spec: &mut Spec, report: &mut Report) -> Box<dyn Results> {
        match self {
            Self::Scripts => Box::new(ScriptResults),
            Self::Lua(script) => {
                lua::name_statements(spec, report, &script);
                Box::new(LuaResults(script))
            }
            Self::Replay(replay) => Box::new(ReplayResults { outcome: replay.outcome(), pace: replay.pace() }),
            Self::Tpcc(ready) => Box::new(tpcc_result::Figures::new(*ready, spec, report)),
            Self::Tpch(streams) => Box::new(tpch::figures::Figures::new(streams)),
            Self::Queries(queries) => Box::new(queries::Times(queries)),
        }
    }
}
