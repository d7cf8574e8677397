//! A line, or a JSON document, a second: for pipes.

use std::io::{self, Write};
use std::sync::mpsc::Receiver;

use pagelab_vocab::terminal::{Allow, Escaping, escape};
use pagelab_vocab::units::{quantity, significant};

use crate::onlooker::Message;
use crate::second::Second;

/// Rows of each list in a JSON document.
const ROWS: usize = 20;
/// Names of each list in a line.
const NAMES: usize = 3;

/// Writes each second until there are no more. Who reads no longer is an error.
pub(crate) fn write(from: &Receiver<Message>, to: impl Write, json: bool) -> io::Result<()> {
    let mut out = Escaping::new(to, if json { Allow::Json } else { Allow::Lines });
    for message in from {
        let Message::Second(mut second) = message else { continue };
        let text = if json {
            second.waits.truncate(ROWS);
            second.threads.truncate(ROWS);
            serde_json::to_string(&second).map_err(io::Error::other)?
        } else {
            line(&second)
        };
        out.write_all(format!("{text}\n").as_bytes())?;
        out.flush()?;
    }
    Ok(())
}

fn state(second: &Second, name: &str, ns: u64) -> String {
    format!("{name} {}/s {:.0} %", quantity(second.per_s(ns), "ns"), second.pct(ns))
}

fn listed(title: &str, names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{title}: {}", names.join(", ")))
}

/// A second in one line.
fn line(second: &Second) -> String {
    let mut parts = vec![
        format!("{:.1} s", second.elapsed_s),
        state(second, "run", second.run_ns),
        state(second, "ready", second.ready_ns),
        state(second, "off", second.off_ns),
    ];
    if let Some(faults) = &second.faults {
        let major = second.per_s(faults.major);
        parts.push(format!("faults {}, major {}", quantity(faults.per_s, "/s"), quantity(major, "/s")));
    }
    let time = |ns: u64| format!("{}/s", quantity(second.per_s(ns), "ns"));
    let calls = second.calls.iter().flatten().take(NAMES);
    let calls = calls.map(|call| format!("{} {} {}", call.name, quantity(call.per_s, "/s"), time(call.ns)));
    let waits = second.waits.iter().take(NAMES);
    let waits = waits.map(|wait| format!("{} {}", wait.call.unwrap_or("-"), time(wait.ns)));
    let threads = second.threads.iter().filter(|thread| thread.run_ns > 0).take(NAMES);
    let threads = threads.map(|thread| format!("{} {}", escape(&thread.comm), time(thread.run_ns)));
    parts.extend(listed("calls", &calls.collect::<Vec<_>>()));
    parts.extend(listed("waits", &waits.collect::<Vec<_>>()));
    parts.extend(listed("threads", &threads.collect::<Vec<_>>()));
    parts.extend(second.counts_missing.as_ref().map(|reason| format!("faults and calls not counted: {reason}")));
    parts.push(format!("own {} %", significant(second.cost.cpu_pct, 2)));
    if second.skipped > 0 {
        parts.push(format!("{} seconds left out", second.skipped));
    }
    parts.join("  ")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::second::{Call, Faults, Thread};

    fn second() -> Second {
        let faults =
            Faults { total: 100, per_s: 50.0, read: 100, write: 0, execute: 0, protection: 0, kernel: 0, major: 2 };
        Second {
            elapsed_s: 4.0,
            seconds: 2.0,
            lives_ns: 2_000_000_000,
            run_ns: 500_000_000,
            off_ns: 1_500_000_000,
            faults: Some(faults),
            calls: Some(vec![Call { name: "read", calls: 3, per_s: 1.5, ns: 2000, cpu_ns: 100 }]),
            threads: vec![Thread {
                pid: Some(1),
                tid: Some(1),
                comm: "a\u{1b}[2Jb".to_owned(),
                run_ns: 500_000_000,
                ready_ns: 0,
                off_ns: 0,
            }],
            ..Second::default()
        }
    }

    fn written(json: bool) -> String {
        let (to, from) = sync_channel(4);
        to.send(Message::Begun).expect("room");
        to.send(Message::Second(Box::new(second()))).expect("room");
        drop(to);
        let mut out = Vec::new();
        write(&from, &mut out, json).expect("memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_line_holds_rates_and_nothing_that_a_terminal_acts_on() {
        let line = "4.0 s  run 250 ms/s 25 %  ready 0 ns/s 0 %  off 750 ms/s 75 %  faults 50/s, major 1/s  \
                    calls: read 1.5/s 1 us/s  threads: a\\u{1b}[2Jb 250 ms/s  own 0 %\n";
        assert_eq!(written(false), line);
    }

    #[test]
    fn a_document_is_one_line() {
        let text = written(true);
        assert_eq!(text.lines().count(), 1);
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(document["threads"][0]["comm"], "a\u{1b}[2Jb");
        assert_eq!(document["cost"]["bpf_ns"], serde_json::Value::Null);
    }
}
