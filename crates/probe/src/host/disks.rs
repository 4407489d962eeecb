//! Block devices, and which of them contain the server's data.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::files::{Files, word};
use super::mounts::{Mount, Place};
use crate::sample::Reading;

const SECTOR_BYTES: f64 = 512.0;

/// A place and the numbers of its device in `/proc/diskstats`.
pub type Device = (Place, (u64, u64));

/// The device of each place: that of its files, or if the kernel does not list that one, of its mount.
pub fn devices(places: Vec<Place>, mounts: &[(Mount, Vec<&'static str>)]) -> (Vec<Device>, Vec<String>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for place in places {
        match fs::metadata(&place.folder) {
            Ok(facts) => {
                let device = facts.dev();
                let major = u64::from(rustix::fs::major(device));
                let of_files = (major, u64::from(rustix::fs::minor(device)));
                let mount = mounts.iter().find(|(_, roles)| roles.contains(&place.role));
                let of_mount = mount.and_then(|(mount, _)| mount.device());
                // major 0 marks a number that the filesystem assigned itself
                let number = of_mount.filter(|_| major == 0).unwrap_or(of_files);
                found.push((place, number));
            }
            Err(error) => problems.push(format!("could not find the device of {}: {error}", place.folder.display())),
        }
    }
    (found, problems)
}

/// The source `disk`: whole devices with any I/O so far, and partitions that contain a place.
pub fn disks(files: &Files, devices: &[Device]) -> Result<Vec<Reading>, String> {
    let text = files.text("proc/diskstats")?;
    let lines = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = (words.first()?.parse().ok()?, words.get(1)?.parse().ok()?);
        let name = *words.get(2)?;
        let roles = devices.iter().filter(|(_, device)| *device == number);
        let holds: Vec<&str> = roles.map(|(place, _)| place.role).collect();
        let is_used = word(&words, 3)? + word(&words, 7)? > 0.0;
        let is_whole = files.path("sys/block").join(name).exists();
        (is_used && (is_whole || !holds.is_empty())).then(|| disk_reading(name, &holds, &words))
    });
    Ok(lines.collect())
}

/// Fields as in the kernel's `admin-guide/iostats`, from the fourth word on.
fn disk_reading(name: &str, holds: &[&str], words: &[&str]) -> Reading {
    let bytes = |number| word(words, number).map(|sectors| sectors * SECTOR_BYTES);
    let us = |number| word(words, number).map(|ms| ms * 1000.0);
    let values = [
        ("reads", word(words, 3)),
        ("read", bytes(5)),
        ("read_await", word(words, 6)),
        ("writes", word(words, 7)),
        ("written", bytes(9)),
        ("write_await", word(words, 10)),
        ("in_flight", word(words, 11)),
        ("utilisation", us(12)),
        ("queue", us(13)),
        ("discards", word(words, 14)),
        ("flushes", word(words, 18)),
        ("flush_await", word(words, 19)),
    ];
    let mut key = vec![("device", name.to_owned())];
    if !holds.is_empty() {
        key.push(("holds", holds.join(" ")));
    }
    Reading::labelled(key, &values)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::files::tests::files;
    use super::*;

    #[test]
    fn partitions_are_there_only_when_they_hold_something() {
        let text = "   7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n\
                    254 0 vda 10 1 16 5 20 2 32 40 1 30 45 3 0 0 0 7 14\n\
                    254 1 vda1 1 1 16 5 20 2 32 40 0 30 45\n\
                    254 2 vda2 1 1 16 5 20 2 32 40 0 30 45\n";
        let (_folder, files) =
            files(&[("proc/diskstats", text), ("sys/block/vda/size", ""), ("sys/block/loop0/size", "")]);
        let place = Place { role: "wal", folder: PathBuf::new() };
        let found = disks(&files, &[(place, (254, 2))]).expect("it is there");
        let names: Vec<_> = found.iter().map(|row| row.key[0].1.as_str()).collect();
        assert_eq!(names, ["vda", "vda2"]);
        assert_eq!(found[1].key[1], ("holds", "wal".to_owned()));
        let value = |name| found[0].values.iter().find(|(known, _)| *known == name);
        assert_eq!(value("read"), Some(&("read", 8192.0)));
        assert_eq!(value("utilisation"), Some(&("utilisation", 30_000.0)));
        assert_eq!(value("flush_await"), Some(&("flush_await", 14.0)));
        assert_eq!(found[1].values.len(), 9);
    }
}
