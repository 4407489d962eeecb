//! The mounts of the server's directories, and their free space.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::files::Files;
use crate::sample::Reading;

/// A directory and its purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The purpose: `data` or `wal`.
    pub role: &'static str,
    /// The directory, with links resolved.
    pub folder: PathBuf,
}

/// The data directory and the directory of its WAL. Without `wal`, that is the target of the server's link.
pub fn places(data: Option<&Path>, wal: Option<&Path>) -> Vec<Place> {
    let wal = wal.map(Path::to_owned);
    let wal = wal.or_else(|| data.map(|data| data.join("pg_wal")));
    let roles = [("data", data.map(Path::to_owned)), ("wal", wal)];
    let given = roles.into_iter().filter_map(|(role, folder)| {
        let folder = folder?;
        Some(Place { role, folder })
    });
    given.collect()
}

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    point: PathBuf,
    filesystem: String,
    source: String,
}

/// The mount of each place; places without one are left out.
pub fn mounts(files: &Files, places: &[Place]) -> Vec<(Mount, Vec<&'static str>)> {
    let text = files.text_if_any("proc/self/mountinfo").unwrap_or_default();
    let all: Vec<Mount> = text.lines().filter_map(mount).collect();
    let mut found: Vec<(Mount, Vec<&'static str>)> = Vec::new();
    for place in places {
        let folder = fs::canonicalize(&place.folder).unwrap_or_else(|_| place.folder.clone());
        let Some(mount) = mount_of(&all, &folder) else {
            continue;
        };
        match found.iter_mut().find(|(known, _)| known == mount) {
            Some((_, roles)) => roles.push(place.role),
            None => found.push((mount.clone(), vec![place.role])),
        }
    }
    found
}

/// Of several mounts above the directory the deepest; of several at one path the last, which hides the others.
fn mount_of<'a>(all: &'a [Mount], folder: &Path) -> Option<&'a Mount> {
    let above = all.iter().filter(|mount| folder.starts_with(&mount.point));
    above.max_by_key(|mount| mount.point.components().count())
}

/// Fields as in proc_pid_mountinfo(5): the filesystem and its source come after a single dash.
fn mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    Some(Mount {
        point: unescape(before.split(' ').nth(4)?).into(),
        filesystem: after.next()?.to_owned(),
        source: unescape(after.next()?),
    })
}

/// Blanks and similar characters are written as three octal digits.
fn unescape(text: &str) -> String {
    let pairs = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    let plain = |text: String, (code, char): &(&str, &str)| text.replace(code, char);
    pairs.iter().fold(text.to_owned(), plain)
}

impl Mount {
    /// Major and minor number of the underlying block device, if the filesystem names one. Filesystems with volumes of
    /// their own (btrfs) give their files numbers that belong to no device.
    pub fn device(&self) -> Option<(u64, u64)> {
        let device = fs::metadata(&self.source).ok()?.rdev();
        let number = (u64::from(rustix::fs::major(device)), u64::from(rustix::fs::minor(device)));
        (self.source.starts_with("/dev/") && number != (0, 0)).then_some(number)
    }
}

/// The source `mount`: the space on each of them.
pub fn room(mounts: &[(Mount, Vec<&'static str>)]) -> Result<Vec<Reading>, String> {
    let readings = mounts.iter().map(|(mount, roles)| {
        let point = &mount.point;
        let facts =
            rustix::fs::statvfs(point).map_err(|error| format!("could not look at {}: {error}", point.display()))?;
        let bytes = |blocks: u64| blocks as f64 * facts.f_frsize as f64;
        let key = vec![
            ("mount", point.display().to_string()),
            ("holds", roles.join(" ")),
            ("filesystem", mount.filesystem.clone()),
            ("device", mount.source.clone()),
        ];
        Ok(Reading::labelled(
            key,
            &[
                ("size", Some(bytes(facts.f_blocks))),
                ("free", Some(bytes(facts.f_bavail))),
                ("files_free", Some(facts.f_favail as f64)),
            ],
        ))
    });
    readings.collect()
}

#[cfg(test)]
mod tests {
    use super::super::files::tests::files;
    use super::*;

    #[test]
    fn the_deepest_mount_holds_a_folder_and_both_roles_may_be_on_one() {
        let text = "27 1 254:0 / / rw - ext4 /dev/vda rw\n\
                    43 27 0:39 / /srv/my\\040pg rw,relatime shared:1 - btrfs /dev/vdb rw,subvol=/\n\
                    44 27 0:40 / /srv/my rw - tmpfs none rw\n";
        let (_root, files) = files(&[("proc/self/mountinfo", text)]);
        let place = |role, folder: &str| Place { role, folder: folder.into() };
        let places = [place("data", "/srv/my pg/18/main"), place("wal", "/srv/my pg/18/main/pg_wal")];
        let found = mounts(&files, &places);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0.filesystem, "btrfs");
        assert_eq!(found[0].0.source, "/dev/vdb");
        assert_eq!(found[0].1, ["data", "wal"]);
        assert_eq!(mounts(&files, &[place("wal", "/wal")])[0].0.point, Path::new("/"));
        // room is what the filesystem says
        let mount = Mount { point: "/".into(), filesystem: "any".into(), source: "none".into() };
        assert_eq!(mount.device(), None);
        let found = room(&[(mount, vec!["data"])]).expect("it is there");
        let size = found[0].values[0].1;
        assert!(found[0].values[1].1 <= size && size > 0.0);
    }
}
