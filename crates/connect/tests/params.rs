//! The sources of parameters, and their precedence.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use pgdyno_connect::{Env, Params, Secret, Sources, SslMode, TargetSessionAttrs};

fn env() -> Env {
    Env::empty("osuser").with_socket_dirs([PathBuf::from("/sockets")])
}

fn resolve(target: &str, env: &Env) -> Params {
    Params::resolve(Some(target), &[], env).expect(target)
}

fn error(target: &str) -> String {
    Params::resolve(Some(target), &[], &env()).expect_err(target).to_string()
}

#[test]
fn defaults_are_libpqs() {
    let params = Params::resolve(None, &[], &env()).expect("defaults");
    assert_eq!(params.display(), "host=/sockets port=5432 dbname=osuser user=osuser");
    assert_eq!(params.sslmode, SslMode::Prefer);
    assert_eq!(params.target_session_attrs, TargetSessionAttrs::Any);
    assert_eq!(params.connect_timeout, None);
    assert!(params.password.is_none() && params.warnings.is_empty());
    // the database is named after the user
    assert_eq!(resolve("user=u", &env()).dbname, "u");
    assert_eq!(resolve("user=u dbname=''", &env()).dbname, "u");
    assert_eq!(resolve("plain", &env()).dbname, "plain");
    assert_eq!(resolve("postgresql:///d", &env()).dbname, "d");
    // empty variables and values
    let env = env().with("PGHOST", "elsewhere").with("PGUSER", "");
    assert_eq!(resolve("host=", &env).display(), "host=/sockets port=5432 dbname=osuser user=osuser");
}

#[test]
fn each_source_wins_over_the_next() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("service.conf");
    std::fs::write(&file, "[s]\nhost=service\nport=4\nuser=service\ndbname=service\n").expect("writable");
    let env = env()
        .with("PGSERVICEFILE", file.display().to_string())
        .with("PGHOST", "variable")
        .with("PGPORT", "5")
        .with("PGUSER", "variable")
        .with("PGDATABASE", "variable")
        .with("PGAPPNAME", "variable");
    let target = "service=s host=string port=3 user=string";
    let sources = Sources {
        options: &[
            ("host", "option".to_owned()),
            ("port", "2".to_owned()),
            ("user", "option".to_owned()),
            ("connect_timeout", "7".to_owned()),
        ],
        target: Some(target),
        overrides: &[("host", "override".to_owned()), ("port", String::new())],
    };
    let params = Params::resolve_from(sources, &env).expect("resolved");
    assert_eq!(params.display(), "host=override port=3 dbname=service user=string");
    assert_eq!(params.application_name.as_deref(), Some("variable"));
    assert_eq!(params.connect_timeout, Some(Duration::from_secs(7)));
    assert_eq!(resolve("", &env).display(), "host=variable port=5 dbname=variable user=variable");
}

#[test]
fn application_names_and_the_predecessor_of_sslmode() {
    let with = |target| resolve(target, &env()).application_name;
    assert_eq!(with("fallback_application_name=f").as_deref(), Some("f"));
    assert_eq!(with("fallback_application_name=f application_name=a").as_deref(), Some("a"));
    // an empty name is a name, of which libpq sends nothing
    assert_eq!(with("fallback_application_name=f application_name=''"), None);
    assert_eq!(resolve("fallback_application_name=f", &env().with("PGAPPNAME", "")).application_name, None);
    // the predecessor of sslmode counts below it
    let old = env().with("PGREQUIRESSL", "1");
    let mode = |target, env: &Env| resolve(target, env).sslmode;
    assert_eq!(mode("", &old), SslMode::Require);
    assert_eq!(mode("sslmode=allow", &old), SslMode::Allow);
    assert_eq!(mode("", &old.clone().with("PGSSLMODE", "disable")), SslMode::Disable);
    assert_eq!(mode("", &env().with("PGREQUIRESSL", "0")), SslMode::Prefer);
    assert_eq!(mode("requiressl=1", &env()), SslMode::Require);
    assert_eq!(mode("requiressl=0", &old), SslMode::Prefer);
    assert_eq!(mode("postgresql:///d?requiressl=1", &env()), SslMode::Require);
}

