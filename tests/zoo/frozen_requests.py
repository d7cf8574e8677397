"""Kinds that lose by small requests, by programs that are started, by copies after a fork, and by mappings that come and go.

The kinds of frozen_*.py are those that no rule was changed by: they are run once when rules have changed. Whoever looks at a case of these
to change a rule moves its kind to a seen*.py.
"""

from cases import DATA, NO_THP, Side
from compiled import C_HEAD, after, built, with_one
from kinds import by_malloc, either, kind, python, shell

# The same bytes in more and smaller requests.

CPP_TELEGRAMS = built("s7-telegrams", "cc", """#include <cstdlib>
#include <fstream>
// Reads telegrams of a meter through a stream, whose buffer has so many bytes.
int main(int, char **v) {
    static char space[1 << 17], telegram[64];
    std::ifstream in;
    in.rdbuf()->pubsetbuf(space, atol(v[3]));
    in.open(v[1], std::ios::binary);
    unsigned long sum = 0;
    for (long i = 0, count = atol(v[2]); i < count; i++) {
        if (!in.read(telegram, sizeof telegram)) { in.clear(); in.seekg(0); }
        sum += telegram[3];
    }
    return sum == 1;
}""")


@kind("frozen", "io.smaller_requests", "telegrams", 200)
def _(n):
    return with_one(CPP_TELEGRAMS, ["{dir}/bin/s7-telegrams", DATA, str(16384 * n), "SIZE"], "SIZE", (1 << 17, 512))


FORTRAN_SAMPLES = built("s7-samples", "f90", """! Adds up samples of a measurement.
program samples
  implicit none
  integer(4) :: sample(64)
  integer(8) :: i, count, total
  character(400) :: word
  call get_command_argument(2, word)
  read(word, *) count
  call get_command_argument(1, word)
  open(10, file=trim(word), access='stream', form='unformatted', action='read')
  total = 0
  do i = 1, count
    if (mod(i, 500000_8) == 0) then
      read(10, pos=1) sample
    else
      read(10) sample
    end if
    total = total + sample(5)
  end do
  if (total == 1) stop 1
end program""")


@kind("frozen", "io.smaller_requests", "f90-samples", 200)
def _(n):
    # The buffer of Fortran's files.
    line = ["{dir}/bin/s7-samples", DATA, str(4096 * n)]
    return after(FORTRAN_SAMPLES, tuple(Side(line, env={"GFORTRAN_UNFORMATTED_BUFFER_SIZE": size}) for size in ("131072", "512")))


@kind("frozen", "io.smaller_requests", "export", 64, touches=("dirty",))
def _(n):
    # Rows of an export, written through a buffer of so many bytes.
    text = (f"out = open('{{dir}}/s7-export.csv', 'wb', buffering=SIZE)\nrow = b'x' * 255 + b'\\n'\n"
            f"for i in range({4096 * n}):\n out.write(row)\n if i % 65536 == 65535: out.seek(0)\nout.close()")
    return either(python, text, "SIZE", (1 << 17, 512), before=[["rm", "-f", "{dir}/s7-export.csv"]])


RUST_GENOME = built("s7-genome", "rs", """use std::io::{BufReader, Read, Seek, SeekFrom};

// Counts letters in the lines of a genome, which are read through a buffer.
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let mut genome = BufReader::with_capacity(words[3].parse().unwrap(), std::fs::File::open(&words[1]).unwrap());
    let (mut line, mut found) = ([0u8; 64], 0);
    for _ in 0..words[2].parse::<u64>().unwrap() {
        if genome.read_exact(&mut line).is_err() { genome.seek(SeekFrom::Start(0)).unwrap(); }
        if line[7] == b'G' { found += 1; }
    }
    std::process::exit((found == 1) as i32);
}""")


@kind("frozen", "io.smaller_requests", "genome", 200)
def _(n):
    return with_one(RUST_GENOME, ["{dir}/bin/s7-genome", DATA, str(16384 * n), "SIZE"], "SIZE", (1 << 17, 512))


C_COLLECTOR = built("s7-collector", "c", C_HEAD + """/* Collects messages of other programs, and appends so many at a time to a log that begins anew when full. */
int main(int c, char **v)
{
    static char messages[256][256];
    struct iovec batch[256];
    long all = atol(v[2]), size = atol(v[3]);
    int log = open(v[1], O_WRONLY | O_CREAT, 0644);
    for (long i = 0; i < all; i += size) {
        for (long k = 0; k < size; k++) {
            char *message = messages[(i + k) % 256];
            memset(message, 'a' + (i + k) % 26, 256);
            batch[k] = (struct iovec){message, 256};
        }
        if (writev(log, batch, size) < 0) return 1;
        if (i % 65536 == 0) lseek(log, 0, SEEK_SET);
    }
    return 0;
}""")


