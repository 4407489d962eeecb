//! The client's side of SCRAM-SHA-256 (RFC 5802, RFC 7677).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// Random bytes in a nonce, as in libpq.
const NONCE_BYTES: usize = 18;
/// More iterations are refused: a hostile server could keep the client busy for hours. The limit is
/// a few hundred times PostgreSQL's default of 4,096, and takes about a second.
pub const MAX_ITERATIONS: u32 = 2_000_000;

/// What the client says about binding the exchange to a TLS channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelBinding {
    /// The client cannot bind, as on a connection without TLS.
    Unsupported,
    /// The client supports it, and believes that the server does not.
    Unoffered,
    /// The exchange is bound by `tls-server-end-point` (RFC 5929), the hash of the server's certificate.
    TlsServerEndPoint(Vec<u8>),
}

impl ChannelBinding {
    pub fn mechanism(&self) -> &'static str {
        match self {
            ChannelBinding::Unsupported | ChannelBinding::Unoffered => "SCRAM-SHA-256",
            ChannelBinding::TlsServerEndPoint(_) => "SCRAM-SHA-256-PLUS",
        }
    }

    fn gs2_header(&self) -> &'static str {
        match self {
            ChannelBinding::Unsupported => "n,,",
            ChannelBinding::Unoffered => "y,,",
            ChannelBinding::TlsServerEndPoint(_) => "p=tls-server-end-point,,",
        }
    }

    fn data(&self) -> &[u8] {
        match self {
            ChannelBinding::Unsupported | ChannelBinding::Unoffered => &[],
            ChannelBinding::TlsServerEndPoint(hash) => hash,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScramError {
    #[error("malformed SCRAM message ({0})")]
    Malformed(&'static str),
    #[error("invalid SCRAM response (nonce mismatch)")]
    NonceMismatch,
    #[error("malformed SCRAM message (iteration count {0} is over {MAX_ITERATIONS})")]
    TooManyIterations(u64),
    #[error("error received from server in SCRAM exchange: {0}")]
    Refused(String),
    /// The server did not prove that it knows the password.
    #[error("incorrect server signature")]
    BadServerSignature,
    #[error("could not generate nonce")]
    NoRandomness,
}

/// The keys of the last exchange, shared by connections to the same server as the same user, so
/// that only the first of them computes them (RFC 5802, section 5.1, allows it).
#[derive(Clone, Default)]
pub struct KeyCache(Arc<Mutex<Option<Keys>>>);

impl fmt::Debug for KeyCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyCache(***)")
    }
}

impl KeyCache {
    fn keys(&self, password: &[u8], salt: &[u8], iterations: u32) -> Keys {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*cached {
            Some(keys) if keys.are_for(password, salt, iterations) => keys.clone(),
            _ => cached.insert(Keys::derive(password, salt, iterations)).clone(),
        }
    }
}

/// The keys that the iterations derive from a password.
#[derive(Clone)]
struct Keys {
    password: Zeroizing<Vec<u8>>,
    salt: Vec<u8>,
    iterations: u32,
    client: Zeroizing<[u8; 32]>,
    server: Zeroizing<[u8; 32]>,
}

impl Keys {
    fn derive(password: &[u8], salt: &[u8], iterations: u32) -> Keys {
        let mut salted = Zeroizing::new([0u8; 32]);
        // HMAC accepts every length of key, so this cannot fail.
        let _ = pbkdf2::pbkdf2::<Hmac<Sha256>>(password, salt, iterations, salted.as_mut_slice());
        Keys {
            password: Zeroizing::new(password.to_vec()),
            salt: salt.to_vec(),
            iterations,
            client: Zeroizing::new(hmac(salted.as_slice(), b"Client Key")),
            server: Zeroizing::new(hmac(salted.as_slice(), b"Server Key")),
        }
    }

    fn are_for(&self, password: &[u8], salt: &[u8], iterations: u32) -> bool {
        self.iterations == iterations && self.salt == salt && *self.password == password
    }
}

#[cfg(any(test, fuzzing))]
thread_local! {
    /// Used in place of random bytes, so that a fuzzed start is reproducible.
    pub(crate) static FIXED_NONCE: std::cell::Cell<Option<&'static str>> =
        const { std::cell::Cell::new(None) };
}

/// The client's side of one exchange: first message, final message, and check of the server's answer.
pub struct ScramClient {
    binding: ChannelBinding,
    nonce: String,
    user: String,
    server_signature: Option<Hmac<Sha256>>,
}

impl fmt::Debug for ScramClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramClient").finish_non_exhaustive()
    }
}

