//! Commands and their answers, byte by byte, without a socket.

use std::sync::Arc;

use hikyaku_tables::{MemoryOptions, MemoryTable, Table};
use proptest::{collection::vec, prelude::*};

use super::{Session, testing::fuzz_memcached};
use crate::{
    catalogue::Catalogue, metrics::Count, rehearsal::Rehearsal, slow::Slow, writer::Batch,
};

fn memory() -> MemoryTable {
    MemoryTable::new(MemoryOptions::default(), None)
}

/// A server whose default table is quick, and one whose default table waits for its disk.
fn servers() -> [Rehearsal<Session>; 2] {
    let quick: Arc<dyn Table> = Arc::new(memory());
    let slow: Arc<dyn Table> = Arc::new(Slow(memory()));
    [quick, slow].map(|table| {
        let other: Arc<dyn Table> = Arc::new(memory());
        let tables = vec![("main".to_owned(), table), ("other".to_owned(), other)];
        Rehearsal::new(Session::default(), tables)
    })
}

/// Has a conversation with both: what is said, and what is heard.
fn converse(conversation: &[(&str, &str)]) {
    for mut server in servers() {
        for (said, expected) in conversation {
            let heard = server.say(said.as_bytes());
            assert_eq!(
                heard.escape_ascii().to_string(),
                expected.as_bytes().escape_ascii().to_string(),
                "to {said:?}"
            );
        }
    }
}

#[test]
fn many_commands_at_once_are_answered_in_order() {
    converse(&[(
        "set a 5 0 1\r\n1\r\nincr a 2\r\nget a nothing other:a\r\nset other:a 0 0 1\r\nx\r\n\
         get other:a a\r\ndelete a\r\nadd a 0 0 0 noreply\r\n\r\nget a\r\nset a 0 0 1\r\n2\r\nmn\r\n",
        "STORED\r\n3\r\nVALUE a 5 1\r\n3\r\nEND\r\nSTORED\r\n\
         VALUE other:a 0 1\r\nx\r\nVALUE a 5 1\r\n3\r\nEND\r\nDELETED\r\n\
         VALUE a 0 0\r\n\r\nEND\r\nSTORED\r\nMN\r\n",
    )]);
}

#[test]
fn stores_that_come_together_are_carried_out_one_after_the_other() {
    let plain = |key: &str, value: usize| format!("set {key} 7 0 3\r\n{value:03}\r\n");
    let quiet = |key: &str, value: usize| format!("set {key} 7 0 3 noreply\r\n{value:03}\r\n");
    let all = |of: &dyn Fn(&str, usize) -> String, key| {
        (0..300).map(|value| of(key, value)).collect::<String>()
    };
    let said = [
        &all(&plain, "a"),
        // Of another table, without an answer, with an expiry, and one whose block is wrong.
        &all(&plain, "other:a"),
        &all(&quiet, "b"),
        "set c 0 100 1\r\nx\r\n",
        "set d 0 0 1\r\nxy\r\n",
        &all(&quiet, "e"),
        "get a other:a b c d e\r\n",
    ]
    .concat();
    let heard = [
        &"STORED\r\n".repeat(601),
        "CLIENT_ERROR bad data chunk\r\nERROR\r\n",
        "VALUE a 7 3\r\n299\r\nVALUE other:a 7 3\r\n299\r\nVALUE b 7 3\r\n299\r\n",
        "VALUE c 0 1\r\nx\r\nVALUE e 7 3\r\n299\r\nEND\r\n",
    ]
    .concat();
    converse(&[(&said, &heard)]);
}

#[test]
fn a_prefix_that_names_no_table_belongs_to_the_key() {
    converse(&[
        (
            "set user:7 0 0 1\r\nx\r\nget user:7 7\r\n",
            "STORED\r\nVALUE user:7 0 1\r\nx\r\nEND\r\n",
        ),
        (
            "set main:a 0 0 1\r\ny\r\nget a\r\n",
            "STORED\r\nVALUE a 0 1\r\ny\r\nEND\r\n",
        ),
    ]);
}

#[test]
fn flushing_empties_the_default_table_alone() {
    converse(&[
        (
            "set a 0 0 1\r\nx\r\nset other:a 0 0 1\r\ny\r\n",
            "STORED\r\nSTORED\r\n",
        ),
        (
            "flush_all\r\nget a other:a\r\n",
            "OK\r\nVALUE other:a 0 1\r\ny\r\nEND\r\n",
        ),
        (
            "set a 0 0 1\r\nx\r\nflush_all noreply\r\nget a\r\n",
            "STORED\r\nEND\r\n",
        ),
        (
            "flush_all 100\r\nset a 0 0 1\r\nx\r\nget a\r\n",
            "OK\r\nSTORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n",
        ),
    ]);
}

