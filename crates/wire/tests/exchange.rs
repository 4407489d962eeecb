//! Answers of a server: complete, cut at any position, and broken.

mod common;

use common::{description, message, ready, row};
use pgdyno_wire::{Capture, Exchange, ProtocolError, Reply, SqlState, TxStatus};

/// All replies as text, so that they outlive the buffer they were read from.
fn replies(exchange: &mut Exchange, chunks: &[&[u8]]) -> Result<Vec<String>, ProtocolError> {
    let mut all = Vec::new();
    for chunk in chunks {
        let mut input = *chunk;
        while let Some(reply) = exchange.next(&mut input)? {
            all.push(format!("{reply:?}"));
        }
        assert!(input.is_empty(), "input was left over");
    }
    Ok(all)
}

fn capturing() -> Exchange {
    Exchange::new(Capture::Rows, true)
}

fn select_only() -> Vec<u8> {
    [message(b'2', b""), row(&[Some(b"12345")]), message(b'C', b"SELECT 1\0"), ready(b'I')].concat()
}

/// One message of each kind.
fn everything() -> Vec<u8> {
    [
        message(b'1', b""),
        message(b't', b"\0\x01\0\0\0\x17"),
        description("abalance"),
        message(b'2', b""),
        row(&[Some(b"12"), None, Some(b"")]),
        message(b'N', b"SWARNING\0VWARNING\0C25P01\0Mno transaction in progress\0\0"),
        message(b'C', b"SELECT 1\0"),
        message(b's', b""),
        message(b'I', b""),
        message(b'3', b""),
        message(b'n', b""),
        message(b'S', b"TimeZone\0UTC\0"),
        message(b'A', b"\0\0\0\x07channel\0payload\0"),
        message(b'G', b"\0\0\x01\0\0"),
        message(b'H', b"\0\0\x01\0\0"),
        message(b'd', b"1\tx\n"),
        message(b'c', b""),
        message(b'E', b"SERROR\0VERROR\0C40001\0Mcould not serialize access\0\0"),
        ready(b'T'),
        ready(b'E'),
    ]
    .concat()
}

#[test]
fn a_good_answer_is_one_ready_unless_completions_and_rows_are_wanted() {
    let mut exchange = Exchange::new(Capture::None, false);
    let answer = select_only();
    for _ in 0..3 {
        let mut input = answer.as_slice();
        assert_eq!(exchange.next(&mut input), Ok(Some(Reply::Ready(TxStatus::Idle))));
        assert_eq!(exchange.next(&mut input), Ok(None));
    }
    let mut exchange = capturing();
    let answer = [select_only(), select_only()].concat();
    let mut input = answer.as_slice();
    let Ok(Some(Reply::Row(row))) = exchange.next(&mut input) else { panic!("not a row") };
    assert_eq!(row.get(0), Some(Some(&b"12345"[..])));
    let Ok(Some(Reply::Complete(tag))) = exchange.next(&mut input) else { panic!("not a completion") };
    assert_eq!((tag.as_bytes(), tag.rows()), (&b"SELECT 1"[..], Some(1)));
    assert!(matches!(exchange.next(&mut input), Ok(Some(Reply::Ready(_)))));
    exchange.set_capture(Capture::None);
    assert!(matches!(exchange.next(&mut input), Ok(Some(Reply::Complete(_)))));
    assert!(matches!(exchange.next(&mut input), Ok(Some(Reply::Ready(_)))));
}

#[test]
fn errors_carry_their_code() {
    let mut exchange = Exchange::new(Capture::None, false);
    let stream = everything();
    let mut input = stream.as_slice();
    let mut codes = Vec::new();
    while let Some(reply) = exchange.next(&mut input).expect("the protocol") {
        match reply {
            Reply::Error(error) | Reply::Notice(error) => codes.push(error.sqlstate()),
            Reply::Row(_) | Reply::RowDescription(_) | Reply::CopyData(_) | Reply::Complete(_) => {
                panic!("not asked for: {reply:?}")
            }
            _ => {}
        }
    }
    assert_eq!(codes, [SqlState::NO_ACTIVE_SQL_TRANSACTION, SqlState::SERIALIZATION_FAILURE]);
}

