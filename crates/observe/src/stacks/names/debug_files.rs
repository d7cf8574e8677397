//! Files beside a program that have its symbols: found by its build id, by its `.gnu_debuglink`, by the common file of dwz.
//!
//! As gdb looks for them, but below the root of the process that has the program mapped; in the recorder's own root only files with the
//! program's build id count, which no other root can forge there. Nothing is believed by its name alone: a build id or a checksum says
//! that two files belong together.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::Object;
use pagelab_vocab::units::hexadecimal;

use super::data::{Data, Source};
use super::dwarf;
use crate::stacks::hostile;
use crate::stacks::roots::Root;

/// Where distributions put such files.
const DEBUG_DIR: &str = "/usr/lib/debug";
/// Bytes of a file that a checksum is made of.
const SUMMED_BYTES_MAX: u64 = 4 << 30;

/// Where files are looked for.
pub(super) struct Places<'a> {
    /// The root of the process.
    pub own: Option<&'a Root>,
    /// The recorder's.
    pub host: Option<&'a Root>,
    /// The program as the process sees it.
    pub path: &'a Path,
}

/// A file that belongs to a program.
pub(super) struct Found {
    pub source: Source,
    /// Where it was found, and in which of the roots.
    pub path: PathBuf,
    pub in_host: bool,
}

impl Places<'_> {
    /// The paths of the program in the root of its process.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        [Some(self.path), self.own.and_then(|own| own.inner(self.path))].into_iter().flatten()
    }

    /// The host's root, if it is another than that of the process.
    fn other_host(&self) -> Option<&Root> {
        self.host.filter(|host| self.own.is_none_or(|own| !own.is(host)))
    }

    /// A file with that build id, in the debug folder of either root.
    fn with_build_id(&self, build_id: &[u8]) -> Option<Found> {
        let hex = hexadecimal(build_id);
        if hex.len() < 4 {
            return None;
        }
        let path = PathBuf::from(format!("{DEBUG_DIR}/.build-id/{}/{}.debug", &hex[..2], &hex[2..]));
        let has_id = |data: Data<'_>| build_id_of(data).as_deref() == Some(build_id);
        let open = |root: Option<&Root>, in_host| {
            let source = source_of(&root?.open(&path)?)?;
            has_id(source.data()).then(|| Found { source, path: path.clone(), in_host })
        };
        open(self.own, false).or_else(|| open(self.other_host(), true))
    }

    /// The file with the symbols of a program that has none, or the reason why there is none.
    pub(super) fn debug_file(&self, program: &File, data: Data<'_>) -> Result<Found, String> {
        let build_id = build_id_of(data);
        if let Some(found) = build_id.as_deref().and_then(|id| self.with_build_id(id)) {
            return Ok(found);
        }
        let parsed = dwarf::File::parse(data).map_err(|error| error.to_string())?;
        let link = parsed.gnu_debuglink().ok().flatten();
        let said = build_id.as_deref().map(hexadecimal);
        let Some((name, sum)) = link.filter(|(name, _)| !name.is_empty()) else {
            return Err(match said {
                Some(id) => format!("no debug file found for build id {id}"),
                None => "no debug file found: it has neither a build id nor a .gnu_debuglink".to_owned(),
            });
        };
        let shown = String::from_utf8_lossy(name).escape_debug().to_string();
        let mut refused = None;
        for (path, in_host) in self.linked(name) {
            let root = if in_host { self.other_host() } else { self.own };
            let Some(file) = root.and_then(|root| root.open(&path)).filter(|file| !is_same(file, program)) else {
                continue;
            };
            let Some(source) = source_of(&file) else { continue };
            let its_id = build_id_of(source.data());
            let belongs = match (&build_id, &its_id) {
                (Some(one), Some(other)) => one == other,
                // The host's own files belong to others unless their build id says otherwise.
                _ => !in_host && checksum(&file) == Some(sum),
            };
            if belongs {
                return Ok(Found { source, path, in_host });
            }
            refused = Some(format!("{} is of another build", path.display()));
        }
        let id = said.map_or_else(String::new, |id| format!(" nor for build id {id}"));
        Err(refused.unwrap_or_else(|| format!("no debug file found by its link {shown:?}{id}")))
    }

    /// Where a debug file of that name may be, and whether that is in the host's root.
    fn linked(&self, name: &[u8]) -> Vec<(PathBuf, bool)> {
        let name = Path::new(OsStr::from_bytes(name));
        let mut paths = Vec::new();
        for dir in self.paths().filter_map(Path::parent) {
            let below = Path::new(DEBUG_DIR).join(dir.strip_prefix("/").unwrap_or(dir));
            paths.extend([(dir.join(name), false), (dir.join(".debug").join(name), false)]);
            paths.extend([(below.join(name), false), (below.join(name), true)]);
        }
        paths
    }

    /// The file that dwz moved common parts to, named by a file that lies at `from`.
    pub(super) fn common_file(&self, data: Data<'_>, from: &Path, in_host: bool) -> Option<Found> {
        let parsed = dwarf::File::parse(data).ok()?;
        let (name, build_id) = parsed.gnu_debugaltlink().ok().flatten()?;
        if let Some(found) = self.with_build_id(build_id) {
            return Some(found);
        }
        let name = Path::new(OsStr::from_bytes(name));
        let path = from.parent().map_or_else(|| name.to_owned(), |dir| dir.join(name));
        let root = if in_host { self.other_host() } else { self.own };
        let source = source_of(&root?.open(&path)?)?;
        let belongs = !build_id.is_empty() && build_id_of(source.data()).as_deref() == Some(build_id);
        belongs.then_some(Found { source, path, in_host })
    }

    /// A file of split DWARF beside the program, or where it was made.
    pub(super) fn split(&self, path: &Path) -> Option<Source> {
        source_of(&self.own?.open(path)?)
    }

    /// Where a package of split DWARF would be.
    pub(super) fn packages(&self) -> Vec<PathBuf> {
        let with_end = |path: &Path| {
            let mut name = path.as_os_str().to_owned();
            name.push(".dwp");
            PathBuf::from(name)
        };
        self.paths().map(with_end).collect()
    }
}

fn source_of(file: &File) -> Option<Source> {
    Source::of(file, hostile::is_trusted(file)).ok()
}

fn is_same(one: &File, other: &File) -> bool {
    let id = |file: &File| file.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    id(one).is_some_and(|one| Some(one) == id(other))
}

/// The build id of a file.
pub(super) fn build_id_of(data: Data<'_>) -> Option<Vec<u8>> {
    let file = dwarf::File::parse(data).ok()?;
    file.build_id().ok().flatten().map(<[u8]>::to_vec).filter(|id| !id.is_empty())
}

/// The checksum by which a link knows its file.
fn checksum(file: &File) -> Option<u32> {
    use std::os::unix::fs::FileExt;
    if file.metadata().ok()?.len() > SUMMED_BYTES_MAX {
        return None;
    }
    let (mut sum, mut at, mut bytes) = (crc32fast::Hasher::new(), 0, vec![0; 1 << 20]);
    loop {
        let read = file.read_at(&mut bytes, at).ok()?;
        if read == 0 {
            return Some(sum.finalize());
        }
        sum.update(&bytes[..read]);
        at += read as u64;
    }
}
