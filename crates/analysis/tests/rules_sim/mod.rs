//! A small model of a program, a kernel and a disk that writes recordings: what each test varies is one field of
//! [`World`]. The kernel of the model decides about huge pages by itself, with code of its own, so that the analysis is
//! not tested against itself.

#![allow(dead_code, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use pagelab_analysis::compare::{CompareOptions, Comparison, compare};
use pagelab_recording::tables::{
    FaultsRow, FramesRow, JobsRow, LossRow, MappingsRow, MetricsRow, SamplesRow, SettingsRow, StacksRow, TasksRow,
    WaitStacksRow, WaitsRow,
};
use pagelab_recording::{Clock, Exit, Manifest, Probe, RecordingWriter, WriterOptions};
use serde_json::json;

pub(crate) const PAGE: u64 = 4096;
pub(crate) const HUGE: u64 = 2 << 20;
/// Pieces of the usual world.
pub(crate) const PIECES: u64 = 8;
/// Costs of the model, ns.
const OPERATION: u64 = 150;
const FAULT: u64 = 600;
const HUGE_FAULT: u64 = 60_000;
const REQUEST: u64 = 80_000;
const READ_BYTE: f64 = 0.3;

const MAP_PRIVATE_ANONYMOUS: u32 = 0x22;
const MAP_HUGETLB: u32 = 0x4_0000;
const ARENA: u64 = 0x1000_0000_0000;

/// How the program goes about its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    /// Maps a piece, uses it, maps the next.
    OneByOne,
    /// Maps all pieces, then uses them.
    AllFirst,
}

/// One side of a comparison.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub thp: &'static str,
    pub pieces: u64,
    pub piece_bytes: u64,
    /// Distance of two pieces' starts.
    pub stride: u64,
    /// Bytes by which every piece begins behind a slot's start.
    pub shift: u64,
    pub habit: Habit,
    /// The program calls madvise on every piece.
    pub advice: Option<i32>,
    /// The program calls prctl(PR_SET_THP_DISABLE).
    pub prctl: bool,
    /// Pages in the hugetlb pool; `None`: the program does not ask for hugetlb memory.
    pub pool: Option<u64>,
    /// Errno of refused hugetlb requests.
    pub refusal: i32,
    /// Pages that the pool reports as left, whatever it refused.
    pub pool_says_left: Option<u64>,
    /// Bytes read from the file on loop0.
    pub file_bytes: u64,
    pub read_ahead_kb: u64,
    /// Size of requests, if they do not follow read-ahead.
    pub fixed_request: Option<u64>,
    /// Bytes that the device reads for each byte wanted.
    pub read_in_vain: f64,
    /// Huge pages are allowed but there are none.
    pub fragmented: bool,
    /// Faults of other processes of the host for which there were none.
    pub fallbacks_elsewhere: u64,
    /// Something else that costs time in user mode, ns per operation.
    pub extra_ns: u64,
    /// The cost of one fault of a base page, ns.
    pub fault_ns: u64,
    /// How often each page is used; all but the first time it is there.
    pub passes: u64,
    /// Other work of the kernel (slower calls), ns per operation.
    pub foreign_kernel_ns: u64,
    /// Waiting for something else than reads (flushes), ns per run.
    pub foreign_wait_ns: u64,
    /// Waiting that differs from run to run for no reason, ns: up to this.
    pub unsteady_ns: u64,
    /// The disk says how long its reads took.
    pub disk_times: bool,
    /// A profile is recorded: the share of its kernel samples that lie under the entry of faults.
    pub profiled: bool,
    /// States of tasks and a profile are recorded: there is an account of time.
    pub accounted: bool,
    /// Release of the kernel.
    pub kernel: &'static str,
    /// Functions that it has inlined, if the recording says so.
    pub absent: Option<&'static [&'static str]>,
    /// Rounds (from 1, one bit each) whose run exits with status 1.
    pub failing_rounds: u64,
    /// Rounds whose run was ended by the timeout.
    pub timed_out_rounds: u64,
    /// What ran, as the manifest says.
    pub work: &'static str,
    /// Where.
    pub host: &'static str,
    pub harmless: BTreeMap<String, String>,
    pub lost_faults: u64,
    /// What the loss table says instead of `lost_faults`.
    pub loss_said: Option<u64>,
    pub lost_maps: u64,
    pub faults_recorded: bool,
    pub settings_recorded: bool,
    /// Workers say how long they were on a CPU.
    pub times_known: bool,
    pub label: String,
    pub comm: &'static str,
}

