//! Never destroy data, never leave half a job behind.

use crate::{common, devices};

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use common::{pagelab, refused, run, totals, try_run};
use devices::{Undo, tool};

fn arguments(path: &Path, options: &str) -> Vec<String> {
    ["--name=j".to_owned(), format!("--filename={}", path.display())]
        .into_iter()
        .chain(options.split_whitespace().map(str::to_owned))
        .collect()
}

#[test]
fn other_peoples_files_are_not_written() {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join("precious");
    for (contents, options) in [
        ("precious", "--rw=write --size=64k"),
        ("precious", "--rw=randrw --size=64k --ioengine=mmap"),
        ("", "--rw=write --size=64k --overwrite=1"),
        ("precious", "--rw=read --size=64k"),
    ] {
        std::fs::write(&path, contents).expect("write");
        let words = refused(&arguments(&path, options), 2);
        assert!(words.contains("--allow-write") && words.contains("precious"), "{words}");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), contents, "untouched by {options}");
    }
    let mut allowed = arguments(&path, "--rw=write --size=64k");
    allowed.push(format!("--allow-write={}", path.display()));
    assert_eq!(totals(&run(&allowed))[3], 65536);
    std::fs::write(directory.path().join("long"), vec![1; 65536]).expect("write");
    assert_eq!(totals(&run(&arguments(&directory.path().join("long"), "--rw=read")))[1], 65536, "reading is free");
}

#[test]
fn own_files_are_written_again_and_unlinked_only_if_own() {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join("own");
    run(&arguments(&path, "--rw=write --size=64k"));
    run(&arguments(&path, "--rw=randwrite --size=128k"));
    assert_eq!(std::fs::metadata(&path).expect("there").len(), 128 << 10);
    run(&arguments(&path, "--rw=read --unlink=1"));
    assert!(!path.exists());
    std::fs::write(&path, vec![1; 65536]).expect("write");
    let report = run(&arguments(&path, "--rw=read --unlink=1"));
    assert!(
        path.exists() && report.warnings.iter().any(|w| w.contains("pagelab did not create it")),
        "{:?}",
        report.warnings
    );
}

#[test]
fn readonly_means_that() {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join("new");
    for options in ["--rw=write --size=64k", "--rw=read --size=64k"] {
        let mut all = arguments(&path, options);
        all.push("--readonly".to_owned());
        assert!(refused(&all, 2).contains("--readonly"));
        assert!(!path.exists());
    }
    std::fs::write(&path, vec![1; 65536]).expect("write");
    let mut all = arguments(&path, "--rw=read");
    all.push("--readonly".to_owned());
    assert_eq!(totals(&run(&all))[0], 16);
}

#[test]
fn a_job_that_cannot_start_leaves_nothing_behind() {
    let directory = tempfile::tempdir().expect("tempdir");
    let (first, second) = (directory.path().join("first"), directory.path().join("no/such"));
    // The second job's directory is missing: the first job's file is not made.
    let mut all = arguments(&first, "--rw=write --size=64k");
    all.extend(
        ["--name=k", "--rw=write", "--size=64k", &format!("--directory={}", second.display())].map(str::to_owned),
    );
    let words = refused(&all, 2);
    assert!(words.contains("mkdir -p"), "{words}");
    assert!(!first.exists());
    // A worker cannot get ready (no such pool has that many pages): the file made for the other one goes again.
    let mut all = arguments(&first, "--rw=write --size=64k");
    all.extend(["--name=k", "--ioengine=anon", "--size=1t", "--bs=2m", "--hugetlb=2m"].map(str::to_owned));
    refused(&all, 3);
    assert!(!first.exists());
    // With the folders that were made for it.
    let mut all = arguments(&directory.path().join("new/folder/file"), "--rw=write --size=64k");
    all.extend(["--name=k", "--ioengine=anon", "--size=1t", "--bs=2m", "--hugetlb=2m"].map(str::to_owned));
    refused(&all, 3);
    assert!(!directory.path().join("new").exists());
}

