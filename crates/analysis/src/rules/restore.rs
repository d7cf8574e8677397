//! The command that puts a setting back to the value of the other side.

use super::finding::{Fix, Reach, SettingSubject, SideName};
use pagelab_vocab::settings;
use pagelab_vocab::terminal::shell_word;

/// The folder of a process's control group of version 2, as a shell finds it.
const GROUP: &str = "/sys/fs/cgroup$(sed -n s/^0:://p /proc/PID/cgroup)";

/// Files of version 2 with the controller and the file of version 1 that says the same, those whose names others begin with last.
const OF_V1: &[(&str, &str, &str)] = &[
    ("memory.swap.max", "memory", "memory.swappiness"),
    ("memory.max", "memory", "memory.limit_in_bytes"),
    ("cpu.max.burst", "cpu", "cpu.cfs_burst_us"),
    ("cpu.max", "cpu", "cpu.cfs_quota_us"),
    ("cpu.weight", "cpu", "cpu.shares"),
    ("cpuset.cpus", "cpuset", "cpuset.cpus"),
    ("cpuset.mems", "cpuset", "cpuset.mems"),
    ("pids.max", "pids", "pids.max"),
];

/// The folder of a process's control group on a version 1 controller.
fn group_v1(controller: &str) -> String {
    format!("/sys/fs/cgroup/{controller}$(sed -n 's/^[0-9]*:[^:]*\\b{controller}\\b[^:]*://p' /proc/PID/cgroup)")
}

/// A command with `{group}/FILE` as one for the controllers of a host; `is_v1` tells of each.
pub(super) fn in_group(command: &str, is_v1: impl Fn(&str) -> bool) -> String {
    let mut said = command.to_owned();
    for (file, controller, of_v1) in OF_V1.iter().filter(|(_, controller, _)| is_v1(controller)) {
        said = said.replace(&format!("{{group}}/{file}"), &format!("{}/{of_v1}", group_v1(controller)));
    }
    said.replace("{group}", GROUP)
}

/// Puts `setting` back to the value of the side that does not suffer; `None` where that is not known, or no command can. `is_v1` tells
/// which controllers of control groups are on version 1.
pub(super) fn fix(setting: &SettingSubject, slow: SideName, is_v1: impl Fn(&str) -> bool) -> Option<Fix> {
    let good = match slow {
        SideName::Test => setting.base.as_deref(),
        SideName::Base => setting.test.as_deref(),
    };
    let key = setting.key.as_str();
    let of_variable = key.strip_prefix("env.").map(|name| (Reach::Process, of_variable(name, good)));
    let (reach, command) = of_variable.or_else(|| command(key, good?, is_v1))?;
    let text = match good {
        Some(good) => format!("set {key} back to {good}"),
        None => format!("leave {key} unset"),
    };
    Some(Fix { reach, text, command })
}

fn of_variable(name: &str, good: Option<&str>) -> String {
    match good {
        Some(good) => format!("env {} COMMAND", shell_word(&format!("{name}={good}"))),
        None => format!("env -u {} COMMAND", shell_word(name)),
    }
}

fn command(key: &str, good: &str, is_v1: impl Fn(&str) -> bool) -> Option<(Reach, String)> {
    let value = shell_word(good);
    if let Some(name) = key.strip_prefix("task.") {
        return of_task(name, good).map(|command| (Reach::Process, command));
    }
    if let Some(name) = key.strip_prefix("cgroup.") {
        return of_group(name, good, is_v1).map(|command| (Reach::Process, command));
    }
    if let Some(name) = key.strip_prefix("rlimit.") {
        return Some((Reach::Process, format!("prlimit --{name}={value} COMMAND")));
    }
    if let Some(mountpoint) = key.strip_prefix("mount.").and_then(|rest| rest.strip_suffix(".options")) {
        return Some((Reach::System, format!("sudo mount -o remount,{value} {}", shell_word(mountpoint))));
    }
    let info = settings::setting(key).filter(|info| info.def.writable())?;
    let reach = if key.starts_with("block.") { Reach::Device } else { Reach::System };
    Some((reach, format!("echo {value} | sudo tee {}", shell_word(&info.path()?))))
}

fn of_group(name: &str, good: &str, is_v1: impl Fn(&str) -> bool) -> Option<String> {
    let controller = name.split_once('.').map_or(name, |(controller, _)| controller);
    if !is_v1(controller) {
        return Some(format!("echo {} | sudo tee \"{GROUP}/{name}\"", shell_word(good)));
    }
    let value = match name {
        "memory.max" if good == "max" => "-1".to_owned(),
        // Quota and period; the period is seldom another one.
        "cpu.max" => good.split(' ').next().map(|quota| if quota == "max" { "-1" } else { quota })?.to_owned(),
        "cpu.weight" => (good.parse::<u64>().ok()?.saturating_mul(1024) / 100).to_string(),
        "memory.max" | "cpuset.cpus" | "cpuset.mems" | "pids.max" => good.to_owned(),
        _ => return None,
    };
    let (_, controller, file) = OF_V1.iter().find(|(of_v2, ..)| *of_v2 == name)?;
    Some(format!("echo {} | sudo tee \"{}/{file}\"", shell_word(&value), group_v1(controller)))
}

