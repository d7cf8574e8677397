//! The command that puts a setting back to the value of the other side.

use super::finding::{Fix, Reach, SettingSubject, SideName};
use pagelab_vocab::settings;
use pagelab_vocab::terminal::shell_word;

/// The folder of a process's control group (version 2), as a shell finds it.
pub(super) const GROUP: &str = "/sys/fs/cgroup$(sed -n s/^0:://p /proc/PID/cgroup)";

/// Puts `setting` back to the value of the side that does not suffer; `None` where that is not known, or no command can.
pub(super) fn fix(setting: &SettingSubject, slow: SideName) -> Option<Fix> {
    let good = match slow {
        SideName::Test => setting.base.as_deref(),
        SideName::Base => setting.test.as_deref(),
    };
    let key = setting.key.as_str();
    let of_variable = key.strip_prefix("env.").map(|name| (Reach::Process, of_variable(name, good)));
    let (reach, command) = of_variable.or_else(|| command(key, good?))?;
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

fn command(key: &str, good: &str) -> Option<(Reach, String)> {
    let value = shell_word(good);
    if let Some(name) = key.strip_prefix("task.") {
        return of_task(name, good).map(|command| (Reach::Process, command));
    }
    if let Some(name) = key.strip_prefix("cgroup.") {
        return Some((Reach::Process, format!("echo {value} | sudo tee \"{GROUP}/{name}\"")));
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
        fix(&setting, SideName::Test).map(|fix| fix.command)
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