#[test]
fn a_record_expires_when_it_should() {
    for mut server in servers() {
        server.say(b"set a 0 100 1\r\nx\r\nset b 0 -1 1\r\nx\r\nset c 0 1700000050 1\r\nx\r\n");
        assert_eq!(
            server.say(b"mg a t\r\nmg b\r\nmg c t v\r\n"),
            b"HD t100\r\nEN\r\nVA 1 t50\r\nx\r\n"
        );
        server.now_us += 99_999_999;
        assert_eq!(server.say(b"mg a t\r\nmg c\r\n"), b"HD t1\r\nEN\r\n");
        server.now_us += 1;
        assert_eq!(server.say(b"mg a t\r\n"), b"EN\r\n");
        assert_eq!(
            server.say(b"set a 0 100 1\r\nx\r\ngat 200 a\r\nmg a t\r\n"),
            b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nHD t200\r\n"
        );
        assert_eq!(
            server.say(b"touch a 0\r\nmg a t\r\n"),
            b"TOUCHED\r\nHD t-1\r\n"
        );
    }
}

#[test]
fn who_may_renew_a_record_is_told_once() {
    for mut server in servers() {
        // A miss makes a record, and one client is to fill it.
        assert_eq!(
            server.say(b"mg a N30 v t\r\nmg a N30 v\r\n"),
            b"VA 0 t30 W\r\n\r\nVA 0 Z\r\n\r\n"
        );
        assert_eq!(
            server.say(b"ms a 1 T60\r\n1\r\nmg a R30 v\r\n"),
            b"HD\r\nVA 1\r\n1\r\n"
        );
        // It is due.
        assert_eq!(
            server.say(b"mg a R90 v\r\nmg a R90\r\n"),
            b"VA 1 W\r\n1\r\nHD Z\r\n"
        );
        // It is stale, but there.
        assert_eq!(
            server.say(b"md a I T30\r\nmg a v t\r\nmg a v\r\n"),
            b"HD\r\nVA 1 t30 X W\r\n1\r\nVA 1 Z X\r\n1\r\n"
        );
        assert_eq!(
            server.say(b"ms a 1\r\n2\r\nmg a v\r\n"),
            b"HD\r\nVA 1\r\n2\r\n"
        );
    }
}

#[test]
fn arithmetic_makes_and_changes_what_it_is_told_to() {
    converse(&[
        ("ma n\r\nma n q\r\n", "NF\r\nNF\r\n"),
        ("ma n N100 J13 v t\r\n", "VA 2 t100\r\n13\r\n"),
        ("ma n D5 T50 v t k O7\r\n", "VA 2 t50 kn O7\r\n18\r\n"),
        (
            "ma n MD D50 v\r\nma n q\r\nma n MI v\r\n",
            "VA 1\r\n0\r\nVA 1\r\n2\r\n",
        ),
        ("ma n C99999\r\nma m C99999 N0 v\r\n", "EX\r\nVA 1\r\n0\r\n"),
    ]);
}

#[test]
fn bytes_are_rotated_and_cut_from_the_front() {
    converse(&[
        (
            "ms a 8 MQ W8\r\nABCDEFGH\r\nms a 3 MQ W8\r\nIJK\r\n",
            "HD\r\nHD\r\n",
        ),
        ("get a\r\n", "VALUE a 0 8\r\nDEFGHIJK\r\nEND\r\n"),
        (
            "ms a 10 MQ W4 q\r\n0123456789\r\nmg a v\r\n",
            "VA 4\r\n6789\r\n",
        ),
        (
            "ms a 1 MQ Wx\r\nx\r\n",
            "CLIENT_ERROR bad token in command line format\r\n",
        ),
    ]);
}