fn of_task(name: &str, good: &str) -> Option<String> {
    let value = shell_word(good);
    match name {
        "nice" => Some(format!("sudo renice -n {value} -p PID")),
        "affinity" => Some(format!("sudo taskset -acp {value} PID")),
        "policy" => {
            let (policy, priority) = good.split_once(':').unwrap_or((good, "0"));
            Some(format!("sudo chrt -a --{policy} -p {priority} PID"))
        }
        "io_priority" => match good.split_once(':') {
            Some(("realtime", level)) => Some(format!("sudo ionice -c 1 -n {level} -p PID")),
            Some((_, level)) => Some(format!("sudo ionice -c 2 -n {level} -p PID")),
            None if good == "idle" => Some("sudo ionice -c 3 -p PID".to_owned()),
            None => Some("sudo ionice -c 0 -p PID".to_owned()),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(key: &str, base: Option<&str>, test: Option<&str>) -> Option<String> {
        let setting = SettingSubject {
            key: key.to_owned(),
            base: base.map(str::to_owned),
            test: test.map(str::to_owned),
            differs: true,
        };
        fix(&setting, SideName::Test, |_| false).map(|fix| fix.command)
    }

    #[test]
    fn groups_of_version_1_have_other_files_and_words() {
        let said = |key: &str, good: &str| {
            let setting =
                SettingSubject { key: key.to_owned(), base: Some(good.to_owned()), test: None, differs: true };
            fix(&setting, SideName::Test, |_| true).map(|fix| fix.command)
        };
        let group = |controller: &str| {
            format!(
                "/sys/fs/cgroup/{controller}$(sed -n 's/^[0-9]*:[^:]*\\b{controller}\\b[^:]*://p' /proc/PID/cgroup)"
            )
        };
        let (memory, cpu) = (group("memory"), group("cpu"));
        let of = |value: &str, file: String| Some(format!("echo {value} | sudo tee \"{file}\""));
        assert_eq!(said("cgroup.memory.max", "1024"), of("1024", format!("{memory}/memory.limit_in_bytes")));
        assert_eq!(said("cgroup.memory.max", "max"), of("-1", format!("{memory}/memory.limit_in_bytes")));
        assert_eq!(said("cgroup.cpu.max", "20000 100000"), of("20000", format!("{cpu}/cpu.cfs_quota_us")));
        assert_eq!(said("cgroup.cpu.max", "max 100000"), of("-1", format!("{cpu}/cpu.cfs_quota_us")));
        assert_eq!(said("cgroup.cpu.weight", "100"), of("1024", format!("{cpu}/cpu.shares")));
        assert_eq!(said("cgroup.io.max", "max"), None, "version 1 has a file for each kind of limit");
        let burst = "cut -d' ' -f1 \"{group}/cpu.max\" | sudo tee \"{group}/cpu.max.burst\"";
        let of_v1 = format!("cut -d' ' -f1 \"{cpu}/cpu.cfs_quota_us\" | sudo tee \"{cpu}/cpu.cfs_burst_us\"");
        assert_eq!(in_group(burst, |controller| controller == "cpu"), of_v1);
        assert_eq!(
            in_group("cat {group}/memory.max", |controller| controller == "cpu"),
            format!("cat {GROUP}/memory.max")
        );
    }

    #[test]
    fn each_kind_of_setting_has_its_command() {
        let said = |key, good, bad| of(key, Some(good), Some(bad)).expect("a command");
        assert_eq!(said("sysctl.vm.swappiness", "60", "200"), "echo 60 | sudo tee /proc/sys/vm/swappiness");
        assert_eq!(said("block.vda.scheduler", "none", "bfq"), "echo none | sudo tee /sys/block/vda/queue/scheduler");
        assert_eq!(said("task.nice", "0", "19"), "sudo renice -n 0 -p PID");
        assert_eq!(said("task.policy", "fifo:3", "other"), "sudo chrt -a --fifo -p 3 PID");
        assert_eq!(said("mount./data.options", "rw,noatime", "rw,sync"), "sudo mount -o remount,rw,noatime /data");
        assert!(said("cgroup.cpu.max", "max 100000", "20000 100000").starts_with("echo 'max 100000' | sudo tee "));
        assert_eq!(of("env.MALLOC_ARENA_MAX", None, Some("1")).as_deref(), Some("env -u MALLOC_ARENA_MAX COMMAND"));
        assert_eq!(of("sysctl.vm.swappiness", None, Some("1")), None, "the good value is not known");
        assert_eq!(of("kernel.release", Some("6.1"), Some("6.18")), None, "no command changes it");
    }
}
