//! The commands that findings give are typed as they stand, and the finding has to be gone afterwards.

use std::path::Path;

use pagelab_host::doctor::path::PathReport;

use super::stage::{Changed, MIB, Mounted, cold, create, fallocate, read_in_small, run, write};
use super::{POOL, SHMEM, answer};

/// Types the command of this finding and looks again.
fn mended(path: &Path, id: &str) -> PathReport {
    let before = answer(path);
    let finding = before.findings.iter().find(|finding| finding.id == id);
    let finding = finding.unwrap_or_else(|| panic!("{id} not in {:?}", before.findings));
    let fix = finding.fix.as_ref().unwrap_or_else(|| panic!("{id} has no command"));
    println!("{id}: {fix}");
    run("sh", &["-c", fix]);
    clear(path);
    let after = answer(path);
    assert!(after.findings.iter().all(|finding| finding.id != id), "{id} is still there: {:?}", after.findings);
    after
}

/// Where a command has kept the file as it was: the same bytes, and then it may go.
fn clear(path: &Path) {
    let folder = path.parent().expect("a folder");
    for entry in std::fs::read_dir(folder).expect("read").flatten() {
        if entry.file_name().to_string_lossy().starts_with(".pagelab-") {
            assert_eq!(bytes_of(&entry.path().join("old")), bytes_of(path));
            assert!(!entry.path().join("new").exists());
            std::fs::remove_dir_all(entry.path()).expect("removed");
        }
    }
}

/// The command behind a warning: without reading that nobody can type it.
fn after_warning(fix: &str) -> &str {
    assert!(fix.starts_with("# destroys all files on "), "{fix}");
    fix.rsplit_once("; then type: ").expect("a command").1
}

/// Whether direct access could map all of it.
fn laid_out_well(report: &PathReport) -> bool {
    report.layout.as_ref().is_some_and(|runs| !runs.is_empty() && runs.iter().all(|run| run.possible))
}

fn bytes_of(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("read")
}

#[test]
#[ignore = "needs root for loop devices; run by make test with --ignored --test-threads=1"]
fn host_files_are_mended_by_the_commands_given() {
    for mkfs in [
        &["mkfs.ext4", "-q", "-b", "4096", "-E", "stride=512,stripe_width=512"][..],
        &["mkfs.xfs", "-q", "-d", "su=2m,sw=1"],
    ] {
        let mounted = Mounted::image(mkfs, &[], "rw");
        let at = |name: &str| mounted.at(name);
        let (one, other) = (create(&at("two words")), create(&at("other")));
        for piece in 0..8 {
            fallocate(&one, 0, piece * MIB, MIB);
            fallocate(&other, 0, piece * MIB, MIB);
        }
        write(&one, 0, 8 * MIB, MIB);
        cold(&one);
        let content = bytes_of(&at("two words"));
        assert!(laid_out_well(&mended(&at("two words"), "path.extents_short")), "{mkfs:?}");
        assert_eq!(bytes_of(&at("two words")), content);
        let sparse = create(&at("sparse"));
        sparse.set_len(8 * MIB).expect("length");
        // What is filled around one block in each slot would be in another state than it.
        for slot in 0..4 {
            write(&sparse, slot * 2 * MIB + 65_536, 4096, 4096);
        }
        cold(&sparse);
        assert!(laid_out_well(&mended(&at("sparse"), "path.holes")), "{mkfs:?}");
        let ends = create(&at("ends"));
        write(&ends, 0, 3 * MIB, MIB);
        cold(&ends);
        let report = answer(&at("ends"));
        let finding = report.findings.iter().find(|finding| finding.id == "path.file_ends_inside").expect("told");
        // Zeros at its end are damage to a database or a log.
        assert_eq!(finding.fix, None);
        let hot = create(&at("hot"));
        write(&hot, 0, 8 * MIB, MIB);
        cold(&hot);
        read_in_small(&hot, [0, 2 * MIB].into_iter());
        assert_eq!(mended(&at("hot"), "path.in_small_pages").possible_pct, Some(100.0));
        if mkfs.first() == Some(&"mkfs.xfs") {
            run("cp", &["--reflink=always", at("hot").to_str().expect("text"), at("copy").to_str().expect("text")]);
            assert!(laid_out_well(&mended(&at("copy"), "path.shared")));
        }
    }
}

/// A file that a copy could take the place of: its extents are short.
fn in_pieces(mounted: &Mounted, name: &str, content: &[u8]) -> std::path::PathBuf {
    use std::os::unix::fs::FileExt;
    let path = mounted.at(name);
    let (one, other) = (create(&path), create(&mounted.at("between")));
    for piece in 0..4 {
        fallocate(&one, 0, piece * MIB, MIB);
        fallocate(&other, 0, piece * MIB, MIB);
    }
    write(&one, 0, 4 * MIB, MIB);
    one.write_all_at(content, 0).expect("written");
    cold(&one);
    path
}

