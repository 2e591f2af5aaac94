"""Reads a file on each request, with DuckDB or Polars, and prints the number of rows."""

import sys

name, kind, path = sys.argv[1:]
if name == "duckdb":
    import duckdb

    database = duckdb.connect(config={"threads": 1})
    columns = "{'time': 'BIGINT', 'id': 'UBIGINT', 'gender': 'VARCHAR', 'accepted': 'UBIGINT'}"
    read = {
        "csv": f"read_csv('{path}', header = true, columns = {columns})",
        "jsonl": f"read_json('{path}', format = 'newline_delimited', columns = {columns})",
        "parquet": f"read_parquet('{path}')",
    }[kind]
    # Every column is used, so that every column is read.
    query = f"SELECT count(*), max(time), sum(id), max(gender), sum(accepted) FROM {read}"
    run = lambda: database.execute(query).fetchone()[0]
else:
    import polars

    schema = {"time": polars.Int64, "id": polars.UInt64, "gender": polars.String, "accepted": polars.UInt64}
    run = {
        "csv": lambda: polars.read_csv(path, schema=schema).height,
        "jsonl": lambda: polars.read_ndjson(path, schema=schema).height,
        "parquet": lambda: polars.read_parquet(path).height,
        "arrow": lambda: polars.read_ipc(path).height,
    }[kind]

print("ready", flush=True)
for _ in sys.stdin:
    print(run(), flush=True)
