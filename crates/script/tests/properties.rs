//! Properties of every script, whatever its text: there is no panic, and the results are consistent.

mod common;

use common::generate::{expression, fragment};
use common::{run, source};
use pgdyno_script::{QueryMode, Symbols, compile, parse};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn parsing_never_panics(parts in prop::collection::vec(fragment(), 0..30)) {
        let text = parts.concat();
        match parse(&source(&text)) {
            Err(error) => prop_assert!(!error.to_string().is_empty()),
            Ok(script) => {
                for mode in [QueryMode::Simple, QueryMode::Extended] {
                    let program = compile(&script, mode, &mut Symbols::new()).unwrap();
                    // Everything to which a program refers exists.
                    for op in 0..program.ops.len() {
                        prop_assert!(program.command_number(op) < program.commands.len());
                    }
                }
            }
        }
    }

    /// A constant and a variable with the same value give the same result, although only the first is folded.
    #[test]
    fn folding_changes_nothing(expr in expression()) {
        let folded = run(&format!("\\set y debug({})\n", expr.replace(":x", "7")), &[]);
        let plain = run(&format!("\\set y debug({expr})\n"), &[("x", "7")]);
        prop_assert_eq!(folded, plain);
    }

    #[test]
    fn scripts_end(parts in prop::collection::vec(0usize..6, 0..20)) {
        let mut text = String::from("SELECT 1;\n");
        let mut open = 0;
        for part in parts {
            match part {
                0 | 1 => { text.push_str("\\if random(0, 1)\n"); open += 1; }
                2 if open > 0 => { text.push_str("\\endif\n"); open -= 1; }
                3 if open > 0 => text.push_str("\\elif random(0, 1)\nSELECT 2;\n"),
                _ => text.push_str("SELECT 3;\n"),
            }
        }
        text.push_str(&"\\endif\n".repeat(open));
        // All jumps go forward, or it fails.
        run(&text, &[]);
    }
}
