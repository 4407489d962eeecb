//! The answer to an md5 password request.

use std::fmt::Write;

use md5::{Digest, Md5};
use zeroize::Zeroizing;

/// `md5` + hex(md5(hex(md5(password + user)) + salt)), as in PostgreSQL's manual (Message Flow,
/// AuthenticationMD5Password).
pub fn response(user: &[u8], password: &[u8], salt: [u8; 4]) -> Zeroizing<String> {
    let inner = Zeroizing::new(hex(Md5::new().chain_update(password).chain_update(user)));
    let outer = hex(Md5::new().chain_update(inner.as_bytes()).chain_update(salt));
    Zeroizing::new(format!("md5{outer}"))
}

fn hex(digest: Md5) -> String {
    digest.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answer() {
        assert_eq!(*response(b"user", b"password", [0x2a, 0x3d, 0x8f, 0xe0]), "md552c2841c6f95b929d2378d408e5ee147");
    }
}
