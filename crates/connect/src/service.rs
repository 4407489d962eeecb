//! Service files: named sets of options.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::env::Env;
use crate::keyword::{self, Settings};
use crate::param_error::{ParamError, system_message};

/// Longest line, in bytes with its end, as in libpq.
const MAX_LINE_BYTES: usize = 1023;

/// Adds the options of the service that `settings` or PGSERVICE name, if any, unless they are
/// already set: from the user's file, then from the system's.
pub fn apply(settings: &mut Settings, env: &Env) -> Result<(), ParamError> {
    let given = |name, variable| match settings.get(name) {
        Some(value) => Ok(Some(value)),
        None => env.var(variable),
    };
    let Some(service) = given("service", "PGSERVICE")?.map(str::to_owned) else {
        return Ok(());
    };
    let given = given("servicefile", "PGSERVICEFILE")?;
    let own = match given {
        Some(path) => Some((PathBuf::from(path), true)),
        None => env.home().map(|home| (home.join(".pg_service.conf"), false)),
    };
    let system = env.system_service_files().into_iter().map(|path| (path, false));
    for (path, required) in own.into_iter().chain(system) {
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound && !required => continue,
            Err(error) => return Err(unreadable(&path, &error)),
        };
        if read_section(&path, &text, &service, settings)? {
            return Ok(());
        }
    }
    Err(ParamError::Other(format!("definition of service \"{service}\" not found")))
}

fn unreadable(path: &Path, error: &std::io::Error) -> ParamError {
    let path = path.display();
    ParamError::Other(match error.kind() {
        ErrorKind::NotFound => format!("service file \"{path}\" not found"),
        _ => format!("could not read service file \"{path}\": {}", system_message(error)),
    })
}

/// Reads the section of this service; returns false if the file has none.
pub(crate) fn read_section(
    path: &Path, text: &[u8], service: &str, settings: &mut Settings,
) -> Result<bool, ParamError> {
    let shown = path.display();
    let fail = |message: String| Err(ParamError::Other(message));
    let mut found = false;
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let number = index + 1;
        if line.len() >= MAX_LINE_BYTES {
            return fail(format!("line {number} too long in service file \"{shown}\""));
        }
        let Ok(line) = std::str::from_utf8(line) else {
            if found && !line.trim_ascii_start().starts_with(b"#") {
                return fail(format!("line {number} is not UTF-8 in service file \"{shown}\""));
            }
            continue;
        };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            if found {
                break;
            }
            found = name.strip_prefix(service).is_some_and(|rest| rest.starts_with(']'));
        } else if found {
            read_setting(line, settings)
                .map_err(|wrong| ParamError::Other(format!("{wrong} in service file \"{shown}\", line {number}")))?;
        }
    }
    Ok(found)
}

fn read_setting(line: &str, settings: &mut Settings) -> Result<(), String> {
    if line.starts_with("ldap") {
        return Err("LDAP lookup is not supported".to_owned());
    }
    let syntax = || "syntax error".to_owned();
    let (name, value) = line.split_once('=').ok_or_else(syntax)?;
    if name == "service" || name == "servicefile" {
        return Err(format!("nested {name} specifications not supported"));
    }
    let name = keyword::find(name).ok_or_else(syntax)?;
    settings.set_default(name, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "# comment\n\n[other]\nhost=other\n\n[bench]\n  host=db.example\nport=6000\ndbname=a b\n[bench]\nuser=never\n";

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            Place(tempfile::tempdir().expect("a directory"))
        }

        fn file(&self, name: &str, text: &str) -> String {
            let path = self.0.path().join(name);
            fs::write(&path, text).expect("writable");
            path.display().to_string()
        }

        fn env(&self) -> Env {
            let dir = self.0.path().display().to_string();
            Env::empty("alice").with("HOME", format!("{dir}/home")).with("PGSYSCONFDIR", dir)
        }
    }

    fn applied(settings: &[(&str, &str)], env: &Env) -> Result<Settings, String> {
        let mut all = Settings::default();
        for (name, value) in settings {
            all.set(name, *value).expect("known");
        }
        apply(&mut all, env).map_err(|error| error.to_string())?;
        Ok(all)
    }

    #[test]
    fn sections_and_files_have_their_precedence() {
        let place = Place::new();
        let env = place.env().with("PGSERVICEFILE", place.file("own.conf", FILE));
        let settings = applied(&[("service", "bench"), ("port", "1")], &env).expect("found");
        assert_eq!(settings.get("host"), Some("db.example"));
        assert_eq!(settings.get("dbname"), Some("a b"));
        assert_eq!(settings.get("port"), Some("1"));
        assert_eq!(settings.get("user"), None, "only the first section counts");
        assert_eq!(applied(&[], &env.with("PGSERVICE", "other")).expect("found").get("host"), Some("other"));
        // the systems file is second
        let place = Place::new();
        place.file("pg_service.conf", "[sys]\nhost=system\n[both]\nhost=system\n");
        fs::create_dir(place.0.path().join("home")).expect("writable");
        let env = place.env();
        assert_eq!(applied(&[("service", "sys")], &env).expect("found").get("host"), Some("system"));
        place.file("home/.pg_service.conf", "[both]\nhost=own\n");
        let host = |service| {
            let settings = applied(&[("service", service)], &env).expect("found");
            settings.get("host").map(str::to_owned)
        };
        assert_eq!(host("both").as_deref(), Some("own"));
        assert_eq!(host("sys").as_deref(), Some("system"));
    }

    #[test]
    fn errors_are_libpqs() {
        let place = Place::new();
        let env = place.env();
        assert_eq!(applied(&[("service", "x")], &env).err().as_deref(), Some("definition of service \"x\" not found"));
        let no_file = applied(&[("service", "x"), ("servicefile", "/nonexistent/x.conf")], &env);
        assert_eq!(no_file.err().as_deref(), Some("service file \"/nonexistent/x.conf\" not found"));
        for (text, message) in [
            ("[x]\nnonsense\n", "syntax error in service file \"F\", line 2"),
            ("[x]\nhots=1\n", "syntax error in service file \"F\", line 2"),
            ("[x]\n\nservice=y\n", "nested service specifications not supported in service file \"F\", line 3"),
            ("[x]\nldap://host/x\n", "LDAP lookup is not supported in service file \"F\", line 2"),
            (&format!("[x]\nuser={}\n", "u".repeat(1100)), "line 2 too long in service file \"F\""),
            ("[xy]\nhost=1\n", "definition of service \"x\" not found"),
        ] {
            let file = place.file("bad.conf", text);
            let settings = [("service", "x"), ("servicefile", file.as_str())];
            assert_eq!(applied(&settings, &env).err().expect(text), message.replace('F', &file), "{text}");
        }
        // a setting that is not utf8 is an error
        let read = |text: &[u8]| {
            let mut settings = Settings::default();
            let read = read_section(Path::new("F"), text, "s", &mut settings);
            read.map_err(|error| error.to_string())
        };
        let wrong = b"[other]\nuser=caf\xe9\n[s]\n# caf\xe9\nuser=caf\xe9\n";
        assert_eq!(read(wrong), Err("line 5 is not UTF-8 in service file \"F\"".to_owned()));
        assert_eq!(read(&wrong[..28]), Ok(true), "the comment");
    }
}
