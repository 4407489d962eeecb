//! Which files a script in the sandbox may read, and how much memory a state may use.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// What a path refers to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A file, with a path without links.
    File(PathBuf),
    /// No file.
    Missing,
    /// A path outside of the allowed folders; whether it exists is not revealed.
    Outside,
}

/// Folders whose files, at any depth, may be read.
#[derive(Debug, Default, Clone)]
pub(crate) struct Reach {
    folders: Vec<PathBuf>,
}

impl Reach {
    /// Those of `folders` that exist.
    pub fn new(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let folders = folders.into_iter().map(|folder| match folder.as_os_str() {
            here if here.is_empty() => PathBuf::from("."),
            _ => folder,
        });
        Self {
            folders: folders
                .filter_map(|folder| folder.canonicalize().ok())
                .collect(),
        }
    }

    /// What `path` refers to, relative to the current directory.
    pub fn find(&self, path: &Path) -> Found {
        if path.components().any(|part| part == Component::ParentDir) {
            return Found::Outside;
        }
        let Ok(path) = std::path::absolute(path) else {
            return Found::Outside;
        };
        // for a path that does not exist, the nearest folder that does
        let mut there = path.ancestors().map(Path::canonicalize);
        let nearest = there.find_map(Result::ok).unwrap_or_default();
        if !self
            .folders
            .iter()
            .any(|folder| nearest.starts_with(folder))
        {
            return Found::Outside;
        }
        match path.canonicalize() {
            Ok(file) if file == nearest && file.is_file() => Found::File(file),
            _ => Found::Missing,
        }
    }
}

/// How many bytes each of `states` states may use, so that all of them leave half of the memory.
pub(crate) fn memory_limit(states: usize) -> usize {
    let number = |text: String| text.trim().parse::<usize>().ok();
    let of_group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let of_group = of_group.and_then(number).unwrap_or(usize::MAX);
    let of_host = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))?;
        number(line.trim_end_matches("kB").to_owned()).map(|kib| kib << 10)
    });
    let whole = of_group.min(of_host.unwrap_or(usize::MAX));
    (whole / 2 / states.max(1)).max(LEAST_MEMORY)
}

/// A lower limit would not hold a few thousand clients.
const LEAST_MEMORY: usize = 256 << 20;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_below_a_folder_are_reached_and_no_others() {
        let base = std::env::temp_dir().join(format!("pgdyno-reach-{}", std::process::id()));
        let inside = base.join("inside");
        fs::create_dir_all(inside.join("deep")).expect("folders");
        for file in ["inside/a", "inside/deep/b", "secret"] {
            fs::write(base.join(file), "").expect("a file");
        }
        symlink(base.join("secret"), inside.join("out")).expect("a link");
        symlink(inside.join("a"), inside.join("within")).expect("a link");
        symlink(&base, inside.join("up")).expect("a link");
        let reach = Reach::new([inside.clone()]);
        let real = inside.canonicalize().expect("it is there");
        for (name, found) in [
            ("a", Found::File(real.join("a"))),
            ("deep/b", Found::File(real.join("deep/b"))),
            ("within", Found::File(real.join("a"))),
            ("none", Found::Missing),
            ("deep/none/none", Found::Missing),
            ("deep", Found::Missing),
            ("out", Found::Outside),
            ("up/secret", Found::Outside),
            ("up/none", Found::Outside),
            ("deep/../a", Found::Outside),
            ("../secret", Found::Outside),
            ("../none", Found::Outside),
            ("/etc/passwd", Found::Outside),
            ("/etc/none", Found::Outside),
            ("a\0", Found::Missing),
        ] {
            assert_eq!(reach.find(&inside.join(name)), found, "{name}");
        }
        fs::remove_dir_all(base).expect("it is ours");
    }

    #[test]
    fn no_folder_reaches_nothing() {
        assert_eq!(
            Reach::default().find(Path::new("/etc/passwd")),
            Found::Outside
        );
    }
}
