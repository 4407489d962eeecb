//! Options whose value is one of a few words.

use crate::param_error::ParamError;

/// Declares an enum of words, with the option's name and a reader.
macro_rules! words {
    ($(#[$about:meta])* $name:ident of $option:literal { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            pub fn parse(text: &str) -> Result<Self, ParamError> {
                match text {
                    $($word => Ok($name::$variant),)*
                    _ => Err(ParamError::InvalidValue {
                        option: $option,
                        value: text.to_owned(),
                    }),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $($name::$variant => $word,)*
                })
            }
        }
    };
}

words! {
    /// Whether the connection is encrypted, and what is verified.
    SslMode of "sslmode" {
        Disable = "disable",
        Allow = "allow",
        Prefer = "prefer",
        Require = "require",
        VerifyCa = "verify-ca",
        VerifyFull = "verify-full",
    }
}

words! {
    TargetSessionAttrs of "target_session_attrs" {
        Any = "any",
        ReadWrite = "read-write",
        ReadOnly = "read-only",
        /// One on a server that is not in hot standby.
        Primary = "primary",
        /// One on a server in hot standby.
        Standby = "standby",
        /// One on a server in hot standby if any host has one, otherwise any session.
        PreferStandby = "prefer-standby",
    }
}

words! {
    LoadBalance of "load_balance_hosts" {
        Disable = "disable",
        Random = "random",
    }
}

words! {
    SslNegotiation of "sslnegotiation" {
        /// The client asks the server whether it supports TLS.
        Postgres = "postgres",
        /// TLS begins immediately.
        Direct = "direct",
    }
}

words! {
    SslCertMode of "sslcertmode" {
        Disable = "disable",
        Allow = "allow",
        Require = "require",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_written() {
        for word in ["any", "read-write", "read-only", "primary", "standby", "prefer-standby"] {
            assert_eq!(TargetSessionAttrs::parse(word).map(|attrs| attrs.to_string()), Ok(word.to_owned()));
        }
        assert_eq!(SslMode::parse("maybe").expect_err("no such word").to_string(), "invalid sslmode value: \"maybe\"");
    }
}
