//! Loads whose clients would leave something in the sessions of a connection pooler.

use pgdyno_connect::{Pooler, Session};
use pgdyno_script::QueryMode;

use crate::messages::Failure;
use crate::options::{Benchmark, WorkloadChoice};
use crate::workload::Workload;

/// What the clients of a load keep in their sessions.
enum KeptState {
    /// Prepared statements; the text is how the load does without them.
    Statements(Option<&'static str>),
    /// Whatever the captured sessions kept.
    Anything,
}

impl KeptState {
    /// None if the load needs nothing from one transaction to the next.
    fn of(options: &Benchmark, workload: &Workload) -> Option<Self> {
        match (&options.workload, workload) {
            (WorkloadChoice::Replay(_), _) => Some(Self::Anything),
            (WorkloadChoice::Tpcc(_), _) => Some(Self::Statements(None)),
            (WorkloadChoice::Tpch | WorkloadChoice::Queries(_), _) => None,
            (_, Workload::Lua(script)) => {
                script.prepares().then_some(Self::Statements(Some("give --lua-opt=db-ps-mode=disable")))
            }
            _ => {
                (options.mode == QueryMode::Prepared).then_some(Self::Statements(Some("give -M simple or -M extended")))
            }
        }
    }
}

/// Refuses a load that would leave something in sessions of `pooler`, which belong to its other clients, too.
pub fn check(session: &mut Session, pooler: &Pooler, options: &Benchmark, workload: &Workload) -> Result<(), Failure> {
    let (what, way) = match KeptState::of(options, workload) {
        None => return Ok(()),
        // an error means that the pooler passes no transactions on
        Some(KeptState::Statements(_)) if matches!(session.passes_names_on(), Ok(false)) => {
            return Ok(());
        }
        Some(KeptState::Statements(way)) => ("prepared statements", way),
        Some(KeptState::Anything) => ("what captured sessions leave, such as settings", None),
    };
    let message =
        format!("the load would leave {what} in the sessions of a connection pooler, which other clients use, too");
    let remedy = pooler.remedy();
    let hint = way.map_or(remedy.clone(), |way| format!("{way}; or {remedy}"));
    Err(Failure::new(message).detail(pooler).hint(hint))
}
