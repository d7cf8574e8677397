//! Matching a key against a pattern with `<placeholders>`.
//!
//! A placeholder stands for at least one character. Most stand for one part of a key (no dot); `<size>` only for a
//! size, `<node>` only for `node` with a number, `<dev>` for letters, digits, `!`, `_` and `-`, and `<mountpoint>`, `<var>`, `<param>`, `<path>` for anything.

use super::size::{format_size, parse_size};

/// What the placeholders stand for if `key` is of the family `pattern`, sizes in their one spelling.
pub(super) fn capture(pattern: &'static str, key: &str) -> Option<Vec<(&'static str, String)>> {
    let mut args = Vec::new();
    capture_into(pattern, key, &mut args).then_some(args)
}

/// Whether `key` is of the family `pattern`; a `*` in it stands for any part of a key.
pub fn matches(pattern: &str, key: &str) -> bool {
    fn walk(pattern: &str, key: &str) -> bool {
        let Some((literal, name, rest)) = split(pattern) else {
            return pattern == key;
        };
        key.strip_prefix(literal).is_some_and(|key| {
            candidates(name, rest, key)
                .into_iter()
                .any(|end| accept(name, &key[..end]).is_some() && walk(rest, &key[end..]))
        })
    }
    walk(pattern, key)
}

fn capture_into(pattern: &'static str, key: &str, args: &mut Vec<(&'static str, String)>) -> bool {
    let Some((literal, name, rest)) = split(pattern) else {
        return pattern == key;
    };
    let Some(key) = key.strip_prefix(literal) else {
        return false;
    };
    for end in candidates(name, rest, key) {
        let Some(value) = accept(name, &key[..end]) else {
            continue;
        };
        let kept = args.len();
        args.push((name, value));
        if capture_into(rest, &key[end..], args) {
            return true;
        }
        args.truncate(kept);
    }
    false
}

/// The literal before the first placeholder, its name, and what follows.
fn split(pattern: &str) -> Option<(&str, &str, &str)> {
    let (literal, rest) = pattern.split_once('<')?;
    let (name, rest) = rest.split_once('>')?;
    Some((literal, name, rest))
}

fn takes_anything(name: &str) -> bool {
    matches!(name, "mountpoint" | "var" | "param" | "path")
}

/// Where the value of a placeholder could end, longest first.
fn candidates(name: &str, rest: &str, key: &str) -> Vec<usize> {
    if rest.is_empty() {
        return vec![key.len()];
    }
    let next = rest.split('<').next().unwrap_or(rest);
    let ends: Vec<usize> = key.match_indices(next).map(|(at, _)| at).collect();
    if takes_anything(name) { ends.into_iter().rev().collect() } else { ends.into_iter().take(1).collect() }
}

fn accept(name: &str, value: &str) -> Option<String> {
    if value.is_empty() {
        return None;
    }
    match name {
        // A pattern is itself a key of its family, so that one registry can name another's family.
        "size" if value == "<size>" => Some(value.to_owned()),
        "size" => parse_size(value).map(format_size),
        // The name of a block device as /sys has it. It ends in commands that a person is told to type.
        "dev" if value == "<dev>" => Some(value.to_owned()),
        "dev" => {
            let letter = |b: u8| b.is_ascii_alphanumeric() || b"!_-".contains(&b);
            value.bytes().all(letter).then(|| value.to_owned())
        }
        "node" if value == "<node>" => Some(value.to_owned()),
        "node" => {
            let number = value.strip_prefix("node")?;
            (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())).then(|| value.to_owned())
        }
        _ if takes_anything(name) || !value.contains('.') => Some(value.to_owned()),
        _ => None,
    }
}

/// The template with its placeholders replaced; one that `value` does not know stays as it is.
pub(super) fn fill(template: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(template.len() + 16);
    let mut left = template;
    while let Some((literal, name, rest)) = split(left) {
        out.push_str(literal);
        if let Some(text) = value(name) {
            out.push_str(&text);
        } else {
            out.push('<');
            out.push_str(name);
            out.push('>');
        }
        left = rest;
    }
    out.push_str(left);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_take_what_their_name_says() {
        let args = capture("hugetlb.<size>.nr_hugepages", "hugetlb.2048kB.nr_hugepages").expect("a size");
        assert_eq!(args, vec![("size", "2M".to_owned())]);
        assert!(capture("hugetlb.<size>.nr_hugepages", "hugetlb.huge.nr_hugepages").is_none());
        assert!(capture("block.<dev>.scheduler", "block..scheduler").is_none());
        assert!(capture("block.<dev>.scheduler", "block.cciss!c0d0.scheduler").is_some());
        for device in ["sda;reboot;#", "../x", "a b", "$(id)", "s\u{1b}da", "sd\u{e4}"] {
            assert!(capture("block.<dev>.scheduler", &format!("block.{device}.scheduler")).is_none(), "{device}");
        }
        assert!(capture("block.<dev>.scheduler", "block.a.b.scheduler").is_none());
        let args = capture("mount.<mountpoint>.options", "mount./srv/a.options/b.options").expect("a mount point");
        assert_eq!(args, vec![("mountpoint", "/srv/a.options/b".to_owned())]);
        let args = capture("hugetlb.<size>.<node>.<name>", "hugetlb.1G.node12.free_hugepages").expect("a node");
        assert_eq!(args[1], ("node", "node12".to_owned()));
        assert!(capture("hugetlb.<size>.<node>.<name>", "hugetlb.1G.nodeX.free_hugepages").is_none());
    }

    #[test]
    fn filling_a_captured_pattern_gives_the_key_back() {
        for (pattern, key) in [
            ("block.<dev>.iosched.<name>", "block.dm-0.iosched.read_expire"),
            ("cgroup.hugetlb.<size>.rsvd.max", "cgroup.hugetlb.1G.rsvd.max"),
            ("env.<var>", "env.A.B"),
        ] {
            let args = capture(pattern, key).expect("matches");
            let again = fill(pattern, |name| args.iter().find(|(arg, _)| *arg == name).map(|(_, v)| v.clone()));
            assert_eq!(again, key);
            assert!(matches(pattern, key));
        }
    }
}