impl ScramClient {
    /// Begins an exchange with a fresh nonce. PostgreSQL takes the user's name from the start-up
    /// message, so none is sent here.
    ///
    /// # Errors
    /// The operating system gave no randomness.
    pub fn new(binding: ChannelBinding) -> Result<Self, ScramError> {
        #[cfg(any(test, fuzzing))]
        if let Some(nonce) = FIXED_NONCE.get() {
            return Ok(Self::with_nonce(binding, "", nonce.to_owned()));
        }
        let mut random = [0u8; NONCE_BYTES];
        getrandom::fill(&mut random).map_err(|_| ScramError::NoRandomness)?;
        Ok(Self::with_nonce(binding, "", BASE64.encode(random)))
    }

    fn with_nonce(binding: ChannelBinding, user: &str, nonce: String) -> Self {
        ScramClient { binding, nonce, user: user.to_owned(), server_signature: None }
    }

    pub fn first(&self) -> String {
        format!("{}{}", self.binding.gs2_header(), self.first_bare())
    }

    fn first_bare(&self) -> String {
        format!("n={},r={}", self.user, self.nonce)
    }

    /// The client-final-message, in answer to the server-first-message.
    ///
    /// # Errors
    /// The server's message is malformed, answers another nonce, or asks for too much work.
    pub fn answer(
        &mut self, server_first: &[u8], password: &[u8], cache: Option<&KeyCache>,
    ) -> Result<String, ScramError> {
        let server_first = std::str::from_utf8(server_first)
            .map_err(|_| ScramError::Malformed("server-first-message is not UTF-8"))?;
        let challenge = Challenge::parse(server_first)?;
        let own = challenge.nonce.strip_prefix(self.nonce.as_str());
        if own.is_none_or(str::is_empty) {
            return Err(ScramError::NonceMismatch);
        }
        let password = normalize_password(password);
        let keys = match cache {
            Some(cache) => cache.keys(&password, &challenge.salt, challenge.iterations),
            None => Keys::derive(&password, &challenge.salt, challenge.iterations),
        };

        let mut binding = self.binding.gs2_header().as_bytes().to_vec();
        binding.extend_from_slice(self.binding.data());
        let without_proof = format!("c={},r={}", BASE64.encode(binding), challenge.nonce);
        let signed = format!("{},{server_first},{without_proof}", self.first_bare());

        let stored: [u8; 32] = Sha256::digest(keys.client.as_slice()).into();
        let mut proof = hmac(&stored, signed.as_bytes());
        for (byte, key) in proof.iter_mut().zip(keys.client.iter()) {
            *byte ^= key;
        }
        self.server_signature = Some(mac(keys.server.as_slice()).chain_update(signed));
        Ok(format!("{without_proof},p={}", BASE64.encode(proof)))
    }

    /// Checks the server-final-message.
    ///
    /// # Errors
    /// The server refused, or did not prove that it knows the password.
    pub fn verify(&mut self, server_final: &[u8]) -> Result<(), ScramError> {
        let text = std::str::from_utf8(server_final)
            .map_err(|_| ScramError::Malformed("server-final-message is not UTF-8"))?;
        if let Some(why) = text.strip_prefix("e=") {
            let why = why.split(',').next().unwrap_or(why);
            return Err(ScramError::Refused(why.to_owned()));
        }
        let signature =
            text.strip_prefix("v=").ok_or(ScramError::Malformed("attribute \"v\" expected in server-final-message"))?;
        let signature = signature.split(',').next().unwrap_or(signature);
        let signature = BASE64.decode(signature).map_err(|_| ScramError::Malformed("invalid server signature"))?;
        let expected =
            self.server_signature.take().ok_or(ScramError::Malformed("server-final-message came too early"))?;
        expected.verify_slice(&signature).map_err(|_| ScramError::BadServerSignature)
    }
}

