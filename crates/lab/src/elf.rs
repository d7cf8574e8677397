//! Programs of the host for the guest: which shared libraries they need, and where those are.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{
    DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_STRTAB, FileHeader64, PT_LOAD, ProgramHeader64, SHF_ALLOC, SHT_SYMTAB,
    SectionHeader64,
};
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader, SectionHeader};

use crate::error::{LabError, Result};

/// The dynamic linker's default folders.
const DEFAULT_FOLDERS: [&str; 8] = [
    "lib/x86_64-linux-gnu",
    "usr/lib/x86_64-linux-gnu",
    "lib64",
    "usr/lib64",
    "lib",
    "usr/lib",
    "usr/local/lib",
    "usr/local/lib/x86_64-linux-gnu",
];

/// Alignment of tables of symbols and sections in a 64-bit file: their fields are read in place.
const ALIGNMENT: usize = 8;

/// What a program or library asks of the dynamic linker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Needs {
    /// The dynamic linker itself; libraries and static programs name none.
    interpreter: Option<PathBuf>,
    libraries: Vec<String>,
    /// Folders to look in first; `$ORIGIN` is the file's own.
    folders: Vec<String>,
}

/// What the file needs. `None` if it is no ELF file of this machine's word size: a script, say. The table of sections is
/// not asked: a stripped program may have none.
fn needs(bytes: &[u8]) -> Option<Needs> {
    let elf = ElfFile64::<Endianness>::parse(bytes).ok()?;
    let endian = elf.endian();
    let segments = elf.elf_program_headers();
    let mut needs = Needs::default();
    for segment in segments {
        if let Ok(Some(path)) = segment.interpreter(endian, bytes) {
            needs.interpreter = Some(PathBuf::from(String::from_utf8_lossy(path).into_owned()));
        }
    }
    let entries = segments.iter().find_map(|segment| segment.dynamic(endian, bytes).ok().flatten()).unwrap_or_default();
    let entries: Vec<_> = entries.iter().map(|entry| (entry.tag(endian), entry.val(endian))).collect();
    let table = entries.iter().find(|(tag, _)| *tag == DT_STRTAB).map(|(_, address)| *address);
    let text = |offset: u64| -> Option<String> {
        let address = table?.checked_add(offset)?;
        let load = |segment: &&ProgramHeader64<Endianness>| {
            let from = segment.p_vaddr(endian);
            segment.p_type(endian) == PT_LOAD && (from..from + segment.p_filesz(endian)).contains(&address)
        };
        let segment = segments.iter().find(load)?;
        let data = segment.data(endian, bytes).ok()?;
        let rest = data.get(usize::try_from(address - segment.p_vaddr(endian)).ok()?..)?;
        Some(String::from_utf8_lossy(rest.split(|byte| *byte == 0).next()?).into_owned())
    };
    for (tag, value) in &entries {
        if *tag == DT_NEEDED {
            needs.libraries.extend(text(*value));
        } else if *tag == DT_RUNPATH || *tag == DT_RPATH {
            needs.folders.extend(text(*value).iter().flat_map(|text| text.split(':').map(str::to_owned)));
        }
    }
    Some(needs)
}

/// The libraries of all the files, each with where it was found, by name; the dynamic linker is one of them. `roots` are
/// looked through in this order: the host, then packages that were unpacked.
pub(crate) fn libraries(files: &[(&Path, &[u8])], roots: &[&Path]) -> Result<BTreeMap<String, PathBuf>> {
    let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut waiting: VecDeque<(PathBuf, Needs)> =
        files.iter().filter_map(|(path, bytes)| Some(((*path).to_owned(), needs(bytes)?))).collect();
    let folders = configured(Path::new("/"));
    while let Some((path, needs)) = waiting.pop_front() {
        let interpreter = needs.interpreter.iter().filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
        for name in needs.libraries.iter().cloned().chain(interpreter) {
            if found.contains_key(&name) {
                continue;
            }
            let own = needs.folders.iter().map(|folder| own_folder(&path, folder));
            let file = find(&name, own, roots, &folders).ok_or_else(|| LabError::Program {
                program: path.display().to_string(),
                why: format!("its library {name} was not found; type: ldd {}", path.display()),
            })?;
            let bytes = fs::read(&file).map_err(LabError::io(&file))?;
            waiting.extend(self::needs(&bytes).map(|needs| (file.clone(), needs)));
            found.insert(name, file);
        }
    }
    Ok(found)
}

