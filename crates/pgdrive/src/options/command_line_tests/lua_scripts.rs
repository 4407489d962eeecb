//! The options `--lua` and `--workload`.

use super::*;

fn lua(load: &Benchmark) -> &LuaChoice {
    match &load.workload {
        WorkloadChoice::Lua(choice) => choice,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lua_script_is_the_only_script_of_its_load() {
    let inserts = load(&["--lua", "oltp_insert", "--lua-opt", "tables=4", "-c", "8"]);
    let choice = lua(&inserts);
    assert_eq!(choice.source, LuaSource::File("oltp_insert".into()));
    assert_eq!(choice.command, "run");
    assert_eq!(choice.options, [("tables".to_owned(), "4".to_owned())]);
    assert_eq!(inserts.scripts.len(), 1);
    assert_eq!(inserts.scripts[0].origin, Origin::Lua("oltp_insert".into()));
    assert_eq!(inserts.tries, Tries::Unlimited);
    assert!(matches!(inserts.workers, Workers::Automatic { .. }));
    // sizes of tables are options of a workload
    let sized = load(&["--workload=oltp-insert", "--tables=4", "--table-size=50"]);
    let size = ("table_size".to_owned(), "50".to_owned());
    assert_eq!(lua(&sized).options, [("tables".to_owned(), "4".to_owned()), size]);
    assert_eq!(load(&["--lua=a"]).check, None);
    assert_eq!(load(&["--lua=a", "--check"]).check, Some(Check::Compile));
    assert_eq!(load(&["--lua=a", "--check=execute"]).check, Some(Check::Execute));
    assert_eq!(load(&["--check=statements"]).check, Some(Check::Statements));
}
