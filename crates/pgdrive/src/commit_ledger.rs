//! `--ledger`: every write transaction stores its client's number and its own in the database.

use pgdyno_connect::Session;
use pgdyno_engine::commit_ledger::{ClientLedger, CommitLedger, Ranges, VARIABLE};
use pgdyno_engine::spec::WeightedProgram;
use pgdyno_script::{Source, Symbols};
use serde_json::{Value, json};

use crate::messages::Failure;
use crate::options::Benchmark;

/// What a built-in script executes before its end.
const WRITE: &str = "INSERT INTO pgdyno_ledger (client, seq) VALUES (:client_id, :ledger_seq);";

/// In one transaction, so that the setting ends with it: the session may be a pooler's. The table is
/// logged whatever the server's settings, so that it survives a crash.
const MAKE: &str = "BEGIN; SET LOCAL synchronous_commit = on; DROP TABLE IF EXISTS pgdyno_ledger; \
    CREATE TABLE pgdyno_ledger (client integer NOT NULL, seq bigint NOT NULL); COMMIT";

/// A built-in script that writes, with an insert into the ledger in the same transaction.
pub fn in_builtin(source: Source) -> Source {
    let text = source.text.replace("\nEND;\n", &format!("\n{WRITE}\nEND;\n"));
    Source { text, ..source }
}

/// The ledger that the options request; None without `--ledger`.
pub fn wanted(
    options: &Benchmark, programs: &[WeightedProgram], symbols: &Symbols,
) -> Result<Option<CommitLedger>, Failure> {
    let wanted = options.ledger;
    wanted.then(|| of(programs, symbols, &options.variables)).transpose()
}

/// The ledger of `programs`.
///
/// # Errors
/// None of them writes to the ledger, so nothing would be checked; or `given` (-D) redefines its
/// variables.
fn of(programs: &[WeightedProgram], symbols: &Symbols, given: &[(String, String)]) -> Result<CommitLedger, Failure> {
    let own = ["client_id", VARIABLE];
    if let Some((name, _)) = given.iter().find(|(name, _)| own.contains(&name.as_str())) {
        let message = format!("variable {name} cannot be defined with --ledger");
        return Err(Failure::new(message).hint("Use another name in the script and with -D."));
    }
    CommitLedger::of(programs.iter().map(|p| &p.program), symbols).ok_or_else(|| {
        Failure::new(format!("no statement of the scripts uses :{VARIABLE}, so --ledger would count nothing"))
            .hint(format!("Put this before the transaction's end: {WRITE}"))
    })
}

pub fn make_table(session: &mut Session) -> Result<(), Failure> {
    let made = session.execute(MAKE);
    made.map(drop).map_err(|error| Failure::new(format!("could not create the ledger's table: {error}")))
}

pub fn end_field(pages: &[ClientLedger]) -> Value {
    let sum = |count: fn(&ClientLedger) -> u64| pages.iter().map(count).sum::<u64>();
    let clients: Vec<Value> = pages
        .iter()
        .filter(|page| page.last > 0)
        .map(|page| {
            json!({
                "client": page.client,
                "last": page.last,
                "unknown": ranges(&page.unknown),
                "refused": ranges(&page.refused),
            })
        })
        .collect();
    json!({
        "acknowledged": sum(ClientLedger::acknowledged),
        "unknown": sum(|page| page.unknown.count()),
        "refused": sum(|page| page.refused.count()),
        "clients": clients,
    })
}

fn ranges(ranges: &Ranges) -> Value {
    json!(ranges.all())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgdyno_engine::commit_ledger::CommitOutcome;
    use pgdyno_script::{BUILTINS, QueryMode, compile, parse};

    #[test]
    fn built_in_scripts_write_into_it_and_the_end_says_what_is_unknown() {
        for (builtin, writes) in BUILTINS.iter().zip([true, true, false]) {
            for mode in [QueryMode::Simple, QueryMode::Prepared] {
                let mut symbols = Symbols::new();
                let script = parse(&in_builtin(builtin.source())).unwrap();
                let program = compile(&script, mode, &mut symbols).unwrap();
                let programs = [WeightedProgram { program, weight: 1 }];
                assert_eq!(of(&programs, &symbols, &[]).is_ok(), writes, "{}", builtin.name);
            }
        }
        // the end says what is not known
        let mut page = ClientLedger::new(1);
        for fate in [CommitOutcome::Acknowledged, CommitOutcome::Unknown, CommitOutcome::Refused] {
            page.write();
            page.settle(fate);
        }
        let expected = json!({
            "acknowledged": 1, "unknown": 1, "refused": 1,
            "clients": [{"client": 1, "last": 3, "unknown": [[2, 2]], "refused": [[3, 3]]}],
        });
        assert_eq!(end_field(&[ClientLedger::new(0), page]), expected);
    }
}
