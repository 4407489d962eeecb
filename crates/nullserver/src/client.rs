//! Connected clients by token: their sockets, sessions and unsent bytes.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::connection::Connection;

/// The server stops reading from a client with more unsent bytes than this.
const MOST_WAITING_BYTES: usize = 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Open,
    /// It closes after answers that are delayed; nothing more is read.
    Ending,
    /// It closes when everything is sent.
    Closing,
}

#[derive(Debug)]
pub(crate) struct Client {
    pub socket: OwnedFd,
    pub connection: Connection,
    pub fate: Fate,
    /// Bytes that the kernel did not take.
    unsent: Vec<u8>,
    /// Size of the delayed answers.
    pub held_bytes: usize,
    /// Whether there may be more to read.
    pub unread: bool,
    generation: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendResult {
    All,
    /// The kernel takes no more for now.
    Stuck,
    Broken,
}

impl Client {
    pub fn send(&mut self, bytes: &[u8]) -> SendResult {
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(bytes);
            return SendResult::Stuck;
        }
        match send_some(&self.socket, bytes) {
            Ok(count) if count == bytes.len() => SendResult::All,
            Ok(count) => {
                self.unsent.extend_from_slice(&bytes[count..]);
                SendResult::Stuck
            }
            Err(_) => SendResult::Broken,
        }
    }

    pub fn flush(&mut self) -> SendResult {
        match send_some(&self.socket, &self.unsent) {
            Ok(count) if count == self.unsent.len() => {
                self.unsent = Vec::new();
                SendResult::All
            }
            Ok(count) => {
                self.unsent.drain(..count);
                SendResult::Stuck
            }
            Err(_) => SendResult::Broken,
        }
    }

    /// Whether bytes wait for room in the kernel.
    pub fn is_stuck(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Whether too many bytes are unsent.
    pub fn is_clogged(&self) -> bool {
        self.unsent.len() + self.held_bytes > MOST_WAITING_BYTES
    }
}

/// Sends until everything is sent or the kernel takes no more; returns how many bytes were sent.
fn send_some(socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match send(socket, &bytes[sent..], SendFlags::NOSIGNAL) {
            Ok(count) => sent += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(sent)
}

/// All clients of a thread. Tokens are not reused, so that an event of a removed client finds none.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    slots: Vec<Option<Client>>,
    free: Vec<u32>,
    generation: u32,
}

impl Clients {
    /// Adds a client; returns its token, which is never below 2^32.
    pub fn add(&mut self, socket: OwnedFd, connection: Connection) -> u64 {
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        let client = Client {
            socket,
            connection,
            fate: Fate::Open,
            unsent: Vec::new(),
            held_bytes: 0,
            unread: false,
            generation: self.generation,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(client);
                index
            }
            None => {
                self.slots.push(Some(client));
                (self.slots.len() - 1) as u32
            }
        };
        u64::from(self.generation) << 32 | u64::from(index)
    }

    pub fn get(&mut self, token: u64) -> Option<&mut Client> {
        let client = self.slots.get_mut(index(token))?.as_mut()?;
        (u64::from(client.generation) == token >> 32).then_some(client)
    }

    pub fn remove(&mut self, token: u64) {
        if self.get(token).is_some() {
            self.slots[index(token)] = None;
            self.free.push(index(token) as u32);
        }
    }
}

fn index(token: u64) -> usize {
    (token & u64::from(u32::MAX)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn add(clients: &mut Clients) -> (u64, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        ours.set_nonblocking(true).expect("a socket of ours");
        (clients.add(ours.into(), Connection::new(1)), theirs)
    }

    #[test]
    fn the_token_of_a_client_that_is_gone_finds_no_other() {
        let mut clients = Clients::default();
        let (first, _theirs) = add(&mut clients);
        let (second, _theirs) = add(&mut clients);
        clients.remove(first);
        let (third, _theirs) = add(&mut clients);
        assert_eq!(index(first), index(third));
        assert!(clients.get(first).is_none());
        assert!(clients.get(second).is_some());
        assert!(clients.get(third).is_some());
        clients.remove(first);
        assert!(clients.get(third).is_some());
    }

    #[test]
    fn what_the_kernel_does_not_take_is_sent_in_order_later() {
        let mut clients = Clients::default();
        let (token, mut theirs) = add(&mut clients);
        let client = clients.get(token).expect("just added");
        let bytes: Vec<u8> = (0..3_000_000u32).map(|n| n as u8).collect();
        assert_eq!(client.send(&bytes), SendResult::Stuck);
        assert_eq!(client.send(b"end"), SendResult::Stuck);
        assert!(client.is_stuck() && client.is_clogged());
        let mut received = Vec::new();
        let mut chunk = vec![0; 65_536];
        while received.len() < bytes.len() + 3 {
            let count = theirs.read(&mut chunk).expect("something to read");
            received.extend_from_slice(&chunk[..count]);
            assert_ne!(client.flush(), SendResult::Broken);
        }
        assert!(received.starts_with(&bytes) && received.ends_with(b"end"));
        assert!(!client.is_stuck());
        drop(theirs);
        assert_eq!(client.send(b"nobody"), SendResult::Broken);
    }
}
