"""Prints, as JSON, what the variables hold that the blocks of docs/dataframes.md made, and how every table reads.

Runs behind them in one program, in the folder that holds run.rec and set. tests/dataframes.rs compares it with what pagelab
itself says.
"""

import os
import sys

import pyarrow.dataset


def rows(frame, *columns):
    """Rows of a frame of any of the three programs, as lists."""
    if isinstance(frame, pd.DataFrame):
        return [[None if pd.isna(value) else value for value in row] for row in frame[list(columns)].values.tolist()]
    if isinstance(frame, pl.DataFrame):
        return [list(row) for row in frame.select(columns).rows()]
    return [list(row) for row in frame.project(", ".join(columns)).fetchall()]


def text(value):
    """Bytes as hexadecimal, so that JSON can have them."""
    return value.hex() if isinstance(value, (bytes, bytearray)) else value


def three(pandas, polars, database, *columns):
    """The sorted rows of three frames, by program."""
    frames = {"pandas": pandas, "polars": polars, "DuckDB": database}
    key = lambda row: [(value is not None, value) for value in row]
    return {name: sorted(([text(value) for value in row] for row in rows(frame, *columns)), key=key)
            for name, frame in frames.items()}


def counts(pattern):
    """How many rows of all columns each program reads, with no option that mends differences between files."""
    files = sorted(glob(pattern))
    database = duckdb.sql(f"select count(*) from (from read_parquet('{pattern}', hive_partitioning = true))")
    return {
        "pandas": len(pd.read_parquet(files)),
        "polars": pl.scan_parquet(pattern, hive_partitioning=True).collect().height,
        "DuckDB": database.fetchall()[0][0],
        "pyarrow": pyarrow.dataset.dataset(files, partitioning="hive").to_table().num_rows,
    }


def nanoseconds(frame):
    """`t_s` of files as whole nanoseconds."""
    return sorted(round(t_s * 1e9) for (t_s,) in rows(frame, "t_s"))


tables = sorted({os.path.basename(os.path.dirname(path)) for path in glob("*.rec/*/*.parquet") + glob("set/*/*/*/*.parquet")})
json.dump({
    "files": three(files_pd, files_pl, files_db, "file_id", "path", "path_text"),
    "libraries": three(libraries_pd, libraries_pl, libraries_db, "path_text"),
    "counts": three(counts_pd.reset_index(name="n"), counts_pl.rename({"len": "n"}), counts_db, "variant", "run", "n"),
    "files_t_ns": {"pandas": nanoseconds(files_pd), "polars": nanoseconds(files_pl), "DuckDB": nanoseconds(files_db)},
    "faults_t_ns": {"pandas": nanoseconds(faults_pd), "polars": nanoseconds(faults_pl), "DuckDB": nanoseconds(faults_db)},
    "joined": {"pandas": len(joined_pd), "polars": len(joined_pl), "DuckDB": len(joined_db)},
    "union": {"pandas": len(union_pd), "polars": len(union_pl), "DuckDB": len(union_db)},
    "types": {column: str(samples_pd[column].dtype) for column in ["task_id", "ustack_id"]},
    "tables": {table: {"run.rec": counts(f"run.rec/{table}/*.parquet") if os.path.isdir(f"run.rec/{table}") else None,
                       "set": counts(f"set/variant=*/run=*/{table}/*.parquet")}
               for table in tables if glob(f"set/variant=*/run=*/{table}")},
}, sys.stdout)
