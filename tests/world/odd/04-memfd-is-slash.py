"""memfds, pipes, sockets and other files without a place in a folder have names of their own, not "/"."""

import collections

TRUTH = """/proc/PID/maps: /memfd:cache-a (300 faults), /memfd:cache-b (400 and 100 of a child), /dev/zero (500), /SYSV00000000 (600);
/proc/PID/fd: the name of every descriptor; /proc/PID/exe: /memfd:odd name;x"""


def run(w):
    program = w.compile("memfds", source="04-memfds.c")
    recording = w.record(program, observe="default,syscalls")
    said = recording_output(w, program)
    names_of_calls(w, recording, said)
    names_of_mappings(w, recording, said)
    name_of_a_program(w)


def recording_output(w, program):
    """What the program says of itself, by what it says it of. Numbers of pipes and sockets are other ones in every run."""
    said = {}
    for line in w.run(program).stdout.split("\0"):
        if line:
            kind, number, name = line.strip("\n").split(" ", 2)
            said[kind, int(number)] = plain(name.removesuffix(" (deleted)"))
    w.expect(len(said) == 19, f"the program said {said}")
    return said


def plain(name):
    kind, bracket, number = name.partition(":[")
    return kind if bracket and number.rstrip("]").isdigit() else name


def names_of_calls(w, recording, said):
    rows = recording.sql("select s.args[2] at, f.path_text name from syscalls s left join files f using (file_id)"
                         " where s.name = 'lseek'")
    found = {}
    for row in rows:
        found.setdefault(int(row["at"]) // 1000, collections.Counter())[plain(row["name"] or "no name")] += 1
    for (kind, index), name in said.items():
        if kind == "fd" and name.startswith("/dev/shm/#"):
            w.expect(all(one.startswith("/dev/shm/#") for one in found.get(index, {})), f"{found.get(index)}, needed {name!r}")
        elif kind == "fd" and index:
            w.expect(found.get(index) == {name: index + 1}, f"descriptor {index}: found {found.get(index)}, needed {name!r}: {index + 1}")
    by_file = recording.show("syscalls", "--by", "file")["groups"]
    w.expect("/" not in {group["name"] for group in by_file}, f"the root directory is among the files: {by_file}")


def names_of_mappings(w, recording, said):
    rows = recording.sql("select m.path_text name, count(*) n from faults f join mappings m on f.mapping_id = m.mapping_id"
                         " where m.path_text is not null group by 1 having count(*) >= 100")
    found = {row["name"]: int(row["n"]) for row in rows}
    w.expect(found.get(said["map", 0]) == 300, f"{said['map', 0]}: needed 300 faults, found {found}")
    w.expect(found.get(said["map", 1]) == 500, f"{said['map', 1]}: needed 500 faults, found {found}")
    w.expect("/" not in found, f"the root directory has faults: {found}")


def name_of_a_program(w):
    program = w.compile("memfd-exec", source="04-memfd-exec.c")
    recording = w.record(program, "/bin/true", name="exec")
    programs = [row["exe_text"] for row in recording.sql("select exe_text from tasks where op = 'exec' order by ts")]
    w.expect(programs == [str(program), "/memfd:odd name;x"], f"executed: {programs}")