@kind("frozen", "io.smaller_requests", "collector", 64, touches=("dirty",))
def _(n):
    line = ["{dir}/bin/s7-collector", "{dir}/s7-collector.log", str(4096 * n), "BATCH"]
    return with_one(C_COLLECTOR, line, "BATCH", (256, 2), before=[["rm", "-f", "{dir}/s7-collector.log"]])


PASCAL_INVOICES = built("s7-invoices", "pas", """program invoices;
{$mode objfpc}{$H+}
uses sysutils;
{ Writes lines of invoices through a buffer of so many bytes. }
var
  list: text;
  space: array[0..65535] of char;
  i, count: int64;
  line: string;
begin
  count := StrToInt64(ParamStr(2));
  line := StringOfChar('7', 127);
  Assign(list, ParamStr(1));
  SetTextBuf(list, space, StrToInt(ParamStr(3)));
  Rewrite(list);
  for i := 1 to count do begin
    WriteLn(list, line);
    if i mod 100000 = 0 then Rewrite(list);
  end;
  Close(list);
end.""")


@kind("frozen", "io.smaller_requests", "invoices", 32, touches=("dirty",))
def _(n):
    line = ["{dir}/bin/s7-invoices", "{dir}/s7-invoices.txt", str(8192 * n), "SIZE"]
    return with_one(PASCAL_INVOICES, line, "SIZE", (65536, 256), before=[["rm", "-f", "{dir}/s7-invoices.txt"]])


# Programs that are started.


@kind("frozen", "program.starts", "state", 100)
def _(n):
    # A state that is looked at again and again: by the shell, or by a program.
    line = f"i=0; while [ $i -lt {n} ]; do LOOK; i=$((i + 1)); done"
    make = shell("echo ready > {dir}/s7-state")
    return either(shell, line, "LOOK", ("read state < {dir}/s7-state", "state=$(cat {dir}/s7-state)"), before=[make])


@kind("frozen", "program.starts", "make-days", 100)
def _(n):
    # A variable of make whose command runs once, or at each use.
    line = (f"printf '%s\\n' 'DAY IS $(shell date +%F)' 'NAMES := $(foreach i,$(shell seq {n}),backup-$(DAY)-$(i).tar)' "
            "'.PHONY: all' 'all: ; @echo $(words $(NAMES))' | make -s -f -")
    return either(shell, line, "IS", (":=", "="))


@kind("frozen", "program.starts", "git-types", 100)
def _(n):
    # What kind an object is, of many: one git for all, or one for each.
    make = shell("[ -d {dir}/s7-repo/.git ] || { git init -q {dir}/s7-repo && cd {dir}/s7-repo && echo 1 > one && git add one && "
                 "git -c user.name=zoo -c user.email=zoo@zoo commit -q -m one; }")
    line = f"seq {n} | sed 's/.*/HEAD/' | (cd {{dir}}/s7-repo; ASK) > /dev/null"
    return either(shell, line, "ASK", ("git cat-file --batch-check", "while read -r name; do git cat-file -t $name; done"), before=[make])


@kind("frozen", "program.starts", "xargs-names", 100)
def _(n):
    return either(shell, f"seq -f /srv/photos/%.0f.jpg {n} | xargs -n EACH basename -a -s .jpg > /dev/null", "EACH", (4000, 1))


@kind("frozen", "program.starts", "tcl-names", 240)
def _(n):
    # The base names of photos, by a command of Tcl or by a program.
    line = f"echo 'for {{set i 0}} {{$i < {n}}} {{incr i}} {{set name [STEP /srv/photos/$i.jpg]}}' | tclsh"
    return either(shell, line, "STEP", ("file tail", "exec basename"))


# Copies after a fork.

C_BALANCE = built("s7-balance", "c", C_HEAD + """/* Accounts, of which a child makes the balance of each day. New entries come when it has ended, or before. */
static unsigned char *accounts;
static const size_t bytes = 24 << 20;
static void entries(void) { for (size_t i = 0; i < bytes; i += 256) accounts[i]++; }
int main(int c, char **v)
{
    int early = !strcmp(v[2], "before"), start[2];
    accounts = mmap(0, bytes, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(accounts, 1, bytes);
    pipe(start);
    for (int day = atoi(v[1]); day > 0; day--) {
        pid_t child = fork();
        if (!child) {
            char word;
            unsigned long sum = 0;
            read(start[0], &word, 1);
            for (size_t i = 0; i < bytes; i += 256) sum += accounts[i];
            _exit(sum == 1);
        }
        if (early) entries();
        write(start[1], "x", 1);
        waitpid(child, 0, 0);
        if (!early) entries();
    }
    return 0;
}""")


@kind("frozen", "fork.copies", "balance", 10, touches=("thp",))
def _(n):
    return with_one(C_BALANCE, ["{dir}/bin/s7-balance", str(n), "WHEN"], "WHEN", ("after", "before"), settings=NO_THP)


