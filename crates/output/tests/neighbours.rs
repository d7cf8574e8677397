//! A root tool that opened `-o DIR/manifest.json.tmp` by its path overwrote whatever file another user had linked there. Here
//! every way of planting something in the place of output is tried, as root against the user nobody.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure that it is for")]

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use pagelab_output::{Error, Folder, OutputFile, Sync};
use rustix::fs::{CWD, FileType, Mode, mknodat};

const NOBODY: u32 = 65534;

/// A folder that only root writes to; tests need root, as all of `make test` does.
fn scratch() -> tempfile::TempDir {
    assert!(rustix::process::geteuid().is_root(), "found another user, needed root: sudo make test");
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    folder
}

/// A folder of nobody's with a link to a precious file.
fn hostile(root: &Path) -> (PathBuf, PathBuf) {
    let (folder, precious) = (root.join("hostile"), root.join("precious"));
    fs::write(&precious, "precious").unwrap();
    fs::create_dir(&folder).unwrap();
    chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    planted(&folder.join("link"), &precious);
    (folder, precious)
}

fn planted(link: &Path, target: &Path) {
    symlink(target, link).unwrap();
    lchown(link, Some(NOBODY), Some(NOBODY)).unwrap();
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_planted_link_is_replaced_and_not_followed() {
    let root = scratch();
    let (folder, precious) = hostile(root.path());
    OutputFile::write(&folder.join("report"), b"mine").unwrap();
    assert_eq!(mode(&folder.join("report")), 0o600);
    // A link that nobody else can have made is followed, as it always was; nobody's is refused.
    let refused = OutputFile::write(&folder.join("link"), b"mine").unwrap_err();
    assert!(matches!(refused, Error::ForeignLink { owner: NOBODY, .. }), "{refused}");
    let (held, _) = Folder::parent_of(&folder.join("x")).unwrap();
    held.write_atomic("link", b"mine", Sync::Data).unwrap();
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
    assert_eq!(fs::read(folder.join("link")).unwrap(), b"mine");
    let own = root.path().join("own");
    symlink(&precious, &own).unwrap();
    OutputFile::write(&own, b"by my own link").unwrap();
    assert_eq!(fs::read(&precious).unwrap(), b"by my own link");
    assert!(fs::symlink_metadata(&own).unwrap().is_symlink());
}

#[test]
fn a_planted_link_on_the_way_is_refused() {
    let root = scratch();
    let (folder, _) = hostile(root.path());
    let inner = root.path().join("inner");
    fs::create_dir(&inner).unwrap();
    planted(&folder.join("way"), &inner);
    for open in [Folder::create, Folder::open, Folder::open_any] {
        let refused = open(&folder.join("way/rec")).unwrap_err();
        assert!(matches!(refused, Error::ForeignLink { owner: NOBODY, .. }), "{refused}");
        assert!(refused.to_string().contains("readlink -f"), "{refused}");
    }
    assert_eq!(fs::read_dir(&inner).unwrap().count(), 0);
    // The same link where only root can have put it.
    planted(&root.path().join("way"), &inner);
    Folder::create(&root.path().join("way/a/rec")).unwrap();
    assert_eq!(mode(&inner.join("a")), 0o700);
    assert_eq!(mode(&inner.join("a/rec")), 0o700);
}

#[test]
fn folders_to_write_into_are_ours() {
    let root = scratch();
    let (folder, _) = hostile(root.path());
    let refused = Folder::create(&folder).unwrap_err();
    assert!(matches!(refused, Error::ForeignOwner { owner: NOBODY, mode: 0o755, needed: 0, .. }), "{refused}");
    let open = root.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
    let refused = Folder::create(&open).unwrap_err();
    assert!(refused.to_string().contains("chmod go-w"), "{refused}");
    // A parent may be anybody's: what is made in it is ours.
    for parent in [&folder, &open] {
        let made = Folder::create(&parent.join("rec")).unwrap();
        assert_eq!(mode(&parent.join("rec")), 0o700);
        made.create_folder("tasks").unwrap();
        planted(&parent.join("rec/planted"), root.path());
        let refused = made.folder_or_new("planted").unwrap_err();
        assert!(matches!(refused, Error::WrongType { found: "a symbolic link", .. }), "{refused}");
    }
}

/// A group that may write, or everybody else: each alone can put something there, sticky or not.
#[test]
fn folders_that_a_group_or_others_may_write_are_refused() {
    let root = scratch();
    let (folder, inner) = (root.path().join("shared"), root.path().join("inner"));
    fs::create_dir(&folder).unwrap();
    fs::create_dir(&inner).unwrap();
    fs::set_permissions(&inner, Permissions::from_mode(0o755)).unwrap();
    planted(&folder.join("link"), &inner);
    let set = |mode| fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
    for shared in [0o775, 0o757, 0o720, 0o702, 0o1775, 0o1757, 0o2775] {
        set(shared);
        for open in [Folder::create, Folder::open] {
            let refused = open(&folder).unwrap_err();
            assert!(matches!(refused, Error::WritableByOthers { mode, .. } if mode == shared), "{shared:o}: {refused}");
        }
        let refused = Folder::open(&folder.join("link")).unwrap_err();
        assert!(matches!(refused, Error::ForeignLink { owner: NOBODY, .. }), "{shared:o}: {refused}");
    }
    for alone in [0o700, 0o750, 0o755] {
        set(alone);
        Folder::open(&folder).unwrap();
        Folder::open(&folder.join("link")).unwrap();
    }
}

/// Of a folder that is to be private the group's permission is taken away; what has its mode for a reason is left as it is.
#[test]
fn a_folder_that_others_may_write_is_not_made_private() {
    let root = scratch();
    let folder = root.path().join("shared");
    fs::create_dir(&folder).unwrap();
    for shared in [0o757, 0o777, 0o1777, 0o1775, 0o2775] {
        fs::set_permissions(&folder, Permissions::from_mode(shared)).unwrap();
        let refused = Folder::open_private(&folder).unwrap_err();
        assert!(matches!(refused, Error::WritableByOthers { .. }), "{shared:o}: {refused}");
        assert_eq!(mode(&folder), shared);
    }
    fs::set_permissions(&folder, Permissions::from_mode(0o775)).unwrap();
    Folder::open_private(&folder).unwrap();
    assert_eq!(mode(&folder), 0o700);
    chown(&folder, Some(NOBODY), None).unwrap();
    let refused = Folder::open_private(&folder).unwrap_err();
    assert!(matches!(refused, Error::ForeignOwner { owner: NOBODY, .. }), "{refused}");
}

#[test]
fn links_that_lead_in_circles_end() {
    let root = scratch();
    let (one, other) = (root.path().join("one"), root.path().join("other"));
    symlink(&other, &one).unwrap();
    symlink(&one, &other).unwrap();
    for refused in [OutputFile::write(&one, b"x").unwrap_err(), Folder::create(&one.join("rec")).map(drop).unwrap_err()]
    {
        let errno = refused.os_error().and_then(std::io::Error::raw_os_error);
        assert_eq!(errno, Some(rustix::io::Errno::LOOP.raw_os_error()), "{refused}");
    }
}

#[test]
fn a_held_folder_stays_the_same_whatever_its_path_becomes() {
    let root = scratch();
    let path = root.path().join("rec");
    let held = Folder::create(&path).unwrap();
    assert!(held.is_at_its_path());
    fs::rename(&path, root.path().join("moved")).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(!held.is_at_its_path());
    held.write_atomic("file", b"here", Sync::No).unwrap();
    held.sync().unwrap();
    assert_eq!(fs::read(root.path().join("moved/file")).unwrap(), b"here");
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    fs::remove_dir(&path).unwrap();
    assert!(!held.is_at_its_path());
}

#[test]
fn names_do_not_lead_out() {
    let root = scratch();
    let held = Folder::create(&root.path().join("rec")).unwrap();
    for name in ["", ".", "..", "../x", "a/b", "/etc/passwd", "a\0b"] {
        assert!(matches!(held.write_atomic(name, b"", Sync::No), Err(Error::BadName { .. })), "{name:?}");
        assert!(matches!(held.append_file(name), Err(Error::BadName { .. })), "{name:?}");
        assert!(matches!(held.rename("x", name), Err(Error::BadName { .. })), "{name:?}");
        assert!(matches!(held.remove_tree(name), Err(Error::BadName { .. })), "{name:?}");
        assert!(matches!(held.folder(name), Err(Error::BadName { .. })), "{name:?}");
    }
}

#[test]
fn a_file_is_whole_or_absent_and_new_means_new() {
    let root = scratch();
    let held = Folder::create(&root.path().join("rec")).unwrap();
    let mut given_up = held.writer("a").unwrap();
    given_up.write_all(b"half").unwrap();
    drop(given_up);
    assert!(held.names().unwrap().is_empty());
    held.create_new_file("a", b"1", Sync::Data).unwrap();
    let taken = held.create_new_file("a", b"2", Sync::No).unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AlreadyExists);
    held.write_atomic("a", b"3", Sync::No).unwrap();
    assert_eq!(held.read("a", 1).unwrap(), b"3");
    assert_eq!(held.names().unwrap(), ["a"]);
    assert_eq!(mode(&root.path().join("rec/a")), 0o600);
    assert_eq!(held.create_file("a").unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
}

#[test]
fn journals_and_locks_are_ours_and_no_links() {
    let root = scratch();
    let held = Folder::create(&root.path().join("state")).unwrap();
    let precious = root.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    symlink(&precious, root.path().join("state/link")).unwrap();
    fs::write(root.path().join("state/theirs"), "").unwrap();
    chown(root.path().join("state/theirs"), Some(NOBODY), None).unwrap();
    fifo(&root.path().join("state/pipe"));
    for open in [Folder::append_file, Folder::append_existing, Folder::lock_file, Folder::lock_file_existing] {
        assert!(matches!(open(&held, "link"), Err(Error::WrongType { found: "a symbolic link", .. })));
        assert!(matches!(open(&held, "theirs"), Err(Error::ForeignOwner { owner: NOBODY, .. })));
        assert!(matches!(open(&held, "pipe"), Err(Error::WrongType { found: "a named pipe", .. })));
    }
    let mut journal = held.append_file("journal").unwrap();
    journal.write_all(b"one\n").unwrap();
    held.append_existing("journal").unwrap().write_all(b"two\n").unwrap();
    assert_eq!(held.read("journal", 100).unwrap(), b"one\ntwo\n");
    assert!(held.is_named(&journal, "journal"));
    held.remove_file("journal").unwrap();
    assert!(!held.is_named(&journal, "journal"));
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
}

#[test]
fn reading_neither_follows_nor_hangs_nor_fills_memory() {
    let root = scratch();
    let held = Folder::create(&root.path().join("rec")).unwrap();
    fifo(&root.path().join("rec/pipe"));
    symlink("/etc/passwd", root.path().join("rec/link")).unwrap();
    assert!(matches!(held.read("pipe", 10), Err(Error::WrongType { found: "a named pipe", .. })));
    assert!(matches!(held.read("link", 10), Err(Error::WrongType { found: "a symbolic link", .. })));
    fs::File::create(root.path().join("rec/sparse")).unwrap().set_len(1 << 40).unwrap();
    assert!(matches!(held.read("sparse", 10), Err(Error::TooLarge { limit: 10, .. })));
    assert_eq!(held.read("absent", 10).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn streams_are_written_as_they_are() {
    let root = scratch();
    OutputFile::write(Path::new("/dev/null"), b"gone").unwrap();
    let pipe = root.path().join("pipe");
    fifo(&pipe);
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            let mut text = String::new();
            fs::File::open(pipe).unwrap().read_to_string(&mut text).map(|_| text)
        }
    });
    OutputFile::write(&pipe, b"through").unwrap();
    assert_eq!(reader.join().unwrap().unwrap(), "through");
    assert!(fs::symlink_metadata(&pipe).unwrap().rdev() == 0);
    chown(&pipe, Some(NOBODY), None).unwrap();
    assert!(matches!(OutputFile::open(&pipe), Err(Error::ForeignOwner { owner: NOBODY, .. })));
    assert!(matches!(OutputFile::open(root.path()), Err(Error::WrongType { found: "a folder", .. })));
    let disk = root.path().join("disk");
    mknodat(CWD, &disk, FileType::BlockDevice, Mode::from_raw_mode(0o600), rustix::fs::makedev(7, 250)).unwrap();
    assert!(matches!(OutputFile::open(&disk), Err(Error::WrongType { found: "a block device", .. })));
}

