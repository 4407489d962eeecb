//! A map by name for few entries: most sessions have none or a handful.

/// How many names one connection may have; with [`LONGEST_BYTES`] this limits its memory.
pub(crate) const MOST: usize = 10_000;
pub(crate) const LONGEST_BYTES: usize = 256;

/// A sorted list: a lookup among the hundreds of statements of sysbench takes eight comparisons.
#[derive(Debug)]
pub(crate) struct Names<T> {
    entries: Vec<(Box<[u8]>, T)>,
}

/// The map is full, or the name is too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<T> Names<T> {
    pub fn get(&self, name: &[u8]) -> Option<&T> {
        let at = self.find(name).ok()?;
        Some(&self.entries[at].1)
    }

    /// Inserts a value; replaces one with the same name.
    pub fn insert(&mut self, name: &[u8], value: T) -> Result<(), Full> {
        match self.find(name) {
            Ok(at) => self.entries[at].1 = value,
            Err(_) if self.entries.len() == MOST || name.len() > LONGEST_BYTES => return Err(Full),
            Err(at) => self.entries.insert(at, (name.into(), value)),
        }
        Ok(())
    }

    pub fn remove(&mut self, name: &[u8]) -> Option<T> {
        let at = self.find(name).ok()?;
        let (_, value) = self.entries.remove(at);
        Some(value)
    }

    /// Removes all values and frees their memory.
    pub fn clear(&mut self) {
        self.entries = Vec::new();
    }

    fn find(&self, name: &[u8]) -> Result<usize, usize> {
        self.entries.binary_search_by(|(known, _)| known.as_ref().cmp(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_found_until_it_is_taken_out() {
        let mut names = Names::default();
        for (number, name) in ["b", "a", "c", "aa"].into_iter().enumerate() {
            assert_eq!(names.insert(name.as_bytes(), number), Ok(()));
        }
        assert_eq!(names.get(b"aa"), Some(&3));
        assert_eq!(names.insert(b"aa", 9), Ok(()));
        assert_eq!(names.remove(b"aa"), Some(9));
        assert_eq!(names.get(b"aa"), None);
        assert_eq!(names.get(b"b"), Some(&0));
        names.clear();
        assert_eq!(names.get(b"b"), None);
    }

    #[test]
    fn neither_many_nor_long_names_grow_it_without_bound() {
        let mut names = Names::default();
        assert_eq!(names.insert(&[b'x'; LONGEST_BYTES + 1], 0), Err(Full));
        for number in 0..MOST {
            assert_eq!(names.insert(format!("{number}").as_bytes(), 0), Ok(()));
        }
        assert_eq!(names.insert(b"one more", 0), Err(Full));
        assert_eq!(names.insert(b"7", 1), Ok(()));
    }
}
