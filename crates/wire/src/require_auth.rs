//! Which authentication methods a user allows: the connection parameter `require_auth`.

use crate::startup_error::{AuthMethod, StartupError};

/// The parameter as libpq reads it: methods that are allowed or, with `!`, methods that are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequireAuth {
    /// The original value, for messages.
    text: String,
    listed: Vec<&'static str>,
    /// Whether the listed methods are those that are refused.
    is_negated: bool,
}

const METHODS: [&str; 7] = ["password", "md5", "gss", "sspi", "scram-sha-256", "oauth", "none"];

impl RequireAuth {
    /// Reads the parameter's value; an empty one allows everything.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let is_negated = text.starts_with('!');
        let mut listed = Vec::new();
        for part in text.split(',') {
            let word = match part.strip_prefix('!') {
                Some(word) if is_negated => word,
                None if !is_negated => part,
                Some(_) => {
                    return Err(format!(
                        "negative require_auth method \"{part}\" cannot be mixed with non-negative methods"
                    ));
                }
                None => {
                    return Err(format!("require_auth method \"{part}\" cannot be mixed with negative methods"));
                }
            };
            let known = METHODS.into_iter().find(|known| *known == word);
            let method = known.ok_or_else(|| format!("invalid require_auth value: \"{word}\""))?;
            if listed.contains(&method) {
                return Err(format!("require_auth method \"{part}\" is specified more than once"));
            }
            listed.push(method);
        }
        Ok(Some(RequireAuth { text: text.to_owned(), listed, is_negated }))
    }

    fn allows(&self, method: &str) -> bool {
        self.listed.contains(&method) != self.is_negated
    }

    /// Refuses the method that the server requests if it is not allowed; `is_finished` says whether
    /// an authentication exchange was completed before AuthenticationOk.
    pub(crate) fn check(&self, asked: AuthMethod, is_finished: bool) -> Result<(), StartupError> {
        let (is_allowed, why) = match asked {
            AuthMethod::Trust => (is_finished || self.allows("none"), "server did not complete authentication"),
            AuthMethod::Cleartext => (self.allows("password"), "server requested a cleartext password"),
            AuthMethod::Md5 => (self.allows("md5"), "server requested a hashed password"),
            AuthMethod::Gss => (self.allows("gss"), "server requested GSSAPI authentication"),
            AuthMethod::Sspi => (self.allows("sspi"), "server requested SSPI authentication"),
            AuthMethod::ScramSha256 => {
                (self.allows("scram-sha-256") || self.allows("oauth"), "server requested SASL authentication")
            }
            AuthMethod::Kerberos | AuthMethod::Crypt | AuthMethod::ScmCredential | AuthMethod::Other(_) => {
                (false, "server requested an unknown authentication type")
            }
        };
        if is_allowed { Ok(()) } else { Err(self.refusal(why)) }
    }

    /// Refuses SCRAM if it is not the allowed SASL mechanism.
    pub(crate) fn check_scram(&self, mechanism: &str) -> Result<(), StartupError> {
        if self.allows("scram-sha-256") {
            return Ok(());
        }
        Err(self.refusal(&format!("server requested {mechanism} authentication")))
    }

    fn refusal(&self, why: &str) -> StartupError {
        StartupError::AuthNotAllowed { required: self.text.clone(), why: why.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn require(text: &str) -> RequireAuth {
        let parsed = RequireAuth::parse(text).expect("it can be read");
        parsed.expect("it is not empty")
    }

    fn allowed(text: &str) -> Vec<AuthMethod> {
        use AuthMethod::{Cleartext, Gss, Md5, ScramSha256, Sspi, Trust};
        let all = [Trust, Cleartext, Md5, ScramSha256, Gss, Sspi];
        let require = require(text);
        let passes = |asked: &AuthMethod| require.check(*asked, false).is_ok();
        all.into_iter().filter(passes).collect()
    }

    #[test]
    fn lists_allow_and_refuse() {
        use AuthMethod::{Cleartext, Gss, Md5, ScramSha256, Sspi, Trust};
        assert_eq!(RequireAuth::parse(""), Ok(None));
        assert_eq!(allowed("password"), [Cleartext]);
        assert_eq!(allowed("scram-sha-256,md5"), [Md5, ScramSha256]);
        assert_eq!(allowed("none"), [Trust]);
        assert_eq!(allowed("none,gss"), [Trust, Gss]);
        assert_eq!(allowed("!none"), [Cleartext, Md5, ScramSha256, Gss, Sspi]);
        assert_eq!(allowed("!password,!md5"), [Trust, ScramSha256, Gss, Sspi]);
        // one of the SASL mechanisms is still allowed: which ones the server offers is not known yet
        assert!(allowed("!scram-sha-256").contains(&ScramSha256));
        assert_eq!(allowed("!scram-sha-256,!oauth"), [Trust, Cleartext, Md5, Gss, Sspi]);
        assert_eq!(
            require("!scram-sha-256")
                .check_scram("SCRAM-SHA-256-PLUS")
                .map_err(|error| error.to_string()),
            Err(
                "authentication method requirement \"!scram-sha-256\" failed: server requested SCRAM-SHA-256-PLUS authentication"
                    .to_owned()
            )
        );
        // an exchange that is complete satisfies
        assert!(require("md5").check(AuthMethod::Trust, true).is_ok());
        assert!(require("!none").check(AuthMethod::Trust, true).is_ok());
    }

    #[test]
    fn unusable_lists_are_refused_in_libpqs_words() {
        for (text, words) in [
            ("scram-sha-256,!md5", "negative require_auth method \"!md5\" cannot be mixed with non-negative methods"),
            (
                "!password,!none,scram-sha-256",
                "require_auth method \"scram-sha-256\" cannot be mixed with negative methods",
            ),
            ("none,md5,none", "require_auth method \"none\" is specified more than once"),
            ("!none,!md5,!none", "require_auth method \"!none\" is specified more than once"),
            ("none,abcdefg", "invalid require_auth value: \"abcdefg\""),
            ("!abcdefg", "invalid require_auth value: \"abcdefg\""),
            ("md5,", "invalid require_auth value: \"\""),
            (" md5", "invalid require_auth value: \" md5\""),
        ] {
            assert_eq!(RequireAuth::parse(text), Err(words.to_owned()), "{text}");
        }
    }
}