struct Challenge<'a> {
    nonce: &'a str,
    salt: Vec<u8>,
    iterations: u32,
}

impl<'a> Challenge<'a> {
    fn parse(message: &'a str) -> Result<Self, ScramError> {
        let mut attributes = message.split(',');
        let mut attribute = |prefix: &str, missing| {
            attributes.next().and_then(|text| text.strip_prefix(prefix)).ok_or(ScramError::Malformed(missing))
        };
        let nonce = attribute("r=", "attribute \"r\" expected")?;
        let salt = attribute("s=", "attribute \"s\" expected")?;
        let iterations = attribute("i=", "attribute \"i\" expected")?;
        let salt =
            BASE64.decode(salt).ok().filter(|salt| !salt.is_empty()).ok_or(ScramError::Malformed("invalid salt"))?;
        let count: u64 = iterations
            .parse()
            .ok()
            .filter(|&count| count > 0)
            .ok_or(ScramError::Malformed("invalid iteration count"))?;
        let iterations = u32::try_from(count)
            .ok()
            .filter(|&count| count <= MAX_ITERATIONS)
            .ok_or(ScramError::TooManyIterations(count))?;
        Ok(Challenge { nonce, salt, iterations })
    }
}

/// The password after SASLprep; unchanged if it is not UTF-8 or contains characters that SASLprep
/// forbids, as PostgreSQL does on both sides.
fn normalize_password(password: &[u8]) -> Zeroizing<Vec<u8>> {
    let prepared = std::str::from_utf8(password).ok().and_then(|text| stringprep::saslprep(text).ok());
    Zeroizing::new(prepared.map_or_else(|| password.to_vec(), |text| text.as_bytes().to_vec()))
}

#[cfg(any(test, fuzzing))]
pub(crate) fn server_signature(password: &[u8], salt: &[u8], iterations: u32, exchange: &[u8]) -> [u8; 32] {
    hmac(Keys::derive(password, salt, iterations).server.as_slice(), exchange)
}

