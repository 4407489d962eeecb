//! How a connection begins: requests for encryption, cancels, the startup packet, and the way to the server.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use pgdyno_connect::{Acceptor, Params, Stream, reach};
use pgdyno_wire::Parts;
use pgdyno_wire::frontend::{CANCEL_REQUEST, GSSENC_REQUEST, SSL_REQUEST};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};

use crate::session::{Opened, fatal};

/// PostgreSQL's own limit.
const LONGEST_PACKET: usize = 10_000;
/// How long a client may take for its startup packet, as authentication_timeout.
const PATIENCE: Duration = Duration::from_secs(60);
/// The first byte of a TLS handshake.
const HANDSHAKE: u8 = 0x16;

/// What became of a connection.
pub enum Opening {
    Session(Box<Opened>),
    /// A cancel request was passed on.
    Cancelled,
    /// The client has closed, or does not follow the protocol.
    Nothing,
    /// The server cannot be reached.
    Unreachable(String),
}

pub fn open(socket: TcpStream, params: &Params, acceptor: Option<&Acceptor>, at: i64) -> Opening {
    let until = Instant::now() + PATIENCE;
    match try_open(Stream::Tcp(socket), params, acceptor, at, until) {
        Ok(opening) => opening,
        Err(_) => Opening::Nothing,
    }
}

fn try_open(
    mut client: Stream, params: &Params, acceptor: Option<&Acceptor>, at: i64, until: Instant,
) -> io::Result<Opening> {
    wait(&client, PollFlags::IN, until)?;
    let mut first = [0];
    recv(client.as_fd(), &mut first, RecvFlags::PEEK)?;
    if let ([HANDSHAKE], Some(acceptor)) = (first, acceptor) {
        client = acceptor.accept(client, until, true)?;
    }
    loop {
        let packet = packet(&mut client, until)?;
        let code = Parts(&packet[4..]).u32().ok_or(io::ErrorKind::InvalidData)?;
        match (code, acceptor) {
            (SSL_REQUEST, Some(acceptor)) if !client.is_encrypted() => {
                send(&mut client, b"S", until)?;
                client = acceptor.accept(client, until, false)?;
            }
            (SSL_REQUEST | GSSENC_REQUEST, _) => send(&mut client, b"N", until)?,
            (CANCEL_REQUEST, _) => {
                let Ok(mut server) = reach(params) else { return Ok(Opening::Nothing) };
                send(&mut server, &packet, until)?;
                // the server closes when it has passed the request on, and then the client may know
                let _ = receive(&mut server, &mut first, until);
                return Ok(Opening::Cancelled);
            }
            _ => {
                return Ok(match reach(params) {
                    Ok(server) => Opening::Session(Box::new(Opened { client, server, startup: packet, at })),
                    Err(error) => {
                        let message = format!("the proxy cannot reach the server: {error}");
                        let _ = send(&mut client, &fatal("08001", &message), until);
                        Opening::Unreachable(error.to_string())
                    }
                });
            }
        }
    }
}

/// A packet without a type, with its length.
fn packet(client: &mut Stream, until: Instant) -> io::Result<Vec<u8>> {
    let mut packet = vec![0; 4];
    receive(client, &mut packet, until)?;
    let length = Parts(&packet).u32().unwrap_or(0) as usize;
    if !(8..=LONGEST_PACKET).contains(&length) {
        send(client, &fatal("08P01", "invalid length of startup packet"), until)?;
        return Err(io::ErrorKind::InvalidData.into());
    }
    packet.resize(length, 0);
    receive(client, &mut packet[4..], until)?;
    Ok(packet)
}

fn receive(stream: &mut Stream, mut buffer: &mut [u8], until: Instant) -> io::Result<()> {
    while !buffer.is_empty() {
        match stream.try_recv(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => buffer = &mut buffer[bytes..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(stream, PollFlags::IN, until)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn send(stream: &mut Stream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() || !stream.try_flush()? {
        match stream.try_send(bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(stream, PollFlags::OUT, until)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn wait(stream: &Stream, events: PollFlags, until: Instant) -> io::Result<()> {
    loop {
        let left = until.checked_duration_since(Instant::now()).ok_or(io::ErrorKind::TimedOut)?;
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(stream, events)], Some(&left)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
