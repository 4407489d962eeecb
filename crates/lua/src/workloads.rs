//! The product's own workloads: sysbench's tables, statements and mixes, in a new implementation.

use crate::error::ScriptError;
use crate::script::Script;

const OLTP: &str = include_str!("../workloads/oltp.lua");
const SELECT_RANDOM: &str = include_str!("../workloads/select_random.lua");
const BULK_INSERT: &str = include_str!("../workloads/bulk_insert.lua");

const MODULES: &[(&str, &str)] = &[("oltp", OLTP), ("select_random", SELECT_RANDOM)];

const WORKLOADS: [(&str, &str); 11] = [
    ("oltp-read-write", "require('oltp').run('read_write')"),
    ("oltp-read-only", "require('oltp').run('read_only')"),
    ("oltp-write-only", "require('oltp').run('write_only')"),
    ("oltp-point-select", "require('oltp').run('point_select')"),
    ("oltp-insert", "require('oltp').run('insert')"),
    ("oltp-delete", "require('oltp').run('delete')"),
    ("oltp-update-index", "require('oltp').run('update_index')"),
    ("oltp-update-non-index", "require('oltp').run('update_non_index')"),
    ("select-random-points", "require('select_random').run('points')"),
    ("select-random-ranges", "require('select_random').run('ranges')"),
    ("bulk-insert", BULK_INSERT),
];

impl Script {
    /// The workload `name`, written with hyphens or underscores.
    ///
    /// # Errors
    /// There is no workload with this name.
    pub fn workload(name: &str) -> Result<Self, ScriptError> {
        let wanted = name.replace('_', "-");
        match WORKLOADS.iter().find(|(known, _)| *known == wanted) {
            Some((name, text)) => Ok(Self::own(name, text, MODULES)),
            None => {
                // the first two are pgdrive's own, without a script
                let scripts = WORKLOADS.iter().map(|(name, _)| *name);
                let known: Vec<_> = ["tpcc", "tpch"].into_iter().chain(scripts).collect();
                Err(ScriptError::new(format!("there is no workload \"{name}\""))
                    .hint(format!("There are: {}.", known.join(", "))))
            }
        }
    }
}

#[cfg(test)]
fn names() -> Vec<&'static str> {
    WORKLOADS.iter().map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_found_by_its_name() {
        for name in names() {
            assert_eq!(Script::workload(name).expect(name).name, name);
        }
        assert_eq!(Script::workload("oltp_read_write").expect("it is").name, "oltp-read-write");
        let error = Script::workload("oltp").expect_err("there is none");
        let hint = error.hint.expect("a list");
        assert!(hint.starts_with("There are: tpcc, tpch, oltp-"), "{hint}");
    }
}
