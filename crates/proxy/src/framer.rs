//! Splits a stream of bytes into messages, without keeping more than its user wants.

/// What follows the messages of one direction.
pub trait Sink {
    /// Whether the body of a message is to be kept; those of others are skipped.
    fn wants(&mut self, kind: u8, body_bytes: usize) -> bool;
    /// A message has ended; without its body if it was not wanted.
    fn message(&mut self, kind: u8, body: Option<&[u8]>, body_bytes: usize);
}

/// A length that no message can have: what follows cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub struct Lost;

#[derive(Debug, Default)]
pub struct Framer {
    header: [u8; 5],
    header_bytes: usize,
    is_wanted: bool,
    body: Vec<u8>,
    body_bytes: usize,
    left: usize,
}

const HEADER: usize = 5;
/// A larger buffer is released after its message.
const KEPT_BYTES: usize = 64 * 1024;

impl Framer {
    pub fn feed(&mut self, mut bytes: &[u8], sink: &mut impl Sink) -> Result<(), Lost> {
        loop {
            if self.header_bytes < HEADER {
                let taken = bytes.len().min(HEADER - self.header_bytes);
                self.header[self.header_bytes..self.header_bytes + taken].copy_from_slice(&bytes[..taken]);
                self.header_bytes += taken;
                bytes = &bytes[taken..];
                if self.header_bytes < HEADER {
                    return Ok(());
                }
                let [kind, length @ ..] = self.header;
                let length = u32::from_be_bytes(length);
                self.body_bytes = length.checked_sub(4).ok_or(Lost)? as usize;
                self.left = self.body_bytes;
                self.is_wanted = sink.wants(kind, self.body_bytes);
            }
            let kind = self.header[0];
            let (now, rest) = bytes.split_at(bytes.len().min(self.left));
            self.left -= now.len();
            bytes = rest;
            if self.left > 0 {
                if self.is_wanted {
                    self.body.extend_from_slice(now);
                }
                return Ok(());
            }
            self.header_bytes = 0;
            if !self.is_wanted {
                sink.message(kind, None, self.body_bytes);
            } else if self.body.is_empty() {
                sink.message(kind, Some(now), self.body_bytes);
            } else {
                self.body.extend_from_slice(now);
                sink.message(kind, Some(&self.body), self.body_bytes);
                self.body.clear();
                self.body.shrink_to(KEPT_BYTES);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen(Vec<(u8, Option<Vec<u8>>, usize)>);

    impl Sink for Seen {
        fn wants(&mut self, kind: u8, _body_bytes: usize) -> bool {
            kind != b'd'
        }

        fn message(&mut self, kind: u8, body: Option<&[u8]>, body_bytes: usize) {
            self.0.push((kind, body.map(<[u8]>::to_vec), body_bytes));
        }
    }

    #[test]
    fn messages_are_found_however_they_arrive() {
        let bytes = b"Q\0\0\0\x06a\0d\0\0\0\x07xyzS\0\0\0\x04";
        for piece in 1..bytes.len() {
            let (mut framer, mut seen) = (Framer::default(), Seen::default());
            for part in bytes.chunks(piece) {
                assert_eq!(framer.feed(part, &mut seen), Ok(()));
            }
            let ends = vec![(b'Q', Some(b"a\0".to_vec()), 2), (b'd', None, 3), (b'S', Some(Vec::new()), 0)];
            assert_eq!(seen.0, ends, "{piece}");
        }
        // a length of two gigabytes takes no memory and one that is too short ends
        let (mut framer, mut seen) = (Framer::default(), Seen::default());
        assert_eq!(framer.feed(b"d\x7f\xff\xff\xff", &mut seen), Ok(()));
        assert_eq!(framer.feed(&[0; 4096], &mut seen), Ok(()));
        assert_eq!((framer.body.capacity(), seen.0.len()), (0, 0));
        assert_eq!(Framer::default().feed(b"Q\0\0\0\x03", &mut seen), Err(Lost));
    }
}