#[test]
fn the_start_carries_everything() {
    let env = env().with("PGTZ", "UTC").with("PGDATESTYLE", "Default").with("LANG", "de_DE.UTF-8");
    let target = "user=u dbname=d application_name=a client_encoding=auto options='-c x=y' replication=database";
    let params = resolve(target, &env);
    let mut out = Vec::new();
    let startup = params.startup(&params.hosts[0]);
    startup.first(&mut out).expect("encodable");
    assert_eq!(
        out[8..].escape_ascii().to_string(),
        r"user\x00u\x00database\x00d\x00replication\x00database\x00options\x00-c x=y\x00application_name\x00a\x00client_encoding\x00UTF8\x00timezone\x00UTC\x00\x00"
    );
}

#[test]
fn values_are_read_as_numbers_or_refused_in_libpqs_words() {
    for (target, message) in [
        ("connect_timeout=soon", "invalid integer value \"soon\" for connection option \"connect_timeout\""),
        ("gssencmode=maybe", "invalid gssencmode value: \"maybe\""),
        ("gssencmode=require", "gssencmode value \"require\" invalid when GSSAPI support is not compiled in"),
        ("require_auth=scram-sha-256,md4", "invalid require_auth value: \"md4\""),
    ] {
        assert_eq!(error(target), message);
    }
    let overrides = [("nonsense", String::new())];
    let error = Params::resolve(None, &overrides, &env()).expect_err("unknown");
    assert_eq!(error.to_string(), "invalid connection option \"nonsense\"");
    // numbers
    let target = "connect_timeout=' 3 ' keepalives=0 keepalives_idle=4 keepalives_interval=-1 keepalives_count=5 tcp_user_timeout=1500";
    let params = resolve(target, &env());
    assert_eq!(params.connect_timeout, Some(Duration::from_secs(3)));
    assert!(!params.keepalives.enabled);
    assert_eq!(params.keepalives.idle, Some(Duration::from_secs(4)));
    assert_eq!(params.keepalives.interval, None);
    assert_eq!(params.keepalives.count, Some(5));
    assert_eq!(params.keepalives.user_timeout, Some(Duration::from_millis(1500)));
    assert_eq!(resolve("connect_timeout=0", &env()).connect_timeout, None);
}

#[test]
fn passwords_come_from_the_file_by_host_and_are_not_shown() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pgpass");
    std::fs::write(&file, "localhost:5432:*:osuser:for socket\na:1:*:*:for a\nb:2:*:*:for b\n").expect("writable");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&file, private).expect("own file");
    let with_file = env().with("PGPASSFILE", file.display().to_string());
    let passwords = |target| -> Vec<_> {
        let hosts = resolve(target, &with_file).hosts;
        hosts.iter().map(|host| host.password.as_ref().map(|p| p.reveal().to_owned())).collect()
    };
    assert_eq!(passwords("host=a,b,c port=1,2,3"), [Some("for a".to_owned()), Some("for b".to_owned()), None]);
    assert_eq!(passwords("")[0].as_deref(), Some("for socket"));
    let given = resolve("host=a port=1 password=given", &with_file);
    assert!(given.hosts[0].password.is_none());
    assert_eq!(given.password, Some(Secret::new("given")));

    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&file, open).expect("own file");
    let params = resolve("host=a port=1", &with_file);
    assert!(params.hosts[0].password.is_none());
    assert_eq!(params.warnings.len(), 1);
    // passwords are not shown
    let env = env().with("PGPASSWORD", "hunter2");
    for target in ["", "password=hunter2", "postgresql://u:hunter2@h/d"] {
        let params = resolve(target, &env);
        assert_eq!(params.password, Some(Secret::new("hunter2")));
        let shown = format!("{params:?} {} {}", params.display(), Secret::new("hunter2"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
