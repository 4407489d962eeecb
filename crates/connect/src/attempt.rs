//! Tries to connect: the hosts in turn, the addresses of each, and the authentication.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Instant;

use pgdyno_wire::{Progress, SqlState, Startup, StartupError, TxStatus};

use crate::blocking_session::Session;
use crate::cancel_token::CancelToken;
use crate::connect_error::{Attempt, Cause, ConnectError};
use crate::connect_times::Milestones;
use crate::encryption::{self, Encryption, Failure};
use crate::env::name_of;
use crate::hosts::{Endpoint, Host, Place};
use crate::param_error::system_message;
use crate::params::Params;
use crate::patience::{Interrupt, Patience, block_on};
use crate::pooler::Poolers;
use crate::stream::{RECEIVE_BYTES, Stream};
use crate::tls::TlsError;
use crate::watch::{Answered, Watch};
use crate::word_options::{LoadBalance, TargetSessionAttrs};

impl Cause {
    fn next(&self) -> Next {
        match self {
            Cause::Connect { .. } | Cause::Timeout => Next::Address,
            Cause::Resolve { .. } | Cause::WrongKind(_) => Next::Host,
            Cause::Startup { error: StartupError::Server(error), .. }
                if error.sqlstate() == SqlState::CANNOT_CONNECT_NOW =>
            {
                Next::Host
            }
            _ => Next::Nothing,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Address,
    Host,
    Nothing,
}

/// An address of a host, with its name in messages.
struct Target {
    endpoint: Endpoint,
    what: String,
}

impl Session {
    /// Connects to the first host that offers a session of the requested kind.
    ///
    /// # Errors
    /// No host does; the error has every attempt with its reason.
    pub fn connect(params: &Params) -> Result<Session, ConnectError> {
        block_on(Session::connect_by(params, None))
    }

    /// Connects as [`Session::connect`]. With a `watch`, only the future waits: see [`crate::Dialer`].
    pub(crate) async fn connect_by(params: &Params, watch: Option<&Watch>) -> Result<Session, ConnectError> {
        if params.poolers == Poolers::Refused {
            match connect(&params.without_traces(), watch).await {
                Ok(session) => session.end(),
                // some services need them to find the server
                Err(error) if params.options.is_some() && !error.is_pooler() => {}
                Err(error) => return Err(error),
            }
        }
        connect(params, watch).await
    }
}

async fn connect(params: &Params, watch: Option<&Watch>) -> Result<Session, ConnectError> {
    let wanted = params.target_session_attrs;
    // the second round accepts what the first one rejected
    let rounds = match wanted {
        TargetSessionAttrs::PreferStandby => &[TargetSessionAttrs::Standby, TargetSessionAttrs::Any][..],
        _ => &[wanted],
    };
    let mut attempts = Vec::new();
    let hosts = in_order(params, watch);
    for &wanted in rounds {
        for host in &hosts {
            match try_host(params, host, wanted, watch, &mut attempts).await {
                Ok(session) => return Ok(session),
                Err(Next::Nothing) => return Err(ConnectError { attempts }),
                Err(Next::Address | Next::Host) => {}
            }
        }
    }
    Err(ConnectError { attempts })
}

/// Connects a socket to the first host that can be reached, with the encryption that `sslmode` asks for. No session
/// begins.
///
/// # Errors
/// No host can be reached; the error has every attempt with its reason.
pub fn reach(params: &Params) -> Result<Stream, ConnectError> {
    block_on(async {
        let mut attempts = Vec::new();
        for host in in_order(params, None) {
            let patience = patience(params, None);
            let found = targets(host, &patience).await;
            match found {
                Err(cause) => attempts.push(Attempt { what: String::new(), cause }),
                Ok(targets) => {
                    for Target { endpoint, what } in targets {
                        match reach_endpoint(params, host, &endpoint).await {
                            Ok(stream) => return Ok(stream),
                            Err(cause) => attempts.push(Attempt { what, cause }),
                        }
                    }
                }
            }
        }
        Err(ConnectError { attempts })
    })
}

async fn reach_endpoint(params: &Params, host: &Host, endpoint: &Endpoint) -> Result<Stream, Cause> {
    let patience = patience(params, None);
    let encryption = encryption::allowed(params.sslmode, matches!(endpoint, Endpoint::Unix(_)))[0];
    let stream = open(params, endpoint, &patience).await?;
    let taken = encryption::take(params, host, stream, encryption, &patience).await;
    taken.map(|(stream, _)| stream).map_err(|failure| failure.cause)
}

async fn try_host(
    params: &Params, host: &Host, wanted: TargetSessionAttrs, watch: Option<&Watch>, attempts: &mut Vec<Attempt>,
) -> Result<Session, Next> {
    let patience = patience(params, watch);
    let mut targets = targets(host, &patience).await.map_err(|cause| {
        let what = String::new();
        attempts.push(Attempt { what, cause });
        Next::Host
    })?;
    if params.load_balance_hosts == LoadBalance::Random {
        shuffle(&mut targets);
    } else if let Some(answered) = watch.and_then(Watch::answered) {
        targets.sort_by_key(|target| target.endpoint != answered.endpoint);
    }
    for target in targets {
        match try_target(params, host, &target, wanted, watch, attempts).await {
            Ok(session) => return Ok(session),
            Err(Next::Address) => {}
            Err(next) => return Err(next),
        }
    }
    Err(Next::Host)
}

async fn try_target(
    params: &Params, host: &Host, target: &Target, wanted: TargetSessionAttrs, watch: Option<&Watch>,
    attempts: &mut Vec<Attempt>,
) -> Result<Session, Next> {
    let unix = matches!(target.endpoint, Endpoint::Unix(_));
    let mut allowed = encryption::allowed(params.sslmode, unix).iter().peekable();
    while let Some(&encryption) = allowed.next() {
        let patience = patience(params, watch);
        let failure = match try_encryption(params, host, &target.endpoint, encryption, &patience).await {
            Ok(mut session) => match check(&mut session, params.poolers, wanted).await {
                Ok(()) => {
                    session.interrupt_by(params.interrupt.clone());
                    if let (Some(watch), Some(host)) = (watch, position(params, host)) {
                        watch.set_answered(Answered { host, endpoint: target.endpoint.clone() });
                    }
                    return Ok(session);
                }
                Err(cause) => Failure::last(cause),
            },
            Err(failure) => failure,
        };
        let next = failure.cause.next();
        attempts.push(Attempt { what: target.what.clone(), cause: failure.cause });
        if !failure.depends_on_encryption || allowed.peek().is_none() {
            return Err(next);
        }
    }
    Err(Next::Nothing)
}

async fn try_encryption(
    params: &Params, host: &Host, endpoint: &Endpoint, encryption: Encryption, patience: &Patience,
) -> Result<Session, Failure> {
    let opened = Instant::now();
    let stream = open(params, endpoint, patience).await.map_err(Failure::last)?;
    let connected = Instant::now();
    let (mut stream, channel) = encryption::take(params, host, stream, encryption, patience).await?;
    let encrypted = stream.is_encrypted().then(Instant::now);
    let is_asked = encryption == Encryption::Plain || stream.is_encrypted();
    let mut startup = params.startup_over(host, channel);
    let (status, answered) = match start(&mut stream, &mut startup, patience).await {
        Ok(ready) => ready,
        Err(Cause::Startup { error, .. }) => {
            let refused = matches!(&error, StartupError::Server(error)
                if error.sqlstate() == SqlState::INVALID_PASSWORD);
            let from_file = params.password.is_none() && startup.used_password();
            return Err(Failure {
                depends_on_encryption: is_asked && encryption::may_matter(&error, &startup),
                cause: Cause::Startup {
                    error,
                    password_file: host.password_file.clone().filter(|_| refused && from_file),
                },
            });
        }
        Err(cause) => return Err(Failure::last(cause)),
    };
    encryption::check_certificate_mode(params, &stream).map_err(Failure::last)?;
    let milestones = Milestones { connected, encrypted, answered, ready: Instant::now() };
    let facts = startup.into_facts();
    let key = facts.cancel_key.as_ref();
    let cancel = key.and_then(|key| CancelToken::new(params, host, endpoint, stream.is_encrypted(), key));
    Ok(Session::new(stream, facts, status, cancel, opened, milestones, patience.clone()))
}

pub(crate) async fn open(params: &Params, endpoint: &Endpoint, patience: &Patience) -> Result<Stream, Cause> {
    let unix = matches!(endpoint, Endpoint::Unix(_));
    let stream = match endpoint {
        Endpoint::Unix(path) => Stream::connect_unix(path, params.full_queue, patience).await,
        Endpoint::Tcp(address) => Stream::connect_tcp(*address, patience, &params.keepalives).await,
    };
    let stream = stream.map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut if error.raw_os_error().is_none() => Cause::Timeout,
        _ if Interrupt::caused(&error) => Cause::Interrupted,
        _ => Cause::Connect { error, unix },
    })?;
    if let (true, Some(user)) = (unix, &params.require_peer) {
        check_peer(&stream, user)?;
    }
    Ok(stream)
}

