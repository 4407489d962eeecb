//! Parses the messages of log_checkpoints about checkpoints and restartpoints.

use serde_json::{Value, json};

/// The fields of a `checkpoint` line; None if the message is not about one.
pub fn read(message: &str) -> Option<Value> {
    let (kind, after) = message.split_once(' ')?;
    let kind = Some(kind).filter(|kind| ["checkpoint", "restartpoint"].contains(kind))?;
    if let Some(reason) = after.strip_prefix("starting:") {
        return Some(json!({"kind": kind, "phase": "started", "reason": reason.trim()}));
    }
    let mut fields = json!({"kind": kind, "phase": "completed"});
    for (name, value) in after.strip_prefix("complete:")?.split([';', ',']).filter_map(|part| figure(part.trim())) {
        fields[name] = value;
    }
    Some(fields)
}

/// One of the figures, in the probe's units; None for an unknown part.
fn figure(part: &str) -> Option<(&'static str, Value)> {
    if let Some((name, text)) = part.split_once('=') {
        let name = match name {
            "write" => "write_ms",
            "sync" => "sync_ms",
            "total" => "total_ms",
            "longest" => "longest_sync_ms",
            "average" => "average_sync_ms",
            "sync files" => "sync_files",
            "distance" => "distance_bytes",
            "estimate" => "estimate_bytes",
            "lsn" => return Some(("lsn", text.into())),
            "redo lsn" => return Some(("redo_lsn", text.into())),
            _ => return None,
        };
        return Some((name, quantity(text)?));
    }
    let words: Vec<&str> = part.split_whitespace().collect();
    let number = |place: usize| words.get(place)?.parse::<u64>().ok().map(Value::from);
    match words.as_slice() {
        ["wrote", _, "SLRU", ..] => Some(("slru_buffers", number(1)?)),
        ["wrote", _, "buffers", ..] => Some(("buffers", number(1)?)),
        [_, "WAL", "file(s)", "added"] => Some(("wal_added", number(0)?)),
        [_, "removed"] => Some(("wal_removed", number(0)?)),
        [_, "recycled"] => Some(("wal_recycled", number(0)?)),
        _ => None,
    }
}

/// Converts `0.003 s` to milliseconds and `12 kB` to bytes, and leaves `3` unchanged.
fn quantity(text: &str) -> Option<Value> {
    match text.split_once(' ') {
        Some((seconds, "s")) => Some(((seconds.parse::<f64>().ok()? * 1000.0).round()).into()),
        Some((kib, "kB")) => Some((kib.parse::<u64>().ok()? * 1024).into()),
        Some(_) => None,
        None => Some(text.parse::<u64>().ok()?.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_old_and_new_versions() {
        let started = read("restartpoint starting: wal time").expect("it is one");
        assert_eq!(started, json!({"kind": "restartpoint", "phase": "started", "reason": "wal time"}));
        let old = "checkpoint complete: wrote 44 buffers (0.3%); 0 WAL file(s) added, 1 removed, 2 recycled; \
                   write=0.003 s, sync=0.002 s, total=1.013 s; sync files=11, longest=0.001 s, average=0.000 s; \
                   distance=1 kB, estimate=2 kB";
        let expected = json!({
            "kind": "checkpoint", "phase": "completed", "buffers": 44, "wal_added": 0, "wal_removed": 1,
            "wal_recycled": 2, "write_ms": 3.0, "sync_ms": 2.0, "total_ms": 1013.0, "sync_files": 11,
            "longest_sync_ms": 1.0, "average_sync_ms": 0.0, "distance_bytes": 1024, "estimate_bytes": 2048,
        });
        assert_eq!(read(old), Some(expected));
        let new = read(
            "checkpoint complete: wrote 3 buffers (0.0%), wrote 2 SLRU buffers; 0 WAL file(s) added, 0 removed, \
             0 recycled; write=0.1 s, sync=0.0 s, total=0.1 s; sync files=2, longest=0.0 s, average=0.0 s; \
             distance=1 kB, estimate=1 kB; lsn=0/1A2B, redo lsn=0/1A00",
        )
        .expect("it is one");
        assert_eq!(new["slru_buffers"], 2);
        assert_eq!((&new["lsn"], &new["redo_lsn"]), (&json!("0/1A2B"), &json!("0/1A00")));
        assert_eq!(read("checkpoints are occurring too frequently (2 seconds apart)"), None);
        assert_eq!(read("statement: checkpoint complete: wrote 3"), None);
    }
}
