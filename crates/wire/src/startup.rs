//! From the first byte to the first ReadyForQuery.

use std::fmt;

use zeroize::Zeroizing;

use crate::assembler::{Assembler, Kept, Skips};
use crate::backend::{MAX_ERROR_BYTES, TxStatus, malformed, split_cstr, split_u32};
use crate::binding::Binding;
use crate::error::{EncodeError, ProtocolError, ServerError};
use crate::exchange::parameter_status;
use crate::require_auth::RequireAuth;
use crate::scram::{KeyCache, ScramClient};
use crate::startup_error::{AuthMethod, StartupError};
use crate::{frontend, md5};

/// Everything before the first ReadyForQuery; more is an attack or a fault.
const MAX_STARTUP_BYTES: usize = 16 * 1024 * 1024;
/// Notices that are kept; those after them are dropped.
pub(crate) const MAX_NOTICES: usize = 64;
/// Parameters that are kept; a server has about fifteen. Each name is looked for among those
/// before it, so that without a bound a storm of names would be work without end.
pub(crate) const MAX_PARAMETERS: usize = 256;
/// What is kept of a refusal in bare text.
const MAX_REFUSAL_BYTES: usize = 30_000;

/// What a session is asked for.
#[derive(Clone)]
pub struct StartupParams {
    /// The role to log in as.
    pub user: String,
    /// The database; `None` leaves it to the server, which takes the user's name.
    pub database: Option<String>,
    /// Further parameters and settings, such as `application_name`.
    pub settings: Vec<(String, String)>,
    /// The password, if there is one. An empty password counts as none, as in libpq.
    pub password: Option<Zeroizing<Vec<u8>>>,
    /// What the session runs over, and whether SCRAM is to be bound to it.
    pub binding: Binding,
    /// Which ways of authenticating are allowed; all when `None`.
    pub require_auth: Option<RequireAuth>,
    /// Keys that SCRAM has derived before; give clones of one to all connections of a user. They
    /// are derived for each connection when `None`.
    pub scram_keys: Option<KeyCache>,
}

impl StartupParams {
    /// A user and nothing else.
    pub fn new(user: impl Into<String>) -> Self {
        StartupParams {
            user: user.into(),
            database: None,
            settings: Vec::new(),
            password: None,
            binding: Binding::default(),
            require_auth: None,
            scram_keys: None,
        }
    }
}

impl fmt::Debug for StartupParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartupParams")
            .field("user", &self.user)
            .field("database", &self.database)
            .field("settings", &self.settings)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .finish_non_exhaustive()
    }
}

/// How far the start is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Send what was appended, receive more, feed it.
    NeedMore,
    /// The session is ready. Input after ReadyForQuery was not consumed.
    Ready(TxStatus),
}

/// The key by which a query of the connection can be cancelled.
#[derive(Clone, PartialEq, Eq)]
pub struct CancelKey {
    /// Process of the backend.
    pub pid: u32,
    /// Secret that goes with it: 4 bytes, or up to 256 in protocol 3.2.
    pub key: Vec<u8>,
}

impl fmt::Debug for CancelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CancelKey {{ pid: {}, key: *** }}", self.pid)
    }
}

/// What NegotiateProtocolVersion says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The newest protocol that the server speaks, as in a start-up message.
    pub newest_version: u32,
    /// Protocol options that the server does not know.
    pub unrecognized: Vec<String>,
}

/// Where the authentication stands.
#[derive(Debug)]
enum Auth {
    /// Nothing was asked yet.
    Start,
    /// A password was sent; only the verdict may follow.
    PasswordSent,
    /// SCRAM's first message was sent.
    ScramFirst(ScramClient),
    /// SCRAM's final message was sent.
    ScramFinal(ScramClient),
    /// The server's signature was verified; only AuthenticationOk may follow.
    ScramVerified,
    /// The server is satisfied.
    Done,
    /// The server refuses in bare text; what came of it.
    RefusedInText(Vec<u8>),
}

/// The start of a session, as a state machine without a socket.
#[derive(Debug)]
pub struct Startup {
    params: StartupParams,
    auth: Auth,
    method: Option<AuthMethod>,
    assembler: Assembler,
    consumed_bytes: usize,
    /// Whether the server has sent a message.
    begun: bool,
    facts: Facts,
}

/// What the server told about itself and the session.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// ParameterStatus: names and values, in the order they came, each name once; at most 256.
    pub parameters: Vec<(String, String)>,
    /// BackendKeyData, if it came.
    pub cancel_key: Option<CancelKey>,
    /// NegotiateProtocolVersion, if it came.
    pub negotiated: Option<Negotiated>,
    /// Notices, at most 64 of them.
    pub notices: Vec<ServerError>,
}