/// Exchanges messages until the session is ready. What the server sends right after that, such as a
/// notice or the reason why it ends the session, is part of the start. Also returns when the last message was sent, if
/// the server asked for one.
async fn start(
    stream: &mut Stream, startup: &mut Startup, patience: &Patience,
) -> Result<(TxStatus, Option<Instant>), Cause> {
    let refused = |error| Cause::Startup { error, password_file: None };
    let mut out = Vec::new();
    startup.first(&mut out).map_err(|error| refused(error.into()))?;
    let mut buffer = vec![0; RECEIVE_BYTES];
    let (mut ready, mut answered) = (None, None);
    let mut is_first = true;
    loop {
        let is_answer = !out.is_empty() && !std::mem::take(&mut is_first);
        let sent = stream.send_all(&out, patience).await.map_err(io_cause);
        out.clear();
        if is_answer {
            answered = Some(Instant::now());
        }
        // A server that refuses immediately may close before it has read everything; its error
        // message is more useful than the broken connection.
        let received = stream.receive(&mut buffer, patience).await.map_err(io_cause);
        let bytes = match (sent, received) {
            (_, Ok(bytes)) if bytes > 0 => bytes,
            (_, Err(cause @ Cause::Tls(_))) => return Err(cause),
            (Err(cause), _) | (_, Err(cause)) => return Err(cause),
            (Ok(()), Ok(_)) => return Err(Cause::Closed),
        };
        let decrypted = stream.take_plain().map_err(io_cause)?;
        for mut input in [buffer.get(..bytes).unwrap_or_default(), &decrypted] {
            while !input.is_empty() {
                if let Progress::Ready(status) = startup.feed(&mut input, &mut out).map_err(refused)? {
                    ready = Some(status);
                }
            }
        }
        // the rest of a message that has arrived in part is awaited
        if let (Some(status), true) = (ready, startup.at_boundary()) {
            return Ok((status, answered));
        }
    }
}

