//! Finds the log of a server.

use std::fs;
use std::path::{Path, PathBuf};

use super::log_line::Format;
use crate::host::Files;

/// The log of the server whose postmaster is `pid`.
///
/// With a logging collector, the server writes the names to `current_logfiles`. Without one, its
/// log is the file to which its standard error is redirected.
pub fn find(files: &Files, data: Option<&Path>, pid: u32) -> Result<(PathBuf, Format), String> {
    let data = data.map_or_else(|| files.path(&format!("proc/{pid}/cwd")), std::borrow::ToOwned::to_owned);
    let collected = fs::read_to_string(data.join("current_logfiles"));
    if let Some(found) = collected.ok().and_then(|text| find_named(&data, &text)) {
        return Ok(found);
    }
    let standard_error = files.path(&format!("proc/{pid}/fd/2"));
    let path = fs::read_link(&standard_error).map_err(|error| {
        format!("could not read {}: {error}; run the probe as the server's user or as root", standard_error.display())
    })?;
    let is_file = fs::metadata(&path).is_ok_and(|facts| facts.is_file());
    if !is_file {
        return Err(format!(
            "the server's log is no file that the probe could read ({}): give it with --log, \
             or let logging_collector write one",
            path.display()
        ));
    }
    let format = Format::of(&path);
    Ok((path, format))
}

/// Of several formats of the same log, the one that can be parsed most reliably.
fn find_named(data: &Path, text: &str) -> Option<(PathBuf, Format)> {
    let kinds = [("jsonlog", Format::Json), ("csvlog", Format::Csv), ("stderr", Format::Plain)];
    kinds.into_iter().find_map(|(kind, format)| {
        let name = text.lines().find_map(|line| {
            let (known, name) = line.split_once(' ')?;
            (known == kind).then_some(name)
        })?;
        // a relative name is relative to the data directory
        Some((data.join(name), format))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_collector_s_file_comes_first_and_json_before_text() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = Files::below(folder.path());
        let data = folder.path().join("data");
        fs::create_dir_all(&data).expect("a folder");
        let names = "stderr log/a.log\ncsvlog log/a.csv\njsonlog /var/log/a.json\n";
        fs::write(data.join("current_logfiles"), names).expect("a file");
        let found = find(&files, Some(&data), 7).expect("it is there");
        assert_eq!(found, (PathBuf::from("/var/log/a.json"), Format::Json));
        fs::write(data.join("current_logfiles"), "stderr log/a.log\n").expect("a file");
        assert_eq!(find(&files, Some(&data), 7).expect("it is there"), (data.join("log/a.log"), Format::Plain));
        // a log that is no file is said with a remedy
        let folder = tempfile::tempdir().expect("a folder");
        let descriptors = folder.path().join("proc/7/fd");
        fs::create_dir_all(&descriptors).expect("a folder");
        std::os::unix::fs::symlink("/dev/null", descriptors.join("2")).expect("a link");
        let error = find(&Files::below(folder.path()), None, 7).expect_err("it is none");
        assert!(error.contains("(/dev/null): give it with --log"), "{error}");
    }
}