/// Everything that would be overwritten is said at once, logs too, and can be allowed at once.
#[test]
fn all_that_needs_to_be_named_is_said_at_once() {
    let directory = tempfile::tempdir().expect("tempdir");
    let at = |name: &str| directory.path().join(name);
    let names = ["f0", "f1", "f2", "f3", "j_bw.1.log", "ops"];
    let fill = || names.iter().for_each(|name| std::fs::write(at(name), vec![7; 65536]).expect("write"));
    let job = |more: &[&str]| {
        let mut command = common::pagelab();
        let job = "--output-format=report --name=j --rw=write --bs=64k --size=256k --filename=f0:f1:f2:f3 --write_bw_log=j --write_iolog=ops";
        command.current_dir(directory.path()).args(job.split(' ')).args(more).output().expect("starts")
    };
    fill();
    let output = job(&[]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words}");
    let all: Vec<String> = names.iter().map(|name| format!("--allow-write {name}")).collect();
    assert!(words.contains(&format!("all at once: {}", all.join(" "))), "{words}");
    assert!(names.iter().all(|name| std::fs::read(at(name)).expect("there") == vec![7; 65536]), "nothing is touched");
    for allowed in [&["--allow-write=."][..], &["--allow-write=f?", "--allow-write=*.log", "--allow-write=ops"]] {
        fill();
        let output = job(allowed);
        assert!(output.status.success(), "{allowed:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(names.iter().all(|name| std::fs::read(at(name)).expect("there") != vec![7; 65536]), "{allowed:?}");
    }
    fill();
    let words = String::from_utf8_lossy(&job(&["--allow-write=f[012]", "--allow-write=ops"]).stderr).into_owned();
    assert!(words.contains("2 files are refused") && words.contains("f3") && words.contains("j_bw.1.log"), "{words}");
}

#[test]
fn devices_need_to_be_named_and_empty() {
    let words = refused(&arguments(Path::new("/dev/random"), "--rw=write --size=64k"), 2);
    assert!(words.contains("neither a regular file nor a block device"), "{words}");
}

/// A neighbour in the job's directory: puts something else where the job's file is, and the file back, as fast as it can.
struct Neighbour<'a> {
    path: &'a Path,
    aside: std::path::PathBuf,
    precious: &'a Path,
}

impl Neighbour<'_> {
    fn put_a_link(&self) -> std::io::Result<()> {
        std::fs::rename(self.path, &self.aside)?;
        std::os::unix::fs::symlink(self.precious, self.path)
    }

    fn put_the_file_itself(&self) -> std::io::Result<()> {
        std::fs::rename(self.path, &self.aside)?;
        std::fs::hard_link(self.precious, self.path)
    }

    fn put_back(&self) {
        // It may never have been moved.
        let _ = std::fs::rename(&self.aside, self.path);
    }
}

#[test]
fn a_neighbour_that_renames_turns_no_write_elsewhere() {
    let rounds = if std::env::var_os("PAGELAB_TEST_FULL").is_some() { 300 } else { 24 };
    let directory = tempfile::tempdir().expect("tempdir");
    let (path, precious) = (directory.path().join("own"), directory.path().join("precious"));
    let contents = vec![7_u8; 64 << 10];
    std::fs::write(&precious, &contents).expect("write");
    let neighbour = Neighbour { path: &path, aside: directory.path().join("aside"), precious: &precious };
    let mut stopped = 0;
    for round in 0..rounds {
        let options = match round % 4 {
            0 => "--rw=write --size=64k --loops=3000",
            1 => "--rw=randwrite --size=64k --loops=3000 --ioengine=mmap",
            2 => "--rw=write --size=64k --loops=1000 --unlink_each_loop=1",
            _ => "--rw=write --size=64k --loops=300 --overwrite=1 --create_on_open=1",
        };
        let done = std::sync::atomic::AtomicBool::new(false);
        let output = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let put = if round % 8 < 4 { neighbour.put_a_link() } else { neighbour.put_the_file_itself() };
                    // Where there is no file yet, there is nothing to move.
                    drop(put);
                    std::thread::yield_now();
                    neighbour.put_back();
                }
            });
            let output = try_run(&arguments(&path, options));
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            output
        });
        assert_eq!(std::fs::read(&precious).expect("there"), contents, "round {round}: written to: {options}");
        if !output.status.success() {
            stopped += 1;
        }
        // What the neighbour left must not decide the next round.
        for left in [&path, &neighbour.aside] {
            let _ = std::fs::remove_file(left);
        }
    }
    assert!(stopped > 0, "the neighbour never came between");
}

#[test]
fn a_file_that_is_replaced_between_passes_ends_the_job_with_words() {
    let directory = tempfile::tempdir().expect("tempdir");
    let (path, precious) = (directory.path().join("own"), directory.path().join("precious"));
    std::fs::write(&precious, "precious").expect("write");
    let options = "--rw=write --size=64k --bs=32k --loops=2 --fallocate=none --thinktime=200ms --thinktime_blocks=1";
    // The job pauses within its first pass; on a busy machine it takes several tries to come into the pause.
    let words = (0..50).find_map(|_| {
        let output = std::thread::scope(|scope| {
            let job = scope.spawn(|| try_run(&arguments(&path, options)));
            // The first operation has written half.
            while std::fs::metadata(&path).map_or(0, |metadata| metadata.len()) < 32 << 10 {
                std::thread::yield_now();
            }
            std::fs::rename(&path, directory.path().join("aside")).expect("rename");
            std::os::unix::fs::symlink(&precious, &path).expect("link");
            job.join().expect("the job")
        });
        assert_eq!(std::fs::read_to_string(&precious).expect("read"), "precious");
        std::fs::remove_file(&path).expect("the link");
        (output.status.code() == Some(3)).then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    });
    assert!(words.is_some_and(|words| words.contains("something else is there now")), "no try came into the pause");
}