/// Ended when the test is.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The doctor never proposes a copy in the place of a file when something would be lost: others' writes to it
/// meanwhile, its other names, its metadata.
#[test]
#[ignore = "needs root for loop devices; run by make test with --ignored --test-threads=1"]
fn host_a_file_is_not_rewritten_where_something_would_be_lost() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::process::{Command, Stdio};
    let mounted = Mounted::image(&["mkfs.ext4", "-q", "-b", "4096", "-E", "stride=512,stripe_width=512"], &[], "rw");
    let sleep = std::fs::read("/bin/sleep").expect("a program");
    let path = in_pieces(&mounted, "database", &sleep);
    let told = |path: &Path| {
        let found = answer(path).findings.into_iter().find(|finding| finding.id == "path.extents_short");
        let found = found.unwrap_or_else(|| panic!("nothing is wrong with {}", path.display()));
        (found.fix, found.needed)
    };
    let barred = |path: &Path, why: &str| {
        let (fix, needed) = told(path);
        assert!(
            fix.is_none() && needed.contains("no command is given") && needed.contains(why),
            "{why}: {fix:?} {needed}"
        );
    };
    assert!(told(&path).0.is_some());
    let file = std::fs::File::open(&path).expect("opened");
    let open = Running(Command::new("sleep").arg("1000").stdin(Stdio::from(file)).spawn().expect("started"));
    barred(&path, &format!("process {} (sleep) has it open", open.0.id()));
    drop(open);
    // Mapped and not open.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o751)).expect("root");
    let mapped = Running(Command::new(&path).arg("1000").spawn().expect("started"));
    barred(&path, &format!("process {} (database) has it open", mapped.0.id()));
    drop(mapped);
    let (second, link) = (mounted.at("second"), mounted.at("link"));
    std::fs::hard_link(&path, &second).expect("made");
    barred(&path, "2 hard links");
    std::fs::remove_file(&second).expect("removed");
    std::os::unix::fs::symlink(&path, &link).expect("made");
    barred(&link, "this is a link");
    let name = path.to_str().expect("text");
    let device = Command::new("losetup").args(["-f", "--show", name]).output().expect("losetup");
    let device = String::from_utf8(device.stdout).expect("text").trim().to_owned();
    barred(&path, &device);
    run("losetup", &["-d", &device]);

    // Its metadata comes along.
    let xattr = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&path, "user.note", b"kept", xattr).expect("set");
    std::os::unix::fs::chown(&path, Some(1), Some(2)).expect("root");
    run("touch", &["-d", "2001-02-03 04:05:06", name]);
    let before = std::fs::metadata(&path).expect("there");
    assert!(laid_out_well(&mended(&path, "path.extents_short")));
    let after = std::fs::metadata(&path).expect("there");
    let carried = |found: &std::fs::Metadata| (found.uid(), found.gid(), found.mode(), found.mtime(), found.len());
    assert_eq!(carried(&after), carried(&before));
    let mut note = [0; 8];
    let length = rustix::fs::getxattr(&path, "user.note", &mut note).expect("there");
    assert_eq!(&note[..length], b"kept");
}

#[test]
#[ignore = "needs root for mounts and settings; run by make test with --ignored --test-threads=1"]
fn host_tmpfs_is_mended_by_the_commands_given() {
    let whole = |report: PathReport| assert_eq!(report.possible_pct, Some(100.0), "{:?}", report.slots);
    let never = Mounted::plain("tmpfs", "size=100m,huge=never");
    write(&create(&never.at("file")), 0, 8 * MIB, MIB);
    whole(mended(&never.at("file"), "path.tmpfs_huge_never"));
    let advise = Mounted::plain("tmpfs", "size=100m,huge=advise");
    write(&create(&advise.at("file")), 0, 8 * MIB, MIB);
    whole(mended(&advise.at("file"), "path.in_small_pages"));
    let full = Mounted::plain("tmpfs", "size=9m,huge=always");
    create(&full.at("file")).set_len(20 * MIB).expect("length");
    whole(mended(&full.at("file"), "path.tmpfs_full"));
    let always = Mounted::plain("tmpfs", "size=100m,huge=always");
    create(&always.at("file")).set_len(8 * MIB).expect("length");
    let _denied = Changed::to(SHMEM, "deny");
    whole(mended(&always.at("file"), "path.shmem_denied"));
}

/// A file system made for other things, made anew as the finding says: then files lie right.
#[test]
#[ignore = "needs root for loop devices; run by make test with --ignored --test-threads=1"]
fn host_a_file_system_is_made_anew_by_the_command_given() {
    for mkfs in [&["mkfs.ext4", "-q", "-b", "1024"][..], &["mkfs.xfs", "-q"]] {
        let mounted = Mounted::image(mkfs, &[], "rw");
        let path = mounted.at("file");
        let file = create(&path);
        write(&file, 0, 8 * MIB, MIB);
        cold(&file);
        drop(file);
        let report = answer(&path);
        let finding = report.findings.iter().find(|finding| finding.id == "path.extents_misaligned");
        let fix = finding.unwrap_or_else(|| panic!("{mkfs:?}: {:?}", report.layout)).fix.clone().expect("a command");
        println!("{fix}");
        run("sh", &["-c", after_warning(&fix)]);
        let file = create(&path);
        fallocate(&file, 0, 0, 8 * MIB);
        assert!(laid_out_well(&answer(&path)), "{mkfs:?}: {:?}", answer(&path).layout);
    }
}

