//! Interfaces, and TCP as a whole.

use super::files::{Files, word};
use crate::sample::Reading;

pub fn interfaces(files: &Files) -> Result<Vec<Reading>, String> {
    let text = files.text("proc/net/dev")?;
    let lines = text.lines().filter_map(|line| {
        let (name, counters) = line.split_once(':')?;
        let words: Vec<&str> = counters.split_whitespace().collect();
        let both = |first, second| Some(word(&words, first)? + word(&words, second)?);
        let key = vec![("interface", name.trim().to_owned())];
        let values = [
            ("received", word(&words, 0)),
            ("sent", word(&words, 8)),
            ("packets_received", word(&words, 1)),
            ("packets_sent", word(&words, 9)),
            ("errors", both(2, 10)),
            ("drops", both(3, 11)),
        ];
        Some(Reading::labelled(key, &values))
    });
    Ok(lines.collect())
}

pub fn tcp(files: &Files) -> Result<Vec<Reading>, String> {
    let snmp = files.text("proc/net/snmp")?;
    let more = files.text("proc/net/netstat")?;
    let overflows = named_figure(&more, "TcpExt:", "ListenOverflows");
    let drops = named_figure(&more, "TcpExt:", "ListenDrops");
    Ok(Reading::single(&[
        ("established", named_figure(&snmp, "Tcp:", "CurrEstab")),
        ("segments_sent", named_figure(&snmp, "Tcp:", "OutSegs")),
        ("retransmitted", named_figure(&snmp, "Tcp:", "RetransSegs")),
        ("timeouts", named_figure(&more, "TcpExt:", "TCPTimeouts")),
        // the drops include overflows
        ("listen_drops", drops.or(overflows)),
    ]))
}

/// A figure from two lines with the same beginning: names in the first, figures in the second.
fn named_figure(text: &str, begin: &str, name: &str) -> Option<f64> {
    let mut lines = text.lines().filter(|line| line.starts_with(begin));
    let (names, figures) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|known| known == name)?;
    figures.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_stands_below_its_name() {
        let text = "Ip: Forwarding DefaultTTL\nIp: 1 64\nTcp: MaxConn RetransSegs\nTcp: -1 42\n";
        assert_eq!(named_figure(text, "Tcp:", "RetransSegs"), Some(42.0));
        assert_eq!(named_figure(text, "Tcp:", "MaxConn"), Some(-1.0));
        assert_eq!(named_figure(text, "Tcp:", "OutSegs"), None);
    }
}
