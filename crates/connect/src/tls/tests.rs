//! Trusted and untrusted certificates, sessions in memory, accepted and rejected files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use pgdyno_wire::startup::Facts;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, RevokedCertParams,
};
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ServerConfig, ServerConnection};

use super::channel::TlsChannel;
use super::config::TlsConfig;
use super::tls_settings::TlsSettings;
use super::tls_stream::TlsStream;
use super::verifier::{Trust, Verifier};
use crate::env::Env;
use crate::keyword::Settings;
use crate::message_stream::Link;
use crate::patience::{Interrupt, Patience, block_on};
use crate::stream::Stream;
use crate::word_options::SslMode;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = params(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

fn root(params: CertificateParams) -> Authority {
    Authority::self_signed(params, key()).expect("signed")
}

fn below(params: CertificateParams, issuer: &Authority) -> Authority {
    Authority::signed_by(params, key(), issuer).expect("signed")
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

fn leaf(params: &CertificateParams, issuer: &Authority) -> CertificateDer<'static> {
    params.signed_by(&key(), issuer).expect("signed").der().clone()
}

/// The verdict on a server's chain when a file contains `roots`.
fn judge(roots: &[&Authority], chain: &[&CertificateDer<'static>]) -> Result<(), String> {
    let roots = roots.iter().map(|root| root.der().clone()).collect();
    judge_by(Some(Trust::new(roots, Vec::new())), chain)
}

fn judge_by(trust: Option<Trust>, chain: &[&CertificateDer<'static>]) -> Result<(), String> {
    let algorithms = ring::default_provider().signature_verification_algorithms;
    let verifier = Verifier::new(trust, algorithms);
    let chain: Vec<_> = chain.iter().map(|der| (*der).clone()).collect();
    let (server, others) = chain.split_first().expect("a certificate");
    let name = ServerName::try_from("name.that.does.not.matter").expect("a name");
    let verdict = verifier.verify_server_cert(server, others, &name, &[], UnixTime::now());
    verdict.map(|_| ()).map_err(|error| super::TlsError::from(error).to_string())
}

fn refused(why: &str) -> Result<(), String> {
    Err(format!("SSL error: certificate verify failed: {why}"))
}

const NO_ISSUER: &str = "unable to get local issuer certificate";

#[test]
fn an_authority_vouches() {
    let (ours, other) = (root(authority_params("r")), root(authority_params("o")));
    let server = leaf(&params("s"), &ours);
    assert_eq!(judge(&[&ours], &[&server]), Ok(()));
    assert_eq!(judge(&[&other, &ours], &[&server]), Ok(()));
    assert_eq!(judge(&[&other], &[&server]), refused(NO_ISSUER));
    assert_eq!(judge(&[], &[&server]), refused(NO_ISSUER));
    // the same name with another key
    assert!(judge(&[&root(authority_params("r"))], &[&server]).is_err());
    // authorities in between come from the server or the file
    let top = root(authority_params("r"));
    let middle = below(authority_params("m"), &top);
    let server = leaf(&params("s"), &middle);
    assert_eq!(judge(&[&top], &[&server, middle.der()]), Ok(()));
    assert_eq!(judge(&[&top, &middle], &[&server]), Ok(()));
    assert_eq!(judge(&[&top], &[&server]), refused(NO_ISSUER));
    // a certificate that another one has issued is not a root
    assert_eq!(judge(&[&middle], &[&server]), refused(NO_ISSUER));
    // what is no certificate is refused
    let top = root(authority_params("r"));
    assert!(judge(&[&top], &[&CertificateDer::from(vec![0x30, 0x03, 0x02, 0x01, 0x07])]).is_err());
}

#[test]
fn dates_count_of_servers_and_of_roots() {
    let past = time(-20)..time(-10);
    let future = time(10)..time(20);
    let good = root(authority_params("r"));
    for (range, why) in [(&past, "certificate has expired"), (&future, "certificate is not yet valid")] {
        let mut server = params("s");
        (server.not_before, server.not_after) = (range.start, range.end);
        assert_eq!(judge(&[&good], &[&leaf(&server, &good)]), refused(why));
        server.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let alone = root(server);
        assert_eq!(judge(&[&alone], &[alone.der()]), refused(why));
    }
    let mut old = authority_params("old");
    (old.not_before, old.not_after) = (past.start, past.end);
    let old = root(old);
    assert!(judge(&[&old], &[&leaf(&params("s"), &old)]).is_err());
    // an expired root does not affect the others
    assert_eq!(judge(&[&old, &good], &[&leaf(&params("s"), &good)]), Ok(()));
}

/// A time this many days from now.
fn time(days: i64) -> time::OffsetDateTime {
    time::OffsetDateTime::now_utc() + time::Duration::days(days)
}

#[test]
fn a_server_may_have_the_certificate_of_an_authority() {
    // made by `openssl req -new -x509`: its own root
    let alone = root(authority_params("localhost"));
    let other = root(authority_params("localhost"));
    assert_eq!(judge(&[&alone], &[alone.der()]), Ok(()));
    assert_eq!(judge(&[&other], &[alone.der()]), refused(NO_ISSUER));
    assert_eq!(judge(&[], &[alone.der()]), refused(NO_ISSUER));
    // and below a root
    let server = below(authority_params("s"), &alone);
    assert_eq!(judge(&[&alone], &[server.der()]), Ok(()));
    assert_eq!(judge(&[&other], &[server.der()]), refused(NO_ISSUER));
    // without being an authority
    let plain = root(params("localhost"));
    assert_eq!(judge(&[&plain], &[plain.der()]), Ok(()));
    // below another authority a server s certificate is no authority
    let top = root(authority_params("r"));
    let middle = below(authority_params("m"), &top);
    let server = below(authority_params("s"), &middle);
    let said = judge(&[&top], &[server.der(), middle.der()]).expect_err("it is refused");
    assert!(said.contains("is one of an authority"), "{said}");
    assert!(said.contains("basicConstraints=CA:FALSE"), "{said}");
}

#[test]
fn who_is_no_authority_vouches_for_nobody() {
    let top = root(authority_params("r"));
    let mut untitled = params("m");
    untitled.is_ca = IsCa::ExplicitNoCa;
    let mut unsigning = authority_params("m");
    unsigning.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let mut narrow = authority_params("m");
    narrow.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    // one server for webpki, which does not check the use of keys, and one for our own search
    let both = [params("s"), authority_params("s")];
    for (middle, servers) in [(untitled, &both[..]), (unsigning, &both[1..]), (narrow, &both[..])] {
        let middle = below(middle, &top);
        for server in servers {
            assert!(judge(&[&top], &[&leaf(server, &middle), middle.der()]).is_err());
        }
    }
    let mut short = authority_params("r");
    short.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let short = root(short);
    let middle = below(authority_params("m"), &short);
    let server = below(authority_params("s"), &middle);
    assert!(judge(&[&short], &[server.der(), middle.der()]).is_err());
    // what a certificate is for
    let top = root(authority_params("r"));
    for params in [params("s"), authority_params("s")] {
        let mut client = params.clone();
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        assert!(judge(&[&top], &[&leaf(&client, &top)]).is_err());
        let mut server = params;
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        assert_eq!(judge(&[&top], &[&leaf(&server, &top)]), Ok(()));
    }
    let mut only_signs = authority_params("s");
    only_signs.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    assert!(judge(&[&top], &[&leaf(&only_signs, &top)]).is_err());
}

#[test]
fn revoked_certificates_and_those_of_unknown_state() {
    let mut signing = authority_params("r");
    signing.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let top = root(signing);
    let mut bad = params("bad");
    bad.serial_number = Some(7u64.into());
    let mut good = params("good");
    good.serial_number = Some(8u64.into());
    let list = CertificateRevocationListParams {
        this_update: time(-1),
        next_update: time(1),
        crl_number: 1u64.into(),
        issuing_distribution_point: None,
        revoked_certs: vec![RevokedCertParams {
            serial_number: 7u64.into(),
            revocation_time: time(-1),
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    let list = list.signed_by(&top).expect("signed").pem().expect("text");
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("writable");
        path.display().to_string()
    };
    let root_file = write("root.crt", &top.pem());
    let file = write("root.crl", &list);
    fs::create_dir(dir.path().join("lists")).expect("own directory");
    let folder = dir.path().join("lists").display().to_string();
    write("lists/one.r0", &list);
    let other = root(authority_params("o"));
    let strange = write("strange.crl", "no list");
    for (name, place) in [("sslcrl", &file), ("sslcrldir", &folder)] {
        let settings = settings(&[("sslrootcert", &root_file), (name, place)]);
        let judge = |server: &CertificateDer<'static>| {
            let trust = super::trust::trust(&settings, SslMode::VerifyCa).expect("files");
            judge_by(trust, &[server])
        };
        assert_eq!(judge(&leaf(&good, &top)), Ok(()));
        assert_eq!(judge(&leaf(&bad, &top)), refused("certificate revoked"));
        assert!(judge(&leaf(&good, &other)).is_err());
        // a certificate that our own search would accept has no revocation list
        assert!(judge(&leaf(&authority_params("s"), &top)).is_err());
    }
    // a missing list would otherwise let everything pass
    for place in [&strange, &format!("{folder}/none")] {
        let none = settings(&[("sslrootcert", &root_file), ("sslcrl", place)]);
        let error = super::trust::trust(&none, SslMode::VerifyCa).err().expect("no list");
        assert!(error.to_string().starts_with("could not read certificate revocation list file"), "{error}");
    }
}

// ---- sessions ----

/// Both ends of a session, after its handshake.
fn session() -> (TlsChannel, ServerConnection) {
    let issuer = root(authority_params("localhost"));
    let dir = tempfile::tempdir().expect("a directory");
    let root_file = dir.path().join("root.crt");
    fs::write(&root_file, issuer.pem()).expect("writable");
    let settings = settings(&[("sslrootcert", &root_file.display().to_string())]);
    let config = TlsConfig::new(&settings, SslMode::VerifyCa).expect("files");
    let (connection, _) = config.connection("localhost").expect("a session");
    let mut client = TlsChannel::new(connection);
    let key = PrivateKeyDer::try_from(issuer.key().serialize_der()).expect("a key");
    let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![issuer.der().clone()], key)
        .expect("a certificate");
    let mut server = ServerConnection::new(Arc::new(server)).expect("a session");
    server.set_buffer_limit(None);
    for _ in 0..4 {
        let mut out = Vec::new();
        client.flush(&mut out);
        feed(&mut server, &out);
        open(&mut client, &taken(&mut server));
    }
    assert!(!server.is_handshaking() && !client.connection().is_handshaking());
    (client, server)
}

fn feed(server: &mut ServerConnection, mut bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while !bytes.is_empty() {
        server.read_tls(&mut bytes).expect("room");
        server.process_new_packets().expect("in order");
        let mut now = vec![0; 1 << 16];
        while let Ok(count @ 1..) = std::io::Read::read(&mut server.reader(), &mut now) {
            plain.extend_from_slice(&now[..count]);
        }
    }
    plain
}

fn taken(server: &mut ServerConnection) -> Vec<u8> {
    let mut out = Vec::new();
    while server.wants_write() {
        server.write_tls(&mut out).expect("a vector");
    }
    out
}

fn open(client: &mut TlsChannel, mut bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    loop {
        let now = client.plain().to_vec();
        client.consume(now.len());
        plain.extend_from_slice(&now);
        if now.is_empty() {
            if bytes.is_empty() {
                return plain;
            }
            client.open(&mut bytes).expect("in order");
        }
    }
}

fn say(server: &mut ServerConnection, plain: &[u8]) -> Vec<u8> {
    std::io::Write::write_all(&mut server.writer(), plain).expect("no limit");
    taken(server)
}

#[test]
fn bytes_go_both_ways_in_pieces_of_any_size() {
    let (mut client, mut server) = session();
    let large: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
    let mut out = Vec::new();
    client.seal(&large, &mut out).expect("sealed");
    assert_eq!(feed(&mut server, &out), large);
    let sealed = say(&mut server, &large);
    let mut plain = Vec::new();
    for piece in sealed.chunks(1_000) {
        plain.extend(open(&mut client, piece));
    }
    assert_eq!(plain, large);
    assert_eq!(open(&mut client, &say(&mut server, &large)), large);
    // new keys are answered with the next data
    let (mut client, mut server) = session();
    server.refresh_traffic_keys().expect("TLS 1.3");
    let sealed = say(&mut server, b"behind new keys");
    assert_eq!(open(&mut client, &sealed), b"behind new keys");
    let mut out = Vec::new();
    client.seal(b"answer", &mut out).expect("sealed");
    assert_eq!(feed(&mut server, &out), b"answer");
    // the end of a session and bytes that were changed
    let (mut client, mut server) = session();
    let mut sealed = say(&mut server, b"last words");
    server.send_close_notify();
    sealed.extend(taken(&mut server));
    assert_eq!(open(&mut client, &sealed), b"last words");
    assert!(client.is_closed());

    let (mut client, mut server) = session();
    let mut sealed = say(&mut server, b"words");
    let last = sealed.len() - 1;
    sealed[last] ^= 1;
    assert!(client.open(&mut sealed.as_slice()).is_err());
    assert_eq!(client.plain(), b"");
}

#[test]
fn the_last_bytes_wait_no_longer_than_an_interruption() {
    let (channel, _server) = session();
    let (ours, _silent) = UnixStream::pair().expect("sockets");
    let stream = TlsStream::new(Stream::Unix(ours), channel);
    let mut link = Link::new(Stream::Tls(Box::new(stream)), Facts::default(), Patience::default());
    let flag = Arc::new(AtomicBool::new(false));
    link.patience = Patience::new(None, Interrupt::by(Arc::clone(&flag)));
    let (failed, failure) = mpsc::channel();
    thread::spawn(move || {
        // the session accepts each piece at once, and the socket does not when it is full
        let error = std::iter::repeat_with(|| block_on(link.send(&[0; 1000]))).find_map(Result::err);
        let _ = failed.send(error.map(|error| error.to_string()));
    });
    assert!(failure.recv_timeout(Duration::from_millis(200)).is_err(), "there is room for all of them");
    flag.store(true, Ordering::Relaxed);
    let error = failure.recv_timeout(Duration::from_secs(30)).expect("the wait ends");
    assert!(error.is_some_and(|error| error.ends_with("interrupted")));
}

// ---- files ----

fn resolve_pairs(pairs: &[(&str, &str)]) -> Result<(SslMode, TlsSettings), String> {
    let mut settings = Settings::default();
    for (name, value) in pairs {
        settings.set(name, *value).expect("known");
    }
    TlsSettings::resolve(&settings, &Env::empty("alice")).map_err(|error| error.to_string())
}

fn settings(pairs: &[(&str, &str)]) -> TlsSettings {
    resolve_pairs(pairs).expect("consistent").1
}

/// Writes a certificate and its key to files.
fn pair(dir: &Path) -> TlsSettings {
    let key = key();
    let certificate = params("alice").self_signed(&key).expect("signed");
    let (crt, private) = (dir.join("a.crt"), dir.join("a.key"));
    fs::write(&crt, certificate.pem()).expect("writable");
    fs::write(&private, key.serialize_pem()).expect("writable");
    mode(&private, 0o600);
    let shown = |path: &Path| path.display().to_string();
    settings(&[("sslcert", &shown(&crt)), ("sslkey", &shown(&private))])
}

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).expect("own file");
}

fn loaded(settings: &TlsSettings) -> Result<bool, String> {
    let loaded = super::client_key::load(settings, &ring::default_provider());
    loaded.map(|key| key.is_some()).map_err(|error| error.to_string())
}

#[test]
fn keys_are_taken_when_nobody_else_can_read_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let good = pair(dir.path());
    let key = dir.path().join("a.key");
    assert_eq!(loaded(&good), Ok(true));
    mode(&key, 0o400);
    assert_eq!(loaded(&good), Ok(true));
    for bits in [0o644, 0o604, 0o660, 0o610] {
        mode(&key, bits);
        let error = loaded(&good).expect_err("open to others");
        assert!(error.contains("has group or world access"), "{error}");
    }
    fs::remove_file(&key).expect("own file");
    assert_eq!(loaded(&good), Err(format!("certificate present, but not private key file \"{}\"", key.display())));
    fs::create_dir(&key).expect("own directory");
    let error = loaded(&good).expect_err("a directory");
    assert!(error.ends_with("is not a regular file"), "{error}");
    // keys of other forms and of others
    let dir = tempfile::tempdir().expect("a directory");
    let good = pair(dir.path());
    let path = dir.path().join("a.key");
    let pem = fs::read_to_string(&path).expect("readable");
    let der = KeyPair::from_pem(&pem).expect("a key").serialize_der();
    fs::write(&path, der).expect("writable");
    assert_eq!(loaded(&good), Ok(true));
    fs::write(&path, "no key").expect("writable");
    let error = loaded(&good).expect_err("no key");
    assert!(error.starts_with("could not load private key file"), "{error}");
    fs::write(dir.path().join("a.crt"), "nothing").expect("writable");
    let error = loaded(&good).expect_err("no certificate");
    assert!(error.starts_with("could not read certificate file"), "{error}");
}