/// A partition that begins at the wrong place is moved and made anew by the command given.
#[test]
#[ignore = "needs root for loop devices; run by make test with --ignored --test-threads=1"]
fn host_a_partition_is_moved_by_the_command_given() {
    for mkfs in [
        &["mkfs.ext4", "-q", "-b", "4096", "-E", "stride=512,stripe_width=512"][..],
        &["mkfs.xfs", "-q", "-d", "su=2m,sw=1"],
    ] {
        // 63 sectors in front, as tables of old had it.
        let mounted = Mounted::partition_in_table(mkfs, 63);
        let path = mounted.at("file");
        fallocate(&create(&path), 0, 0, 8 * MIB);
        let before = answer(&path);
        assert_eq!(before.device.as_ref().map(|device| device.partition_start_bytes), Some(63 * 512));
        let finding = before.findings.iter().find(|finding| finding.id == "path.partition_misaligned");
        let fix = finding.unwrap_or_else(|| panic!("{mkfs:?}: {:?}", before.layout)).fix.clone().expect("a command");
        println!("{fix}");
        run("sh", &["-c", after_warning(&fix)]);
        fallocate(&create(&path), 0, 0, 8 * MIB);
        let after = answer(&path);
        assert_eq!(after.device.as_ref().map(|device| device.partition_start_bytes), Some(2 * MIB));
        assert!(after.findings.iter().all(|finding| finding.id != "path.partition_misaligned"), "{:?}", after.findings);
        assert!(laid_out_well(&after), "{mkfs:?}: {:?}", after.layout);
    }
}

/// A pool that is too small is made larger, and a mount whose own limit is in the way stands aside for another one.
#[test]
#[ignore = "changes host settings; run by make test with --ignored --test-threads=1"]
fn host_a_pool_is_made_larger_by_the_command_given() {
    const MEMORY: &str = env!("CARGO_BIN_EXE_pagelab-memory-fixture");
    let before: u64 = std::fs::read_to_string(POOL).expect("pool").trim().parse().expect("a number");
    // Fewer than the file needs. `pool` also undoes the command's change: it restores the value from before.
    let pool = Changed::to(POOL, &(before + 2).to_string());
    let mounted = Mounted::plain("hugetlbfs", "pagesize=2M");
    create(&mounted.at("file")).set_len(12 * MIB).expect("length");
    let report = answer(&mounted.at("file"));
    let finding = report.findings.iter().find(|finding| finding.id == "path.pool_too_small").expect("too small");
    let fix = finding.fix.clone().expect("a command");
    // The binary is not built here; the fixture takes the same command.
    let tools = tempfile::tempdir().expect("a temporary folder");
    let program = tools.path().join("pagelab");
    std::fs::write(&program, format!("#!/bin/sh\nexec '{MEMORY}' cli \"$@\"\n")).expect("written");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("mode");
    let state = tools.path().join("state");
    println!("{fix}");
    run(
        "sh",
        &["-c", &format!("export PATH={}:$PATH PAGELAB_STATE_DIR={}; {fix}", tools.path().display(), state.display())],
    );
    let after = answer(&mounted.at("file"));
    // As it was set for this test, so that it goes back from there.
    std::fs::write(POOL, (before + 2).to_string()).expect("set");
    assert!(after.findings.iter().all(|finding| finding.id != "path.pool_too_small"), "{:?}", after.findings);
    assert_eq!(after.possible_pct, Some(100.0));
    drop(mounted);
    drop(pool);

    let _pool = Changed::to(POOL, &(before + 12).to_string());
    let bounded = Mounted::plain("hugetlbfs", "pagesize=2M,size=8m");
    create(&bounded.at("file")).set_len(12 * MIB).expect("length");
    let report = answer(&bounded.at("file"));
    let finding = report.findings.iter().find(|finding| finding.id == "path.pool_too_small").expect("too small");
    let fix = finding.fix.clone().expect("a command");
    // Where it is mounted is for the user to say: the command's DIR.
    let other = tools.path().join("other");
    std::fs::create_dir(&other).expect("mkdir");
    let fix = fix.replace("DIR", other.to_str().expect("text"));
    println!("{fix}");
    run("sh", &["-c", &fix]);
    create(&other.join("file")).set_len(12 * MIB).expect("length");
    let after = answer(&other.join("file"));
    run("umount", &[other.to_str().expect("text")]);
    assert_eq!(
        (after.possible_pct, after.findings.iter().any(|finding| finding.id == "path.pool_too_small")),
        (Some(100.0), false)
    );
}