CPP_LOGGER = built("s7-logger", "cc", C_HEAD + """// A service that loads its table anew with each log. A child that writes the log is started first, or last.
static pid_t logger() {
    pid_t child = fork();
    if (!child) for (;;) pause();
    return child;
}
int main(int, char **v) {
    const size_t bytes = 16 << 20;
    bool first = !strcmp(v[2], "first");
    for (long log = 0, logs = atol(v[1]); log < logs; log++) {
        pid_t child = first ? logger() : -1;
        char *table = (char *)mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(table, 1, bytes);
        if (!first) child = logger();
        for (size_t i = 0; i < bytes; i += 512) table[i]++;
        munmap(table, bytes);
        kill(child, SIGKILL);
        waitpid(child, 0, 0);
    }
}""")


@kind("frozen", "fork.copies", "logger-child", 20, touches=("thp",))
def _(n):
    return with_one(CPP_LOGGER, ["{dir}/bin/s7-logger", str(n), "WHEN"], "WHEN", ("first", "last"), settings=NO_THP)


FORTRAN_CHECKPOINT = built("s7-checkpoint", "f90", """! A field that goes on from a step, of which a child may keep the state.
program checkpoint
  use iso_c_binding
  implicit none
  interface
    integer(c_int) function fork() bind(c)
      import
    end function
    integer(c_int) function pause() bind(c)
      import
    end function
    integer(c_int) function kill(child, signal) bind(c, name='kill')
      import
      integer(c_int), value :: child, signal
    end function
    integer(c_int) function waitpid(child, status, options) bind(c)
      import
      integer(c_int), value :: child, options
      type(c_ptr), value :: status
    end function
  end interface
  integer, parameter :: cells = 2097152
  real(8), allocatable :: field(:)
  character(40) :: word
  integer :: step, steps, i
  integer(c_int) :: child, done
  call get_command_argument(1, word)
  read(word, *) steps
  call get_command_argument(2, word)
  allocate(field(cells))
  field = 1
  do step = 1, steps
    child = -1
    if (word == 'child') child = fork()
    if (child == 0) then
      do
        done = pause()
      end do
    end if
    do i = 1, cells, 32
      field(i) = field(i) * 0.5d0 + step
    end do
    if (child > 0) then
      done = kill(child, 9)
      done = waitpid(child, c_null_ptr, 0)
    end if
  end do
  if (field(1) < 0) stop 1
end program""")


@kind("frozen", "fork.copies", "checkpoint", 20, touches=("thp",))
def _(n):
    return with_one(FORTRAN_CHECKPOINT, ["{dir}/bin/s7-checkpoint", str(n), "KEEPER"], "KEEPER", ("none", "child"), settings=NO_THP)


# Mappings that come and go.


@kind("frozen", "map.churn", "forth-blocks", 1000, touches=("malloc", "thp"))
def _(n):
    # Blocks of a Forth that are taken, wiped and given back.
    return by_malloc(["gforth", "-e", f": blocks {n} 0 do 400000 allocate throw dup 400000 erase free throw loop ; blocks bye"], 8388608, 131072, 134217728)


PASCAL_SHEETS = built("s7-sheets", "pas", """program sheets;
uses sysutils;
{ Sheets that are printed: memory for each is given back, and the heap keeps so many pieces of what it has from the system. }
var
  i, count: int64;
  sheet: pointer;
begin
  count := StrToInt64(ParamStr(1));
  MaxKeptOSChunks := StrToInt(ParamStr(2));
  for i := 1 to count do begin
    GetMem(sheet, 900000);
    FillChar(sheet^, 900000, 7);
    FreeMem(sheet);
  end;
end.""")


@kind("frozen", "map.churn", "sheets", 500, touches=("thp",))
def _(n):
    return with_one(PASCAL_SHEETS, ["{dir}/bin/s7-sheets", str(n), "KEPT"], "KEPT", (8, 0))


# Other CPUs that are told.

CPP_JIT = built("s7-jit", "cc", C_HEAD + """// Makes functions on a page that can be written or run, never both, and runs each.
// Beside it a worker computes: a thread, or a process.
static volatile unsigned long state = 1;
static void *worker(void *) { for (;;) state = state * 7 + 5; return 0; }
int main(int, char **v) {
    pid_t child = -1;
    pthread_t thread;
    if (!strcmp(v[2], "process")) { if (!(child = fork())) worker(0); }
    else pthread_create(&thread, 0, worker, 0);
    auto code = (unsigned char *)mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long sum = 0;
    for (int i = 0, functions = atoi(v[1]); i < functions; i++) {
        code[0] = 0xb8;  // mov eax, i
        memcpy(code + 1, &i, 4);
        code[5] = 0xc3;  // ret
        mprotect(code, 4096, PROT_READ | PROT_EXEC);
        sum += ((int (*)())code)();
        mprotect(code, 4096, PROT_READ | PROT_WRITE);
    }
    if (child > 0) kill(child, SIGKILL);
    _exit(sum == 1);
}""")


@kind("frozen", "tlb.shootdowns", "jit", 30000)
def _(n):
    return with_one(CPP_JIT, ["{dir}/bin/s7-jit", str(n), "WORKER"], "WORKER", ("process", "thread"))