#[test]
fn roots_are_needed_to_verify_and_used_where_they_are() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().join("root.crt");
    let with = settings(&[("sslrootcert", &place.display().to_string())]);
    let trust = |settings: &TlsSettings, mode| {
        let trust = super::trust::trust(settings, mode);
        trust.map(|t| t.is_some()).map_err(|e| e.to_string())
    };
    let error = trust(&settings(&[]), SslMode::VerifyCa).expect_err("no home");
    assert!(error.starts_with("could not get home directory"), "{error}");
    // an existing file is used in every mode
    fs::write(&place, root(authority_params("r")).pem()).expect("writable");
    assert_eq!(trust(&with, SslMode::Prefer), Ok(true));
    fs::write(&place, "nothing").expect("writable");
    assert!(trust(&with, SslMode::Prefer).is_err());
}

// ---- parameters ----

#[test]
fn parameters_that_exclude_each_other() {
    let resolve = |pairs: &[(&str, &str)]| resolve_pairs(pairs).map(|(mode, _)| mode);
    assert_eq!(resolve(&[]), Ok(SslMode::Prefer));
    assert_eq!(resolve(&[("sslrootcert", "system")]), Ok(SslMode::VerifyFull));
    for (pairs, error) in [
        (&[("sslnegotiation", "maybe")][..], "invalid sslnegotiation value: \"maybe\""),
        (&[("sslcertmode", "x")], "invalid sslcertmode value: \"x\""),
        (&[("ssl_min_protocol_version", "SSLv3")], "invalid ssl_min_protocol_version value: \"SSLv3\""),
        (
            &[("ssl_min_protocol_version", "TLSv1.3"), ("ssl_max_protocol_version", "tlsv1.2")],
            "invalid SSL protocol version range",
        ),
        (&[("channel_binding", "x")], "invalid channel_binding value: \"x\""),
    ] {
        assert_eq!(resolve(pairs), Err(error.to_owned()));
    }
}