fn own_folder(file: &Path, folder: &str) -> PathBuf {
    let origin = file.parent().unwrap_or(Path::new("/")).display().to_string();
    PathBuf::from(folder.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin))
}

fn find(name: &str, own: impl Iterator<Item = PathBuf>, roots: &[&Path], configured: &[PathBuf]) -> Option<PathBuf> {
    let by_default = roots.iter().flat_map(|root| DEFAULT_FOLDERS.map(|folder| root.join(folder)));
    let mut folders = own.chain(configured.iter().cloned()).chain(by_default);
    folders.find_map(|folder| {
        let file = folder.join(name);
        // A library of another machine may have the same name.
        fs::read(&file).is_ok_and(|bytes| ElfFile64::<Endianness>::parse(bytes.as_slice()).is_ok()).then_some(file)
    })
}

/// The folders that ld.so.conf of the host names, including its includes.
fn configured(root: &Path) -> Vec<PathBuf> {
    let mut files = vec![root.join("etc/ld.so.conf")];
    let parts = fs::read_dir(root.join("etc/ld.so.conf.d")).into_iter().flatten().flatten();
    files.extend(parts.map(|entry| entry.path()));
    files.sort();
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    let lines = texts.flat_map(|text| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>());
    lines.filter(|line| line.starts_with('/')).map(PathBuf::from).collect()
}

/// The file without debug information: its loaded bytes, its table of symbols, which samples and stacks are named by, and a
/// table of sections that has no others. A file that is not understood is returned whole.
pub(crate) fn without_debug_information(bytes: Vec<u8>) -> Vec<u8> {
    loaded_and_symbols(&bytes).unwrap_or(bytes)
}

fn loaded_and_symbols(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = bytes.get(..loaded_end(bytes)?)?.to_vec();
    let elf = ElfFile64::<Endianness>::parse(bytes).ok()?;
    let endian = elf.endian();
    let names = elf.elf_header().shstrndx(endian, bytes).ok()? as usize;
    // Symbols name their sections by number, and readers look for names: the table stays as long as it was, and what is
    // left out becomes an entry that is not in use (elf(5), SHT_NULL).
    let mut sections: Vec<SectionHeader64<Endianness>> = elf.elf_section_table().iter().copied().collect();
    let symbols = sections.iter().find(|section| section.sh_type.get(endian) == SHT_SYMTAB);
    let strings = symbols.map(|section| section.sh_link.get(endian) as usize);
    let unused = *sections.first()?;
    for (number, section) in sections.iter_mut().enumerate() {
        let is_loaded = section.sh_flags.get(endian).0 & SHF_ALLOC.0 != 0;
        let is_kept = section.sh_type.get(endian) == SHT_SYMTAB || Some(number) == strings || number == names;
        if is_kept && !is_loaded {
            let data = section.data(endian, bytes).ok()?;
            out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
            section.sh_offset.set(endian, out.len() as u64);
            out.extend_from_slice(data);
        } else if !is_loaded {
            *section = unused;
        }
    }
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
    let table = out.len() as u64;
    out.extend_from_slice(object::pod::bytes_of_slice(&sections));
    // e_shoff, in the header of a 64-bit file (elf(5)); the number of sections stays.
    let field = match endian {
        Endianness::Little => table.to_le_bytes(),
        Endianness::Big => table.to_be_bytes(),
    };
    out.get_mut(40..48)?.copy_from_slice(&field);
    Some(out)
}

