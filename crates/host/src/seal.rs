//! Seals: proof that this user of this host wrote a text, such as the command of a recording.
//!
//! Recordings are copied, mirrored and mailed, and a command in one of them is data that anybody can have written. Before such a
//! command is run again, somebody has to mean it: the user who recorded it here, which a seal shows, or the user who says so.
//!
//! A seal is SHA3-256 of a key, a domain, the calling user and the text. SHA-3 needs no HMAC around it: what is known of
//! `hash(key, text)` says nothing of `hash(key, text, more)` (NIST FIPS 202, appendix A.2). The key is 32 random bytes in a folder
//! that nobody else may write: `$PAGELAB_STATE_DIR`, `/var/lib/pagelab` of root, `$XDG_STATE_HOME/pagelab` or
//! `~/.local/state/pagelab` of others. Without such a folder nothing is sealed.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;

use pagelab_vocab::units::hexadecimal;
use sha3::{Digest as _, Sha3_256};

use crate::guard::state::Folder;

/// Where root keeps the key.
const OF_ROOT: &str = "/var/lib/pagelab";
const NAME: &str = "seal.key";
const KEY_BYTES: usize = 32;

/// A user's key on this host.
pub struct Sealer {
    key: [u8; KEY_BYTES],
    /// Who calls: under sudo the user who called it, because they share root's key.
    uid: u32,
}

impl Sealer {
    /// Reads the key, and makes it if there is none.
    ///
    /// # Errors
    /// There is no folder for it, or it belongs to others.
    pub fn open() -> io::Result<Self> {
        let folder = folder().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no home folder"))?;
        let folder = Folder::make(&folder, 0o700)?;
        let key = match folder.new_file(NAME) {
            Ok(file) => new_key(file)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read_key(folder.file(NAME, false)?)?,
            Err(error) => return Err(error),
        };
        Ok(Self { key, uid: caller() })
    }

    /// The seal of a text, in hexadecimal. `domain` says what kind of text it is: a seal of one kind is none of another.
    pub fn seal(&self, domain: &str, text: &[u8]) -> String {
        let mut hash = Sha3_256::new();
        hash.update(self.key);
        hash.update((domain.len() as u64).to_le_bytes());
        hash.update(domain.as_bytes());
        hash.update(self.uid.to_le_bytes());
        hash.update(text);
        hexadecimal(&hash.finalize())
    }

    /// Whether this user sealed the text on this host.
    pub fn has_sealed(&self, domain: &str, text: &[u8], seal: &str) -> bool {
        let own = self.seal(domain, text);
        let differing = own.bytes().zip(seal.bytes()).fold(0, |differing, (own, found)| differing | (own ^ found));
        own.len() == seal.len() && differing == 0
    }
}

fn new_key(mut file: File) -> io::Result<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut key)?;
    file.write_all(&key)?;
    Ok(key)
}

/// A key that is shorter is being written by another pagelab at this moment, or its writer died.
fn read_key(mut file: File) -> io::Result<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    file.read_exact(&mut key)?;
    Ok(key)
}

fn caller() -> u32 {
    let own = rustix::process::geteuid().as_raw();
    let sudo = std::env::var("SUDO_UID").ok().filter(|_| own == 0);
    sudo.and_then(|uid| uid.parse().ok()).unwrap_or(own)
}

fn folder() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    if let Some(dir) = named("PAGELAB_STATE_DIR") {
        return Some(dir);
    }
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from(OF_ROOT));
    }
    let state = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")))?;
    state.is_absolute().then(|| state.join("pagelab"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_of_one_key_one_user_one_kind_and_one_text() {
        let sealer = Sealer { key: [7; KEY_BYTES], uid: 1000 };
        let seal = sealer.seal("command", b"id");
        assert!(sealer.has_sealed("command", b"id", &seal));
        for (domain, text) in [("command", &b"id -u"[..]), ("plan", b"id"), ("comman", b"did"), ("command", b"")] {
            assert!(!sealer.has_sealed(domain, text, &seal), "{domain} {text:?}");
        }
        for other in [Sealer { key: [8; KEY_BYTES], uid: 1000 }, Sealer { key: [7; KEY_BYTES], uid: 1001 }] {
            assert!(!other.has_sealed("command", b"id", &seal));
        }
        for seal in ["", &seal[1..], &format!("{seal}0")] {
            assert!(!sealer.has_sealed("command", b"id", seal));
        }
    }
}