fn mac(key: &[u8]) -> Hmac<Sha256> {
    // HMAC accepts every length of key, so the alternative is never used.
    Hmac::new_from_slice(key).unwrap_or_else(|_| Hmac::new(&Default::default()))
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    mac(key).chain_update(message).finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER_FIRST: &[u8] =
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const SERVER_FINAL: &[u8] = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    fn rfc_client() -> ScramClient {
        let nonce = "rOprNGfwEbeRWgbNEkqO".to_owned();
        ScramClient::with_nonce(ChannelBinding::Unsupported, "user", nonce)
    }

    fn answered() -> ScramClient {
        let mut client = rfc_client();
        assert!(client.answer(SERVER_FIRST, b"pencil", None).is_ok());
        client
    }

    /// The example of RFC 7677, section 3.
    #[test]
    fn rfc_7677() {
        let cache = KeyCache::default();
        for _ in 0..2 {
            let mut client = rfc_client();
            assert_eq!(client.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
            let answer = client.answer(SERVER_FIRST, b"pencil", Some(&cache));
            assert_eq!(
                answer.as_deref(),
                Ok(
                    "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
                )
            );
            assert_eq!(client.verify(SERVER_FINAL), Ok(()));
        }
    }

    /// Keys that no derivation would return show which answers take the cached ones.
    #[test]
    fn the_cache_replaces_the_derivation_until_the_challenge_changes() {
        let cache = KeyCache::default();
        let answer = |challenge: &[u8], cache| rfc_client().answer(challenge, b"pencil", cache).expect("an answer");
        let derived = answer(SERVER_FIRST, Some(&cache));
        cache.0.lock().expect("the lock").as_mut().expect("keys").client[0] ^= 1;
        assert_ne!(answer(SERVER_FIRST, Some(&cache)), derived);
        assert_eq!(answer(SERVER_FIRST, None), derived);
        let fewer = String::from_utf8(SERVER_FIRST.to_vec()).expect("text").replace("i=4096", "i=4095");
        assert_eq!(answer(fewer.as_bytes(), Some(&cache)), answer(fewer.as_bytes(), None));
        assert_eq!(answer(SERVER_FIRST, Some(&cache)), derived);
        // it tells passwords apart
        let cache = KeyCache::default();
        let answers = [&b"pencil"[..], b"pen", b"pencil"]
            .map(|password| rfc_client().answer(SERVER_FIRST, password, Some(&cache)));
        assert_eq!(answers[0], answers[2]);
        assert_ne!(answers[0], answers[1]);
    }

    #[test]
    fn a_server_without_the_password_is_found_out() {
        for server_final in [&b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5="[..], b"v=", b"v=AAAA"] {
            let result = answered().verify(server_final);
            assert!(matches!(result, Err(ScramError::BadServerSignature | ScramError::Malformed(_))), "{result:?}");
        }
        assert!(rfc_client().verify(SERVER_FINAL).is_err());
        assert_eq!(answered().verify(b"e=invalid-proof"), Err(ScramError::Refused("invalid-proof".to_owned())));
    }

    #[test]
    fn bad_challenges_are_refused() {
        let refused =
            |challenge: &str| rfc_client().answer(challenge.as_bytes(), b"pencil", None).expect_err(challenge);
        assert_eq!(refused("r=other,s=AAAA,i=1"), ScramError::NonceMismatch);
        assert_eq!(refused("r=rOprNGfwEbeRWgbNEkqO,s=AAAA,i=1"), ScramError::NonceMismatch);
        let endless = refused("r=rOprNGfwEbeRWgbNEkqOx,s=AAAA,i=2147483647");
        assert_eq!(endless, ScramError::TooManyIterations(2_147_483_647));
        for challenge in [
            "",
            "r=rOprNGfwEbeRWgbNEkqOx",
            "r=rOprNGfwEbeRWgbNEkqOx,s=,i=1",
            "r=rOprNGfwEbeRWgbNEkqOx,s=%,i=1",
            "r=rOprNGfwEbeRWgbNEkqOx,s=AAAA,i=0",
            "r=rOprNGfwEbeRWgbNEkqOx,s=AAAA,i=-1",
            "r=rOprNGfwEbeRWgbNEkqOx,s=AAAA,i=99999999999999999999",
            "r=rOprNGfwEbeRWgbNEkqOx,i=1,s=AAAA",
        ] {
            assert!(matches!(refused(challenge), ScramError::Malformed(_)));
        }
    }

    #[test]
    fn passwords_are_prepared_and_nonces_differ() {
        // By RFC 4013, section 3, a soft hyphen is removed, and a feminine ordinal becomes "a".
        assert_eq!(*normalize_password("I\u{ad}X".as_bytes()), b"IX");
        assert_eq!(*normalize_password("\u{aa}".as_bytes()), b"a");
        assert_eq!(*normalize_password(b"\x07"), b"\x07");
        assert_eq!(*normalize_password(b"\xff\xfe"), b"\xff\xfe");
        let first = |()| ScramClient::new(ChannelBinding::Unsupported).expect("randomness").first();
        assert_ne!(first(()), first(()));
        assert_eq!(first(()).matches(',').count(), 3);
    }

    #[test]
    fn channel_binding_goes_into_the_proof() {
        let bind = |binding| {
            let mut client = ScramClient::with_nonce(binding, "user", "rOprNGfwEbeRWgbNEkqO".to_owned());
            let answer = client.answer(SERVER_FIRST, b"pencil", None);
            (client.first(), answer.expect("an answer"))
        };
        let (first, answer) = bind(ChannelBinding::TlsServerEndPoint(vec![1, 2, 3]));
        assert!(first.starts_with("p=tls-server-end-point,,n=user"));
        let expected = BASE64.encode(b"p=tls-server-end-point,,\x01\x02\x03");
        assert!(answer.starts_with(&format!("c={expected},")));
        assert!(bind(ChannelBinding::Unoffered).1.starts_with("c=eSws,"));
    }
}
