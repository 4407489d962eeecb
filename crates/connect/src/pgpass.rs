//! The password file, with one line of `host:port:database:user:password` for each password.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::str::Utf8Error;

use zeroize::Zeroizing;

use crate::secret::Secret;

/// The key under which a password is looked up.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Name, address or socket directory; `localhost` for the default socket.
    pub host: &'a str,
    pub port: u16,
    pub dbname: &'a str,
    pub user: &'a str,
}

pub struct PasswordFile {
    text: Zeroizing<Vec<u8>>,
}

impl PasswordFile {
    /// Reads the file. Without a file there are no passwords. A file that others may read, or that
    /// is not a plain file, is ignored with a warning.
    pub fn read(path: &Path) -> (PasswordFile, Option<String>) {
        let mut text = Zeroizing::new(Vec::new());
        let warning = read_if_private(path, &mut text).err();
        (PasswordFile { text }, warning)
    }

    #[cfg(any(test, fuzzing))]
    pub(crate) fn of(text: &[u8]) -> PasswordFile {
        PasswordFile { text: Zeroizing::new(text.to_vec()) }
    }

    /// The password of the first line that matches. An empty password counts as none.
    pub fn find(&self, key: Key<'_>) -> Result<Option<Secret>, Utf8Error> {
        let port = key.port.to_string();
        let wanted = [key.host, &port, key.dbname, key.user];
        let line = self.text.split(|&byte| byte == b'\n').find_map(|line| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.starts_with(b"#") {
                return None;
            }
            let fits = |rest, want: &&str| match_field(rest, want.as_bytes());
            wanted.iter().try_fold(line, fits)
        });
        let Some(line) = line else {
            return Ok(None);
        };
        let password = unescape(line);
        let text = std::str::from_utf8(&password)?;
        Ok((!text.is_empty()).then(|| Secret::new(text)))
    }
}

fn read_if_private(path: &Path, text: &mut Vec<u8>) -> Result<(), String> {
    let Ok(mut file) = fs::File::open(path) else {
        return Ok(());
    };
    let Ok(metadata) = file.metadata() else {
        return Ok(());
    };
    let shown = path.display();
    if !metadata.is_file() {
        return Err(format!("WARNING: password file \"{shown}\" is not a plain file"));
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(format!(
            "WARNING: password file \"{shown}\" has group or world access; permissions should be u=rw (0600) or less"
        ));
    }
    if file.read_to_end(text).is_err() {
        text.clear();
    }
    Ok(())
}

fn match_field<'a>(line: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    if let Some(rest) = line.strip_prefix(b"*:") {
        return Some(rest);
    }
    let mut rest = line;
    for &byte in wanted {
        let tail = match rest {
            [b'\\', escaped, tail @ ..] if *escaped == byte => tail,
            [b'\\', ..] => return None,
            [plain, tail @ ..] if *plain == byte => tail,
            _ => return None,
        };
        rest = tail;
    }
    rest.strip_prefix(b":")
}

fn unescape(field: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut text = Zeroizing::new(Vec::with_capacity(field.len()));
    let mut bytes = field.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b':' => break,
            b'\\' => text.push(*bytes.next().unwrap_or(&b'\\')),
            byte => text.push(byte),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# comment:*:*:*:no\n\
        db:5432:bench:alice:first\n\
        db:5432:bench:alice:second\n\
        db:*:other:*:any port\r\n\
        \\:\\:1:5432:*:*:v6\n\
        ::2:5432:*:*:unescaped\n\
        a\\\\b:*:*:*:back\\\\slash\\:colon:rest\n\
        empty:*:*:*:\n\
        /tmp/sock:*:*:*:socket\n\
        *:6000:*:*:by port\n\
        short:1\n\
        last:*:*:*:no newline";

    fn find(host: &str, port: u16, dbname: &str, user: &str) -> Option<String> {
        let file = PasswordFile { text: Zeroizing::new(FILE.as_bytes().to_vec()) };
        let key = Key { host, port, dbname, user };
        let found = file.find(key).expect("UTF-8");
        found.map(|secret| secret.reveal().to_owned())
    }

    #[test]
    fn the_first_line_that_fits_counts() {
        for (host, port, dbname, user, expected) in [
            ("db", 5432, "bench", "alice", Some("first")),
            ("db", 5433, "bench", "alice", None),
            ("db", 5432, "bench", "bob", None),
            ("db", 9, "other", "bob", Some("any port")),
            ("::1", 5432, "x", "y", Some("v6")),
            ("::2", 5432, "x", "y", Some("unescaped")),
            ("a\\b", 1, "x", "y", Some("back\\slash:colon")),
            ("empty", 1, "x", "y", None),
            ("/tmp/sock", 1, "x", "y", Some("socket")),
            ("anything", 6000, "x", "y", Some("by port")),
            ("last", 1, "x", "y", Some("no newline")),
            ("# comment", 1, "x", "y", None),
            ("d", 5432, "bench", "alice", None),
            ("", 1, "x", "y", None),
        ] {
            assert_eq!(find(host, port, dbname, user).as_deref(), expected, "{host}");
        }
        // a password that is not utf8 is an error
        let file = PasswordFile::of(b"caf\xe9:*:*:*:pw\nh:*:*:*:caf\xe9\n");
        let key = |host| Key { host, port: 1, dbname: "d", user: "u" };
        assert!(file.find(key("h")).is_err());
        assert_eq!(file.find(key("other")), Ok(None));
    }

    #[test]
    fn files_of_others_are_ignored_with_a_warning() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("pgpass");
        let key = Key { host: "h", port: 1, dbname: "d", user: "u" };
        fs::write(&path, "*:*:*:*:pw\n").expect("writable");
        for (mode, works) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("own file");
            let (file, warning) = PasswordFile::read(&path);
            assert_eq!(file.find(key) != Ok(None), works, "{mode:o}");
            assert_eq!(warning.is_none(), works, "{mode:o}");
        }
        let (_, warning) = PasswordFile::read(&path);
        assert_eq!(
            warning,
            Some(format!(
                "WARNING: password file \"{}\" has group or world access; permissions should be u=rw (0600) or less",
                path.display()
            ))
        );
        let (_, warning) = PasswordFile::read(dir.path());
        assert!(warning.is_some_and(|text| text.ends_with("is not a plain file")));
        let (file, warning) = PasswordFile::read(&dir.path().join("missing"));
        assert!(file.find(key) == Ok(None) && warning.is_none());
    }
}
