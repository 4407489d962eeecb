//! The sockets that clients connect to.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::options::Options;

/// How many connections may wait to be accepted; the kernel may lower it.
const BACKLOG: i32 = 65_535;

#[derive(Debug, Default)]
pub struct Listeners {
    pub sockets: Vec<OwnedFd>,
    /// As text, for clients.
    pub addresses: Vec<String>,
    pub file: Option<SocketFile>,
}

/// The file of a unix socket, which is removed when this is dropped.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // the file may have been removed already
        let _ = fs::remove_file(&self.0);
    }
}

/// Opens the sockets of the options. A port of 0 becomes the one that the system chose.
///
/// # Errors
/// A message that names the socket.
pub fn open(options: &Options) -> Result<Listeners, String> {
    let mut listeners = Listeners::default();
    let mut port = options.port;
    let mut addresses = Vec::new();
    if let Some(address) = options.listen {
        let asked = SocketAddr::new(address, port);
        let (socket, address) = open_tcp(asked).map_err(|cause| format!("listening on {asked} failed: {cause}"))?;
        port = address.port();
        listeners.sockets.push(socket);
        addresses.push(address.to_string());
    }
    if let Some(folder) = &options.socket_dir {
        let path = folder.join(format!(".s.PGSQL.{port}"));
        let shown = path.display().to_string();
        let failed = |cause| format!("listening on socket \"{shown}\" failed: {cause}");
        remove_stale(&path).map_err(failed)?;
        let socket = UnixListener::bind(&path).map_err(failed)?;
        listeners.file = Some(SocketFile(path.clone()));
        // with PostgreSQL's permissions: the file does not decide who may connect
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).map_err(failed)?;
        prepare(&socket).map_err(failed)?;
        listeners.sockets.push(socket.into());
        addresses.insert(0, shown);
    }
    listeners.addresses = addresses;
    Ok(listeners)
}

fn open_tcp(address: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let socket = TcpListener::bind(address)?;
    let address = socket.local_addr()?;
    // accepted sockets inherit it
    rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
    prepare(&socket)?;
    Ok((socket.into(), address))
}

/// Raises the limit of open files as far as the hard limit allows, so that many thousand clients can connect.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // with the lower limit fewer clients can connect, and accepting reports it
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Makes a socket non-blocking, with a longer queue than the standard library requests.
fn prepare(listener: impl AsFd) -> io::Result<()> {
    rustix::io::ioctl_fionbio(listener.as_fd(), true)?;
    Ok(rustix::net::listen(listener, BACKLOG)?)
}

/// Removes the socket file of a server that has ended; that of a running one makes bind fail.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let answer = UnixStream::connect(path).map_err(|error| error.kind());
    match answer {
        Err(io::ErrorKind::ConnectionRefused) if is_socket => fs::remove_file(path),
        _ => Ok(()),
    }
}
