//! Invariants for every connection string and every content of libpq's files. The fuzz target calls
//! it with fuzzed bytes, and the test below with every file of its corpus.

use std::path::Path;

use crate::conninfo;
use crate::env::Env;
use crate::keyword::Settings;
use crate::params::Params;
use crate::pgpass::{Key, PasswordFile};
use crate::service;
use crate::uri;

/// Options that name files: their contents are fuzzed, not their paths.
const FILES: [&str; 3] = ["passfile", "service", "servicefile"];

/// Appears in passwords of the corpus, and nowhere else.
const SECRET: &str = "hunter2";

/// The first byte chooses how the rest is read.
pub fn conninfo(data: &[u8]) {
    let Some((&mode, rest)) = data.split_first() else { return };
    match mode % 4 {
        0 | 1 => connection_string(&String::from_utf8_lossy(rest)),
        2 => password_file(rest),
        _ => service_file(rest),
    }
}

fn connection_string(text: &str) {
    let settings = match conninfo::parse(text) {
        Ok(settings) => settings,
        Err(error) => {
            let words = error.to_string();
            return assert!(!words.is_empty());
        }
    };
    // written as text and read again, it is the same
    let written: Vec<String> =
        settings.iter().map(|(name, value)| format!("{name}={}", conninfo::quote(value))).collect();
    let again = conninfo::parse(&written.join(" ")).expect("it was well formed");
    assert!(settings.iter().eq(again.iter()), "{text:?} {written:?}");
    if FILES.iter().any(|name| settings.get(name).is_some()) {
        return;
    }
    match Params::resolve(Some(text), &[], &Env::empty("alice").with("HOME", "/nonexistent")) {
        Ok(params) => {
            assert!(!params.hosts.is_empty());
            let (shown, debug) = (params.display(), format!("{params:?}"));
            if settings.iter().all(|(name, value)| name == "password" || !value.contains(SECRET)) {
                assert!(!shown.contains(SECRET) && !debug.contains(SECRET));
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if uri::is_uri(text) {
        // used in messages, so it must not fail on text that the reader refused
        let _ = uri::mask(text);
    }
}

fn password_file(text: &[u8]) {
    let file = PasswordFile::of(text);
    for (host, port) in [("localhost", 5432), ("db", 1), ("::1", 65535), ("a\\:b", 0)] {
        if let Ok(Some(secret)) = file.find(Key { host, port, dbname: "bench", user: "alice" }) {
            assert!(!secret.reveal().is_empty());
            assert!(text.contains(&b':'));
        }
    }
}

fn service_file(text: &[u8]) {
    for name in ["bench", "", "]"] {
        let mut settings = Settings::default();
        match service::read_section(Path::new("services"), text, name, &mut settings) {
            Ok(found) => assert!(found || settings.iter().next().is_none()),
            Err(error) => assert!(error.to_string().contains("services"), "{error}"),
        }
    }
}

#[cfg(test)]
#[path = "../../../fuzz/corpus.rs"]
mod corpus;

#[test]
fn the_corpus() {
    corpus::replay("conninfo", conninfo);
}
