//! Whether SCRAM is bound to the TLS channel: the client's wish, and what the server supports.

use crate::scram::ChannelBinding;
use crate::startup_error::{AuthMethod, StartupError};

/// The mechanism with channel binding.
const PLUS: &str = "SCRAM-SHA-256-PLUS";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Channel {
    #[default]
    Plain,
    /// TLS, with the hash of the server's certificate for `tls-server-end-point` (RFC 5929).
    Tls(Vec<u8>),
    /// TLS, with a certificate whose signature has no hash of its own, such as Ed25519.
    TlsWithoutHash,
}

/// Whether authentication has to be bound to the channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BindingPolicy {
    Never,
    /// If it is possible.
    #[default]
    Preferred,
    /// Always: a server with another authentication method is refused.
    Required,
}

/// The channel, and whether to bind to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    pub channel: Channel,
    pub wanted: BindingPolicy,
}

impl Binding {
    /// What the client's SCRAM messages say if the server offers these mechanisms.
    pub(crate) fn choose(&self, offered: Vec<String>) -> Result<ChannelBinding, StartupError> {
        let has = |wanted: &str| offered.iter().any(|name| name == wanted);
        let chosen = match (&self.channel, self.wanted) {
            (Channel::Plain, BindingPolicy::Required) => return Err(StartupError::BindingWithoutTls),
            (Channel::Plain, _) if has(PLUS) => return Err(StartupError::PlusWithoutTls),
            (Channel::Plain, _) | (_, BindingPolicy::Never) => ChannelBinding::Unsupported,
            (Channel::Tls(hash), _) if has(PLUS) => ChannelBinding::TlsServerEndPoint(hash.clone()),
            (Channel::TlsWithoutHash, _) if has(PLUS) => return Err(StartupError::NoBindingHash),
            (_, BindingPolicy::Required) => return Err(StartupError::BindingNotOffered),
            (_, BindingPolicy::Preferred) => ChannelBinding::Unoffered,
        };
        if has(chosen.mechanism()) { Ok(chosen) } else { Err(StartupError::UnsupportedMechanisms(offered)) }
    }

    /// Refuses authentication without binding if that is required.
    pub(crate) fn check(&self, asked: AuthMethod) -> Result<(), StartupError> {
        match asked {
            _ if self.wanted != BindingPolicy::Required => Ok(()),
            AuthMethod::ScramSha256 => Ok(()),
            AuthMethod::Trust => Err(StartupError::NotBound),
            _ => Err(StartupError::BindingUnsupported),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(channel: Channel, wanted: BindingPolicy, offered: &[&str]) -> Result<String, String> {
        match (Binding { channel, wanted }).choose(offered.iter().map(|&name| name.to_owned()).collect()) {
            Ok(chosen) => Ok(format!("{chosen:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_mechanism_follows_channel_wish_and_offer() {
        use BindingPolicy::{Never, Preferred, Required};
        let tls = || Channel::Tls(vec![7]);
        let (both, bare) = (&[PLUS, "SCRAM-SHA-256"][..], &["SCRAM-SHA-256"][..]);
        let ok = |text: &str| Ok(text.to_owned());
        let err = |text: &str| Err(text.to_owned());
        assert_eq!(choose(tls(), Preferred, both), ok("TlsServerEndPoint([7])"));
        assert_eq!(choose(tls(), Required, both), ok("TlsServerEndPoint([7])"));
        assert_eq!(choose(tls(), Never, both), ok("Unsupported"));
        assert_eq!(choose(tls(), Preferred, bare), ok("Unoffered"));
        assert_eq!(choose(Channel::Plain, Preferred, bare), ok("Unsupported"));
        assert_eq!(
            choose(tls(), Required, bare),
            err(
                "channel binding is required, but server did not offer an authentication method that supports channel binding"
            )
        );
        assert_eq!(choose(Channel::Plain, Required, bare), err("channel binding required, but SSL not in use"));
        assert_eq!(choose(Channel::TlsWithoutHash, Preferred, bare), ok("Unoffered"));
        assert!(choose(Channel::TlsWithoutHash, Preferred, both).is_err());
        assert!(choose(tls(), Preferred, &["OAUTHBEARER"]).is_err());
    }

    #[test]
    fn other_methods_do_when_binding_is_not_required() {
        for wanted in [BindingPolicy::Never, BindingPolicy::Preferred] {
            let binding = Binding { channel: Channel::Tls(vec![7]), wanted };
            assert_eq!(binding.check(AuthMethod::Trust), Ok(()));
            assert_eq!(binding.check(AuthMethod::Cleartext), Ok(()));
        }
        let required = Binding { channel: Channel::Tls(vec![7]), wanted: BindingPolicy::Required };
        let check = |asked| required.check(asked).map_err(|error| error.to_string());
        assert_eq!(check(AuthMethod::ScramSha256), Ok(()));
        assert_eq!(
            check(AuthMethod::Trust),
            Err("channel binding required, but server authenticated client without channel binding".to_owned())
        );
        assert_eq!(
            check(AuthMethod::Md5),
            Err("channel binding required but not supported by server's authentication request".to_owned())
        );
    }
}