/// It is no link, and writing to files without a mark was allowed here: what it is tells that it is another one.
#[test]
fn another_file_in_the_place_of_the_named_one_is_not_written() {
    let directory = tempfile::tempdir().expect("tempdir");
    let [named, another, kept] = ["named", "another", "kept"].map(|name| directory.path().join(name));
    std::fs::write(&named, vec![0; 64 << 10]).expect("write");
    std::fs::write(&another, vec![7; 64 << 10]).expect("write");
    // By then the first pass has its file open; the second opens it anew.
    let shown = [&named, &kept, &another].map(|path| path.display().to_string());
    let output = pagelab()
        .current_dir(directory.path())
        .args(["--output-format=report", "--name=j", "--rw=write", "--size=64k", "--loops=2"])
        .arg(format!("--filename={}", shown[0]))
        .arg(format!("--allow-write={}", shown[0]))
        .arg(format!("--exec_prerun=mv {0} {1} && mv {2} {0}", shown[0], shown[1], shown[2]))
        .output()
        .expect("pagelab-load starts");
    assert!(!output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("something else is there now"), "{output:?}");
    assert_eq!(std::fs::read(&named).expect("there"), vec![7; 64 << 10], "it was written");
}

/// A file system that gives the number of a removed inode to the next file, as most do on disks.
#[test]
#[ignore = "mounts a file system on a loop device"]
fn loop_another_file_with_the_inode_number_of_the_named_one_is_not_written() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let at = |name: &str| directory.path().join(name).display().to_string();
    let (image, place) = (at("image"), at("mounted"));
    std::fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("an image");
    std::fs::create_dir(&place).expect("a directory");
    // Inodes of 256 bytes keep a birth time.
    tool("mkfs.ext4", &["-q", "-F", "-I", "256", &image]);
    tool("mount", &["-o", "loop", &image, &place]);
    let _mounted = Undo("umount", place.clone());
    let [first, named] = ["first", "named"].map(|name| format!("{place}/{name}"));
    for file in [&first, &named] {
        std::fs::write(file, vec![0; 64 << 10]).expect("write");
    }
    let inode = std::fs::metadata(&named).expect("there").ino();
    // Before the first operation: the job has its first file open, and opens the named one when that is done.
    let script = at("replace");
    let replace = format!(
        "rm {named} || exit 1\nfor i in $(seq 200); do\n  head -c 65536 /dev/zero | tr '\\0' '\\7' >{named}\n  \
         [ $(stat -c %i {named}) = {inode} ] && exit 0\n  mv {named} {place}/aside.$i\ndone\nexit 1\n"
    );
    std::fs::write(&script, replace).expect("write");
    let output = pagelab()
        .current_dir(directory.path())
        .args(["--output-format=report", "--name=j", "--rw=write", "--size=128k", "--openfiles=1"])
        .args(["--file_service_type=sequential".to_owned(), format!("--filename={first}:{named}")])
        .args([format!("--allow-write={first}"), format!("--allow-write={named}")])
        .arg(format!("--exec_prerun=sh {script}"))
        .output()
        .expect("pagelab-load starts");
    assert_eq!(std::fs::metadata(&named).expect("there").ino(), inode, "it has the same number: {output:?}");
    assert!(!output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("something else is there now"), "{output:?}");
    assert_eq!(std::fs::read(&named).expect("there"), vec![7; 64 << 10], "it was written");
}

#[test]
fn links_are_followed_where_the_user_names_them() {
    let directory = tempfile::tempdir().expect("tempdir");
    let (path, link) = (directory.path().join("own"), directory.path().join("link"));
    run(&arguments(&path, "--rw=write --size=64k"));
    std::os::unix::fs::symlink(&path, &link).expect("link");
    let words = refused(&arguments(&link, "--rw=write --size=64k"), 2);
    assert!(words.contains("symbolic link") && words.contains("--allow-write"), "{words}");
    let mut named = arguments(&link, "--rw=write --size=64k --loops=3");
    named.push(format!("--allow-write={}", link.display()));
    assert_eq!(totals(&run(&named))[3], 3 * 65536);
    assert_eq!(totals(&run(&arguments(&link, "--rw=read --size=64k")))[1], 65536, "reading follows links");
}
