//! Sessions with a real server that the test starts, with every authentication method.
//!
//! Run with `PGDYNO_TEST_PG_BIN` set to a directory with `initdb` and `postgres`, and `--ignored`.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use pgdyno_connect::{Env, Params, Poolers, Session, SessionError, Stream};
use pgdyno_wire::{SqlState, TxStatus};

/// PostgreSQL refuses to run as root, so the tests of root run it as nobody.
const NOBODY: u32 = 65534;

/// A server in a directory of its own, stopped and removed when dropped.
struct Server {
    process: Child,
    dir: tempfile::TempDir,
    port: u16,
}

impl Server {
    /// Starts a server with a role for each authentication method, all with the password `secret`.
    fn start() -> Server {
        let bin = PathBuf::from(std::env::var_os("PGDYNO_TEST_PG_BIN").expect("PGDYNO_TEST_PG_BIN"));
        let dir = tempfile::tempdir().expect("a directory");
        let as_root = fs::metadata("/proc/self").map(|own| {
            use std::os::unix::fs::MetadataExt;
            own.uid() == 0
        });
        let as_root = as_root.expect("/proc");
        if as_root {
            std::os::unix::fs::chown(dir.path(), Some(NOBODY), Some(NOBODY)).expect("root may");
        }
        let run = |program: &str| {
            let mut command = Command::new(bin.join(program));
            command.current_dir(dir.path()).stdout(Stdio::null());
            if as_root {
                command.uid(NOBODY).gid(NOBODY);
            }
            command
        };
        let data = dir.path().join("data");
        let made = run("initdb").args(["-N", "-A", "trust", "-U", "postgres", "-D"]).arg(&data).status();
        assert!(made.expect("initdb").success());
        let hba = "local all all trust\n\
            host all by_md5 all md5\n\
            host all by_scram all scram-sha-256\n\
            host all by_password all password\n\
            host all unlucky all reject\n\
            host all all all trust\n";
        fs::write(data.join("pg_hba.conf"), hba).expect("writable");
        let port = free_port();
        let process = run("postgres")
            .arg("-D")
            .arg(&data)
            .args(["-p", &port.to_string(), "-h", "127.0.0.1"])
            .args(["-c", "fsync=off", "-k"])
            .arg(dir.path())
            .stderr(fs::File::create(dir.path().join("log")).expect("writable"))
            .spawn()
            .expect("postgres");
        let server = Server { process, dir, port };
        server.make_roles();
        server
    }

    fn make_roles(&self) {
        let mut session = self.wait();
        session
            .execute(
                "set password_encryption = 'md5'; create role by_md5 login password 'secret';
                 set password_encryption = 'scram-sha-256'; create role by_scram login password 'secret';
                 create role by_password login password 'secret'; create role unlucky login",
            )
            .expect("roles");
    }