#[test]
fn a_visitor_is_noted_once_and_the_oldest_go() {
    // Entries of four bytes: who in two, when in two.
    converse(&[
        (
            "ms p 4 MV A2 W12\r\naa01\r\nms p 4 MV A2 W12\r\nbb02\r\n",
            "HD\r\nHD\r\n",
        ),
        (
            "ms p 4 MV A2 W12\r\ncc03\r\nms p 4 MV A2 W12 q\r\naa04\r\n",
            "HD\r\n",
        ),
        ("mg p v\r\n", "VA 12\r\nbb02cc03aa04\r\n"),
        (
            "ms p 4 MV A2 W12 q\r\ndd05\r\nmg p v\r\n",
            "VA 12\r\ncc03aa04dd05\r\n",
        ),
        // What is older than `04` goes too.
        (
            "ms p 4 MV A2 W12 BMDQ= q\r\nee06\r\nmg p v\r\n",
            "VA 12\r\naa04dd05ee06\r\n",
        ),
        (
            "ms p 5 MV A2 W12 q\r\nee007\r\n",
            "CLIENT_ERROR the entry does not fit the size it is rotated into\r\n",
        ),
        (
            "ms p 4 MV A2 B! W12\r\nee07\r\n",
            "CLIENT_ERROR bad token in command line format\r\n",
        ),
        (
            "ms n 4 MV A2\r\naa01\r\nms n 4 MV A2\r\nbb02\r\n",
            "HD\r\nHD\r\n",
        ),
        ("ms n 4 MV A2\r\ncc03\r\n", "HD\r\n"),
        ("mg n v s V4\r\n", "VA 12 s12\r\ncc03bb02aa01\r\n"),
        // MDI= is 02 in base64: what is older is there until the next visit, and not told.
        ("mg n v s V4 A2 BMDI=\r\n", "VA 8 s8\r\ncc03bb02\r\n"),
        ("mg n v V8\r\n", "VA 8\r\nbb02cc03\r\n"),
        ("mg n v V40\r\n", "VA 0\r\n\r\n"),
        ("mg n v\r\n", "VA 12\r\naa01bb02cc03\r\n"),
        (
            "mg n v V0\r\n",
            "CLIENT_ERROR bad token in command line format\r\n",
        ),
    ]);
}

#[test]
fn a_refused_block_is_skipped_however_long() {
    for mut server in servers() {
        let refused = b"SERVER_ERROR object too large for cache\r\n";
        assert_eq!(server.say(b"set a 0 0 33554430\r\n"), refused);
        for _ in 0..32 {
            assert_eq!(server.say(&vec![b'\n'; 1 << 20][..]), b"");
        }
        assert_eq!(
            server
                .say(b"version\r\n")
                .split(|&b| b == b' ')
                .next()
                .unwrap(),
            b"VERSION"
        );
    }
}

#[test]
fn a_line_without_end_is_not_kept() {
    for mut server in servers() {
        assert_eq!(server.say(&[b'x'; 2048]), b"CLIENT_ERROR line too long\r\n");
        assert!(server.is_closed());
    }
    for mut server in servers() {
        assert_eq!(
            server.say(&b"get ".repeat(1 << 18)),
            b"CLIENT_ERROR line too long\r\n"
        );
        assert!(server.is_closed());
    }
}

#[test]
fn long_answers_come_in_parts() {
    let [mut server, _] = servers();
    server.say(&[&b"set a 0 0 100000\r\n"[..], &vec![b'x'; 100_000], b"\r\n"].concat());
    let heard = server.say(&[&b"get"[..], &b" a".repeat(50), b"\r\nmn\r\n"].concat());
    assert_eq!(heard.len(), 50 * (18 + 100_000 + 2) + 5 + 4);
}

#[test]
fn statistics_count_what_was_asked() {
    for mut server in servers() {
        server.say(b"set a 0 0 1\r\n1\r\nget a b\r\nincr a 1\r\ncas a 0 0 1 99999\r\n1\r\ndelete b\r\nnonsense\r\n");
        let heard = String::from_utf8(server.say(b"stats\r\n")).unwrap();
        for line in [
            "STAT cmd_set 2",
            "STAT cmd_get 2",
            "STAT get_hits 1",
            "STAT get_misses 1",
            "STAT incr_hits 1",
            "STAT cas_badval 1",
            "STAT delete_misses 1",
            "STAT curr_items 1",
        ] {
            assert!(heard.contains(&format!("{line}\r\n")), "{line} in {heard}");
        }
        assert!(heard.ends_with("END\r\n"));
        assert_eq!(server.metrics.get(Count::Refused), 1);
        for empty in ["items", "slabs", "sizes", "conns"] {
            let asked = format!("stats {empty}\r\n");
            assert_eq!(server.say(asked.as_bytes()), b"END\r\n");
        }
        assert_eq!(server.say(b"stats reset\r\nget a\r\n")[..7], *b"RESET\r\n");
        let again = String::from_utf8(server.say(b"stats\r\n")).unwrap();
        assert!(again.contains("STAT cmd_get 1\r\n") && again.contains("STAT cmd_set 0\r\n"));
        // Whoever else reads the figures has them all.
        assert_eq!(server.metrics.get(Count::Refused), 1);
        let heard = String::from_utf8(server.say(b"stats tables\r\n")).unwrap();
        assert!(heard.contains("STAT main:curr_items 1\r\n"));
    }
}

