//! Two clocks: the host's monotonic clock for instants, a cheap tick counter for the length of operations.
//!
//! Instants that leave this crate are nanoseconds of `CLOCK_MONOTONIC`, the clock of `bpf_ktime_get_ns`, so that they
//! line up with every probe. Durations of single operations come from the processor's time stamp counter where it can
//! be trusted. It must be invariant (CPUID 8000_0007 EDX bit 8: constant rate in all power states). The kernel must
//! keep it among its clock sources (it drops counters that disagree between CPUs or with other clocks). Two threads
//! that pass a stamp back and forth must never see it go backwards. Otherwise `clock_gettime` is read for every stamp,
//! and the report says why.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use pagelab_fiojob::words::ClockSource;
use serde::{Deserialize, Serialize};

use crate::error::LoadError;

/// How long the counter is compared with `CLOCK_MONOTONIC` before work starts. Each end of the comparison is uncertain by the few
/// tens of ns that reading both clocks takes, so 10 ms give the rate to about 1e-5.
const CALIBRATION: Duration = Duration::from_millis(10);

/// How long two threads compare their counters.
const WARP_TEST: Duration = Duration::from_millis(2);

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn monotonic_ns() -> u64 {
    timespec_ns(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic))
}

/// Nanoseconds since 1970 of `CLOCK_REALTIME`.
pub fn realtime_ns() -> u64 {
    timespec_ns(rustix::time::clock_gettime(rustix::time::ClockId::Realtime))
}

fn timespec_ns(t: rustix::time::Timespec) -> u64 {
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

/// Which counter stamps operations, and why; part of every report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClockReport {
    /// `tsc` or `clock_gettime`.
    pub source: String,
    /// Why this one.
    pub reason: String,
    /// Ticks per second of the counter as measured; null without it.
    pub tsc_hz: Option<f64>,
    /// By how much the counter's rate over the whole run differed from the calibration, in parts per million; null without it.
    pub drift_ppm: Option<f64>,
}

/// A tick counter and its unit. Copied into every worker.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    use_tsc: bool,
    /// Nanoseconds per tick, times 2^32.
    ns_per_tick_q32: u64,
}

impl Clock {
    /// `clock_gettime` as tick counter: a tick is a nanosecond.
    pub fn gettime() -> Self {
        Self { use_tsc: false, ns_per_tick_q32: 1 << 32 }
    }

    /// A stamp. May be taken while earlier loads are still on their way.
    #[inline(always)]
    pub fn ticks(&self) -> u64 {
        if self.use_tsc { tsc() } else { monotonic_ns() }
    }

    /// A stamp taken after all earlier loads have delivered: the end of an operation that reads memory itself.
    #[inline(always)]
    pub fn ticks_after_loads(&self) -> u64 {
        if self.use_tsc { tsc_after_loads() } else { monotonic_ns() }
    }

