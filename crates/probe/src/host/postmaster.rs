//! Finds the postmaster, whose process changes when the server is restarted.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::files::{Files, field};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerIdentity {
    No,
    Pid(u32),
    /// `--data`: its `postmaster.pid` contains the process ID.
    Data(PathBuf),
    /// `--cluster-name`: the titles of its processes contain the name.
    ClusterName(String),
}

/// Finds the postmaster, and again after a restart.
#[derive(Debug)]
pub struct Postmaster {
    known: ServerIdentity,
    pid: Option<u32>,
}

#[derive(Debug)]
pub struct Absent {
    pub problem: String,
    /// Whether the server that was named does not run, as far as its files and processes show.
    pub is_down: bool,
}

impl Absent {
    fn down(problem: String) -> Self {
        Self { problem, is_down: true }
    }

    fn unknown(problem: String) -> Self {
        Self { problem, is_down: false }
    }
}

impl Postmaster {
    /// For a server that is identified in this way.
    pub fn new(known: ServerIdentity) -> Self {
        Self { known, pid: None }
    }

    /// Whether there is a server to look for.
    pub fn is_wanted(&self) -> bool {
        self.known != ServerIdentity::No
    }

    pub fn pid(&mut self, files: &Files) -> Result<u32, Absent> {
        self.pid = match &self.known {
            ServerIdentity::No => None,
            ServerIdentity::Pid(pid) => Some(*pid),
            // a small file, and the only one that shows a restart immediately
            ServerIdentity::Data(data) => {
                let pid = from_file(data).map_err(Absent::down)?;
                if self.pid != Some(pid) {
                    check_owner(files, pid, data).map_err(Absent::unknown)?;
                }
                Some(pid)
            }
            ServerIdentity::ClusterName(name) => {
                self.pid.filter(|pid| files.path(&format!("proc/{pid}")).exists()).or_else(|| from_titles(files, name))
            }
        };
        let alive = self.pid.filter(|pid| files.path(&format!("proc/{pid}")).exists());
        alive.ok_or_else(|| match &self.known {
            ServerIdentity::No => Absent::unknown("no server was named".into()),
            ServerIdentity::Pid(pid) => Absent::down(format!("there is no process {pid}")),
            ServerIdentity::Data(data) => Absent::down(format!("the server of {} is not running", data.display())),
            ServerIdentity::ClusterName(name) => {
                Absent::unknown(format!("no process has the cluster's name {name:?} in its title"))
            }
        })
    }
}

fn from_file(data: &Path) -> Result<u32, String> {
    let path = data.join("postmaster.pid");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("could not read {}: {error}", path.display()))?;
    let first = text.lines().next().unwrap_or_default();
    first.trim().parse().map_err(|_| format!("{} does not begin with a process", path.display()))
}

/// A server in a container writes its process ID there, which is another process's here. The server
/// insists on owning its data, so a process of another user is not the server.
fn check_owner(files: &Files, pid: u32, data: &Path) -> Result<(), String> {
    let owner = std::fs::metadata(data).map(|facts| f64::from(facts.uid()));
    let status = files.text_if_any(&format!("proc/{pid}/status"));
    match (owner, status.and_then(|text| field(&text, "Uid"))) {
        (Ok(owner), Some(user)) if owner != user => Err(format!(
            "process {pid} of {} belongs to another user than the data, \
             perhaps because the server runs in a container: give --postmaster or --cluster-name",
            data.join("postmaster.pid").display()
        )),
        _ => Ok(()),
    }
}

/// The parent of a process whose title contains the name.
fn from_titles(files: &Files, name: &str) -> Option<u32> {
    let begin = format!("postgres: {name}: ");
    let processes = std::fs::read_dir(files.path("proc")).ok()?;
    let mut pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.find_map(|pid| {
        let title = files.text_if_any(&format!("proc/{pid}/cmdline"))?;
        title.starts_with(&begin).then(|| parent(files, pid))?
    })
}

pub fn parent(files: &Files, pid: u32) -> Option<u32> {
    let stat = files.text_if_any(&format!("proc/{pid}/stat"))?;
    // the program's name may contain spaces and parentheses
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(1)?.parse().ok()
}

pub fn children(files: &Files, pid: u32) -> Vec<u32> {
    if let Some(text) = files.text_if_any(&format!("proc/{pid}/task/{pid}/children")) {
        return text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    }
    // the kernel lacks CONFIG_PROC_CHILDREN
    let Ok(processes) = std::fs::read_dir(files.path("proc")) else {
        return Vec::new();
    };
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|child| parent(files, *child) == Some(pid)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::files::tests::{files, put};
    use super::*;

    #[test]
    fn a_process_of_another_user_is_not_the_server_of_the_data() {
        let (folder, files) = files(&[("data/postmaster.pid", "1\n/data\n")]);
        let data = folder.path().join("data");
        let own = std::fs::metadata(&data).expect("it is there").uid();
        for (pid, user) in [(1, own + 1), (7, own)] {
            put(folder.path(), &format!("proc/{pid}/status"), &format!("Name:\tx\nUid:\t{user}\t{user}\n"));
        }
        let mut postmaster = Postmaster::new(ServerIdentity::Data(data));
        let absent = postmaster.pid(&files).expect_err("it is init");
        assert!(!absent.is_down);
        assert!(absent.problem.contains("give --postmaster"), "{}", absent.problem);
        put(folder.path(), "data/postmaster.pid", "7\n/data\n");
        assert_eq!(postmaster.pid(&files).expect("it is the server's"), 7);
        put(folder.path(), "data/postmaster.pid", "8\n/data\n");
        assert!(postmaster.pid(&files).expect_err("it has ended").is_down);
    }
}
