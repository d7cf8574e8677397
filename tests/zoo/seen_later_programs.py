"""Kinds that lose by how the program reads, writes, syncs and starts other programs.

These were frozen until 2026-11-28, when rules were judged by them for the sixth time and then changed by what they missed: they are for
tuning.
"""

from cases import DATA, Side, dropped, fio
from compiled import C_HEAD, built, with_one
from kinds import either, kind, node, shell

LARGE = "{dir}/large.data"
DIRECT = 0o40000

def cached_or_dropped(line, file, before):
    """A program on a file that was read before the run, or dropped from the page cache."""
    return Side(line, before=[*before, ["cat", file]]), Side(line, before=[*before, *dropped(file)])


# Waiting for the disk.

CPP_LEVELDB = built("cc-orders", "cc", """#include <cstdlib>
#include <cstring>
#include <string>
#include <leveldb/db.h>
// Orders that are put into a LevelDB one by one.
int main(int, char **v) {
    leveldb::Options options;
    options.create_if_missing = true;
    leveldb::DB *db;
    if (!leveldb::DB::Open(options, v[1], &db).ok()) return 1;
    leveldb::WriteOptions how;
    how.sync = !strcmp(v[3], "sync");
    std::string order(700, 'o');
    for (long i = 0, n = atol(v[2]); i < n; i++) {
        order[i % 700]++;
        if (!db->Put(how, "order" + std::to_string(i), order).ok()) return 1;
    }
    delete db;
    return 0;
}""", "-lleveldb")

C_LMDB = built("c-sessions", "c", """#include <lmdb.h>
#include <stdlib.h>
#include <string.h>
/* Sessions of a web server in LMDB: each request updates one, in a transaction. */
int main(int c, char **v)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi db;
    char session[300];
    memset(session, 's', sizeof(session));
    mdb_env_create(&env);
    mdb_env_set_mapsize(env, 256 << 20);
    if (mdb_env_open(env, v[1], MDB_NOSUBDIR | (strcmp(v[3], "durable") ? MDB_NOSYNC : 0), 0644)) return 1;
    for (long i = 0, n = atol(v[2]); i < n; i++) {
        unsigned user = i * 7919u % 4096;
        MDB_val key = { sizeof(user), &user }, value = { sizeof(session), session };
        session[i % 300]++;
        if (mdb_txn_begin(env, 0, 0, &txn)) return 1;
        if (!i && mdb_dbi_open(txn, 0, MDB_CREATE, &db)) return 1;
        if (mdb_put(txn, db, &key, &value, 0) || mdb_txn_commit(txn)) return 1;
    }
    mdb_env_close(env);
    return 0;
}""", "-llmdb")

C_TDB = built("c-accounts", "c", """#include <sys/types.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <tdb.h>
/* Accounts as Samba keeps them: a transfer changes two of them in one transaction. */
int main(int c, char **v)
{
    TDB_CONTEXT *db = tdb_open(v[1], 1009, strcmp(v[3], "durable") ? TDB_NOSYNC : TDB_DEFAULT, O_RDWR | O_CREAT, 0644);
    if (!db) return 1;
    for (long i = 0, n = atol(v[2]); i < n; i++) {
        if (tdb_transaction_start(db)) return 1;
        for (int side = 0; side < 2; side++) {
            char name[32], balance[64];
            TDB_DATA key = { (void *)name, sprintf(name, "account%ld", (i * 31 + side * 17) % 500) }, data = { (void *)balance, sizeof(balance) };
            memset(balance, 0, sizeof(balance));
            sprintf(balance, "%ld", i);
            if (tdb_store(db, key, data, TDB_REPLACE)) return 1;
        }
        if (tdb_transaction_commit(db)) return 1;
    }
    return tdb_close(db);
}""", "-ltdb")

RUST_UPLOADS = built("rs-uploads", "rs", """use std::fs::{create_dir_all, rename, File};
use std::io::Write;
// Two workers that take uploads: each part is written, the file is perhaps forced to the disk, and gets its name.
fn main() {
    let all: Vec<String> = std::env::args().collect();
    let (count, durable) = (all[2].parse::<usize>().unwrap(), all[3] == "durable");
    create_dir_all(&all[1]).unwrap();
    let workers: Vec<_> = (0..2).map(|worker| {
        let folder = all[1].clone();
        std::thread::spawn(move || {
            let part = vec![b'u'; 16384];
            for i in (worker..count).step_by(2) {
                let (from, to) = (format!("{}/part.{}", folder, worker), format!("{}/upload.{}", folder, i));
                let mut file = File::create(&from).unwrap();
                for _ in 0..3 { file.write_all(&part).unwrap(); }
                if durable { file.sync_all().unwrap(); }
                drop(file);
                rename(from, to).unwrap();
            }
        })
    }).collect();
    for worker in workers { worker.join().unwrap(); }
}""")

