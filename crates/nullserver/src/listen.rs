//! The sockets that clients connect to.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::ServeError;
use crate::options::Options;

/// How many connections may wait to be accepted; the kernel may lower it.
const BACKLOG: i32 = 65_535;

/// The listening sockets; a unix socket's file is removed when they are dropped.
#[derive(Debug)]
pub struct Listeners {
    tcp: Option<(TcpListener, SocketAddr)>,
    unix: Option<(UnixListener, SocketFile)>,
}

#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // the file may have been removed already
        let _ = fs::remove_file(&self.0);
    }
}

/// Opens the sockets of the options. A port of 0 becomes the one that the system chose.
pub fn open(options: &Options) -> Result<Listeners, ServeError> {
    let mut port = options.port;
    let mut tcp = None;
    if let Some(address) = options.listen {
        let asked = SocketAddr::new(address, port);
        let failed = |cause| ServeError::new(format!("listening on {asked}"), cause);
        let listener = TcpListener::bind(asked).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        prepare(&listener).map_err(failed)?;
        port = address.port();
        tcp = Some((listener, address));
    }
    let mut unix = None;
    if let Some(folder) = &options.socket_dir {
        let path = folder.join(format!(".s.PGSQL.{port}"));
        let failed = |cause| {
            let doing = format!("listening on socket \"{}\"", path.display());
            ServeError::new(doing, cause)
        };
        remove_stale(&path).map_err(failed)?;
        let listener = UnixListener::bind(&path).map_err(failed)?;
        let file = SocketFile(path.clone());
        // with PostgreSQL's permissions: the file does not decide who may connect
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).map_err(failed)?;
        prepare(&listener).map_err(failed)?;
        unix = Some((listener, file));
    }
    Ok(Listeners { tcp, unix })
}

impl Listeners {
    /// The addresses on which clients can connect, as text.
    pub fn addresses(&self) -> String {
        let unix = self.unix.iter().map(|(_, file)| file.0.display().to_string());
        let tcp = self.tcp.iter().map(|(_, address)| address.to_string());
        unix.chain(tcp).collect::<Vec<_>>().join(" and ")
    }

    /// The sockets, and whether each is TCP.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let unix = self.unix.iter().map(|(listener, _)| (listener.as_fd(), false));
        let tcp = self.tcp.iter().map(|(listener, _)| (listener.as_fd(), true));
        unix.chain(tcp)
    }
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
    rustix::net::listen(listener, BACKLOG)?;
    Ok(())
}

/// Removes the socket file of a server that has ended.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if is_socket {
        match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)?,
            // bind reports that the address is in use
            _ => {}
        }
    }
    Ok(())
}
