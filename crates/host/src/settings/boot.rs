//! `kernel.*`, `cmdline.*` and `kconfig.*`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use pagelab_vocab::settings::{format_size, parse_size};

use super::{Collector, plain};
use crate::facts::{default_huge_page_bytes, kernel_release, page_size_bytes};
use crate::files::{bytes_up_to, tidy, trimmed, under};

/// A kernel configuration is about 300 kB; anything far larger is something else.
const LONGEST_CONFIG: usize = 8 << 20;

pub(super) fn kernel(out: &mut Collector) {
    for key in [
        "kernel.release",
        "kernel.version",
        "kernel.arch",
        "kernel.clocksource",
        "kernel.clocksources",
        "kernel.lockdown",
        "kernel.cmdline",
    ] {
        out.declared(key);
    }
    if let Some(series) = kernel_release(out.root).as_deref().and_then(series) {
        out.value("kernel", series, "/proc/sys/kernel/osrelease");
    }
    // The kernel writes its architecture down since 6.1; before, the program's own is the nearest known.
    if trimmed(out.root, "/proc/sys/kernel/arch").is_none() {
        out.value("kernel.arch", std::env::consts::ARCH, "architecture of this program");
    }
    out.value("kernel.page_size_bytes", page_size_bytes().to_string(), "sysconf(_SC_PAGESIZE)");
}

/// `6.1` of `6.1.0-56-amd64`.
fn series(release: &str) -> Option<String> {
    let mut numbers = release.split('.').map(|part| part.split(|c: char| !c.is_ascii_digit()).next().unwrap_or(""));
    let (first, second) = (numbers.next()?, numbers.next()?);
    (!first.is_empty() && !second.is_empty()).then(|| format!("{first}.{second}"))
}

pub(super) fn cmdline(out: &mut Collector) {
    const SOURCE: &str = "/proc/cmdline";
    let Some(line) = trimmed(out.root, SOURCE) else { return };
    let default = default_huge_page_bytes(out.root);
    for (name, value) in parameters(&line, default) {
        out.value(format!("cmdline.{name}"), value, SOURCE);
    }
}

/// Parameters by name. The kernel treats `-` and `_` in names as the same, and ends its own part at `--`; quotes keep
/// blanks in a value. Each `hugepages=` is keyed by the size it applies to.
fn parameters(line: &str, default_huge: Option<u64>) -> BTreeMap<String, String> {
    let words = words(line);
    let mut default_huge = default_huge;
    for word in &words {
        if let Some(size) = word.strip_prefix("default_hugepagesz=").and_then(parse_size) {
            default_huge = Some(size);
        }
    }
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut size = default_huge;
    for word in words.iter().take_while(|word| word.as_str() != "--") {
        let (name, value) = word.split_once('=').map_or((word.as_str(), "set"), |(name, value)| (name, value));
        let mut name = name.replace('-', "_");
        // The name of a sysctl is a path in the other namespace, where a dash is a dash.
        if let Some(sysctl) = word.split('=').next().and_then(|name| name.strip_prefix("sysctl.")) {
            name =
                format!("sysctl.{}", if sysctl.contains('.') { sysctl.to_owned() } else { sysctl.replace('/', ".") });
        }
        match name.as_str() {
            "hugepagesz" => size = parse_size(value),
            "hugepages" => {
                if let Some(bytes) = size {
                    name = format!("hugepages.{}", format_size(bytes));
                }
            }
            _ => {}
        }
        if name.is_empty() {
            continue;
        }
        found
            .entry(name)
            .and_modify(|known| {
                known.push(' ');
                known.push_str(value);
            })
            .or_insert_with(|| value.to_owned());
    }
    found
}

/// Words of a command line; a double quote switches blanks off and on, and is dropped.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => words.push(String::new()),
            c => words.last_mut().into_iter().for_each(|word| word.push(c)),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

pub(super) fn kconfig(out: &mut Collector) {
    let (source, text) = match config_text(out.root) {
        Ok(found) => found,
        Err(reason) => {
            out.missing("kernel.config", "/proc/config.gz", reason);
            return;
        }
    };
    out.value("kernel.config", &*source, &source);
    for line in text.lines() {
        if let Some((name, value)) = option(line) {
            out.value(format!("kconfig.{name}"), value, &source);
        }
    }
}