C_RECORDER = built("c-recorder", "c", C_HEAD + """/* A recorder that writes frames into a ring on the disk, and says to the kernel how far it is. */
int main(int c, char **v)
{
    static char frame[49152];
    int file = open(v[1], O_RDWR);
    unsigned how = atoi(v[3]);
    for (long i = 0, n = atol(v[2]); i < n; i++) {
        off_t at = i % 600 * sizeof(frame);
        frame[i % sizeof(frame)]++;
        if (pwrite(file, frame, sizeof(frame), at) != sizeof(frame)) return 1;
        if (sync_file_range(file, at, sizeof(frame), how)) return 1;
    }
    return 0;
}""")
RING = shell("[ -e {dir}/ring.data ] || { head -c 30M {dir}/large.data > {dir}/ring.new; sync {dir}/ring.new; mv {dir}/ring.new {dir}/ring.data; }")

C_AUDIT = built("c-audit", "c", C_HEAD + """/* Two workers of a server, each of which appends a line to its audit log for each request. */
int main(int c, char **v)
{
    for (int worker = 0; worker < 2; worker++)
        if (!fork()) {
            char name[4096], line[256];
            snprintf(name, sizeof(name), "%s.%d", v[1], worker);
            int log = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | atoi(v[3]), 0644);
            for (long i = 0, n = atol(v[2]); i < n; i++) {
                int length = snprintf(line, sizeof(line), "%ld user%ld GET /account/%ld/balance 200 worker %d\\n", i, i % 97, i % 5003, worker);
                if (write(log, line, length) != length) _exit(1);
            }
            _exit(0);
        }
    int status, bad = 0;
    while (wait(&status) > 0) bad |= status;
    return bad != 0;
}""")


@kind("tuning", "sync.more", "leveldb", 50, touches=("dirty",))
def _(n):
    return with_one(CPP_LEVELDB, ["{dir}/bin/cc-orders", "{dir}/orders.level", str(n), "HOW"], "HOW", ("later", "sync"), before=[["rm", "-rf", "{dir}/orders.level"]])


@kind("tuning", "sync.more", "lmdb", 50, touches=("dirty",))
def _(n):
    clean = [["rm", "-f", "{dir}/sessions.lmdb", "{dir}/sessions.lmdb-lock"]]
    return with_one(C_LMDB, ["{dir}/bin/c-sessions", "{dir}/sessions.lmdb", str(n), "HOW"], "HOW", ("later", "durable"), before=clean)


@kind("tuning", "sync.more", "tdb", 20, touches=("dirty",))
def _(n):
    return with_one(C_TDB, ["{dir}/bin/c-accounts", "{dir}/accounts.tdb", str(n), "HOW"], "HOW", ("later", "durable"), before=[["rm", "-f", "{dir}/accounts.tdb"]])


@kind("tuning", "sync.more", "uploads", 50, touches=("dirty",))
def _(n):
    return with_one(RUST_UPLOADS, ["{dir}/bin/rs-uploads", "{dir}/uploads", str(n), "HOW"], "HOW", ("later", "durable"), before=[["rm", "-rf", "{dir}/uploads"]])


@kind("tuning", "sync.more", "recorder", 100, touches=("dirty",))
def _(n):
    # 7: waits for what is under way before, starts to write, and waits for that.
    return with_one(C_RECORDER, ["{dir}/bin/c-recorder", "{dir}/ring.data", str(n), "HOW"], "HOW", (0, 7), before=[RING])


@kind("tuning", "sync.more", "audit", 50, touches=("dirty",))
def _(n):
    # 4096 is O_DSYNC.
    return with_one(C_AUDIT, ["{dir}/bin/c-audit", "{dir}/audit.log", str(n), "FLAG"], "FLAG", (0, 4096))


# The same bytes in more requests.