impl Default for World {
    fn default() -> Self {
        Self {
            thp: "always",
            pieces: PIECES,
            piece_bytes: HUGE,
            stride: 2 * HUGE,
            shift: 0,
            habit: Habit::OneByOne,
            advice: None,
            prctl: false,
            pool: None,
            refusal: 12,
            pool_says_left: None,
            file_bytes: 0,
            read_ahead_kb: 128,
            fixed_request: None,
            read_in_vain: 1.0,
            fragmented: false,
            fallbacks_elsewhere: 0,
            extra_ns: 0,
            fault_ns: FAULT,
            passes: 1,
            foreign_kernel_ns: 0,
            foreign_wait_ns: 0,
            unsteady_ns: 0,
            disk_times: true,
            profiled: false,
            accounted: false,
            kernel: "6.18.0",
            absent: None,
            failing_rounds: 0,
            timed_out_rounds: 0,
            work: "cache",
            host: "host",
            harmless: BTreeMap::new(),
            lost_faults: 0,
            loss_said: None,
            lost_maps: 0,
            faults_recorded: true,
            settings_recorded: true,
            times_known: true,
            label: "run".to_owned(),
            comm: "cache",
        }
    }
}

/// Eight settings that have nothing to do with anything, with values by seed.
pub(crate) fn harmless(seed: u64) -> BTreeMap<String, String> {
    let keys = [
        "env.TZ",
        "env.LANG",
        "env.RUST_LOG",
        "rlimit.core",
        "sysctl.kernel.core_pattern",
        "sysctl.vm.stat_interval",
        "sysctl.net.core.somaxconn",
        "thp.khugepaged.scan_sleep_millisecs",
        "sysctl.vm.page-cluster",
    ];
    keys.iter().enumerate().map(|(i, key)| ((*key).to_owned(), format!("{}", 10 + seed * 7 + i as u64))).collect()
}

/// A generator of small disturbances: xorshift, seeded.
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next 64 bits.
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A factor within 1.5 % of 1.
    pub(crate) fn factor(&mut self) -> f64 {
        1.0 + (self.draw() % 3001) as f64 / 1e5 - 0.015
    }
}

/// What a run came to while it was played.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    now: i64,
    kernel_ns: u64,
    /// Of `kernel_ns`, what faults took.
    fault_ns: u64,
    /// Of `waited_ns`, what reads took.
    read_ns: u64,
    user_ns: u64,
    waited_ns: u64,
    huge: u64,
    fallback: u64,
    requests: u64,
    device_bytes: u64,
    pool_used: u64,
    faults: u64,
    operations: u64,
}

struct Player<'a> {
    world: &'a World,
    writer: RecordingWriter,
    tally: Tally,
    next_mapping: u32,
    base_slots: std::collections::HashSet<u64>,
    huge_slots: std::collections::HashSet<u64>,
    touched: std::collections::HashSet<u64>,
    /// Ranges mapped by anonymous memory so far, for merging.
    mapped: std::collections::BTreeSet<u64>,
}

const START: i64 = 5_000_000_000;

/// What the model knows of a run, per operation: the truth that a finding is held to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Truth {
    /// Time.
    pub time_ns: f64,
    /// Of that, in faults.
    pub fault_ns: f64,
    /// Of that, waiting for reads.
    pub read_ns: f64,
}

