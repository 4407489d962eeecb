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
    let load = load(&["--lua", "oltp_insert", "--lua-opt", "tables=4", "-c", "8"]);
    let lua = lua(&load);
    assert_eq!(lua.source, LuaSource::File("oltp_insert".into()));
    assert_eq!(lua.command, "run");
    assert_eq!(lua.options, [("tables".to_owned(), "4".to_owned())]);
    assert_eq!(load.scripts.len(), 1);
    assert_eq!(load.scripts[0].origin, Origin::Lua("oltp_insert".into()));
    assert_eq!(load.tries, Tries::Unlimited);
    assert!(matches!(load.workers, Workers::Automatic { .. }));
}

#[test]
fn a_check_executes_a_script_only_when_asked_to() {
    assert_eq!(load(&["--lua=a"]).check, None);
    assert_eq!(load(&["--lua=a", "--check"]).check, Some(Check::Compile));
    let checked = load(&["--lua=a", "--check=execute"]);
    assert_eq!(checked.check, Some(Check::Execute));
    let listed = load(&["--check=statements"]);
    assert_eq!(listed.check, Some(Check::Statements));
}

#[test]
fn sizes_of_tables_are_options_of_a_workload() {
    let load = load(&["--workload=oltp-insert", "--tables=4", "--table-size=50"]);
    let options = &lua(&load).options;
    let size = ("table_size".to_owned(), "50".to_owned());
    assert_eq!(*options, [("tables".to_owned(), "4".to_owned()), size]);
}
