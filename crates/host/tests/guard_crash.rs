//! The guard's process is killed (SIGKILL) at every single operation, and at arbitrary instants; each time the host
//! must be as before, by the helper alone. This is the promise that lets anybody run pagelab on a machine they need.

mod common;

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use common::{Fixture, Host, eventually};

const CHANGES: [&str; 4] =
    ["thp.enabled=never", "sysctl.vm.swappiness=10", "sysctl.vm.swappiness=20", "block.vda.read_ahead_kb=128"];

#[test]
fn killed_at_every_operation() {
    let mut killed = 0u32;
    for step in 0u32.. {
        let host = Host::new();
        let before = host.all();
        let step_text = step.to_string();
        let mut rest = vec![step_text.as_str()];
        rest.extend(CHANGES);
        let mut fixture = host.fixture("crash", &rest);
        let status = fixture.wait();
        if status.success() {
            assert_eq!(host.all(), before, "after an undisturbed run");
            assert_eq!(host.leftovers(), Vec::<String>::new(), "after an undisturbed run");
            break;
        }
        assert_eq!(status.signal(), Some(9), "step {step}: {status}");
        killed += 1;
        eventually(&format!("all back after a kill at step {step}; now {}", host.all()), || {
            host.all() == before && !host.leftovers().iter().any(|name| name.starts_with("journal"))
        });
        // Undoing may have put a setting back before it turned to another; wait for the end, then look again.
        eventually("locks gone", || host.leftovers().is_empty());
        assert_eq!(host.all(), before, "step {step}");
    }
    // 4 changes, each with reads, two journal lines and a write, each interruptible before and after.
    assert!(killed > 4 * 8, "only {killed} operations were interrupted");
    println!("{killed} kills");
}

#[test]
fn killed_at_arbitrary_instants() {
    let host = Host::new();
    let before = host.all();
    // A fixed sequence (Knuth's MMIX generator), so that a failure can be repeated.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..40 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let pause = Duration::from_micros((state >> 33) % 30_000);
        let mut fixture = host.fixture("loop", &CHANGES);
        assert_eq!(fixture.line(), "held");
        std::thread::sleep(pause);
        fixture.kill();
        fixture.wait();
        eventually("all back", || host.all() == before && host.leftovers().is_empty());
    }
}

#[test]
fn latency_of_the_helper() {
    let host = Host::new();
    let before = host.all();
    let mut times = Vec::new();
    for _ in 0..15 {
        let mut fixture = host.fixture("hold", &CHANGES);
        assert_eq!(fixture.line(), "held");
        assert_ne!(host.all(), before);
        fixture.kill();
        times.push(eventually("all back", || host.all() == before));
        fixture.wait();
        eventually("journal gone", || host.leftovers().is_empty());
    }
    times.sort_unstable();
    println!("from SIGKILL to everything back: {times:?}");
}

#[test]
fn two_guards_are_killed_at_once() {
    let host = Host::new();
    let before = host.all();
    let mut one = host.fixture("hold", &["thp.enabled=always"]);
    assert_eq!(one.line(), "held");
    let mut two = host.fixture("hold", &["block.vda.read_ahead_kb=64", "sysctl.vm.stat_interval=7"]);
    assert_eq!(two.line(), "held");
    one.kill();
    two.kill();
    one.wait();
    two.wait();
    eventually("all back", || host.all() == before && host.leftovers().is_empty());
}

#[test]
fn a_signal_to_the_whole_group_does_not_reach_the_helper() {
    let host = Host::new();
    let before = host.all();
    let mut fixture = host.fixture("hold", &CHANGES);
    assert_eq!(fixture.line(), "held");
    // The helper left the group when it made its own session; killing the group would take the test along, so its
    // group is looked at instead.
    let pid = fixture.pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("children");
    let helper: u32 = children.split_whitespace().next().expect("a helper").parse().expect("a pid");
    let field = |pid: u32, place: usize| -> u32 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
        let rest = stat.rsplit_once(')').expect("a name").1.to_owned();
        rest.split_whitespace().nth(place).expect("a field").parse().expect("a number")
    };
    assert_eq!(field(helper, 2), helper, "leads its own group");
    assert_eq!(field(helper, 3), helper, "leads its own session");
    assert_ne!(field(pid, 2), helper);
    // Polite signals to the helper are ignored while its guard lives.
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM, rustix::process::Signal::HUP] {
        let pid = rustix::process::Pid::from_raw(i32::try_from(helper).expect("a pid")).expect("a pid");
        rustix::process::kill_process(pid, signal).expect("sent");
    }
    fixture.kill();
    fixture.wait();
    eventually("all back", || host.all() == before && host.leftovers().is_empty());
}

#[test]
fn ends_of_other_kinds() {
    for (word, expected) in [("close", Some(0)), ("drop", Some(0)), ("exit", Some(0)), ("abort", None)] {
        let host = Host::new();
        let before = host.all();
        let mut fixture: Fixture = host.fixture("hold", &CHANGES);
        assert_eq!(fixture.line(), "held");
        assert_ne!(host.all(), before, "{word}");
        fixture.say(word);
        assert_eq!(fixture.wait().code(), expected, "{word}");
        if matches!(word, "exit" | "abort") {
            // The process ended without putting anything back; the helper does.
            eventually("all back", || host.all() == before && host.leftovers().is_empty());
        }
        assert_eq!(host.all(), before, "{word}");
        assert_eq!(host.leftovers(), Vec::<String>::new(), "{word}");
    }
}

#[test]
fn a_panic_puts_everything_back() {
    let host = Host::new();
    let before = host.all();
    let mut fixture = host.fixture("hold", &CHANGES);
    assert_eq!(fixture.line(), "held");
    fixture.say("panic");
    // It unwinds and drops the guard, so that all is back when the process has ended.
    assert_eq!(fixture.wait().code(), Some(101));
    assert_eq!(host.all(), before);
    assert_eq!(host.leftovers(), Vec::<String>::new());
}

#[test]
fn a_guard_and_its_helper_are_killed() {
    let host = Host::new();
    let before = host.all();
    let mut fixture = host.fixture("hold", &CHANGES);
    assert_eq!(fixture.line(), "held");
    let pid = fixture.pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("children");
    let helper = children.split_whitespace().next().and_then(|pid| pid.parse().ok()).expect("a helper");
    let helper = rustix::process::Pid::from_raw(helper).expect("a pid");
    rustix::process::kill_process(helper, rustix::process::Signal::KILL).expect("killed");
    fixture.kill();
    fixture.wait();
    assert_ne!(host.all(), before, "nobody is there to put anything back");
    let report = pagelab_host::guard::restore_leftovers_in(&host.state());
    assert!(report.is_clean() && report.restored.len() >= 4, "{report}");
    assert_eq!(host.all(), before);
    assert_eq!(host.leftovers(), Vec::<String>::new());
}
