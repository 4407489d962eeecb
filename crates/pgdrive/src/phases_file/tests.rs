//! Files of phases, and the messages about errors in them.

use super::*;

fn script(name: &str, weight: u32) -> Script {
    Script { name: name.into(), title: format!("<builtin: {name}>"), weight }
}

fn context() -> PhaseContext {
    PhaseContext { scripts: vec![script("tpcb-like", 1), script("select-only", 2)], clients: 8, workers: 2 }
}

fn complaints(text: &str) -> String {
    match parse("f.toml", text, &context()) {
        Ok(phases) => format!("no problem: {phases:?}"),
        Err(failure) => failure.message,
    }
}

#[test]
fn a_file_is_read() {
    let text = r#"
        [[phase]]
        name = "warm"
        duration = "10s"
        rate = 500
        result = false
        [[phase]]
        name = "up"
        duration = "1m30s"
        rate = { from = 500, to = 5_000.5 }
        clients = { from = 2, to = 8 }
        mix = { "<builtin: tpcb-like>" = 1, 2 = 9 }
    "#;
    let phases = parse("f.toml", text, &context()).expect("it is right");
    let [warm, up] = phases.specs() else { panic!("two phases") };
    assert_eq!((warm.result, up.result), (false, true));
    assert_eq!(warm.weights, [1, 2]);
    assert_eq!(warm.clients, Ramp::constant(8.0));
    assert_eq!(up.weights, [1, 9]);
    assert_eq!(up.duration, Duration::from_secs(90));
    assert_eq!(up.rate_per_s, Some(Ramp { from: 500.0, to: 5000.5 }));
    assert_eq!(phases.end(), 100_000_000_000);
}

#[test]
fn all_mistakes_are_said_at_once() {
    let text = "\
[[phase]]
name = \"a b\"
duration = 10
rate = -1
clients = 9
mix = { tpcb = 1 }
result = \"no\"
[[phase]]
rate = { from = 1 }
clients = { from = 1, to = 2.5 }
mix = { select-only = 0 }
speed = 3
";
    assert_eq!(
        complaints(text),
        "\
f.toml:2: phase 1: name: is no name; use up to 64 letters, digits, - and _ in quotes, a letter or digit first
f.toml:3: phase 1: duration: is no duration above zero; write a number with a unit in quotes, such as \"10s\" or \"1m30s\"
f.toml:4: phase 1: rate: is not right; write a number from 0 to 1000000000, or { from = 0, to = 500 }
f.toml:5: phase 1: clients: is not right; write a whole number up to 8 (-c), or { from = 1, to = 8 }
f.toml:6: phase 1: mix.tpcb: is no script of this load; its scripts are tpcb-like, select-only
f.toml:7: phase 1: result: is neither true nor false; write false to leave the phase out of the results
f.toml:8: phase 2: name: is missing; write name = \"warm\"
f.toml:8: phase 2: duration: is missing; write duration = \"10s\"
f.toml:9: phase 2: rate: has no to; write a number from 0 to 1000000000, or { from = 0, to = 500 }
f.toml:10: phase 2: clients.to: is not right; write a whole number up to 8 (-c), or { from = 1, to = 8 }
f.toml:11: phase 2: mix: has no weight above 0; give one script a weight
f.toml:12: phase 2: speed: is not known; a phase has name, duration, rate, clients, mix and result"
    );
}

#[test]
fn phases_must_agree() {
    let closed = "[[phase]]\nname = \"a\"\nduration = \"1s\"\n";
    for (text, complaint) in [
        ("", "f.toml:1: has no phase; begin each with a line [[phase]]".to_owned()),
        ("phase = 3", "f.toml:1: phase: is no list of tables; begin each phase with a line [[phase]]".to_owned()),
        (
            &format!("{closed}{closed}"),
            "f.toml:4: phase 2: name: is \"a\", which is phase 1 already; give each phase a name of its own".to_owned(),
        ),
        (
            &format!("{closed}[[phase]]\nname = \"b\"\nduration = \"1s\"\nrate = 1\n"),
            "f.toml:1: phase 1: rate: is missing, and phase 2 has one; give every phase a rate (0 is a pause) or none".to_owned(),
        ),
        (
            &format!("{closed}rate = 1\nclients = 1\n"),
            "f.toml:1: phase 1: clients: goes down to 1, fewer than the 2 threads (-j) that share the rate; use at least 2, or a smaller -j".to_owned(),
        ),
        (&format!("{closed}clients = 0\n"), "f.toml:1: uses no client in any phase; give one phase clients above 0".to_owned()),
        (&format!("{closed}result = false\n"), "f.toml:1: has no phase with a result; leave result = false out of one".to_owned()),
        (&format!("x = 1\n{closed}"), "f.toml:1: x: is not known here; the file holds [[phase]] tables only".to_owned()),
    ] {
        assert_eq!(complaints(text), complaint);
    }
    assert!(complaints("[[phase]\nname=").starts_with("f.toml:1: is not TOML: "));
    let many: String = (0..101).map(|number| format!("[[phase]]\nname = \"p{number}\"\nduration = \"1s\"\n")).collect();
    assert_eq!(complaints(&many), "f.toml:301: phase: is one too many; a load has at most 100 phases");
    // scripts of one name go by number
    let mut context = context();
    context.scripts[1].name = "tpcb-like".into();
    let text = "[[phase]]\nname = \"a\"\nduration = \"1s\"\nmix = { tpcb-like = 1 }\n";
    let failure = parse("f.toml", text, &context).expect_err("which one?");
    assert_eq!(
        failure.message,
        "f.toml:4: phase 1: mix.tpcb-like: is the name of several scripts; use their numbers, 1 to 2"
    );
}