/// `CONFIG_HZ=250` and `# CONFIG_X is not set` (which is `n`); strings lose their quotes.
fn option(line: &str) -> Option<(&str, &str)> {
    if let Some(rest) = line.strip_prefix("CONFIG_") {
        let (name, value) = rest.split_once('=')?;
        return (!name.is_empty()).then(|| (name, value.trim().trim_matches('"')));
    }
    let name = line.strip_prefix("# CONFIG_")?.strip_suffix(" is not set")?;
    (!name.is_empty()).then_some((name, "n"))
}

/// Where the configuration was found, and its text; or why not.
fn config_text(root: &Path) -> Result<(String, String), String> {
    let packed = "/proc/config.gz";
    let mut tried = vec![packed.to_owned()];
    let first = match bytes_up_to(&under(root, packed), LONGEST_CONFIG) {
        Ok(bytes) => return unpack(&bytes).map(|text| (packed.to_owned(), text)),
        Err(error) => plain(&error),
    };
    if let Some(release) = kernel_release(root) {
        let places = [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")];
        for place in places {
            if let Ok(bytes) = bytes_up_to(&under(root, &place), LONGEST_CONFIG) {
                return Ok((place, String::from_utf8_lossy(&bytes).into_owned()));
            }
            tried.push(place);
        }
    }
    Err(format!("none of {} can be read ({first}); load it with: modprobe configs", tried.join(", ")))
}

fn unpack(bytes: &[u8]) -> Result<String, String> {
    let mut text = Vec::with_capacity(bytes.len() * 6);
    let limit = u64::try_from(LONGEST_CONFIG).unwrap_or(u64::MAX);
    let read = flate2::read::GzDecoder::new(bytes).take(limit).read_to_end(&mut text);
    read.map_err(|error| format!("/proc/config.gz cannot be unpacked: {}", tidy(&plain(&error))))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_taken_apart() {
        let line = "quiet transparent-hugepage=madvise hugepages=8 hugepagesz=1G hugepages=4 hugepagesz=2M \
            hugepages=512 console=tty0 console=ttyS0 dyndbg=\"file a.c +p\" sysctl.vm.swappiness=10 panic=1 -- \
            --init-option panic=5";
        let found = parameters(line, Some(2 << 20));
        let get = |name: &str| found.get(name).map(String::as_str);
        assert_eq!(get("quiet"), Some("set"));
        assert_eq!(get("transparent_hugepage"), Some("madvise"));
        assert_eq!(get("hugepages.1G"), Some("4"));
        assert_eq!(get("hugepages.2M"), Some("8 512"));
        assert_eq!(get("hugepages"), None);
        assert_eq!(get("hugepagesz"), Some("1G 2M"));
        assert_eq!(get("console"), Some("tty0 ttyS0"));
        assert_eq!(get("dyndbg"), Some("file a.c +p"));
        assert_eq!(get("sysctl.vm.swappiness"), Some("10"));
        assert_eq!(get("panic"), Some("1"), "what follows -- is for init");
        let later = parameters("hugepages=3 default_hugepagesz=1G", Some(2 << 20));
        assert_eq!(later.get("hugepages.1G").map(String::as_str), Some("3"));
        let unknown = parameters("hugepages=3", None);
        assert_eq!(unknown.get("hugepages").map(String::as_str), Some("3"));
    }

    #[test]
    fn the_series_is_the_first_two_numbers() {
        for (release, expected) in
            [("6.1.0-56-amd64", "6.1"), ("6.18.44-fc-v657", "6.18"), ("6.12-rc1", "6.12"), ("7.0.1+", "7.0")]
        {
            assert_eq!(series(release).as_deref(), Some(expected), "{release}");
        }
        assert_eq!((series(""), series("next"), series("6.")), (None, None, None));
    }

    #[test]
    fn options_are_read_as_the_kernel_writes_them() {
        assert_eq!(option("CONFIG_HZ=250"), Some(("HZ", "250")));
        assert_eq!(option("CONFIG_DEFAULT_TCP_CONG=\"bbr\""), Some(("DEFAULT_TCP_CONG", "bbr")));
        assert_eq!(option("# CONFIG_KASAN is not set"), Some(("KASAN", "n")));
        for other in ["", "#", "# Automatically generated file; DO NOT EDIT.", "CONFIG_", "# CONFIG_X", "CONFIG_=y"] {
            assert_eq!(option(other), None, "{other:?}");
        }
    }
}