impl Tally {
    fn truth(&self) -> Truth {
        let per_operation = |ns: u64| ns as f64 / self.operations as f64;
        Truth {
            time_ns: per_operation((self.now - START) as u64),
            fault_ns: per_operation(self.fault_ns),
            read_ns: per_operation(self.read_ns),
        }
    }
}

/// Plays one run of a world into `dir`.
pub(crate) fn play(world: &World, dir: &Path, round: u64, position: u64, seed: u64) -> PathBuf {
    play_counted(world, dir, round, position, seed);
    dir.to_owned()
}

/// As [`play`]; returns what the model knows of the run.
pub(crate) fn play_counted(world: &World, dir: &Path, round: u64, position: u64, seed: u64) -> Truth {
    let manifest = Manifest {
        label: Some(world.label.clone()),
        variant: Some(format!("variant {}", world.label)),
        run: Some(round),
        round: Some(round),
        position: Some(position),
        host: Some(world.host.to_owned()),
        kernel: Some(world.kernel.to_owned()),
        arch: Some("x86_64".to_owned()),
        page_size_bytes: Some(PAGE),
        job: Some(json!({"work": world.work})),
        clock: Clock {
            id: "CLOCK_MONOTONIC".to_owned(),
            realtime_at_start_ns: Some(((round * 2 + position) * 10_000_000_000) as i64),
            realtime_at_end_ns: Some(((round * 2 + position) * 10_000_000_000 + 1_000_000_000) as i64),
            ..Clock::default()
        },
        ..Manifest::default()
    };
    let options = WriterOptions { compact: false, ..WriterOptions::default() };
    let mut player = Player {
        world,
        writer: RecordingWriter::create(dir, manifest, options).unwrap(),
        tally: Tally { now: START, ..Tally::default() },
        next_mapping: 1,
        base_slots: HashSet::new(),
        huge_slots: HashSet::new(),
        touched: HashSet::new(),
        mapped: BTreeSet::new(),
    };
    let mut noise = Noise::new(seed * 1000 + round * 10 + position);
    player.run();
    player.wait_about(&mut noise);
    let truth = player.tally.truth();
    player.end(&mut noise, round);
    truth
}