    /// Ticks as nanoseconds.
    #[inline(always)]
    pub fn to_ns(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.ns_per_tick_q32)) >> 32) as u64
    }

    /// Nanoseconds as ticks, rounded down; saturates.
    pub fn from_ns(&self, ns: u64) -> u64 {
        u64::try_from((u128::from(ns) << 32) / u128::from(self.ns_per_tick_q32.max(1))).unwrap_or(u64::MAX)
    }

    /// Both clocks at one instant: (ticks, ns of `CLOCK_MONOTONIC`). The fastest reading of a few tries.
    pub fn pair(&self) -> (u64, u64) {
        let mut best = (u64::MAX, 0, 0);
        for _ in 0..5 {
            let before = self.ticks();
            let ns = monotonic_ns();
            let after = self.ticks();
            let width = after.wrapping_sub(before);
            if width < best.0 {
                best = (width, before + width / 2, ns);
            }
        }
        (best.1, best.2)
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn tsc() -> u64 {
    // SAFETY: RDTSC exists on every x86-64 processor; it only reads a counter. (A kernel that forbids it with PR_SET_TSC
    // delivers a signal, which no process does to itself here.)
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn tsc_after_loads() -> u64 {
    let mut cpu = 0;
    // SAFETY: RDTSCP was found in CPUID before the counter was chosen (`Tsc::detect`); it writes only to `cpu`.
    unsafe { core::arch::x86_64::__rdtscp(&raw mut cpu) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn tsc() -> u64 {
    monotonic_ns()
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn tsc_after_loads() -> u64 {
    monotonic_ns()
}

/// The clocks there are on this host, measured once.
pub struct Clocks {
    tsc: Result<Clock, String>,
    calibrated: (u64, u64),
}

impl Clocks {
    /// Looks at the counter and calibrates it; takes about 15 ms. `root` is where `/sys` is looked for.
    pub fn measure(root: &Path) -> Self {
        let raw = Clock { use_tsc: true, ns_per_tick_q32: 1 << 32 };
        let tsc = trustworthy(root).and_then(|()| {
            let (ticks, ns) = raw.pair();
            std::thread::sleep(CALIBRATION);
            let (ticks_later, ns_later) = raw.pair();
            rate_q32(ticks_later.wrapping_sub(ticks), ns_later.wrapping_sub(ns))
                .map(|q32| Clock { use_tsc: true, ns_per_tick_q32: q32 })
        });
        let calibrated = tsc.as_ref().map_or((0, 0), Clock::pair);
        Self { tsc, calibrated }
    }

    /// The counter for a job that asks for `source`.
    ///
    /// # Errors
    /// [`LoadError::Host`] if the job insists on a counter that cannot be trusted here.
    pub fn choose(&self, source: ClockSource) -> Result<Clock, LoadError> {
        match (source, &self.tsc) {
            (ClockSource::Auto | ClockSource::Cpu, Ok(clock)) => Ok(*clock),
            (ClockSource::Auto, Err(_)) | (ClockSource::ClockGettime, _) => Ok(Clock::gettime()),
            (ClockSource::Cpu, Err(reason)) => Err(LoadError::Host {
                what: "clocksource=cpu".to_owned(),
                found: reason.clone(),
                needed: "an invariant time stamp counter that the kernel trusts".to_owned(),
                command: "leave clocksource out".to_owned(),
            }),
        }
    }

    /// The clock chosen for jobs that ask for `source`, and how well the calibration held until now.
    pub fn report(&self, source: ClockSource) -> ClockReport {
        match &self.tsc {
            Ok(clock) if source != ClockSource::ClockGettime => {
                let (ticks, ns) = clock.pair();
                let elapsed_ns = ns.saturating_sub(self.calibrated.1);
                let counted_ns = clock.to_ns(ticks.wrapping_sub(self.calibrated.0));
                let drift_ppm = (elapsed_ns > 0).then(|| (counted_ns as f64 / elapsed_ns as f64 - 1.0) * 1e6);
                ClockReport {
                    source: "tsc".to_owned(),
                    reason: "invariant, kept by the kernel as a clock source, never seen to go backwards between CPUs"
                        .to_owned(),
                    tsc_hz: Some(1e9 * (1u64 << 32) as f64 / clock.ns_per_tick_q32 as f64),
                    drift_ppm,
                }
            }
            Ok(_) => ClockReport {
                source: "clock_gettime".to_owned(),
                reason: "the job asks for it".to_owned(),
                tsc_hz: None,
                drift_ppm: None,
            },
            Err(reason) => ClockReport {
                source: "clock_gettime".to_owned(),
                reason: reason.clone(),
                tsc_hz: None,
                drift_ppm: None,
            },
        }
    }
}

/// Nanoseconds per tick times 2^32.
fn rate_q32(ticks: u64, ns: u64) -> Result<u64, String> {
    if ticks == 0 || ns == 0 {
        return Err(format!("the time stamp counter moved {ticks} ticks in {ns} ns"));
    }
    u64::try_from((u128::from(ns) << 32) / u128::from(ticks))
        .ok()
        .filter(|rate| *rate > 0)
        .ok_or_else(|| format!("the time stamp counter moved {ticks} ticks in {ns} ns"))
}

fn trustworthy(root: &Path) -> Result<(), String> {
    invariant()?;
    kernel_keeps_it(root)?;
    never_backwards()
}

#[cfg(target_arch = "x86_64")]
fn invariant() -> Result<(), String> {
    use core::arch::x86_64::__cpuid;
    let leaf = __cpuid;
    if leaf(0x8000_0000).eax < 0x8000_0007 {
        return Err("CPUID does not tell whether the time stamp counter is invariant".to_owned());
    }
    if leaf(0x8000_0001).edx & (1 << 27) == 0 {
        return Err("the processor has no RDTSCP".to_owned());
    }
    if leaf(0x8000_0007).edx & (1 << 8) == 0 {
        return Err("CPUID says that the time stamp counter is not invariant".to_owned());
    }
    Ok(())
}

#[cfg(not(target_arch = "x86_64"))]
fn invariant() -> Result<(), String> {
    Err("not an x86-64 processor".to_owned())
}

fn kernel_keeps_it(root: &Path) -> Result<(), String> {
    let path = root.join("sys/devices/system/clocksource/clocksource0/available_clocksource");
    let list = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    if list.split_whitespace().any(|name| name == "tsc") {
        Ok(())
    } else {
        Err(format!("the kernel does not keep the time stamp counter as a clock source (it has: {})", list.trim()))
    }
}

/// Two threads, on different CPUs if the scheduler has several to give, stamp in turns under a lock for a moment; a stamp below
/// the one before it is a warp. It is the kernel's own test at boot (`check_tsc_warp`), repeated on the CPUs at hand.
fn never_backwards() -> Result<(), String> {
    let last = Mutex::new(0_u64);
    let player = || {
        let begin = Instant::now();
        let mut worst = 0;
        // By time, not by rounds: on a busy machine the other thread may not run at all meanwhile.
        while begin.elapsed() < WARP_TEST {
            for _ in 0..32 {
                if let Ok(mut last) = last.try_lock() {
                    let stamp = tsc();
                    worst = worst.max(last.saturating_sub(stamp));
                    *last = stamp;
                }
                std::hint::spin_loop();
            }
        }
        worst
    };
    let worst = std::thread::scope(|scope| {
        let other = std::thread::Builder::new().name("clock".to_owned()).spawn_scoped(scope, player);
        other.map(|other| player().max(other.join().unwrap_or(0)))
    });
    match worst {
        Ok(0) => Ok(()),
        Err(error) => Err(format!("whether CPUs agree on the time is not known: no thread to try it: {error}")),
        Ok(ticks) => Err(format!("the time stamp counter of one CPU is {ticks} ticks behind another's")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_measure_what_the_monotonic_clock_measures() {
        let clocks = Clocks::measure(Path::new("/"));
        for source in [ClockSource::Auto, ClockSource::ClockGettime] {
            let clock = clocks.choose(source).expect("always possible");
            let (ticks, ns) = clock.pair();
            std::thread::sleep(Duration::from_millis(20));
            let (ticks_later, ns_later) = clock.pair();
            let counted = clock.to_ns(ticks_later - ticks) as f64;
            let elapsed = (ns_later - ns) as f64;
            assert!((counted / elapsed - 1.0).abs() < 1e-3, "{counted} against {elapsed}");
            assert!(clock.to_ns(clock.from_ns(1_000_000)).abs_diff(1_000_000) <= 2);
        }
    }

    #[test]
    fn a_counter_the_kernel_dropped_is_not_used() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("sys/devices/system/clocksource/clocksource0");
        std::fs::create_dir_all(&path).expect("mkdir");
        std::fs::write(path.join("available_clocksource"), "kvm-clock hpet acpi_pm \n").expect("write");
        let clocks = Clocks::measure(dir.path());
        assert_eq!(clocks.report(ClockSource::Auto).source, "clock_gettime");
        assert!(clocks.choose(ClockSource::Auto).is_ok());
        assert!(matches!(clocks.choose(ClockSource::Cpu), Err(LoadError::Host { .. })));
    }

    #[test]
    fn stamps_of_one_thread_rise() {
        let clocks = Clocks::measure(Path::new("/"));
        let clock = clocks.choose(ClockSource::Auto).expect("auto");
        let mut last = clock.ticks();
        for _ in 0..1000 {
            let next = clock.ticks_after_loads();
            assert!(next >= last);
            last = next;
        }
    }
}
