//! Compiled scripts: statements, jumps, numbers of commands.

mod common;

use common::{compiled, run, source};
use pgdyno_script::{Capture, Op, QueryMode, SleepAmount, Sql, Symbols, Vars, compile, parse};
use std::sync::Arc;

const CONDITIONS: &str = "\
\\if :a = 1
SELECT 1;
\\elif :a = 2
SELECT 2;
  \\if :b
  SELECT 22;
  \\endif
\\else
SELECT 3;
\\endif
SELECT 4;
";

#[test]
fn conditions_jump() {
    for (a, b, expected) in [
        ("1", "1", &["SELECT 1;", "SELECT 4;"][..]),
        ("2", "1", &["SELECT 2;", "SELECT 22;", "SELECT 4;"]),
        ("2", "0", &["SELECT 2;", "SELECT 4;"]),
        ("null", "1", &["SELECT 3;", "SELECT 4;"]),
    ] {
        assert_eq!(run(CONDITIONS, &[("a", a), ("b", b)]).sql, expected, "a={a}");
    }
    let error = run(CONDITIONS, &[("b", "1")]).error;
    assert_eq!(error.as_deref(), Some("undefined variable \"a\""));
    // skipped conditions are not evaluated
    assert_eq!(run("\\if 0\n\\if 1/0\n\\elif 1/0\n\\endif\n\\endif\n\\if 1\n\\elif 1/0\n\\endif\n", &[]).error, None);
}

#[test]
fn commands_are_numbered_and_shown_as_pgbench_does() {
    let (program, _) = compiled(CONDITIONS, QueryMode::Simple);
    let words: Vec<&str> = program.commands.iter().map(|c| &*c.word).collect();
    assert_eq!(words, ["if", "SQL", "elif", "SQL", "if", "SQL", "endif", "else", "SQL", "endif", "SQL"]);
    let last = program.ops.len() - 1;
    assert_eq!(program.command_number(last), 10);
    assert_eq!(program.command(last).line, 11);
    let statements: Vec<(usize, u32)> = program.statements.iter().map(|s| (s.command, s.line)).collect();
    assert_eq!(statements, [(1, 2), (3, 4), (5, 6), (8, 9), (10, 11)]);
    assert_eq!(program.commands[3].statement, Some(1));
    // statements are shown by their first line
    let long = format!("SELECT '{}'", "é".repeat(100));
    let text = format!("-- c\nSELECT 1\n + 2;\n{long};\n \\set x 1 \\\n + 1\n");
    let (program, _) = compiled(&text, QueryMode::Simple);
    let texts: Vec<&str> = program.commands.iter().map(|c| &*c.text).collect();
    // 8 bytes before the letters of two bytes; a cut at 127 would split one.
    assert_eq!(texts, ["SELECT 1", &long[..126], "\\set x 1 \\\n + 1"]);
    let lines: Vec<u32> = program.commands.iter().map(|c| c.line).collect();
    assert_eq!(lines, [2, 4, 5]);
}

#[test]
fn backslash_commands_end_statements() {
    let text = "SELECT 1 AS a \\gset p_\nSELECT 2 \\; SELECT 3 \\aset\nSELECT 4 \\set x 1\nSELECT 5";
    let (program, _) = compiled(text, QueryMode::Simple);
    fn capture(op: &Op) -> Option<Capture> {
        if let Op::Sql { capture, .. } = op { Some(capture.clone()) } else { None }
    }
    let captures: Vec<Capture> = program.ops.iter().filter_map(capture).collect();
    let (gset, aset) = (Capture::Gset { prefix: "p_".into() }, Capture::Aset { prefix: "".into() });
    assert_eq!(captures, [gset, aset, Capture::None, Capture::None]);
    let sql = ["SELECT 1 AS a ", "SELECT 2 ; SELECT 3 ", "SELECT 4 ", "SELECT 5"];
    assert_eq!(run(text, &[]).sql, sql);
    // pipelines
    let text = "\\startpipeline\nSELECT 1;\n\\syncpipeline\n\\endpipeline\n";
    let (program, _) = compiled(text, QueryMode::Extended);
    assert!(matches!(program.ops.as_slice(), [Op::StartPipeline, Op::Sql { .. }, Op::SyncPipeline, Op::EndPipeline]));
}

#[test]
fn variables_are_replaced_or_stay_and_have_valid_names() {
    let text = "\\set i 5\n\\set d 0.5\n\\set n null\nSELECT :i, ':d', :n, :t, :no, :i::text;";
    assert_eq!(run(text, &[("t", "a b")]).sql, ["SELECT 5, '0.5', NULL, a b, :no, 5::text;"]);
    let (program, symbols) = compiled(text, QueryMode::Prepared);
    let Sql::Extended { sql, params } = &program.statements[0].sql else { panic!("extended") };
    assert_eq!(sql, "SELECT $1, '$2', $3, $4, $5, $6::text;");
    let names: Vec<&str> = params.iter().map(|slot| symbols.name(*slot)).collect();
    assert_eq!(names, ["i", "d", "n", "t", "no", "i"]);
    // programs share symbols
    let mut symbols = Symbols::new();
    for text in ["\\set a 1\nSELECT :b;", "\\set b 2\nSELECT :a, :c;"] {
        compile(&parse(&source(text)).unwrap(), QueryMode::Simple, &mut symbols).unwrap();
    }
    assert_eq!(symbols.count(), 3);
    // invalid names fail when they are assigned
    let trace = run("\\if 0\n\\set . 1\n\\endif\n\\set . debug(1)", &[]);
    assert_eq!(trace.error.as_deref(), Some("set: invalid variable name: \".\""));
    assert_eq!(trace.debug.len(), 1);
}

#[test]
fn sleeping() {
    let text = "\\sleep 10\n\\sleep 5ms\n\\sleep 7 US\n\\sleep :x ms\n\\sleep :y\n\\sleep -1 s\n\\sleep 3000";
    let (program, symbols) = compiled(text, QueryMode::Simple);
    let mut vars = Vars::new(Arc::new(symbols));
    let sleep = |op: usize, vars: &Vars| match &program.ops[op] {
        Op::Sleep { amount, unit_us } => program.sleep_us(op, amount, *unit_us, vars).map_err(|e| e.to_string()),
        other => panic!("{other:?}"),
    };
    assert_eq!(sleep(0, &vars), Ok(10_000_000));
    assert_eq!(sleep(1, &vars), Ok(5_000));
    assert_eq!(sleep(2, &vars), Ok(7));
    assert_eq!(sleep(5, &vars), Ok(-1_000_000));
    assert_eq!(sleep(6, &vars), Ok(3_000_000_000));
    assert_eq!(sleep(3, &vars), Err("sleep: undefined variable \"x\"".to_owned()));
    let Op::Sleep { amount: SleepAmount::Slot(x), .. } = program.ops[3] else { panic!("a variable") };
    vars.set_text(x, b"1.9");
    assert_eq!(sleep(3, &vars), Ok(1_000));
    vars.set_text(x, b"soon");
    assert_eq!(sleep(3, &vars), Err("sleep: invalid sleep time \"soon\" for variable \"x\"".to_owned()));
}
