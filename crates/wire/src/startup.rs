//! Starts a session, up to the first ReadyForQuery.

use std::fmt;

use zeroize::Zeroizing;

use crate::assembler::{Assembler, Kept, Skips};
use crate::backend::{TxStatus, malformed};
use crate::binding::Binding;
use crate::error::{EncodeError, ProtocolError, ServerError};
use crate::exchange::parameter_status;
use crate::message_limits::MAX_ERROR_BYTES;
use crate::parts::Parts;
use crate::require_auth::RequireAuth;
use crate::scram::{KeyCache, ScramClient};
use crate::startup_error::{AuthMethod, StartupError};
use crate::{frontend, md5};

/// The most bytes before the first ReadyForQuery; more are an attack or a fault.
const MAX_STARTUP_BYTES: usize = 16 * 1024 * 1024;
/// The most notices that are kept; later ones are dropped.
pub(crate) const MAX_NOTICES: usize = 64;
/// The most parameters that are kept; a server has about fifteen. Each new name is compared with
/// the earlier ones, so unlimited names would cause unlimited work.
pub(crate) const MAX_PARAMETERS: usize = 256;
/// How many bytes of a refusal as bare text are kept.
const MAX_REFUSAL_BYTES: usize = 30_000;

/// The parameters with which a session is requested.
#[derive(Clone, Default)]
pub struct StartupParams {
    pub user: String,
    /// The database; `None` for the server's default, which is the user's name.
    pub database: Option<String>,
    /// Further parameters and settings, such as `application_name`.
    pub settings: Vec<(String, String)>,
    /// The password, if there is one. An empty password counts as none, as in libpq.
    pub password: Option<Zeroizing<Vec<u8>>>,
    /// The transport of the session, and whether SCRAM has to be bound to it.
    pub binding: Binding,
    /// Which authentication methods are allowed; all when `None`.
    pub require_auth: Option<RequireAuth>,
    /// A cache of the keys that SCRAM derives; give clones of one to all connections of a user.
    /// When `None`, each connection derives them.
    pub scram_keys: Option<KeyCache>,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Send what was appended, then receive more and pass it in.
    NeedMore,
    /// The session is ready. Input after ReadyForQuery was not consumed.
    Ready(TxStatus),
}

/// The key for cancelling a query of the connection.
#[derive(Clone, PartialEq, Eq)]
pub struct CancelKey {
    pub pid: u32,
    /// The secret key: 4 bytes, or up to 256 in protocol 3.2.
    pub key: Vec<u8>,
}

impl fmt::Debug for CancelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CancelKey {{ pid: {}, key: *** }}", self.pid)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The newest protocol that the server supports, in the format of a start-up message.
    pub newest_version: u32,
    /// Protocol options that the server does not support.
    pub unrecognized: Vec<String>,
}

/// The state of the authentication.
#[derive(Debug)]
enum Auth {
    /// Nothing was requested yet.
    Start,
    /// A password was sent; only the result may follow.
    PasswordSent,
    ScramFirst(ScramClient),
    ScramFinal(ScramClient),
    /// The server's signature was verified; only AuthenticationOk may follow.
    ScramVerified,
    /// The authentication is complete.
    Done,
    /// The server refuses as bare text, of which this has arrived.
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

/// What the server reported about itself and the session.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Names and values of ParameterStatus, in their order, each name once; at most 256.
    pub parameters: Vec<(String, String)>,
    /// The BackendKeyData, if there was one.
    pub cancel_key: Option<CancelKey>,
    /// The NegotiateProtocolVersion, if there was one.
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

    /// Stores a parameter's new value. New names are ignored when there are 256.
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
    /// A parameter contains a zero byte.
    pub fn first(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let params = &self.params;
        let user = [("user", params.user.as_str())];
        let database = params.database.as_deref().map(|name| ("database", name));
        let settings = params.settings.iter();
        frontend::startup(
            out,
            user.into_iter().chain(database).chain(settings.map(|(name, value)| (name.as_str(), value.as_str()))),
        )
    }