impl Player<'_> {
    fn run(&mut self) {
        self.settings();
        self.sample();
        self.writer.push_tasks(&TasksRow {
            ts: START - 10,
            op: "exec",
            task_id: 1,
            tid: 100,
            pid: 100,
            mm_id: Some(1),
            comm: Some(self.world.comm),
            ..TasksRow::default()
        });
        if self.world.prctl {
            self.call(&MappingsRow { op: "prctl_thp", advice: Some(1), ret: Some(0), ..MappingsRow::default() });
        }
        if self.world.habit == Habit::AllFirst {
            for piece in 0..self.world.pieces {
                self.map(piece);
            }
        }
        for piece in 0..self.world.pieces {
            if self.world.habit == Habit::OneByOne {
                self.map(piece);
            }
            self.touch(piece);
        }
        self.use_again();
        self.read_file();
    }

    /// Uses every page once more, in as many passes as there are, and does the other work of the kernel. No page is
    /// missing any more, so it is only time.
    fn use_again(&mut self) {
        let world = self.world;
        let pages = world.pieces * (world.piece_bytes / PAGE);
        let again = pages * (world.passes - 1);
        let user = again * (OPERATION + world.extra_ns);
        self.tally.operations += again;
        self.tally.user_ns += user;
        let foreign = self.tally.operations * world.foreign_kernel_ns;
        self.tally.kernel_ns += foreign;
        self.tally.waited_ns += world.foreign_wait_ns;
        self.tally.now += (user + foreign + world.foreign_wait_ns) as i64;
    }

    /// Waits as long as it happens to.
    fn wait_about(&mut self, noise: &mut Noise) {
        if self.world.unsteady_ns > 0 {
            let wait = noise.draw() % self.world.unsteady_ns;
            self.tally.waited_ns += wait;
            self.tally.now += wait as i64;
        }
    }

    fn call(&mut self, row: &MappingsRow<'_>) {
        self.tally.now += 1000;
        if !self.world.faults_recorded {
            return;
        }
        self.writer.push_mappings(&MappingsRow { ts: self.tally.now, task_id: 1, mm_id: 1, kind: "call", ..*row });
    }

    fn start_of(&self, piece: u64) -> u64 {
        ARENA + piece * self.world.stride + self.world.shift
    }

    fn map(&mut self, piece: u64) {
        let (start, len) = (self.start_of(piece), self.world.piece_bytes);
        let row = MappingsRow {
            op: "mmap",
            addr: Some(0),
            len: Some(len),
            prot: Some(3),
            flags: Some(MAP_PRIVATE_ANONYMOUS),
            ret: Some(start as i64),
            ..MappingsRow::default()
        };
        if let Some(pool) = self.world.pool {
            let pages = len / HUGE;
            let granted = self.tally.pool_used + pages <= pool;
            let ret = if granted { start as i64 } else { -i64::from(self.world.refusal) };
            let mapping_id = granted.then(|| self.number());
            let flags = Some(MAP_PRIVATE_ANONYMOUS | MAP_HUGETLB);
            self.call(&MappingsRow { flags, ret: Some(ret), mapping_id, ..row });
            if granted {
                self.tally.pool_used += pages;
                self.huge_slots.extend(start / HUGE..(start + len) / HUGE);
                return;
            }
        }
        let mapping_id = Some(self.number());
        self.call(&MappingsRow { mapping_id, ..row });
        self.mapped.extend((start..start + len).step_by(PAGE as usize).map(|addr| addr / PAGE));
        if let Some(advice) = self.world.advice {
            let advised = MappingsRow {
                op: "madvise",
                addr: Some(start),
                len: Some(len),
                advice: Some(advice),
                ret: Some(0),
                ..MappingsRow::default()
            };
            self.call(&advised);
        }
    }

    fn number(&mut self) -> u32 {
        self.next_mapping += 1;
        self.next_mapping
    }

    fn allowed(&self) -> bool {
        let advised = self.world.advice == Some(14);
        let setting = self.world.thp == "always" || (self.world.thp == "madvise" && advised);
        setting && !self.world.prctl && self.world.advice != Some(15)
    }

    /// Uses a piece page by page, downwards, and takes the faults that the kernel would make of it.
    fn touch(&mut self, piece: u64) {
        let start = self.start_of(piece);
        for page in (0..self.world.piece_bytes / PAGE).rev() {
            let addr = start + page * PAGE;
            self.tally.operations += 1;
            self.tally.user_ns += OPERATION + self.world.extra_ns;
            self.tally.now += (OPERATION + self.world.extra_ns) as i64;
            if self.present(addr) {
                continue;
            }
            let slot = addr / HUGE;
            let pool_slot = self.huge_slots.contains(&slot);
            let wants = !pool_slot && self.allowed() && !self.base_slots.contains(&slot) && self.fits(slot);
            let huge = pool_slot || (wants && !self.world.fragmented);
            self.tally.fallback += u64::from(wants && !huge && !pool_slot);
            self.tally.huge += u64::from(huge && !pool_slot);
            if huge {
                self.huge_slots.insert(slot);
                self.touched.extend((slot * HUGE / PAGE)..((slot + 1) * HUGE / PAGE));
            } else {
                self.base_slots.insert(slot);
                self.touched.insert(addr / PAGE);
            }
            self.fault(addr, if huge { HUGE_FAULT } else { self.world.fault_ns });
        }
    }

    /// Whether a slot is mapped whole.
    fn fits(&self, slot: u64) -> bool {
        let pages = slot * HUGE / PAGE..(slot + 1) * HUGE / PAGE;
        self.mapped.range(pages.clone()).count() as u64 == pages.end - pages.start
    }

    fn present(&self, addr: u64) -> bool {
        self.touched.contains(&(addr / PAGE))
    }

    fn fault(&mut self, addr: u64, cost: u64) {
        self.tally.kernel_ns += cost;
        self.tally.fault_ns += cost;
        self.tally.now += cost as i64;
        self.tally.faults += 1;
        if self.world.faults_recorded && self.tally.faults > self.world.lost_faults {
            let row = FaultsRow {
                ts: self.tally.now,
                task_id: 1,
                mm_id: 1,
                addr: addr + 8,
                ip: 0x40_1000,
                error_code: Some(6),
                ..FaultsRow::default()
            };
            self.writer.push_faults(&row);
        }
    }

    fn read_file(&mut self) {
        let world = self.world;
        if world.file_bytes == 0 {
            return;
        }
        let request = world.fixed_request.unwrap_or(world.read_ahead_kb.max(4) * 1024);
        let bytes = (world.file_bytes as f64 * world.read_in_vain) as u64;
        let requests = bytes.div_ceil(request);
        self.tally.requests += requests;
        self.tally.device_bytes += bytes;
        let wait = requests * REQUEST + (bytes as f64 * READ_BYTE) as u64;
        self.tally.waited_ns += wait;
        self.tally.read_ns += wait;
        self.tally.now += wait as i64;
        self.tally.operations += world.file_bytes / PAGE;
    }

    fn settings(&mut self) {
        if !self.world.settings_recorded {
            return;
        }
        let mut settings = self.world.harmless.clone();
        let mut put = |key: &str, value: String| settings.insert(key.to_owned(), value);
        put("thp.enabled", self.world.thp.to_owned());
        put("thp.2M.enabled", "inherit".to_owned());
        put("thp.defrag", "madvise".to_owned());
        put("thp.hpage_pmd_size", HUGE.to_string());
        put("mm.thp_disable", "0".to_owned());
        put("hugetlb.default_size", "2M".to_owned());
        put("hugetlb.2M.nr_hugepages", self.world.pool.unwrap_or(0).to_string());
        put("hugetlb.2M.nr_overcommit_hugepages", "0".to_owned());
        put("block.loop0.read_ahead_kb", self.world.read_ahead_kb.to_string());
        put("block.loop0.max_sectors_kb", "1280".to_owned());
        put("kernel.release", "6.18.0".to_owned());
        for (key, value) in &settings {
            let row = SettingsRow { ts: START - 100, key, value: Some(value), source: "model", at: "start" };
            self.writer.push_settings(&row);
        }
    }

    /// Counters as they stand now.
    fn sample(&mut self) {
        let ts = self.tally.now;
        let pool = self.world.pool.unwrap_or(0);
        let left = self.world.pool_says_left.unwrap_or(pool - self.tally.pool_used.min(pool));
        let elsewhere = if self.tally.operations > 0 { self.world.fallbacks_elsewhere } else { 0 };
        let rows: [(&str, Option<&str>, u64); 9] = [
            ("vmstat.thp_fault_alloc", None, 100 + self.tally.huge),
            ("vmstat.thp_fault_fallback", None, 7 + self.tally.fallback + elsewhere),
            ("vmstat.pgfault", None, 1000 + self.tally.faults),
            ("disk.reads", Some("loop0"), 50 + self.tally.requests),
            ("disk.read_bytes", Some("loop0"), 4096 + self.tally.device_bytes),
            ("hugetlb.free_pages", Some("2048kB"), left),
            ("hugetlb.resv_pages", Some("2048kB"), 0),
            ("hugetlb.nr_pages", Some("2048kB"), pool),
            ("target.io.rchar", None, 10 + if self.tally.requests > 0 { self.world.file_bytes } else { 0 }),
        ];
        for (name, instance, value) in rows {
            self.writer.push_metrics(&MetricsRow { ts, name, instance, value: Some(value as f64) });
        }
        if self.world.disk_times {
            let value = Some(self.tally.read_ns as f64);
            self.writer.push_metrics(&MetricsRow { ts, name: "disk.read_ns", instance: Some("loop0"), value });
        }
    }

    /// A profile of the run of a few thousand samples, which lands in the kernel and under its entry of faults as often as it should.
    fn profile(&mut self) {
        const IN_FAULT: u64 = 11;
        const IN_CALL: u64 = 12;
        let frames = [(1, "clear_page_erms"), (2, "asm_exc_page_fault"), (3, "vfs_write"), (4, "do_syscall_64")];
        for (frame_id, symbol) in frames {
            let row = FramesRow { frame_id, symbol: Some(symbol), kernel: true, ..FramesRow::default() };
            self.writer.push_frames(&row);
        }
        let is_absent = |name: &str| self.world.absent.is_some_and(|absent| absent.contains(&name));
        let of_fault: &[u64] = if is_absent("clear_page_erms") { &[2] } else { &[1, 2] };
        self.writer.push_stacks(&StacksRow { stack_id: IN_FAULT, frame_ids: of_fault });
        self.writer.push_stacks(&StacksRow { stack_id: IN_CALL, frame_ids: &[3, 4] });
        let samples = 2000;
        let busy = (self.tally.kernel_ns + self.tally.user_ns).max(1);
        let part = |ns: u64| ns * samples / busy;
        let (faults, kernel) = (part(self.tally.fault_ns), part(self.tally.kernel_ns));
        for number in 0..samples {
            let kstack_id = if number < faults {
                Some(IN_FAULT)
            } else if number < kernel {
                Some(IN_CALL)
            } else {
                None
            };
            self.writer.push_samples(&SamplesRow {
                ts: START + 1 + number as i64,
                task_id: 1,
                event: "cpu-clock",
                kstack_id,
                weight: busy / samples,
                ..SamplesRow::default()
            });
        }
    }

    /// States of the task, summed up over the run, and where its waits were.
    fn states(&mut self, factor: f64) {
        const WAITS: [(u64, &str, &str); 2] = [(21, "filemap_read", "read"), (22, "jbd2_log_wait_commit", "fsync")];
        let (ts, scaled) = (self.tally.now, |ns: u64| (ns as f64 * factor) as u64);
        for ts in [START, ts] {
            self.writer.push_waits(&WaitsRow { ts, state: "idle", ..WaitsRow::default() });
        }
        let mine = WaitsRow { ts, task_id: Some(1), times: Some(1), ..WaitsRow::default() };
        let run_ns = scaled(self.tally.user_ns + self.tally.kernel_ns);
        for state in ["run", "kernel_run"] {
            self.writer.push_waits(&WaitsRow { state, ns: run_ns, ..mine });
        }
        let waited = [self.tally.read_ns, self.tally.waited_ns - self.tally.read_ns].map(scaled);
        for ((stack_id, function, call), ns) in WAITS.into_iter().zip(waited) {
            let row = FramesRow { frame_id: stack_id, symbol: Some(function), kernel: true, ..FramesRow::default() };
            self.writer.push_frames(&row);
            self.writer.push_stacks(&StacksRow { stack_id, frame_ids: &[stack_id] });
            let (off_state, call, by) = ("D", Some(call), Some("irq"));
            let of = WaitsRow { state: "off", off_state: Some(off_state), iowait: Some(true), call, by, ns, ..mine };
            self.writer.push_waits(&of);
            let (kstack_id, samples) = (Some(stack_id), 1 + ns / 100_000);
            let of =
                WaitStacksRow { ts, task_id: 1, off_state, iowait: true, call, by, kstack_id, samples, weight_ns: ns };
            self.writer.push_wait_stacks(&of);
        }
    }

    fn end(mut self, noise: &mut Noise, round: u64) {
        if self.world.profiled || self.world.accounted {
            self.profile();
        }
        let factor = noise.factor();
        let took = (self.tally.now - START) as f64 * factor;
        self.tally.now = START + took as i64;
        if self.world.accounted {
            self.states(factor);
        }
        self.sample();
        let (from, to) = (START, self.tally.now);
        let operations = self.tally.operations;
        let mut percent = |ns: u64| Some(100.0 * ns as f64 * noise.factor() / took);
        let (usr, sys) = (percent(self.tally.user_ns), percent(self.tally.kernel_ns));
        self.writer.push_jobs(&JobsRow {
            ts: to,
            job: &self.world.label,
            thread: Some(0),
            direction: "write",
            ios: operations,
            bytes: operations * PAGE,
            runtime_ns: (to - from) as u64,
            usr: usr.filter(|_| self.world.times_known),
            sys: sys.filter(|_| self.world.times_known),
            ..JobsRow::default()
        });
        let faults = self.tally.faults;
        let lost = self.world.loss_said.unwrap_or(self.world.lost_faults);
        for (stream, seen, lost) in [("faults", faults + lost, lost), ("maps", 100, self.world.lost_maps)] {
            self.writer.push_loss(&LossRow { ts: to, stream, cpu: None, seen, lost, filtered: 0 });
        }
        self.writer
            .close(|manifest| {
                let measured = json!({"start_ns": from, "end_ns": to, "operations": operations, "source": "load"});
                manifest.extra.insert("measured".to_owned(), measured);
                if let Some(absent) = self.world.absent {
                    let extra = [("anchors_absent".to_owned(), json!(absent))].into_iter().collect();
                    manifest.probes.push(Probe { name: "cpu".to_owned(), extra, ..Probe::default() });
                }
                let failing = self.world.failing_rounds & (1 << round) != 0;
                manifest.exit = Some(Exit { code: Some(i32::from(failing)), ..Exit::default() });
                if self.world.timed_out_rounds & (1 << round) != 0 {
                    manifest.extra.insert("timed_out".to_owned(), json!(true));
                }
            })
            .unwrap();
    }
}