# Volumes of 1 MiB, v00 to v63.
VOLUMES = shell("[ -e {dir}/volumes/ok ] || (mkdir -p {dir}/volumes && cd {dir}/volumes && head -c 64M ../large.data | split -b 1M -a 2 -d - v && "
                       "sync -f . && touch ok); cat {dir}/volumes/v*")

# A backup of files of 2 MiB, b000 to b299.
BACKUP = shell("[ -e {dir}/backup/ok ] || (mkdir -p {dir}/backup && cd {dir}/backup && head -c 600M ../large.data | "
                      "split -b 2M -a 3 -d - b && sync -f . && touch ok)")

C_RELAY = built("c-relay", "c", C_HEAD + """/* A child that sends a dump through a pipe to its parent, which adds it up: both with a buffer of so many bytes. */
int main(int c, char **v)
{
    int ends[2];
    size_t size = atol(v[2]), all = atol(v[1]) << 20, i, sum = 0;
    char *buffer = calloc(1, size);
    ssize_t got;
    if (pipe(ends)) return 1;
    if (!fork()) {
        close(ends[0]);
        for (i = 0; i < all; i += size) if (write(ends[1], buffer, size) != size) _exit(1);
        _exit(0);
    }
    close(ends[1]);
    while ((got = read(ends[0], buffer, size)) > 0) for (i = 0; i < got; i += 64) sum += buffer[i];
    wait(0);
    return sum == 1;
}""")

RUST_TILES = built("rs-raster", "rs", """use std::os::unix::fs::FileExt;
// Two threads that draw a raster of 64 MiB, each of which writes its strips in pieces of so many bytes.
fn main() {
    let all: Vec<String> = std::env::args().collect();
    let (strips, piece) = (all[2].parse::<u64>().unwrap(), all[3].parse::<usize>().unwrap());
    let threads: Vec<_> = (0..2u64).map(|thread| {
        let file = std::fs::File::options().write(true).create(true).truncate(false).open(format!("{}.{}", all[1], thread)).unwrap();
        std::thread::spawn(move || {
            let mut strip = vec![0u8; 131072];
            for i in 0..strips {
                strip[(i % 131072) as usize] = thread as u8;
                for (j, some) in strip.chunks(piece).enumerate() { file.write_all_at(some, i % 256 * 131072 + (j * piece) as u64).unwrap(); }
            }
        })
    }).collect();
    for thread in threads { thread.join().unwrap(); }
}""")


@kind("tuning", "io.smaller_requests", "tar-blocks", 16)
def _(n):
    # Records of 128 KiB, or of 512 bytes.
    line = f"cd {{dir}}/backup; seq -f b%03g 0 {min(n, 300) - 1} | tar -b BLOCKS -cf - -T - | wc -c > /dev/null"
    return either(shell, line, "BLOCKS", (256, 1), before=[BACKUP, shell("cat {dir}/backup/b*")])


@kind("tuning", "io.smaller_requests", "lua-lines", 100)
def _(n):
    # A report whose lines are written one by one, or when the buffer is full.
    text = (f"local out = io.open('{{dir}}/report.csv', 'w') out:setvbuf('MODE', 131072) local rest = ('x'):rep(60) .. '\\n' "
            f"for i = 1, {1000 * n} do if i % 500000 == 0 then out:seek('set', 0) end out:write(i % 1000, ';', rest) end out:close()")
    return either(lambda text: ["lua5.4", "-e", text], text, "MODE", ("full", "line"), before=[["rm", "-f", "{dir}/report.csv"]])


@kind("tuning", "io.smaller_requests", "fio-disk", 32, touches=("readahead", "io"))
def _(n):
    line = dict(filename=LARGE, rw="read", size="1g", io_size=f"{n}m", direct=1, ioengine="libaio", iodepth=2, invalidate=0)
    return tuple(Side(fio("d", bs=bs, **line)) for bs in ("512k", "4k"))


@kind("tuning", "io.smaller_requests", "relay", 32)
def _(n):
    return with_one(C_RELAY, ["{dir}/bin/c-relay", str(n), "SIZE"], "SIZE", (65536, 512))


@kind("tuning", "io.smaller_requests", "raster", 100, touches=("dirty",))
def _(n):
    return with_one(RUST_TILES, ["{dir}/bin/rs-raster", "{dir}/raster", str(n), "PIECE"], "PIECE", (131072, 512))


# Past the page cache.