impl Facts {
    /// The value of a parameter, such as `server_version`.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Takes note of a parameter's new value. New names are left out when there are 256.
    pub fn set_parameter(&mut self, name: &[u8], value: &[u8]) {
        let name = String::from_utf8_lossy(name);
        let value = String::from_utf8_lossy(value).into_owned();
        let is_full = self.parameters.len() >= MAX_PARAMETERS;
        match self.parameters.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => known.1 = value,
            None if is_full => {}
            None => self.parameters.push((name.into_owned(), value)),
        }
    }
}

impl Startup {
    /// A start with these parameters.
    pub fn new(mut params: StartupParams) -> Self {
        params.password = params.password.filter(|password| !password.is_empty());
        Startup {
            params,
            auth: Auth::Start,
            method: None,
            assembler: Assembler::new(),
            consumed_bytes: 0,
            begun: false,
            facts: Facts::default(),
        }
    }

    /// Appends the first message.
    ///
    /// # Errors
    /// A parameter holds a zero byte.
    pub fn first(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let params = &self.params;
        let user = [("user", params.user.as_str())];
        let database = params.database.as_deref().map(|name| ("database", name));
        let settings = params.settings.iter();
        frontend::startup(
            out,
            user.into_iter()
                .chain(database)
                .chain(settings.map(|(name, value)| (name.as_str(), value.as_str()))),
        )
    }