fn loaded_end(bytes: &[u8]) -> Option<usize> {
    let elf = ElfFile64::<Endianness>::parse(bytes).ok()?;
    let header: &FileHeader64<Endianness> = elf.elf_header();
    let endian = elf.endian();
    let mut end =
        header.e_phoff.get(endian) + u64::from(header.e_phentsize.get(endian)) * u64::from(header.e_phnum.get(endian));
    let mut loads = 0;
    for segment in elf.elf_program_headers() {
        loads += usize::from(segment.p_type(endian) == PT_LOAD);
        end = end.max(segment.p_offset(endian).checked_add(segment.p_filesz(endian))?);
    }
    usize::try_from(end).ok().filter(|end| loads > 0 && *end <= bytes.len())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use object::read::elf::ElfSymbol64;
    use object::{Object, ObjectSection, ObjectSymbol};

    use super::*;

    #[test]
    fn libraries_are_those_that_the_dynamic_linker_loads() {
        let program = std::env::current_exe().expect("this test");
        for program in [program.as_path(), Path::new("/usr/bin/env"), Path::new("/usr/bin/apt-get")] {
            let bytes = fs::read(program).expect("read");
            let found = libraries(&[(program, &bytes)], &[Path::new("/")]).expect("libraries");
            let said = Command::new("ldd").arg(program).output().expect("ldd").stdout;
            let said = String::from_utf8_lossy(&said);
            let names = said.lines().filter_map(|line| line.split_whitespace().next()?.rsplit('/').next());
            let expected: BTreeSet<String> =
                names.filter(|name| !name.starts_with("linux-vdso")).map(str::to_owned).collect();
            assert_eq!(found.keys().cloned().collect::<BTreeSet<_>>(), expected, "{}", program.display());
        }
    }

    #[test]
    fn scripts_need_nothing_and_a_missing_library_is_said() {
        let script: &[u8] = b"#!/bin/sh\n";
        assert!(libraries(&[(Path::new("x"), script)], &[Path::new("/")]).expect("none").is_empty());
        let env = fs::read("/usr/bin/env").expect("read");
        let at = env.windows(9).position(|bytes| bytes == b"libc.so.6").expect("the name of libc");
        let mut other = env.clone();
        other[at..at + 9].copy_from_slice(b"libq.so.6");
        let error = libraries(&[(Path::new("env"), &other)], &[Path::new("/")]).expect_err("no such library");
        assert!(error.to_string().contains("libq.so.6 was not found"), "{error}");
    }

    /// Another test that forks at this moment holds the file open for writing until it executes something: busy until then.
    fn run(file: &Path) -> std::process::Output {
        loop {
            match Command::new(file).output() {
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                output => return output.expect("runs"),
            }
        }
    }

    /// Names, and the sections that the symbols lie in.
    fn symbols(bytes: &[u8]) -> Vec<(String, String)> {
        let elf = ElfFile64::<Endianness>::parse(bytes).expect("a program");
        let section = |symbol: &ElfSymbol64<'_, '_, Endianness>| {
            let section = symbol.section_index().and_then(|index| elf.section_by_index(index).ok());
            section.and_then(|section| Some(section.name().ok()?.to_owned())).unwrap_or_default()
        };
        elf.symbols().map(|symbol| (symbol.name().unwrap_or_default().to_owned(), section(&symbol))).collect()
    }

    #[test]
    fn a_program_without_debug_information_still_runs_with_all_its_symbols() {
        let folder = tempfile::tempdir().expect("a folder");
        let [source, built, file] = ["p.c", "whole", "small"].map(|name| folder.path().join(name));
        let text = "#include <stdio.h>\nint known_by_its_name(void) { return puts(\"it ran\"); }\n\
                    int main(void) { return known_by_its_name() < 0; }\n";
        fs::write(&source, text).expect("written");
        let gcc = Command::new("gcc").args(["-g3", "-o"]).arg(&built).arg(&source).status().expect("gcc");
        assert!(gcc.success());
        let whole = fs::read(&built).expect("read");
        let small = without_debug_information(whole.clone());
        assert!(small.len() < whole.len() * 3 / 4, "{} of {}", small.len(), whole.len());
        assert_eq!(needs(&small), needs(&whole));
        assert_eq!(symbols(&small), symbols(&whole));
        assert!(symbols(&small).iter().any(|(name, section)| name == "known_by_its_name" && section == ".text"));
        fs::write(&file, &small).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("executable");
        let output = run(&file);
        assert!(output.status.success() && output.stdout == b"it ran\n", "{output:?}");
        let listed = Command::new("readelf").args(["-SW", "-sW"]).arg(&file).output().expect("readelf");
        let errors = String::from_utf8_lossy(&listed.stderr);
        assert!(listed.status.success() && errors.is_empty(), "readelf says of it: {errors}");
        let elf = ElfFile64::<Endianness>::parse(small.as_slice()).expect("a program");
        assert!(elf.section_by_name(".debug_line").is_none() && elf.section_by_name(".symtab").is_some());
        let parsed = ElfFile64::<Endianness>::parse(whole.as_slice()).expect("a program");
        assert!(parsed.section_by_name(".debug_line").is_some());
        assert_eq!(without_debug_information(b"#!/bin/sh\n".to_vec()), b"#!/bin/sh\n");
    }
}
