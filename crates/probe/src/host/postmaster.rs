//! Finds the postmaster, whose process changes when the server is restarted.

use std::path::PathBuf;

use super::files::Files;

/// How the server is identified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// Not at all.
    No,
    /// `--postmaster`: its process ID.
    Pid(u32),
    /// `--data`: its `postmaster.pid` contains the process ID.
    Data(PathBuf),
    /// `--cluster-name`: the titles of its processes contain the name.
    ClusterName(String),
}

/// Finds the postmaster, and again after a restart.
#[derive(Debug)]
pub struct Postmaster {
    known: Known,
    pid: Option<u32>,
}

/// Why the server's process is not known.
#[derive(Debug)]
pub struct Absent {
    pub problem: String,
    /// Whether the server that was named does not run, as far as its files and processes show.
    pub is_down: bool,
}

impl Absent {
    fn down(problem: String) -> Self {
        Self {
            problem,
            is_down: true,
        }
    }

    fn unknown(problem: String) -> Self {
        Self {
            problem,
            is_down: false,
        }
    }
}

impl Postmaster {
    /// For a server that is identified in this way.
    #[must_use]
    pub fn new(known: Known) -> Self {
        Self { known, pid: None }
    }

    /// Whether there is a server to look for.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.known != Known::No
    }

    /// The current process ID.
    ///
    /// # Errors
    /// There is no such process.
    pub fn pid(&mut self, files: &Files) -> Result<u32, Absent> {
        self.pid = match &self.known {
            Known::No => None,
            Known::Pid(pid) => Some(*pid),
            // a small file, and the only one that shows a restart immediately
            Known::Data(data) => Some(from_file(data).map_err(Absent::down)?),
            Known::ClusterName(name) => self
                .pid
                .filter(|pid| files.path(&format!("proc/{pid}")).exists())
                .or_else(|| from_titles(files, name)),
        };
        let alive = self
            .pid
            .filter(|pid| files.path(&format!("proc/{pid}")).exists());
        alive.ok_or_else(|| match &self.known {
            Known::No => Absent::unknown("no server was named".into()),
            Known::Pid(pid) => Absent::down(format!("there is no process {pid}")),
            Known::Data(data) => {
                Absent::down(format!("the server of {} is not running", data.display()))
            }
            Known::ClusterName(name) => Absent::unknown(format!(
                "no process has the cluster's name {name:?} in its title"
            )),
        })
    }
}

fn from_file(data: &std::path::Path) -> Result<u32, String> {
    let path = data.join("postmaster.pid");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| format!("could not read {}: {error}", path.display()))?;
    let first = text.lines().next().unwrap_or_default();
    first
        .trim()
        .parse()
        .map_err(|_| format!("{} does not begin with a process", path.display()))
}

/// The parent of a process whose title contains the name.
fn from_titles(files: &Files, name: &str) -> Option<u32> {
    let begin = format!("postgres: {name}: ");
    let processes = std::fs::read_dir(files.path("proc")).ok()?;
    let mut pids =
        processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.find_map(|pid| {
        let title = files.text_if_any(&format!("proc/{pid}/cmdline"))?;
        title.starts_with(&begin).then(|| parent(files, pid))?
    })
}

/// The parent of a process.
#[must_use]
pub fn parent(files: &Files, pid: u32) -> Option<u32> {
    let stat = files.text_if_any(&format!("proc/{pid}/stat"))?;
    // the program's name may contain spaces and parentheses
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(1)?.parse().ok()
}

/// All children of a process.
#[must_use]
pub fn children(files: &Files, pid: u32) -> Vec<u32> {
    if let Some(text) = files.text_if_any(&format!("proc/{pid}/task/{pid}/children")) {
        return text
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
    }
    // the kernel lacks CONFIG_PROC_CHILDREN
    let Ok(processes) = std::fs::read_dir(files.path("proc")) else {
        return Vec::new();
    };
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|child| parent(files, *child) == Some(pid))
        .collect()
}
