//! A minimal server for tests: it accepts every client, answers every query, and counts. It refuses
//! a query with the word `fail`.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const PORT: u16 = 5432;
/// AuthenticationOk and ReadyForQuery.
const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
/// CommandComplete and ReadyForQuery.
const DONE: &[u8] = b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";

/// An ErrorResponse and ReadyForQuery.
const REFUSED: &[u8] = b"E\0\0\0\x1eSERROR\0VERROR\0C40001\0Mno\0\0Z\0\0\0\x05I";

/// A server that runs until the test's process ends.
pub struct Server {
    folder: PathBuf,
    /// Queries by connection, in the order of connecting.
    pub queries: Arc<Mutex<Vec<Arc<AtomicU64>>>>,
}

impl Server {
    /// Starts a server in a folder of its own, which answers each query after `pause`: without
    /// one, closed loads use all processors.
    pub fn start(pause: Duration) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pgdyno-engine-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let listener = UnixListener::bind(folder.join(format!(".s.PGSQL.{PORT}"))).expect("a socket");
        let queries = Arc::new(Mutex::new(Vec::new()));
        let counts = Arc::clone(&queries);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let count = Arc::new(AtomicU64::new(0));
                counts.lock().expect("no panic").push(Arc::clone(&count));
                // the thread ends with its client
                thread::spawn(move || serve(stream, &count, pause));
            }
        });
        Self { folder, queries }
    }

    /// The folder of the server's socket.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How many queries each connection has sent up to now.
    pub fn counts(&self) -> Vec<u64> {
        let queries = self.queries.lock().expect("no panic");
        queries.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn serve(mut stream: UnixStream, count: &AtomicU64, pause: Duration) -> io::Result<()> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    read_body(&mut stream, length)?;
    stream.write_all(WELCOME)?;
    let mut head = [0; 5];
    loop {
        stream.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let body = read_body(&mut stream, length)?;
        if kind == b'X' {
            return Ok(());
        }
        count.fetch_add(1, Ordering::Relaxed);
        if !pause.is_zero() {
            thread::sleep(pause);
        }
        let fails = body.windows(4).any(|word| word == b"fail");
        stream.write_all(if fails { REFUSED } else { DONE })?;
    }
}

fn read_body(stream: &mut UnixStream, length: [u8; 4]) -> io::Result<Vec<u8>> {
    let mut body = vec![0; (u32::from_be_bytes(length) as usize).saturating_sub(4)];
    stream.read_exact(&mut body)?;
    Ok(body)
}