/// Plays both worlds in blocks and compares them.
pub(crate) fn compare_worlds(base: &World, test: &World, seed: u64) -> Comparison {
    let dir = tempfile::tempdir().unwrap();
    compare_in(dir.path(), base, test, seed, 4)
}

/// As [`compare_worlds`], keeping the recordings in `dir`.
pub(crate) fn compare_in(dir: &Path, base: &World, test: &World, seed: u64, rounds: u64) -> Comparison {
    compare_counted(dir, base, test, seed, rounds).0
}

/// As [`compare_in`], with what the model knows of a run of either side.
pub(crate) fn compare_counted(
    dir: &Path,
    base: &World,
    test: &World,
    seed: u64,
    rounds: u64,
) -> (Comparison, [Truth; 2]) {
    let mut dirs = [Vec::new(), Vec::new()];
    let mut truths = [Truth::default(); 2];
    for round in 1..=rounds {
        for (position, (side, world)) in [("b", base), ("t", test)].into_iter().enumerate() {
            let run = dir.join(format!("{side}{round}"));
            truths[position] = play_counted(world, &run, round, position as u64 + 1, seed);
            dirs[position].push(run);
        }
    }
    (compare(&dirs[0], &dirs[1], &CompareOptions::default()).unwrap(), truths)
}

/// The causes found, in order.
pub(crate) fn causes(comparison: &Comparison) -> Vec<&str> {
    comparison.findings.iter().map(|finding| finding.cause.as_str()).collect()
}

/// The findings of one rule.
pub(crate) fn said(comparison: &Comparison, cause: &str) -> String {
    let considered = comparison.considered.iter().find(|considered| considered.cause == cause).unwrap();
    format!("{}: {}", considered.outcome, considered.reasons.join(" | "))
}