    /// Processes the server's bytes, and appends the answers to `out`.
    ///
    /// Consumes all of `input`, or up to and including ReadyForQuery.
    ///
    /// # Errors
    /// The session cannot be started; see [`StartupError`]. The connection is unusable.
    pub fn feed(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<Progress, StartupError> {
        let before = input.len();
        let result = self.advance(input, out);
        self.consumed_bytes += before - input.len();
        if self.consumed_bytes > MAX_STARTUP_BYTES {
            return Err(self.assembler.fail(ProtocolError::EndlessStartup).into());
        }
        result
    }

    /// The authentication method that the server has requested so far.
    pub fn method(&self) -> Option<AuthMethod> {
        self.method
    }

    /// Whether the server requested a password (and so may have refused it).
    pub fn used_password(&self) -> bool {
        use AuthMethod::{Cleartext, Md5, ScramSha256};
        matches!(self.method, Some(Cleartext | Md5 | ScramSha256))
    }

    /// Whether the authentication is complete: a later refusal has other reasons.
    pub fn is_authenticated(&self) -> bool {
        matches!(self.auth, Auth::Done)
    }

    /// Whether no message has arrived in part.
    pub fn at_boundary(&self) -> bool {
        self.assembler.at_boundary()
    }

    /// What the server has reported so far.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What the server reported; passwords and keys are dropped.
    pub fn into_facts(self) -> Facts {
        self.facts
    }

    fn advance(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<Progress, StartupError> {
        loop {
            if let Auth::RefusedInText(text) = &mut self.auth {
                return refusal(text, input);
            }
            let pulled = self.assembler.pull(input, Skips::NONE, size_limit);
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
                b'v' => self.facts.negotiated = Some(parse_negotiation(body)?),
                _ if !matches!(self.auth, Auth::Done) => {
                    return Err(malformed(kind, "it came before authentication was done").into());
                }
                b'S' => {
                    let (name, value) = parameter_status(body)?;
                    self.facts.set_parameter(name, value);
                }
                b'K' => self.facts.cancel_key = Some(cancel_key(body)?),
                // a login trigger may listen
                b'A' => {}
                _ => return Ok(Progress::Ready(TxStatus::parse(body)?)),
            }
        }
    }

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

fn size_limit(kind: u8) -> Kept {
    match kind {
        b'R' | b'S' | b'K' | b'v' | b'Z' => Some(u32::MAX),
        // a notification, which no caller reads
        b'A' => Some(0),
        b'E' | b'N' => Some(MAX_ERROR_BYTES),
        _ => None,
    }
}

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

fn authenticate(
    params: &StartupParams, auth: &mut Auth, method: &mut Option<AuthMethod>, body: &[u8], out: &mut Vec<u8>,
) -> Result<(), StartupError> {
    let mut parts = Parts(body);
    let code = parts.u32().ok_or(malformed(b'R', "authentication request without a number"))?;
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
    *auth = answer(params, (code, parts.0), state, out)?;
    Ok(())
}

fn answer(
    params: &StartupParams, (code, data): (u32, &[u8]), state: Auth, out: &mut Vec<u8>,
) -> Result<Auth, StartupError> {
    let password = || {
        let password = params.password.as_ref();
        password.ok_or(StartupError::PasswordRequired)
    };
    Ok(match (code, state) {
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
            let salt = data.try_into().map_err(|_| malformed(b'R', "md5 salt is not 4 bytes"))?;
            let answer = md5::response(params.user.as_bytes(), password()?, salt);
            frontend::password(out, answer.as_bytes())?;
            Auth::PasswordSent
        }
        (10, Auth::Start) => Auth::ScramFirst(begin_scram(params, data, out)?),
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
    })
}

fn begin_scram(params: &StartupParams, offered: &[u8], out: &mut Vec<u8>) -> Result<ScramClient, StartupError> {
    let chosen = params.binding.choose(mechanisms(offered)?)?;
    let mechanism = chosen.mechanism();
    if let Some(require) = &params.require_auth {
        require.check_scram(mechanism)?;
    }
    let client = ScramClient::new(chosen)?;
    if params.password.is_none() {
        return Err(StartupError::PasswordRequired);
    }
    frontend::sasl_initial(out, mechanism, client.first().as_bytes())?;
    Ok(client)
}

fn mechanisms(list: &[u8]) -> Result<Vec<String>, ProtocolError> {
    let mut parts = Parts(list);
    let mut offered = Vec::new();
    loop {
        match parts.cstr() {
            None => return Err(malformed(b'R', "list of mechanisms without an end")),
            Some(b"") => return Ok(offered),
            Some(name) => offered.push(String::from_utf8_lossy(name).into_owned()),
        }
    }
}

fn cancel_key(body: &[u8]) -> Result<CancelKey, ProtocolError> {
    let mut parts = Parts(body);
    match parts.u32() {
        Some(pid) if (4..=256).contains(&parts.0.len()) => Ok(CancelKey { pid, key: parts.0.to_vec() }),
        _ => Err(malformed(b'K', "not a process and a key")),
    }
}

fn parse_negotiation(body: &[u8]) -> Result<Negotiated, ProtocolError> {
    let parse = || {
        let mut parts = Parts(body);
        let newest_version = parts.u32()?;
        let mut unrecognized = Vec::new();
        for _ in 0..parts.u32()? {
            unrecognized.push(String::from_utf8_lossy(parts.cstr()?).into_owned());
        }
        parts.0.is_empty().then_some(Negotiated { newest_version, unrecognized })
    };
    parse().ok_or(malformed(b'v', "not a version and a list of options"))
}