#[test]
fn removing_a_tree_stays_in_it() {
    let root = scratch();
    let held = Folder::create(&root.path().join("rec")).unwrap();
    let outside = root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "").unwrap();
    let inner = held.create_folder("tree").unwrap().create_folder("inner").unwrap();
    inner.write_atomic("file", b"", Sync::No).unwrap();
    symlink(&outside, root.path().join("rec/tree/inner/link")).unwrap();
    held.remove_tree("tree").unwrap();
    assert!(held.names().unwrap().is_empty());
    assert!(outside.join("precious").exists());
}

/// Links are swapped in and out as fast as one thread can while root writes: nothing lands behind them.
#[test]
fn a_planting_loop_gets_nothing() {
    let root = scratch();
    let (folder, precious) = hostile(root.path());
    let names = ["report", "report.tmp", "rec"];
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0_usize;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                // Made out of reach, so that it is nobody's from the first instant on.
                let made = root.path().join("made");
                planted(&made, &precious);
                let _ = fs::rename(&made, folder.join(names[n % names.len()]));
                let _ = fs::remove_file(&made);
                n += 1;
            }
        });
        for _ in 0..2000 {
            // Refused, or written into a file of its own; both are right.
            let _ = OutputFile::write(&folder.join("report"), b"mine");
            if let Ok(held) = Folder::create(&folder.join("rec")) {
                let _ = held.write_atomic("report", b"mine", Sync::No);
            }
            let _ = fs::remove_dir_all(folder.join("rec"));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
}