#[test]
fn every_message_has_its_reply_and_the_boundary_is_known_at_every_cut() {
    assert_eq!(replies(&mut capturing(), &[&everything()]).map(|r| r.len()), Ok(14));
    let mut exchange = Exchange::new(Capture::None, false);
    let stream = select_only();
    for cut in 0..stream.len() {
        replies(&mut exchange, &[&stream[..cut]]).expect("the protocol");
        assert_eq!(exchange.at_boundary(), [0, 5, 21, 35].contains(&cut), "{cut}");
        replies(&mut exchange, &[&stream[cut..]]).expect("the protocol");
        assert!(exchange.at_boundary());
    }
}

#[test]
fn huge_rows_are_not_kept_and_long_errors_are_cut() {
    let mut exchange = Exchange::new(Capture::None, false);
    let mut header: &[u8] = b"D\x3f\xff\xff\xff";
    assert_eq!(exchange.next(&mut header), Ok(None));
    let chunk = vec![0u8; 1 << 20];
    let mut left = 0x3fff_ffff - 4;
    while left > 0 {
        let mut input = &chunk[..left.min(chunk.len())];
        left -= input.len();
        assert_eq!(exchange.next(&mut input), Ok(None));
    }
    let mut end: &[u8] = b"Z\0\0\0\x05I";
    assert_eq!(exchange.next(&mut end), Ok(Some(Reply::Ready(TxStatus::Idle))));
    // long errors are cut and the stream goes on
    let mut body = b"SERROR\0C40P01\0M".to_vec();
    body.resize(200_000, b'x');
    body.extend_from_slice(b"\0\0");
    let stream = [message(b'E', &body), ready(b'E')].concat();
    for chunk_bytes in [stream.len(), 7_001, 65_536 + 5, 65_536 + 6, 199_999] {
        let mut exchange = Exchange::new(Capture::None, false);
        let mut seen = Vec::new();
        for chunk in stream.chunks(chunk_bytes) {
            let mut input = chunk;
            while let Some(reply) = exchange.next(&mut input).expect("the protocol") {
                seen.push(match reply {
                    Reply::Error(error) => {
                        assert_eq!(error.sqlstate(), SqlState::DEADLOCK_DETECTED);
                        error.message.len()
                    }
                    Reply::Ready(TxStatus::Failed) => 0,
                    other => panic!("not expected: {other:?}"),
                });
            }
        }
        assert_eq!(seen, [65_536 - 15, 0], "chunks of {chunk_bytes}");
    }
}

#[test]
fn broken_streams_and_malformed_bodies_are_refused_for_good() {
    let cases: [(&[u8], ProtocolError); 6] = [
        (b"Z\0\0\0\x03", ProtocolError::BadLength { kind: b'Z', length: 3 }),
        (b"D\xff\xff\xff\xff", ProtocolError::BadLength { kind: b'D', length: u32::MAX }),
        (b"C\0\0\x80\0", ProtocolError::BadLength { kind: b'C', length: 32_768 }),
        (b"2\0\0\0\x05", ProtocolError::BadLength { kind: b'2', length: 5 }),
        (b"x\0\0\0\x04", ProtocolError::UnknownMessage { kind: b'x', length: 4 }),
        (b"R\0\0\0\x08", ProtocolError::UnknownMessage { kind: b'R', length: 8 }),
    ];
    for (stream, error) in cases {
        for cut in 0..stream.len() {
            let mut exchange = Exchange::new(Capture::None, false);
            let (a, b) = stream.split_at(cut);
            assert_eq!(replies(&mut exchange, &[a, b]), Err(error), "cut at {cut}");
            assert_eq!(replies(&mut exchange, &[&ready(b'I')]), Err(error));
            assert!(!exchange.at_boundary());
        }
    }
    let text = ProtocolError::BadLength { kind: b'H', length: 1_414_811_695 };
    assert_eq!(text.to_string(), "lost synchronization with server: got message type \"H\", length 1414811695");
    for (stream, kind) in [
        (message(b'Z', b"X"), b'Z'),
        (message(b'Z', b""), b'Z'),
        (message(b'C', b"no end"), b'C'),
        (message(b'D', b"\0\x02\0\0\0\0"), b'D'),
        (message(b'T', b"\0\x01abc"), b'T'),
        (message(b'S', b"name\0"), b'S'),
        (message(b'S', b"name\0value\0more"), b'S'),
    ] {
        let result = replies(&mut capturing(), &[&stream]);
        assert!(matches!(result, Err(ProtocolError::Malformed { kind: k, .. }) if k == kind), "{result:?}");
    }
}