#[test]
fn the_usual_line_is_read_as_any_other() {
    use super::request::{Request, Store};
    for (line, is_usual) in [
        ("set a 0 0 1\r\n", true),
        ("set a 4 999999999 1 noreply\r\n", true),
        ("set a 4294967295 0 1\r\n", false),
        ("set a  0 0 1\r\n", false),
        ("set a 0 -1 1\r\n", false),
        ("set a 0 0 1 noreply \r\n", false),
        ("set a 0 0 1\n", false),
        ("set a 0 0\r\n", false),
        ("set  0 0 1\r\n", false),
    ] {
        let usual = Store::parse_usual(line.as_bytes());
        assert_eq!(usual.is_some(), is_usual, "{line:?}");
        if let Some((store, bytes)) = usual {
            let any = Request::parse(line.trim_end().as_bytes());
            assert_eq!(Ok(Request::Store(store)), any);
            assert_eq!(bytes, line.len());
        }
    }
}

/// A find of the random commands: a table that waits counts what one that answers at once does.
#[test]
fn a_touching_read_is_counted_whoever_answers_it() {
    fuzz_memcached(b"gat 0 a\r\nstats\r\nset a 0 0 1\r\nb\r\ngat 0 a b\r\nstats\r\n");
}

/// Words of commands, so that random ones are near to real ones.
fn near_commands() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        4 => proptest::sample::select(vec![
            "get", "gets", "gat", "gats", "set", "add", "append", "cas", "delete", "incr", "decr",
            "touch", "flush_all", "stats", "version", "verbosity", "mg", "ms", "md", "ma", "me", "mn",
            "noreply", "a", "b", "t:a", "0", "1", "3", "63", "64", "65", "2147483645", "-1", "v", "t",
            "k", "q", "b", "c", "I", "C1", "N10", "R20", "T5", "ME", "MQ", "MV", "W4", "A1", "BMDQ=",
            "O1", "D7", "J2", "MD",
        ]).prop_map(|word| word.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..5),
    ];
    let end = prop_oneof![
        8 => Just(" "),
        4 => Just("\r\n"),
        1 => Just("\n"),
        1 => Just("\r\nabc\r\n"),
        1 => Just("\r\nx\r\n"),
    ];
    vec((word, end), 0..60).prop_map(|words| {
        let bytes = |(word, end): (Vec<u8>, &str)| [&word, end.as_bytes()].concat();
        words.into_iter().flat_map(bytes).collect()
    })
}

#[test]
fn a_delayed_flush_empties_the_table_at_its_time() {
    let table: Arc<dyn Table> = Arc::new(MemoryTable::new(MemoryOptions::default(), None));
    let tables = vec![("t".to_owned(), table)];
    let mut server = Rehearsal::new(Session::default(), tables);
    let begun = server.now_us;
    assert_eq!(server.say(b"flush_all 10\r\n"), b"OK\r\n");
    assert_eq!(server.say(b"set a 0 0 1\r\nx\r\n"), b"STORED\r\n");
    for (seconds, left) in [(9, 1), (10, 0)] {
        server.catalogue.flush_due(begun + seconds * 1_000_000);
        let served = server.catalogue.table(Catalogue::DEFAULT);
        // What was asked of the table's thread is done when this is.
        let done = served.writer.send(Batch::default());
        done.blocking_recv().unwrap();
        assert_eq!(served.table.count(), left, "after {seconds} seconds");
    }
}

#[test]
fn what_waits_for_the_disk_is_counted_as_what_does_not() {
    fuzz_memcached(
        b"mg a N10\r\nmg a T5\r\nmg b T5\r\nms a 1 C1 I\r\nx\r\nma b N0 T9\r\nmd a I\r\nmg a v R90\r\n\
          gat 10 a b\r\nma a D1 t\r\nstats\r\n",
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_bytes_bring_the_server_out_of_step(bytes in vec(any::<u8>(), 0..300)) {
        fuzz_memcached(&bytes);
    }

    #[test]
    fn no_commands_bring_the_server_out_of_step(bytes in near_commands()) {
        fuzz_memcached(&bytes);
    }
}