GO_BLOBS = built("go-blobs", "go", """package main

import ("fmt"; "os"; "strconv"; "syscall")

// A store of blobs: each request reads one of 48 files, which are asked for again and again.
func main() {
    n, _ := strconv.Atoi(os.Args[2])
    flags, _ := strconv.Atoi(os.Args[3])
    b, err := syscall.Mmap(-1, 0, 1<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
    if err != nil { panic(err) }
    sum := 0
    for i := 0; i < n; i++ {
        f, err := syscall.Open(fmt.Sprintf("%s/v%02d", os.Args[1], i*7%48), syscall.O_RDONLY|flags, 0)
        if err != nil { panic(err) }
        for at := 0; at < len(b); at += 262144 {
            if got, _ := syscall.Read(f, b[at:at+262144]); got != 262144 { panic("short") }
        }
        syscall.Close(f)
        for at := 0; at < len(b); at += 64 { sum += int(b[at]) }
    }
    if sum == 1 { panic(sum) }
}""")


@kind("tuning", "io.direct", "blobs", 50)
def _(n):
    return with_one(GO_BLOBS, ["{dir}/bin/go-blobs", "{dir}/volumes", str(n), "FLAGS"], "FLAGS", (0, DIRECT), before=[VOLUMES])


@kind("tuning", "io.direct", "sysbench", 1000)
def _(n):
    about = "sysbench fileio --file-num=8 --file-total-size=64M --file-test-mode=rndrd"
    make = f"[ -e {{dir}}/sysbench/ok ] || (mkdir -p {{dir}}/sysbench && cd {{dir}}/sysbench && {about} prepare && sync -f . && touch ok); cat {{dir}}/sysbench/*"
    line = f"cd {{dir}}/sysbench; {about} --file-extra-flags=FLAGS --rand-seed=1 --threads=1 --time=0 --events={n} run"
    return either(shell, line, "FLAGS", ("", "direct"), before=[shell(make)])


# A page cache without the file.

C_ARCHIVE = built("c-archive", "c", """#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* An archive of mails in LMDB: filled once, then read in the order of its keys, with some flags. */
int main(int c, char **v)
{
    static char mail[1500];
    long count = atol(v[3]), sum = 0;
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi db;
    MDB_cursor *at;
    MDB_val key, value;
    int filling = !strcmp(v[2], "fill");
    mdb_env_create(&env);
    mdb_env_set_mapsize(env, 1l << 30);
    if (mdb_env_open(env, v[1], MDB_NOSUBDIR | (filling ? MDB_NOSYNC : MDB_RDONLY | atoi(v[4])), 0644)) return 1;
    for (long i = 0; filling && i < count; i += 10000) {
        if (mdb_txn_begin(env, 0, 0, &txn) || mdb_dbi_open(txn, 0, MDB_CREATE, &db)) return 1;
        for (long j = i; j < i + 10000; j++) {
            char name[16];
            key = (MDB_val){ sprintf(name, "%012ld", j), name };
            value = (MDB_val){ sizeof(mail), mail };
            mail[j % sizeof(mail)]++;
            if (mdb_put(txn, db, &key, &value, MDB_APPEND)) return 1;
        }
        if (mdb_txn_commit(txn)) return 1;
    }
    if (filling) return mdb_env_sync(env, 1);
    if (mdb_txn_begin(env, 0, MDB_RDONLY, &txn) || mdb_dbi_open(txn, 0, 0, &db) || mdb_cursor_open(txn, db, &at)) return 1;
    while (count-- > 0 && !mdb_cursor_get(at, &key, &value, MDB_NEXT))
        for (size_t i = 0; i < value.mv_size; i += 16) sum += ((char *)value.mv_data)[i];
    return sum == 1l << 60;
}""", "-llmdb")
ARCHIVE = [*C_ARCHIVE, shell("cd {dir}; [ -e archive.lmdb ] || { rm -f archive.new*; bin/c-archive archive.new fill 400000 && sync -f . && "
                                     "rm -f archive.new-lock && mv archive.new archive.lmdb; }")]

MEASURES = shell("cd {dir}; [ -e measures.db ] || { rm -f measures.new*; sqlite3 measures.new 'CREATE TABLE t(i INTEGER PRIMARY KEY, a); "
                        "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 300000) INSERT INTO t SELECT i, randomblob(900) FROM c;' && "
                        "sync -f . && mv measures.new measures.db; }")

