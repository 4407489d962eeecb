//! Run queue, pressure, memory and paging.

use super::files::{Files, field, word};
use crate::sample::Reading;

/// The source `kernel`, from `/proc/stat` and `/proc/loadavg`.
pub fn kernel(stat: &str, files: &Files) -> Result<Vec<Reading>, String> {
    let load = files.text("proc/loadavg")?;
    let words: Vec<&str> = load.split_whitespace().collect();
    let tasks = words.get(3).and_then(|word| word.split_once('/'));
    Ok(Reading::single(&[
        ("running", field(stat, "procs_running")),
        ("blocked", field(stat, "procs_blocked")),
        ("load_1m", word(&words, 0)),
        ("tasks", tasks.and_then(|(_, all)| all.parse().ok())),
        ("context_switches", field(stat, "ctxt")),
        ("interrupts", field(stat, "intr")),
        ("forks", field(stat, "processes")),
    ]))
}

pub fn pressure(files: &Files) -> Result<Vec<Reading>, String> {
    let resources = ["cpu", "io", "memory"].map(|resource| {
        let text = files.text(&format!("proc/pressure/{resource}"))?;
        let total_us = |kind: &str| {
            let line = text.lines().find(|line| line.starts_with(kind))?;
            line.rsplit_once("total=")?.1.trim().parse().ok()
        };
        let key = vec![("resource", resource.to_owned())];
        Ok(Reading::labelled(key, &[("some", total_us("some ")), ("full", total_us("full "))]))
    });
    resources.into_iter().collect()
}

pub fn memory(files: &Files) -> Result<Vec<Reading>, String> {
    let text = files.text("proc/meminfo")?;
    let bytes = |name| field(&text, name).map(|kib| kib * 1024.0);
    let page = bytes("Hugepagesize").unwrap_or(0.0);
    let huge = |name| field(&text, name).map(|pages| pages * page);
    let swap_used = bytes("SwapTotal").zip(bytes("SwapFree"));
    Ok(Reading::single(&[
        ("total", bytes("MemTotal")),
        ("free", bytes("MemFree")),
        ("available", bytes("MemAvailable")),
        ("buffers", bytes("Buffers")),
        ("cached", bytes("Cached")),
        ("dirty", bytes("Dirty")),
        ("writeback", bytes("Writeback")),
        ("anonymous", bytes("AnonPages")),
        ("shared", bytes("Shmem")),
        ("slab", bytes("Slab")),
        ("page_tables", bytes("PageTables")),
        ("anonymous_huge", bytes("AnonHugePages")),
        ("huge_total", huge("HugePages_Total")),
        ("huge_free", huge("HugePages_Free")),
        ("huge_reserved", huge("HugePages_Rsvd")),
        ("huge_surplus", huge("HugePages_Surp")),
        ("swap_used", swap_used.map(|(total, free)| total - free)),
    ]))
}

pub fn paging(files: &Files) -> Result<Vec<Reading>, String> {
    let text = files.text("proc/vmstat")?;
    let page = rustix::param::page_size() as f64;
    let kib = |name| field(&text, name).map(|kib| kib * 1024.0);
    let pages = |name| field(&text, name).map(|pages| pages * page);
    Ok(Reading::single(&[
        ("read", kib("pgpgin")),
        ("written", kib("pgpgout")),
        ("swapped_in", pages("pswpin")),
        ("swapped_out", pages("pswpout")),
        ("faults", field(&text, "pgfault")),
        ("major_faults", field(&text, "pgmajfault")),
        ("direct_reclaim", field(&text, "pgsteal_direct")),
    ]))
}

#[cfg(test)]
mod tests {
    use super::super::files::tests::files;
    use super::*;

    #[test]
    fn pressure_of_old_kernels_has_no_full_line_for_cpu() {
        let some = "some avg10=1.00 avg60=0.00 avg300=0.00 total=1234\n";
        let both = "some avg10=0 avg60=0 avg300=0 total=5\nfull avg10=0 avg60=0 avg300=0 total=4\n";
        let made = [("proc/pressure/cpu", some), ("proc/pressure/io", both), ("proc/pressure/memory", both)];
        let (_folder, kept) = files(&made);
        let readings = pressure(&kept).expect("it is there");
        assert_eq!(readings[0].values, [("some", 1234.0)]);
        assert_eq!(readings[1].values, [("some", 5.0), ("full", 4.0)]);
        // what is missing is named
        let (_folder, files) = files(&[]);
        let error = pressure(&files).expect_err("there is none");
        assert!(error.starts_with("could not read /proc/pressure/cpu: "), "{error}");
    }

    #[test]
    fn memory_is_in_bytes_and_huge_pages_have_their_size() {
        let text = "MemTotal: 100 kB\nCached: 7 kB\nSwapCached: 1 kB\nSwapTotal: 9 kB\nSwapFree: 4 kB\n\
                    Writeback: 2 kB\nWritebackTmp: 5 kB\nHugePages_Total: 3\nHugepagesize: 2048 kB\n";
        let (_folder, files) = files(&[("proc/meminfo", text)]);
        let values = memory(&files).expect("it is there").remove(0).values;
        let expected = [
            ("total", 102_400.0),
            ("cached", 7168.0),
            ("writeback", 2048.0),
            ("huge_total", 6_291_456.0),
            ("swap_used", 5120.0),
        ];
        assert_eq!(values, expected);
    }
}
