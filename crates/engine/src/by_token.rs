//! Values of connections, by token.

/// Values of connections, by token; empty where no connection has one.
#[derive(Debug)]
pub struct ByToken<T>(Vec<Option<T>>);

impl<T> Default for ByToken<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> ByToken<T> {
    pub fn set(&mut self, token: usize, value: Option<T>) {
        if value.is_some() && self.0.len() <= token {
            self.0.resize_with(token + 1, || None);
        }
        if let Some(place) = self.0.get_mut(token) {
            *place = value;
        }
    }

    #[inline]
    pub fn get(&self, token: usize) -> Option<&T> {
        self.0.get(token)?.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, token: usize) -> Option<&mut T> {
        self.0.get_mut(token)?.as_mut()
    }

    pub fn take(&mut self, token: usize) -> Option<T> {
        self.0.get_mut(token)?.take()
    }
}
