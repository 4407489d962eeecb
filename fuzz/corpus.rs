//! Calls a fuzz target with every file of its corpus. Tests of the crates include this file.

use std::fs;
use std::path::Path;

pub fn replay(target: &str, check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = fs::read_dir(folder).expect("a corpus").map(|entry| entry.expect("an entry").path());
    let count = files.map(|file| check(&fs::read(file).expect("a file"))).count();
    assert!(count > 10, "the corpus of {target} has {count} files");
}