RUST_VERIFY = built("rs-verify", "rs", """use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
// Verifies a backup: two threads take one file after the other and sum it up.
fn main() {
    let all: Vec<String> = std::env::args().collect();
    let (count, taken) = (all[2].parse::<usize>().unwrap(), Arc::new(AtomicUsize::new(0)));
    let threads: Vec<_> = (0..2).map(|_| {
        let (folder, taken) = (all[1].clone(), taken.clone());
        std::thread::spawn(move || {
            let (mut block, mut sum) = (vec![0u8; 65536], 0u64);
            loop {
                let i = taken.fetch_add(1, Ordering::Relaxed);
                if i >= count { return sum; }
                let mut file = std::fs::File::open(format!("{}/b{:03}", folder, i)).unwrap();
                loop {
                    let got = file.read(&mut block).unwrap();
                    if got == 0 { break; }
                    for some in block[..got].chunks(8) { sum = sum.rotate_left(5) ^ some[0] as u64; }
                }
            }
        })
    }).collect();
    assert!(threads.into_iter().map(|thread| thread.join().unwrap()).fold(0, |a, b| a ^ b) != 1);
}""")


@kind("tuning", "cache.cold", "lmdb", 5000, touches=("readahead",))
def _(n):
    return cached_or_dropped(["{dir}/bin/c-archive", "{dir}/archive.lmdb", "read", str(min(n, 390000)), "0"], "{dir}/archive.lmdb", ARCHIVE)


@kind("tuning", "cache.cold", "sqlite", 1000, touches=("readahead",))
def _(n):
    # Rows by their keys, all over the table.
    query = f"WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT {n}) SELECT sum(length(a)) FROM c, t WHERE t.i = c.i * 7919 % 299993 + 1;"
    return cached_or_dropped(["sqlite3", "-readonly", "{dir}/measures.db", query], "{dir}/measures.db", [MEASURES])


@kind("tuning", "cache.cold", "verify", 16, touches=("readahead",))
def _(n):
    n = min(n, 300)
    visit = f"cd {{dir}}/backup; for b in $(seq -f b%03g 0 {n - 1}); do dd if=$b of=/dev/null bs=1M status=none HOW; done"
    return tuple(Side(["{dir}/bin/rs-verify", "{dir}/backup", str(n)], before=[*RUST_VERIFY, BACKUP, shell(visit.replace("HOW", how))])
                 for how in ("count=2", "iflag=nocache count=0"))


# Readahead that is lost.

CPP_MERGE = built("cc-merge", "cc", """#include <cstdio>
#include <cstdlib>
#include <queue>
#include <string>
#include <vector>
#include <fcntl.h>
#include <unistd.h>
// Merges four sorted runs of 32 MiB, which lie in one file; some advice is given for all of it.
struct Run { int file; long left; char block[4096]; size_t at; };
int main(int, char **v) {
    std::vector<Run *> runs;
    using Item = std::pair<unsigned, int>;
    std::priority_queue<Item, std::vector<Item>, std::greater<Item>> next;
    unsigned long sum = 0;
    for (int i = 0; i < 4; i++) {
        Run *run = new Run{open(v[1], O_RDONLY), atol(v[2]), {}, 0};
        if (posix_fadvise(run->file, 0, 0, atoi(v[3])) || lseek(run->file, i * (32l << 20), SEEK_SET) < 0) return 1;
        runs.push_back(run);
        next.push({0, i});
    }
    while (!next.empty()) {
        auto [key, i] = next.top();
        next.pop();
        Run *run = runs[i];
        if (run->at == 0) {
            if (run->left-- == 0 || read(run->file, run->block, sizeof run->block) != sizeof run->block) continue;
        }
        sum += key ^ run->block[run->at];
        run->at = (run->at + 512) % sizeof run->block;
        next.push({key + 1 + (unsigned char)run->block[run->at] % 3, i});
    }
    return sum == 1;
}""")


@kind("tuning", "readahead.lost", "lmdb", 500, touches=("readahead",))
def _(n):
    # 0x800000 is MDB_NORDAHEAD.
    line = ["{dir}/bin/c-archive", "{dir}/archive.lmdb", "read", str(min(n, 390000)), "FLAG"]
    return with_one(ARCHIVE, line, "FLAG", (0, 0x800000), before=dropped("{dir}/archive.lmdb"))


