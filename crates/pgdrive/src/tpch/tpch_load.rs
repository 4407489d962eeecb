//! Before the load: reads which scale factor the database has.

use std::sync::Arc;

use pgdyno_connect::Session;
use pgdyno_dataset::dataset_stamp::Reading;
use pgdyno_dataset::tpch::VERSION;
use pgdyno_dataset::{Stamp, Tpch};

use super::refresh::PAIRS;
use super::stream::Streams;
use crate::messages::Failure;

const LOAD_IT: &str = "Load it by \"pgdrive -i --dataset=tpch --scale-factor=NUM\".";

/// The streams of a run with as many of them as there are clients.
pub fn streams(session: &mut Session, clients: usize, seed: u64) -> Result<Arc<Streams>, Failure> {
    if clients >= PAIRS {
        let message = format!("--workload=tpch runs at most {} clients", PAIRS - 1);
        return Err(Failure::new(message).hint("Each stream refreshes orders of its own."));
    }
    let reading = Stamp::read(session).map_err(|error| crate::tpcc::check::failure(&error))?;
    let stamp = match reading {
        Reading::Stamped(stamp) if stamp.dataset == "tpch" => stamp,
        Reading::Refused(why) => {
            let message = format!("the database has no usable dataset stamp of tpch: {why}");
            return Err(Failure::new(message).hint(LOAD_IT));
        }
        _ => return Err(Failure::new("the database has no dataset stamp of tpch").hint(LOAD_IT)),
    };
    if stamp.version != VERSION {
        let message =
            format!("the database was loaded by another version of the dataset: {}, not {VERSION}", stamp.version);
        return Err(Failure::new(message).hint(LOAD_IT));
    }
    let tpch = Tpch::of_stamp(stamp.scale)
        .ok_or_else(|| Failure::new("the dataset stamp has no scale factor").hint(LOAD_IT))?;
    Ok(Arc::new(Streams::new(tpch, seed, clients)))
}