    fn wait(&self) -> Session {
        for _ in 0..600 {
            if let Ok(session) = Session::connect(&self.unix("")) {
                return session;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let log = fs::read_to_string(self.dir.path().join("log"));
        panic!("the server did not start: {log:?}");
    }

    fn params(&self, text: &str) -> Params {
        let env = Env::empty("postgres").with("PGAPPNAME", "real_server");
        Params::resolve(Some(text), &[], &env).expect(text)
    }

    fn unix(&self, more: &str) -> Params {
        let dir = self.dir.path().display();
        self.params(&format!("host='{dir}' port={} dbname=postgres {more}", self.port))
    }

    fn tcp(&self, more: &str) -> Params {
        self.params(&format!("host=127.0.0.1 port={} dbname=postgres {more}", self.port))
    }

    fn failed(&self, what: &str) -> String {
        let port = self.port;
        format!("connection to server at \"127.0.0.1\", port {port} failed: {what}")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Immediate shutdown, which removes shared memory; a kill if that fails.
        let pid = self.process.id().to_string();
        let asked = Command::new("kill").args(["-QUIT", &pid]).status();
        if !asked.is_ok_and(|status| status.success()) {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

fn connect(params: &Params) -> Session {
    Session::connect(params).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
#[ignore = "needs PGDYNO_TEST_PG_BIN"]
fn a_real_server() {
    let server = Server::start();
    every_way_to_authenticate(&server);
    no_pooler(&server);
    allowed_ways(&server);
    refusals(&server);
    password_files(&server);
    kinds(&server);
    queries(&server);
    copies(&server);
    handing_on(&server);
    being_terminated(&server);
}

fn every_way_to_authenticate(server: &Server) {
    for role in ["by_md5", "by_scram", "by_password"] {
        let params = server.tcp(&format!("user={role} password=secret"));
        for _ in 0..3 {
            let mut session = connect(&params);
            let user = session.query_one_value("select current_user").expect("a row");
            assert_eq!(user.as_deref(), Some(role));
        }
        let none = Session::connect(&server.tcp(&format!("user={role}"))).expect_err("no password");
        assert_eq!(none.to_string(), server.failed("fe_sendauth: no password supplied"));
        let wrong = server.tcp(&format!("user={role} password=wrong"));
        let wrong = Session::connect(&wrong).expect_err("wrong password");
        assert_eq!(
            wrong.to_string(),
            server.failed(&format!("FATAL:  password authentication failed for user \"{role}\""))
        );
    }
    let session = connect(&server.tcp("user=postgres"));
    assert!(matches!(session.into_stream(), Ok(Stream::Tcp(_))));
    let session = connect(&server.unix(""));
    assert!(matches!(session.into_stream(), Ok(Stream::Unix(_))));
}

fn no_pooler(server: &Server) {
    for mut params in [server.tcp("user=postgres"), server.unix("")] {
        params.poolers = Poolers::Refused;
        let mut session = connect(&params);
        assert_eq!(session.pooler().expect("an answer"), None);
        assert!(session.passes_names_on().expect("an answer"));
        let left = "select count(*) from pg_prepared_statements";
        let left = session.query_one_value(left).expect("a count");
        assert_eq!(left.as_deref(), Some("0"));
        assert_eq!(session.transaction_status(), TxStatus::Idle);
    }
}

fn allowed_ways(server: &Server) {
    for (role, way, asks) in [
        ("by_md5", "md5", "server requested a hashed password"),
        ("by_scram", "scram-sha-256", "server requested SASL authentication"),
        ("by_password", "password", "server requested a cleartext password"),
        ("postgres", "none", "server did not complete authentication"),
    ] {
        let with = |allowed: &str| server.tcp(&format!("user={role} password=secret require_auth={allowed}"));
        connect(&with(way));
        connect(&with(way).without_scram_cache());
        let refused = Session::connect(&with("gss,sspi")).expect_err("another way is required");
        let why = format!("authentication method requirement \"gss,sspi\" failed: {asks}");
        assert_eq!(refused.to_string(), server.failed(&why));
    }
}

fn refusals(server: &Server) {
    let reject = Session::connect(&server.tcp("user=unlucky")).expect_err("rejected");
    let code = reject.server_error().map(|error| error.sqlstate());
    assert_eq!(code, Some(SqlState::INVALID_AUTHORIZATION_SPECIFICATION));
    let missing = Session::connect(&server.tcp("user=postgres dbname=missing")).expect_err("none");
    assert_eq!(missing.to_string(), server.failed("FATAL:  database \"missing\" does not exist"));
    let peer = Session::connect(&server.unix("requirepeer=nosuchuser")).expect_err("other user");
    assert!(peer.to_string().contains("requirepeer specifies \"nosuchuser\", but actual peer user name is"), "{peer}");
}

fn password_files(server: &Server) {
    let file = server.dir.path().join("pgpass");
    let port = server.port;
    let lines = format!("127.0.0.1:{port}:*:by_scram:secret\n127.0.0.1:*:*:by_md5:wrong\n");
    fs::write(&file, lines).expect("writable");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("own file");
    let with_file = |role: &str, file: &Path| server.tcp(&format!("user={role} passfile='{}'", file.display()));
    connect(&with_file("by_scram", &file));
    let error = Session::connect(&with_file("by_md5", &file)).expect_err("wrong password");
    assert_eq!(
        error.to_string(),
        server.failed(&format!(
            "FATAL:  password authentication failed for user \"by_md5\"\npassword retrieved from file \"{}\"",
            file.display()
        ))
    );
}

fn kinds(server: &Server) {
    for (attrs, works) in
        [("read-write", true), ("primary", true), ("prefer-standby", true), ("read-only", false), ("standby", false)]
    {
        let params = server.unix(&format!("target_session_attrs={attrs}"));
        assert_eq!(Session::connect(&params).is_ok(), works, "{attrs}");
    }
    let read_only = "options='-c default_transaction_read_only=on'";
    connect(&server.unix(&format!("target_session_attrs=read-only {read_only}")));
    let error = Session::connect(&server.unix(&format!("target_session_attrs=read-write {read_only}")));
    let error = error.expect_err("read-only").to_string();
    assert!(error.ends_with("failed: session is read-only"), "{error}");
}

fn queries(server: &Server) {
    let mut session = connect(&server.unix("connect_timeout=5 client_encoding=auto"));
    let version = session.query_one_value("show server_version_num");
    let version = version.expect("a row").and_then(|text| text.parse().ok());
    assert_eq!(Some(session.server_version_num), version);
    let pid = session.query_one_value("select pg_backend_pid()").expect("a row");
    assert_eq!(pid, Some(session.backend_pid().to_string()));
    let name = session.query_one_value("show application_name");
    assert_eq!(name.expect("a row").as_deref(), Some("real_server"));

    let results = session
        .simple_query("create temp table t (a int, b text); insert into t values (1, 'x'), (2, null); select * from t order by a; ;")
        .expect("results");
    assert_eq!(results.len(), 3);
    assert_eq!(results[1].tag, "INSERT 0 2");
    assert_eq!(results[2].columns, ["a", "b"]);
    assert_eq!(results[2].rows, [[Some("1".to_owned()), Some("x".to_owned())], [Some("2".to_owned()), None]]);
    assert_eq!(session.execute("update t set b = 'y'").expect("updated"), 2);
    assert_eq!(session.simple_query("").expect("empty").len(), 1);

    let sql = "select *\n\tfrom nowhere where a = 1";
    let error = session.simple_query(sql).expect_err("no such table");
    assert_eq!(error.sqlstate(), Some(SqlState::UNDEFINED_TABLE));
    let shown = error.server_error().map(|error| error.display_with_query(sql));
    assert_eq!(
        shown.as_deref(),
        Some("ERROR:  relation \"nowhere\" does not exist\nLINE 2:  from nowhere where a = 1\n              ^")
    );
    session.execute("begin").expect("begun");
    assert_eq!(session.transaction_status(), TxStatus::InBlock);
    assert!(session.execute("select 1/0").is_err());
    assert_eq!(session.transaction_status(), TxStatus::Failed);
    session.execute("rollback").expect("rolled back");
    session.execute("do $$ begin raise notice 'hello'; end $$; set timezone = 'Asia/Tokyo'").expect("done");
    assert_eq!(session.take_notices()[0].to_string(), "NOTICE:  hello");
    assert_eq!(session.parameter("TimeZone"), Some("Asia/Tokyo"));

    for (sql, what) in [
        ("copy t from stdin", "could not run query: the server expects COPY data"),
        ("copy t to stdout", "could not run query: the server sends COPY data"),
    ] {
        let error = session.simple_query(sql).expect_err("COPY");
        assert_eq!(error.to_string(), what);
    }
    assert!(matches!(session.query_one_value("select 1 where false"), Err(SessionError::Unexpected(_))));
    assert!(session.simple_query("select 'a\0b'").is_err());
    assert_eq!(session.execute("select 1").expect("still there"), 1);
    session.close().expect("taken leave");
}

fn copies(server: &Server) {
    let mut session = connect(&server.unix(""));
    session.execute("create temp table c (a int, b text)").expect("made");
    let mut copy = session.copy_in("copy c from stdin").expect("COPY");
    for number in 0..200_000 {
        copy.write_with(|buffer| {
            buffer.extend_from_slice(format!("{number}\tsome text to fill a row with\n").as_bytes());
        })
        .expect("taken");
    }
    assert_eq!(copy.finish().expect("copied"), 200_000);
    let sum = session.query_one_value("select sum(a) from c").expect("a row");
    assert_eq!(sum.as_deref(), Some("19999900000"));

    // The data is longer than one message, and is written in one piece.
    let mut copy = session.copy_in("copy c from stdin").expect("COPY");
    copy.write("7\tx\n".repeat(20_000_000).as_bytes()).expect("taken");
    assert_eq!(copy.finish().expect("copied"), 20_000_000);

    let mut copy = session.copy_in("copy c from stdin").expect("COPY");
    let refused = (0..100_000).find_map(|_| copy.write(&b"not a number\tx\n".repeat(100)).err());
    let error = refused.expect("refused while it is sent");
    assert_eq!(error.sqlstate(), Some(SqlState::INVALID_TEXT_REPRESENTATION));
    drop(copy);

    let mut copy = session.copy_in("copy c from stdin").expect("COPY");
    copy.write(b"1\tx\n").expect("taken");
    copy.abort("not wanted").expect("aborted");
    let copy = session.copy_in("copy c from stdin").expect("COPY");
    assert_eq!(copy.finish().expect("nothing"), 0);
    let error = session.copy_in("select 1").expect_err("no COPY");
    assert!(matches!(error, SessionError::Unexpected(_)));
    let error = session.copy_in("copy nowhere from stdin").expect_err("no table");
    assert_eq!(error.sqlstate(), Some(SqlState::UNDEFINED_TABLE));

    drop(session.copy_in("copy c from stdin").expect("COPY"));
    assert!(matches!(session.execute("select 1"), Err(SessionError::Unusable)));
}

/// Continues with the socket at protocol level, prepared and pipelined, as a load engine does.
fn handing_on(server: &Server) {
    use pgdyno_wire::{BindTemplate, Capture, Columns, Exchange, Reply, frontend};
    use std::io::{Read, Write};

    let session = connect(&server.tcp("user=by_scram password=secret"));
    let mut stream = session.into_stream().expect("nothing unread");
    let mut out = Vec::new();
    frontend::parse(&mut out, "s", "select $1::int + 1", &[]).expect("encodable");
    let template = BindTemplate::new("s", 1, Columns::Undescribed).expect("encodable");
    for number in 0..100 {
        let write = |_, out: &mut Vec<u8>| write!(out, "{number}").is_ok();
        template.append(&mut out, write).expect("encodable");
        frontend::sync(&mut out);
    }
    stream.write_all(&out).expect("sent");
    let mut exchange = Exchange::new(Capture::Rows, false);
    let mut sum = 0;
    let mut ready = 0;
    let mut buffer = [0; 77];
    while ready < 100 {
        let bytes = stream.read(&mut buffer).expect("received");
        assert!(bytes > 0);
        let mut input = &buffer[..bytes];
        while let Some(reply) = exchange.next(&mut input).expect("the protocol") {
            match reply {
                Reply::Ready(TxStatus::Idle) => ready += 1,
                Reply::Row(row) => {
                    let text = row.get(0).flatten().expect("a value");
                    let text = std::str::from_utf8(text).expect("digits");
                    sum += text.parse::<u32>().expect("a number");
                }
                other => panic!("not expected: {other:?}"),
            }
        }
    }
    assert_eq!(sum, 5_050);
}

fn being_terminated(server: &Server) {
    let mut victim = connect(&server.unix(""));
    let mut other = connect(&server.unix(""));
    let pid = victim.backend_pid();
    other.execute(&format!("select pg_terminate_backend({pid})")).expect("terminated");
    // The backend may answer once more before it notices the signal.
    let error = (0..100).find_map(|_| victim.simple_query("select pg_sleep(0.1)").err());
    let error = error.expect("gone");
    assert_eq!(error.sqlstate(), Some(SqlState::ADMIN_SHUTDOWN));
    assert!(matches!(error, SessionError::Closed(Some(_))));
}
