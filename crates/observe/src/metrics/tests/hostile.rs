//! Text that no kernel should write: nothing may panic, and nothing wrong may pass for a value.

use super::super::parse;
use super::super::source::{Parser, Tag};
use super::{key, key_of, parsed};

const LAYOUTS: &[(Parser, &str)] = &[
    (parse::pairs, "pgfault 9997056\nnr_dirty 3\n"),
    (parse::colon_pairs, "rchar: 6976\nsyscr: 10\n"),
    (parse::meminfo, "MemTotal:  24684092 kB\nActive(anon): 1556 kB\nHugePages_Free: 0\n"),
    (parse::smaps_rollup, "5612-7fff ---p 00000000 00:00 0 [rollup]\nRss:  1652 kB\n"),
    (parse::status, "Name:\tcat\nVmRSS:\t 1652 kB\nThreads:\t1\nvoluntary_ctxt_switches:\t4\n"),
    (parse::process_stat, "87 (cat) R 88 87 61 0 -1 4194304 101 2000 3 40 500 600 7 8 20 0 1\n"),
    (parse::stat, "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 5 1 2\nctxt 3\n"),
    (parse::stat_totals, "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 5 1 2\nctxt 3\n"),
    (parse::stat_cpus, "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n"),
    (parse::schedstat, "version 17\ntimestamp 4\ncpu0 1 0 3 1 2 1 7 5 9\ndomain0 MC 3 9 9\n"),
    (parse::interrupts, "  CPU0  CPU1\n 24: 1 0  IO-APIC   5-edge      ACPI:Ged\nTLB: 5 6   TLB shootdowns\nERR: 0\n"),
    (parse::softirqs, "  CPU0  CPU1\n HI: 0 1\nNET_RX: 2 3\n"),
    (parse::diskstats, " 254 0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n"),
    (parse::net_dev, " face |bytes\n lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"),
    (parse::pressure, "some avg10=4.02 avg60=4.03 avg300=2.35 total=17513017\n"),
    (parse::buddyinfo, "Node 0, zone DMA 0 1 2 3 4 5 6 7 8 9 10\n"),
    (parse::slabinfo, "slabinfo - version: 2.1\nbio 1 2 3 4 5 : tunables 0 0 0 : slabdata 1 2 0\n"),
    (parse::one_number, "78\n"),
    (parse::loadavg, "2.06 1.48 0.70 3/105 8784\n"),
];

/// xorshift64*: the same texts in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n.max(1)
    }
}

fn feed(parse: Parser, text: &[u8]) {
    let (values, _) = parsed("x.", parse, &Tag::default(), text);
    for (key, value) in values {
        assert!(value.is_finite() && value >= 0.0, "{key:?} = {value} from {:?}", String::from_utf8_lossy(text));
    }
}

#[test]
fn cut_off_anywhere() {
    for (parse, text) in LAYOUTS {
        for end in 0..=text.len() {
            feed(*parse, &text.as_bytes()[..end]);
            feed(*parse, &text.as_bytes()[end..]);
        }
    }
}

#[test]
fn damaged_anywhere() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let odd: &[&[u8]] =
        &[b"\n", b" ", b":", b"\0", b"\xff", b"-", b"18446744073709551616", b"e9", b")", b"(", b"CPU0 "];
    for (parse, text) in LAYOUTS {
        for _ in 0..2000 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                match random.below(3) {
                    0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
                    1 => {
                        bytes.splice(at..at, odd[random.below(odd.len())].iter().copied());
                    }
                    _ => {
                        bytes.truncate(at);
                    }
                }
            }
            feed(*parse, &bytes);
        }
    }
}

#[test]
fn text_of_another_layout() {
    for (parse, _) in LAYOUTS {
        for (_, text) in LAYOUTS {
            feed(*parse, text.as_bytes());
        }
        feed(*parse, &[0xff; 5000]);
        feed(*parse, b"\n\n\n");
    }
}

/// A number that cannot be held is missing and reported, not cut down to one that can.
#[test]
fn numbers_beyond_64_bits_are_missing() {
    let tag = Tag::default();
    let text = b"pgfault 18446744073709551616\npgfree 18446744073709551615\n";
    let (values, trouble) = parsed("vmstat.", parse::pairs, &tag, text);
    assert!(!values.contains_key(&key("vmstat.pgfault")));
    assert_eq!(values[&key("vmstat.pgfree")], u64::MAX as f64);
    assert!(trouble.is_some_and(|t| t.contains("pgfault")));

    // A sum with an unknown part is unknown.
    let text = b" CPU0 CPU1\n 5: 1 99999999999999999999  chip   5-edge      dev\nTLB: 1 2   TLB shootdowns\n";
    let (values, trouble) = parsed("interrupts", parse::interrupts, &tag, text);
    assert_eq!(values.keys().collect::<Vec<_>>(), [&key_of("interrupts", "TLB")]);
    assert!(trouble.is_some());
}

/// Names of devices and caches are bytes to the kernel.
#[test]
fn names_that_are_not_utf8() {
    let tag = Tag::default();
    let (values, _) = parsed("disk.", parse::diskstats, &tag, b" 1 0 d\xffsk 1 2 3 4 5 6 7 8 9 10 11\n");
    assert_eq!(values[&key_of("disk.reads", "d\u{fffd}sk")], 1.0);
    let (values, _) = parsed("vmstat.", parse::pairs, &tag, b"odd-\xff-Name 5\n");
    assert_eq!(values[&key("vmstat.odd___name")], 5.0, "{values:?}");
}

/// A line that stands there twice must not make one series out of two, nor two rows out of one series.
#[test]
fn the_first_of_two_equal_lines_is_kept_and_the_other_reported() {
    let (values, trouble) = parsed("vmstat.", parse::pairs, &Tag::default(), b"pgfault 1\npgfault 2\n");
    assert_eq!(values[&key("vmstat.pgfault")], 1.0);
    assert!(trouble.is_some_and(|t| t.contains("pgfault")));
}
