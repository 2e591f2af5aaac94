"""Writes small Parquet and Arrow files with pyarrow, DuckDB and Polars into tests/data/foreign.

    python3 -m venv venv && venv/bin/pip install pyarrow duckdb polars && venv/bin/python tests/data/make_foreign.py

All of them hold the same 120 events, so that the tests can expect the same verdicts of all; the files
that must be refused are named bad_*. The tests read the files that are committed, not this script.
"""

import datetime
import decimal
import pathlib
import shutil

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent / "foreign"
shutil.rmtree(HERE, ignore_errors=True)
HERE.mkdir()

ROWS = 120
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
times = [START + datetime.timedelta(minutes=17 * n) for n in range(ROWS)]
ids = [n if n % 3 else None for n in range(ROWS)]
genders = [["F", "M", None][n % 3] for n in range(ROWS)]
salaries = [decimal.Decimal(n * 1237 % 9000) / 100 for n in range(ROWS)]
accepted = [n % 4 == 0 if n % 5 else None for n in range(ROWS)]
regions = [["eu", "us/east", None][n // 7 % 3] for n in range(ROWS)]
dates = [str(time.date()) for time in times]

# What all the others are: the plainest types there are.
csv = open(HERE / "events.csv", "w")
csv.write("time,id,gender,salary,accepted,region,date\n")
for row in zip(times, ids, genders, salaries, accepted, regions, dates):
    time, *values = row
    texts = ["" if v is None else str(v).lower() if isinstance(v, bool) else str(v) for v in values]
    csv.write(time.strftime("%Y-%m-%dT%H:%M:%SZ") + "," + ",".join(texts) + "\n")
csv.close()

table = pa.table(
    {
        "time": pa.array(times, pa.timestamp("us", tz="UTC")),
        "id": pa.array(ids, pa.int32()),
        "gender": pa.array(genders).dictionary_encode(),
        "salary": pa.array(salaries, pa.decimal128(10, 2)),
        "accepted": pa.array(accepted),
        "region": pa.array(regions, pa.large_string()),
        "date": pa.array(dates),
    }
)


def with_column(name, column):
    return table.set_column(table.schema.get_field_index(name), name, column)


# pyarrow: codecs, versions, row groups, time zones, views, pages of either version.
pq.write_table(table, HERE / "pyarrow_snappy.parquet", row_group_size=50)
pq.write_table(table, HERE / "pyarrow_zstd_v2.parquet", compression="zstd", data_page_version="2.0", version="2.6")
pq.write_table(table, HERE / "pyarrow_gzip_v1.parquet", compression="gzip", version="1.0", use_dictionary=False)
pq.write_table(table, HERE / "pyarrow_lz4.parquet", compression="lz4", write_statistics=False)
pq.write_table(
    with_column("time", pa.array(times, pa.timestamp("ns", tz="America/New_York"))),
    HERE / "pyarrow_int96.parquet",
    use_deprecated_int96_timestamps=True,
)
pq.write_table(
    with_column("time", pa.array([int(time.timestamp() * 1000) for time in times])),
    HERE / "pyarrow_epoch_ms.parquet",
    column_encoding={"time": "DELTA_BINARY_PACKED"},
    use_dictionary=["gender"],
)
pq.write_table(
    with_column("region", pa.array(regions, pa.string_view())),
    HERE / "pyarrow_view.parquet",
    store_schema=True,
)
applicant = pa.StructArray.from_arrays(
    [table["id"].combine_chunks(), table["gender"].combine_chunks()], ["id", "gender"]
)
nested = table.drop_columns(["id", "gender"]).append_column("applicant", applicant)
nested = nested.append_column("tags", pa.array([["a", "b"]] * ROWS))
pq.write_table(nested, HERE / "pyarrow_nested.parquet")
ds.write_dataset(
    table,
    HERE / "pyarrow_lake",
    format="parquet",
    partitioning=ds.partitioning(pa.schema([("date", pa.string()), ("region", pa.string())]), flavor="hive"),
)
feather.write_feather(table, str(HERE / "pyarrow.feather"), compression="lz4")
with pa.ipc.new_stream(str(HERE / "pyarrow.arrows"), table.schema) as stream:
    for batch in table.to_batches(max_chunksize=31):
        stream.write_batch(batch)

# Polars writes views and large texts.
frame = pl.from_arrow(table)
frame.write_parquet(HERE / "polars.parquet", row_group_size=64)
frame.write_ipc(HERE / "polars.arrow", compression="zstd")

# DuckDB has a writer of its own.
duckdb.register("events", table)
duckdb.sql(f"COPY (SELECT * FROM events) TO '{HERE}/duckdb.parquet' (FORMAT parquet)")
duckdb.sql(
    f"COPY (SELECT * FROM events ORDER BY time) TO '{HERE}/duckdb_lake' "
    "(FORMAT parquet, PARTITION_BY (date), COMPRESSION zstd)"
)

# What must be refused in words.
pq.write_table(table, HERE / "bad_brotli.parquet", compression="brotli")
whole = (HERE / "pyarrow_snappy.parquet").read_bytes()
(HERE / "bad_cut.parquet").write_bytes(whole[: len(whole) * 2 // 3])
(HERE / "bad_footer.parquet").write_bytes(whole[:-40] + b"\x7f" * 32 + whole[-8:])
(HERE / "bad_encrypted.parquet").write_bytes(b"PARE" + whole[4:-4] + b"PARE")