@kind("tuning", "readahead.lost", "merge", 400, touches=("readahead",))
def _(n):
    return with_one(CPP_MERGE, ["{dir}/bin/cc-merge", DATA, str(min(n, 8192)), "ADVICE"], "ADVICE", (0, 1), before=dropped(DATA))


# More bytes.

RUST_FOLLOW = built("rs-follow", "rs", """use std::os::unix::fs::FileExt;
// Follows a log: each poll finds 2 KiB that are new, and reads them, with so many bytes before them.
fn main() {
    let all: Vec<String> = std::env::args().collect();
    let (polls, back) = (all[2].parse::<u64>().unwrap(), all[3].parse::<usize>().unwrap());
    let log = std::fs::File::open(&all[1]).unwrap();
    let (mut window, mut lines) = (vec![0u8; back + 2048], 0usize);
    for poll in 0..polls {
        let from = (2 << 20) + poll % 16384 * 2048 - back as u64;
        log.read_exact_at(&mut window, from).unwrap();
        lines += window[back..].iter().filter(|&&byte| byte == b'\\n').count();
    }
    assert!(lines != 1);
}""")

OCAML_JOIN = built("ml_join", "ml", """(* A join: for each block of the outer relation, the inner one of 4 MiB is looked through, which is kept or read again. *)
let size = 4 * 1024 * 1024
let () =
  let inner = Bytes.create size and again = Sys.argv.(3) = "again" and found = ref 0 in
  let file = Unix.openfile Sys.argv.(1) [Unix.O_RDONLY] 0 in
  for outer = 1 to int_of_string Sys.argv.(2) do
    if again || outer = 1 then begin
      ignore (Unix.lseek file 0 Unix.SEEK_SET);
      let at = ref 0 in
      while !at < size do at := !at + Unix.read file inner !at 65536 done
    end;
    for row = 0 to 16383 do if Char.code (Bytes.get inner (row * 256)) = outer land 255 then incr found done
  done;
  if !found < 0 then print_int !found""")


@kind("tuning", "reads.more", "follow", 500)
def _(n):
    return with_one(RUST_FOLLOW, ["{dir}/bin/rs-follow", "{dir}/text.data", str(n), "BACK"], "BACK", (0, 1 << 20))


@kind("tuning", "reads.more", "join", 50)
def _(n):
    return with_one(OCAML_JOIN, ["{dir}/bin/ml_join", DATA, str(n), "HOW"], "HOW", ("keep", "again"))


# Programs that are started.

C_FILTER = built("c-filter", "c", C_HEAD + """/* Pipes mails through a filter: a new one after so many of them. */
int main(int c, char **v)
{
    static char mail[3000];
    long count = atol(v[1]), each = atol(v[2]);
    FILE *filter = 0;
    memset(mail, 'm', sizeof(mail));
    for (long i = 0; i < count; i++) {
        if (i % each == 0) {
            if (filter) pclose(filter);
            if (!(filter = popen("exec /usr/bin/tr a-z A-Z > /dev/null", "w"))) return 1;
        }
        fwrite(mail, sizeof(mail), 1, filter);
    }
    pclose(filter);
    return 0;
}""")


@kind("tuning", "program.starts", "expr", 60)
def _(n):
    # A counter of a shell script.
    return either(shell, f"i=0; while [ $i -lt {n} ]; do i=STEP; done", "STEP", ("$((i + 1))", "$(expr $i + 1)"))


@kind("tuning", "program.starts", "popen", 60)
def _(n):
    return with_one(C_FILTER, ["{dir}/bin/c-filter", str(n), "EACH"], "EACH", (1000000, 1))


@kind("tuning", "program.starts", "gawk", 60)
def _(n):
    # Days of a log's times, by a function or by a program.
    text = f'BEGIN {{ for (t = 0; t < {n}; t++) {{ DAY; seen[day]++ }} }}'
    return either(lambda text: ["gawk", text], text, "DAY", ('day = strftime("%F", t * 3600)', 'c = "date +%F -d @" t * 3600; c | getline day; close(c)'))


@kind("tuning", "program.starts", "node", 60)
def _(n):
    # The base names of files, so many of them at a time.
    text = (f"const run = require('child_process').execFileSync; const names = Array.from({{length: {n}}}, (_, i) => '/srv/photos/' + i + '.jpg'); "
            "for (let i = 0; i < names.length; i += EACH) run('/usr/bin/basename', ['-a', ...names.slice(i, i + EACH)]);")
    return either(node, text, "EACH", (2000, 1))
