"""Programs of the zoo that are compiled before they run, from a text in one file."""

import dataclasses

from cases import Side

# By the ending of a text's name; {file} is the text and {out} the program, both in the folder where it runs.
COMPILERS = {"c": "gcc -O2 -w -pthread -o {out} {file}", "cc": "g++ -O2 -w -pthread -o {out} {file}", "f90": "gfortran -O2 -o {out} {file}",
             "go": "go build -o {out} {file}", "rs": "rustc -O -o {out} {file}", "ml": "ocamlopt -I +unix unix.cmxa -o {out} {file}",
             "pas": "fpc -O2 -o{out} {file}", "cs": "mcs -optimize+ -out:{out} {file}"}
# Compilers that lie where their installers put them, and what Go asks for.
SURROUNDINGS = "export HOME=${HOME:-/root} GO111MODULE=off; PATH=$PATH:/usr/local/go/bin:$HOME/.cargo/bin"

# What C and C++ programs of the kinds begin with.
C_HEAD = """#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
"""


def built(name, language, source, libraries=""):
    """Commands that make {dir}/bin/NAME, if it is not there."""
    file = f"{name}.{language}"
    line = f"{COMPILERS[language].format(file=file, out=name)} {libraries}"
    make = f"mkdir -p {{dir}}/bin && cd {{dir}}/bin && cat > {file} <<'END' && {SURROUNDINGS} && {line} 1>&2\n{source}\nEND\n"
    return [["sh", "-c", f"[ -x {{dir}}/bin/{name} ] || {{ {make}}}"]]


def after(commands, sides):
    """Sides before each of which these commands run."""
    return tuple(dataclasses.replace(side, before=[*commands, *side.before]) for side in sides)


def with_one(build, line, word, values, before=(), **more):
    """A program, one of whose arguments has one of two values."""
    return tuple(Side([part.replace(word, str(value)) for part in line], before=[*build, *before], **more) for value in values)
