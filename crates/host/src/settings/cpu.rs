//! `cpu.*`.

use pagelab_vocab::settings::Form;

use super::Collector;
use crate::facts::{cpu_model, cpuinfo_field};
use crate::files::{cpu_list, list_of, names, text, tidy, under};

const CPUS: &str = "/sys/devices/system/cpu";

pub(super) fn read(out: &mut Collector) {
    cpuinfo(out);
    for key in [
        "cpu.online",
        "cpu.present",
        "cpu.isolated",
        "cpu.nohz_full",
        "cpu.smt.active",
        "cpu.smt.control",
        "cpu.boost",
        "cpu.no_turbo",
        "cpu.pstate_status",
        "cpu.cpuidle.driver",
        "cpu.cpuidle.governor",
        "cpu.numa_nodes",
    ] {
        out.declared(key);
    }
    let weaknesses = format!("{CPUS}/vulnerabilities");
    for name in names(&under(out.root, &weaknesses)) {
        out.file(format!("cpu.vulnerabilities.{name}"), &format!("{weaknesses}/{name}"), Form::Text);
    }
    let online = text(&under(out.root, &format!("{CPUS}/online"))).ok().and_then(|list| cpu_list(&list));
    let online = online.unwrap_or_default();
    per_cpu(out, &online, "cpu.governor", "scaling_governor");
    per_cpu(out, &online, "cpu.scaling_driver", "scaling_driver");
    per_cpu(out, &online, "cpu.scaling_min_freq", "scaling_min_freq");
    per_cpu(out, &online, "cpu.scaling_max_freq", "scaling_max_freq");
    per_cpu(out, &online, "cpu.energy_performance_preference", "energy_performance_preference");
}

fn cpuinfo(out: &mut Collector) {
    const SOURCE: &str = "/proc/cpuinfo";
    // Each processor takes about 1.5 kB; the first block holds all that is asked for.
    let longest = 32 << 20;
    let bytes = match crate::files::bytes_up_to(&under(out.root, SOURCE), longest) {
        Ok(bytes) => bytes,
        Err(error) => {
            out.missing("cpu.model", SOURCE, super::plain(&error));
            return;
        }
    };
    let cpuinfo = String::from_utf8_lossy(&bytes);
    match cpu_model(&cpuinfo) {
        Some(model) => out.value("cpu.model", tidy(&model), SOURCE),
        None => out.missing("cpu.model", SOURCE, "no line names a model"),
    }
    if let Some(microcode) = cpuinfo_field(&cpuinfo, "microcode") {
        out.value("cpu.microcode", microcode, SOURCE);
    }
    if let Some(flags) = cpuinfo_field(&cpuinfo, "flags").or_else(|| cpuinfo_field(&cpuinfo, "Features")) {
        let mut flags: Vec<&str> = flags.split_whitespace().collect();
        flags.sort_unstable();
        out.value("cpu.flags", flags.join(" "), SOURCE);
    }
}

/// One value if all processors agree, else `value:processors` of each.
fn per_cpu(out: &mut Collector, online: &[u32], key: &str, file: &str) {
    let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
    for cpu in online {
        let path = under(out.root, &format!("{CPUS}/cpu{cpu}/cpufreq/{file}"));
        let Ok(value) = text(&path) else { continue };
        let value = tidy(&value);
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, cpus)) => cpus.push(*cpu),
            None => groups.push((value, vec![*cpu])),
        }
    }
    let source = format!("{CPUS}/cpu*/cpufreq/{file}");
    match groups.as_slice() {
        [] => {}
        [(value, _)] => out.value(key, value.as_str(), &source),
        several => {
            let parts: Vec<String> = several.iter().map(|(value, cpus)| format!("{value}:{}", list_of(cpus))).collect();
            out.value(key, parts.join(" "), &source);
        }
    }
}