pub(crate) fn io_cause(error: io::Error) -> Cause {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
    if let Some(error) = tls {
        return Cause::Tls(TlsError::clone(error));
    }
    match error.kind() {
        io::ErrorKind::TimedOut if error.raw_os_error().is_none() => Cause::Timeout,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Cause::Closed,
        _ if Interrupt::caused(&error) => Cause::Interrupted,
        _ => Cause::Io(error),
    }
}

async fn targets(host: &Host, patience: &Patience) -> Result<Vec<Target>, Cause> {
    if let Some(path) = host.socket() {
        return Ok(vec![Target {
            what: format!("connection to server on socket \"{}\" failed: ", path.display()),
            endpoint: Endpoint::Unix(path),
        }]);
    }
    let shown = host.display();
    let looked_up = match &host.place {
        Place::Address { address, .. } => address.as_str(),
        _ => shown.as_str(),
    };
    let addresses = patience
        .resolve(looked_up, host.port)
        .await
        .map_err(|error| Cause::Resolve { name: looked_up.to_owned(), why: resolver_message(&error) })?;
    let target = |address: SocketAddr| {
        let ip = address.ip().to_string();
        let at = if ip == shown { format!("\"{shown}\"") } else { format!("\"{shown}\" ({ip})") };
        Target {
            what: format!("connection to server at {at}, port {} failed: ", host.port),
            endpoint: Endpoint::Tcp(address),
        }
    };
    Ok(addresses.into_iter().map(target).collect())
}

fn resolver_message(error: &io::Error) -> String {
    let text = system_message(error);
    let prefix = "failed to lookup address information: ";
    text.strip_prefix(prefix).unwrap_or(&text).to_owned()
}

