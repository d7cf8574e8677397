//! The table against what others say: the system's header for the numbers, strace for the classes.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use pagelab_testing::skipped;

use super::*;

#[test]
fn numbers_ascend_and_are_found() {
    assert!(all().is_sorted_by(|one, other| one.number < other.number));
    for call in all() {
        assert_eq!(by_number(call.number), Some(call));
        assert_eq!(by_name(call.name), Some(call));
        assert!(call.args.len() <= 6, "{}", call.name);
        if let Some(at) = call.iovec_arg() {
            assert_eq!(call.args[at + 1].kind, ArgKind::IovCount, "{}", call.name);
        }
    }
    assert_eq!((by_number(500), by_name("xyzzy")), (None, None));
}

#[test]
fn numbers_are_those_of_the_header() {
    let header = Path::new("/usr/include/x86_64-linux-gnu/asm/unistd_64.h");
    let Ok(text) = std::fs::read_to_string(header) else {
        return skipped(format_args!("{} is not here", header.display()));
    };
    let mut compared = 0;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some("#define"), Some(name), Some(number)) = (words.next(), words.next(), words.next()) else { continue };
        let (Some(name), Ok(number)) = (name.strip_prefix("__NR_"), number.parse::<u32>()) else { continue };
        assert_eq!(by_number(number).map(|call| call.name), Some(name));
        compared += 1;
    }
    assert!(compared > 350, "{compared}");
}

/// Of the calls that a program makes, strace shows those of a class: the same that the table says are in it.
#[test]
fn classes_are_those_of_strace() {
    for class in Class::ALL {
        let traced = |what: &str| -> Option<BTreeSet<String>> {
            let output = Command::new("strace").args(["-o", "/dev/stdout", "-e", what, "ls", "/dev/null"]).output();
            let text = String::from_utf8(output.ok()?.stdout).ok()?;
            let name = |line: &str| line.split_once('(').map(|(name, _)| name.to_owned());
            Some(text.lines().filter_map(name).filter(|name| by_name(name).is_some()).collect())
        };
        let Some(all_calls) = traced("trace=all").filter(|calls| !calls.is_empty()) else {
            return skipped("strace does not run here");
        };
        let theirs = traced(&format!("trace=%{}", class.name())).unwrap_or_default();
        let ours = |name: &String| by_name(name).is_some_and(|call| call.classes.contains(class));
        let ours: BTreeSet<String> = all_calls.into_iter().filter(ours).collect();
        assert_eq!(ours, theirs, "{}", class.name());
        assert_eq!(Class::named(class.name()), Some(class));
    }
}

#[test]
fn transfers_say_how_many_bytes_and_where() {
    for call in all() {
        let bytes = call.count_arg().is_some() || call.iovec_arg().is_some();
        if matches!(call.transfer, Some(Transfer::Copy)) {
            assert!(bytes, "{}", call.name);
        }
        if call.offset_arg().is_some() {
            assert!(bytes && call.transfer.is_some() && call.returns == Returns::Bytes, "{}", call.name);
        }
    }
    let call = |name| by_name(name).expect("it is there");
    assert_eq!(
        (call("pread64").offset_arg(), call("preadv2").offset_arg(), call("read").offset_arg()),
        (Some(3), Some(3), None)
    );
    assert_eq!((call("mmap").fd_arg(), call("openat").fd_arg(), call("sendto").count_arg()), (Some(4), None, Some(2)));
    assert_eq!((call("write").count_arg(), call("writev").iovec_arg()), (Some(2), Some(1)));
}

#[test]
fn values_have_names_and_no_bit_is_lost() {
    for (words, value, text) in [
        (Words::Open, 0, "O_RDONLY"),
        (Words::Open, 0o1101, "O_WRONLY|O_CREAT|O_TRUNC"),
        (Words::Open, 0x41_0002, "O_RDWR|O_TMPFILE"),
        (Words::Open, 0x10_1001, "O_WRONLY|O_SYNC"),
        (Words::Open, 0x1001, "O_WRONLY|O_DSYNC"),
        (Words::Prot, 0, "PROT_NONE"),
        (Words::Prot, 3, "PROT_READ|PROT_WRITE"),
        (Words::Map, 0x22, "MAP_PRIVATE|MAP_ANONYMOUS"),
        (Words::Map, 0x4_0022 | 21 << 26, "MAP_PRIVATE|MAP_ANONYMOUS|MAP_HUGETLB|MAP_HUGE_2MB"),
        (Words::Map, 0x0200_0002, "MAP_PRIVATE|0x2000000"),
        (Words::Madvise, 14, "MADV_HUGEPAGE"),
        (Words::Madvise, 77, "77"),
        (Words::SockType, 0x8_0001, "SOCK_STREAM|SOCK_CLOEXEC"),
        (Words::Futex, 0x81, "FUTEX_WAKE|FUTEX_PRIVATE_FLAG"),
        (Words::Clone, 0x11, "SIGCHLD"),
        (Words::At, 0, "0"),
    ] {
        assert_eq!(words.decode(value), text);
    }
    for words in Words::ALL {
        let set = words.set();
        let values: BTreeSet<u32> = set.values.iter().map(|(value, _)| *value).collect();
        assert_eq!(values.len(), set.values.len(), "{words:?}: a value has two names");
        assert!(set.bits.iter().all(|(bits, _)| bits & set.mask == 0 && *bits != 0), "{words:?}");
        for (value, name) in set.values.iter().chain(set.bits) {
            assert!(words.decode(*value).contains(name), "{words:?} {name}");
        }
    }
    assert_eq!((errno(12), errno(4000)), (Some("ENOMEM"), None));
    assert_eq!((signal(11), signal(34), signal(0)), ("SIGSEGV".into(), "SIGRT_2".into(), "signal 0".into()));
}
