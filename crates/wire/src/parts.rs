//! Reads the fields of a message one after the other.

/// The unread fields of a message. Each method reads the next one, and returns None at the end.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a>(pub &'a [u8]);

impl<'a> Parts<'a> {
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub fn u16(&mut self) -> Option<u16> {
        let (number, rest) = self.0.split_first_chunk::<2>()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*number))
    }

    pub fn u32(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*number))
    }

    /// Text up to a zero byte.
    pub fn cstr(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let text = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Some(text)
    }

    /// A value with its length before it; the inner `None` is NULL.
    pub fn value(&mut self) -> Option<Option<&'a [u8]>> {
        let length = self.u32()?;
        if length == u32::MAX {
            return Some(None);
        }
        let (value, rest) = self.0.split_at_checked(length as usize)?;
        self.0 = rest;
        Some(Some(value))
    }

    /// A list of numbers of two bytes, with its length before it.
    pub fn codes(&mut self) -> Option<Vec<u16>> {
        (0..self.u16()?).map(|_| self.u16()).collect()
    }
}