    /// Takes what the server sent, and appends the answers to `out`.
    ///
    /// Consumes all of `input`, or up to and with ReadyForQuery.
    ///
    /// # Errors
    /// The session cannot be started; see [`StartupError`]. The connection is of no more use.
    pub fn feed(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<Progress, StartupError> {
        let before = input.len();
        let result = self.advance(input, out);
        self.consumed_bytes += before - input.len();
        if self.consumed_bytes > MAX_STARTUP_BYTES {
            return Err(self.assembler.fail(ProtocolError::EndlessStartup).into());
        }
        result
    }

    /// The method by which the server authenticated us, as far as it has asked.
    pub fn method(&self) -> Option<AuthMethod> {
        self.method
    }

    /// Whether the server asked for a password (and so may have refused the one it got).
    pub fn used_password(&self) -> bool {
        use AuthMethod::{Cleartext, Md5, ScramSha256};
        matches!(self.method, Some(Cleartext | Md5 | ScramSha256))
    }

    /// Whether the server was satisfied with who we are: what it refuses after that has other
    /// reasons.
    pub fn is_authenticated(&self) -> bool {
        matches!(self.auth, Auth::Done)
    }

    /// What the server told so far.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What the server told; passwords and keys are dropped.
    pub fn into_facts(self) -> Facts {
        self.facts
    }

    fn advance(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<Progress, StartupError> {
        loop {
            if let Auth::RefusedInText(text) = &mut self.auth {
                return refusal(text, input);
            }
            let pulled = self.assembler.pull(input, Skips::NONE, kept);
            let (kind, body) = match pulled {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(Progress::NeedMore),
                Err(error) => {
                    self.try_refusal(error)?;
                    continue;
                }
            };
            self.begun = true;
            match kind {
                b'E' => return Err(StartupError::Server(Box::new(ServerError::parse(body)))),
                b'N' if self.facts.notices.len() < MAX_NOTICES => {
                    self.facts.notices.push(ServerError::parse(body));
                }
                b'N' => {}
                b'R' => authenticate(&self.params, &mut self.auth, &mut self.method, body, out)?,
                b'v' => self.facts.negotiated = Some(negotiated(body)?),
                _ if !matches!(self.auth, Auth::Done) => {
                    return Err(malformed(kind, "it came before authentication was done").into());
                }
                b'S' => {
                    let (name, value) = parameter_status(body)?;
                    self.facts.set_parameter(name, value);
                }
                b'K' => self.facts.cancel_key = Some(cancel_key(body)?),
                _ => return Ok(Progress::Ready(TxStatus::parse(body)?)),
            }
        }
    }

    /// A server that cannot fork answers `E` and bare text up to a zero byte, whose first letters
    /// make an impossible length. Anything else is an error.
    fn try_refusal(&mut self, error: ProtocolError) -> Result<(), ProtocolError> {
        match error {
            ProtocolError::BadLength { kind: b'E', .. } if !self.begun => {
                self.auth = Auth::RefusedInText(self.assembler.header()[1..].to_vec());
                Ok(())
            }
            _ => Err(error),
        }
    }
}

fn kept(kind: u8) -> Kept {
    match kind {
        b'R' | b'S' | b'K' | b'v' | b'Z' => Some(u32::MAX),
        b'E' | b'N' => Some(MAX_ERROR_BYTES),
        _ => None,
    }
}

/// Collects a refusal in bare text up to its zero byte.
fn refusal(text: &mut Vec<u8>, input: &mut &[u8]) -> Result<Progress, StartupError> {
    text.extend_from_slice(input);
    *input = &[];
    let end = text.iter().position(|&byte| byte == 0);
    if end.is_none() && text.len() < MAX_REFUSAL_BYTES {
        return Ok(Progress::NeedMore);
    }
    let text = String::from_utf8_lossy(&text[..end.unwrap_or(MAX_REFUSAL_BYTES)]);
    Err(StartupError::Refused(text.trim_end().to_owned()))
}

/// Answers an AuthenticationRequest.
fn authenticate(
    params: &StartupParams,
    auth: &mut Auth,
    method: &mut Option<AuthMethod>,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), StartupError> {
    let (code, data) =
        split_u32(body).ok_or(malformed(b'R', "authentication request without a number"))?;
    let password = || {
        let password = params.password.as_ref();
        password.ok_or(StartupError::PasswordRequired)
    };
    let state = std::mem::replace(auth, Auth::Done);
    if let (Some(asked), Some(require)) = (AuthMethod::from_code(code), &params.require_auth) {
        let is_finished = matches!(state, Auth::PasswordSent | Auth::ScramVerified);
        require.check(asked, is_finished)?;
    }
    if let Some(asked) = AuthMethod::from_code(code)
        && (code != 0 || matches!(state, Auth::Start))
    {
        *method = Some(asked);
        params.binding.check(asked)?;
    }
    *auth = match (code, state) {
        (0, Auth::Start | Auth::PasswordSent | Auth::ScramVerified) => Auth::Done,
        (0, Auth::ScramFirst(_) | Auth::ScramFinal(_)) => {
            let what = "the server did not finish SCRAM, so it may not be the right one";
            return Err(malformed(b'R', what).into());
        }
        (3, Auth::Start) => {
            frontend::password(out, password()?)?;
            Auth::PasswordSent
        }
        (5, Auth::Start) => {
            let salt = data
                .try_into()
                .map_err(|_| malformed(b'R', "md5 salt is not 4 bytes"))?;
            let answer = md5::response(params.user.as_bytes(), password()?, salt);
            frontend::password(out, answer.as_bytes())?;
            Auth::PasswordSent
        }
        (10, Auth::Start) => {
            let chosen = params.binding.choose(mechanisms(data)?)?;
            let mechanism = chosen.mechanism();
            if let Some(require) = &params.require_auth {
                require.check_scram(mechanism)?;
            }
            let client = ScramClient::new(chosen)?;
            password()?;
            frontend::sasl_initial(out, mechanism, client.first().as_bytes())?;
            Auth::ScramFirst(client)
        }
        (11, Auth::ScramFirst(mut client)) => {
            let answer = client.answer(data, password()?, params.scram_keys.as_ref())?;
            frontend::sasl_response(out, answer.as_bytes())?;
            Auth::ScramFinal(client)
        }
        (12, Auth::ScramFinal(mut client)) => {
            client.verify(data)?;
            Auth::ScramVerified
        }
        (0 | 3 | 5 | 8 | 10 | 11 | 12, _) => {
            return Err(malformed(b'R', "authentication request out of turn").into());
        }
        (code, _) => {
            let method = AuthMethod::from_code(code).unwrap_or(AuthMethod::Other(code));
            return Err(StartupError::UnsupportedAuth(method));
        }
    };
    Ok(())
}

/// The names in the server's list of mechanisms.
fn mechanisms(mut list: &[u8]) -> Result<Vec<String>, ProtocolError> {
    let mut offered = Vec::new();
    loop {
        let (name, rest) =
            split_cstr(list).ok_or(malformed(b'R', "list of mechanisms without an end"))?;
        if name.is_empty() {
            return Ok(offered);
        }
        offered.push(String::from_utf8_lossy(name).into_owned());
        list = rest;
    }
}

fn cancel_key(body: &[u8]) -> Result<CancelKey, ProtocolError> {
    match split_u32(body) {
        Some((pid, key)) if (4..=256).contains(&key.len()) => Ok(CancelKey {
            pid,
            key: key.to_vec(),
        }),
        _ => Err(malformed(b'K', "not a process and a key")),
    }
}

fn negotiated(body: &[u8]) -> Result<Negotiated, ProtocolError> {
    let parse = || {
        let (newest_version, rest) = split_u32(body)?;
        let (count, mut rest) = split_u32(rest)?;
        let mut unrecognized = Vec::new();
        for _ in 0..count {
            let (name, tail) = split_cstr(rest)?;
            unrecognized.push(String::from_utf8_lossy(name).into_owned());
            rest = tail;
        }
        rest.is_empty().then_some(Negotiated {
            newest_version,
            unrecognized,
        })
    };
    parse().ok_or(malformed(b'v', "not a version and a list of options"))
}
