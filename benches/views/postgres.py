"""PostgreSQL under pgbench, with a cluster of its own, for the scripts beside this one."""

import os
import pathlib
import shutil
import subprocess

AS_POSTGRES = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
# Programs, place, setting of shared_buffers, options of pgbench.
RUN = """
"$1/postgres" -D "$2/cluster" -k "$2" -c listen_addresses= -c shared_buffers="$3" >"$2/server.log" 2>&1 &
server=$!
until "$1/pg_isready" -q -h "$2"; do sleep 0.05; done
"$1/pgbench" -h "$2" $4 postgres >"$2/pgbench.log" 2>&1
status=$?
kill -INT $server
wait $server
exit $status
"""


def pgbench(place, options, scale=10, shared_buffers="128MB"):
    """The command that starts the server at `place`, runs pgbench with `options` and stops the server; the cluster is made if it is not there."""
    place = pathlib.Path(place)
    programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]

    def command(options, shared_buffers):
        return [*AS_POSTGRES, "sh", "-c", RUN, "sh", str(programs), str(place), shared_buffers, options]

    if not (place / "cluster").is_dir():
        os.makedirs(place, exist_ok=True)
        shutil.chown(place, "postgres", "postgres")
        subprocess.run([*AS_POSTGRES, programs / "initdb", "-D", place / "cluster"], stdout=subprocess.DEVNULL, check=True, cwd="/")
        subprocess.run(command(f"-i -s {scale} -q", "128MB"), check=True, cwd="/")
    return command(options, shared_buffers)