fn in_order<'a>(params: &'a Params, watch: Option<&Watch>) -> Vec<&'a Host> {
    let mut hosts: Vec<_> = params.hosts.iter().collect();
    if params.load_balance_hosts == LoadBalance::Random {
        // each host gets an equal share of the clients; another one takes over by chance
        let place = params.spread.fetch_add(1, Ordering::Relaxed) % hosts.len();
        hosts.swap(0, place);
        shuffle(&mut hosts[1..]);
    } else if let Some(answered) = watch.and_then(Watch::answered) {
        // the host that answered last, then the others in their order
        hosts[..=answered.host].rotate_right(1);
    }
    hosts
}

/// Fisher-Yates shuffle. Without randomness the order stays as it is.
fn shuffle<T>(items: &mut [T]) {
    for last in (1..items.len()).rev() {
        let Ok(random) = getrandom::u64() else {
            return;
        };
        // The bias of the remainder is negligible for lists of hosts.
        let other = random % (last as u64 + 1);
        items.swap(last, other as usize);
    }
}

fn position(params: &Params, host: &Host) -> Option<usize> {
    params.hosts.iter().position(|known| std::ptr::eq(known, host))
}

fn patience(params: &Params, watch: Option<&Watch>) -> Patience {
    let deadline = params.connect_timeout.map(|limit| Instant::now() + limit);
    Patience::new(deadline, params.interrupt.clone()).watched_by(watch)
}

fn check_peer(stream: &Stream, user: &str) -> Result<(), Cause> {
    let uid = stream.peer_uid().map_err(|error| {
        let why = system_message(&error);
        Cause::WrongPeer(format!("could not get peer credentials: {why}"))
    })?;
    let peer = name_of(uid).map_err(|error| Cause::WrongPeer(error.to_string()))?;
    if peer == user {
        Ok(())
    } else {
        Err(Cause::WrongPeer(format!("requirepeer specifies \"{user}\", but actual peer user name is \"{peer}\"")))
    }
}

async fn check(session: &mut Session, poolers: Poolers, wanted: TargetSessionAttrs) -> Result<(), Cause> {
    let pooler = match poolers {
        Poolers::Accepted => Ok(session.console()),
        Poolers::Refused => session.pooler(),
    };
    match pooler.map_err(|error| Cause::Kind(error.to_string()))? {
        Some(pooler) => Err(Cause::Pooler(Box::new(pooler))),
        None => check_kind(session, wanted).await,
    }
}

async fn check_kind(session: &mut Session, wanted: TargetSessionAttrs) -> Result<(), Cause> {
    use TargetSessionAttrs::{Any, PreferStandby, Primary, ReadOnly, ReadWrite, Standby};
    let (parameter, query) = match wanted {
        Any | PreferStandby => return Ok(()),
        ReadWrite | ReadOnly => ("default_transaction_read_only", "SHOW transaction_read_only"),
        Primary | Standby => ("in_hot_standby", "SELECT pg_catalog.pg_is_in_recovery()"),
    };
    let on = match session.parameter(parameter).map(|value| value == "on") {
        // From PostgreSQL 14 on the server reports this without a query.
        Some(on) => {
            let standby = session.parameter("in_hot_standby") == Some("on");
            on || (matches!(wanted, ReadWrite | ReadOnly) && standby)
        }
        None => {
            let answer = session.query_value(query).await;
            let value = answer.map_err(|error| Cause::Kind(error.to_string()))?;
            matches!(value.as_deref(), Some("on" | "t"))
        }
    };
    match (wanted, on) {
        (ReadWrite, true) => Err(Cause::WrongKind("session is read-only")),
        (ReadOnly, false) => Err(Cause::WrongKind("session is not read-only")),
        (Primary, true) => Err(Cause::WrongKind("server is in hot standby mode")),
        (Standby, false) => Err(Cause::WrongKind("server is not in hot standby mode")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_divided_evenly_over_the_hosts() {
        let target = "host=a,b,c load_balance_hosts=random";
        let params = Params::resolve(Some(target), &[], &crate::Env::empty("u")).expect("it is complete");
        let mut first = [0; 3];
        for _ in 0..7 {
            let clone = params.clone();
            let order: Vec<_> = in_order(&clone, None).into_iter().filter_map(|host| position(&clone, host)).collect();
            first[order[0]] += 1;
            let mut all = order;
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2]);
        }
        first.sort_unstable();
        assert_eq!(first, [2, 2, 3]);
    }
}
