"""RisingWave: tables, and materialized views that it keeps up to date; written to, flushed and read at every check.

`FAIRSTREAM_RISINGWAVE` names the server. With `--stand-in` after the other arguments a PostgreSQL will do, whose views
are plain and need no flushing: to try this script, not to measure anything.
"""

import os
import sys

from triggers import Clock, Stopwatch, arguments, events, report

server = os.environ.get("FAIRSTREAM_RISINGWAVE", "")
if not server:
    sys.exit("FAIRSTREAM_RISINGWAVE names no running server")

# Without a server the client need not be installed.
import psycopg

STATEMENTS = """
    CREATE SCHEMA {schema};
    CREATE TABLE {schema}.applicants (id BIGINT PRIMARY KEY, gender VARCHAR, seminar VARCHAR);
    CREATE TABLE {schema}.accepted (id BIGINT PRIMARY KEY);
    CREATE {view} {schema}.rates AS
        SELECT seminar, gender, (count(hired.id)::DOUBLE PRECISION + 12) / (count(*)::DOUBLE PRECISION + 24) AS rate
        FROM {schema}.applicants AS applied LEFT JOIN {schema}.accepted AS hired ON hired.id = applied.id
        GROUP BY seminar, gender;
    CREATE {view} {schema}.violated AS
        SELECT seminar FROM {schema}.rates GROUP BY seminar HAVING max(rate) - min(rate) > 0.1::DOUBLE PRECISION
"""
REMOVALS = """
    DROP {view} {schema}.violated;
    DROP {view} {schema}.rates;
    DROP TABLE {schema}.accepted;
    DROP TABLE {schema}.applicants;
    DROP SCHEMA {schema}
"""


def connect():
    """A connection, the version of the server, and whether it is RisingWave."""
    address = server if "://" in server else f"postgresql://root@{server}/dev"
    try:
        # Several statements with inlined values in one message: one round trip to the server per check.
        connection = psycopg.connect(address, autocommit=True, connect_timeout=10, cursor_factory=psycopg.ClientCursor)
    except psycopg.Error as error:
        sys.exit(f"FAIRSTREAM_RISINGWAVE: {' '.join(str(error).split())}")
    (version,) = connection.execute("SELECT version()").fetchone()
    is_there = "RisingWave" in version
    if not is_there and "--stand-in" not in sys.argv:
        sys.exit(f"FAIRSTREAM_RISINGWAVE names another server: {version}")
    return connection, version, is_there


def signed(key):
    """There are no unsigned numbers."""
    return key - (1 << 64) if key >= 1 << 63 else key


connection, version, is_there = connect()
task, path, start, end, limit = arguments()
rows, fired, seminars = events(path), [], {}
daily, has_seminars = task.endswith("daily"), task.startswith("seminar")
names = {"schema": f"fairstream_bench_{os.getpid()}", "view": "MATERIALIZED VIEW" if is_there else "VIEW"}
applicants, accepted = "{schema}.applicants".format(**names), "{schema}.accepted".format(**names)
waiting = {applicants: [], accepted: []}
ask = ["FLUSH"] * is_there + ["SELECT seminar FROM {schema}.violated".format(**names)]


def each(statements):
    for statement in statements.format(**names).split(";"):
        connection.execute(statement)


def check(now, cursor):
    statements, values = [], []
    for table, new in waiting.items():
        if new:
            row = f"({', '.join(['%s'] * len(new[0]))})"
            statements.append(f"INSERT INTO {table} VALUES {', '.join([row] * len(new))}")
            values += [value for one in new for value in one]
            new.clear()
    cursor.execute("; ".join(statements + ask), values)
    while cursor.nextset():
        pass
    violated = {seminar for (seminar,) in cursor.fetchall()}
    for seminar in seminars:
        if seminar in violated:
            fired.append((now, 0, seminar if has_seminars else None))


def run(clock, watch, cursor):
    for row in rows:
        now, hired = row[0], row[-1]
        for tick in clock.before(now):
            check(tick, cursor)
        if hired is None:
            seminar = row[3] if has_seminars else ""
            seminars.setdefault(seminar)
            waiting[applicants].append((signed(row[1]), row[2], seminar))
        else:
            waiting[accepted].append((signed(hired),))
        if not daily:
            check(now, cursor)
        if not watch.goes_on():
            return False
    return True


each(STATEMENTS)
try:
    watch = Stopwatch(limit)
    report(watch, fired, run(Clock(start, daily), watch, connection.cursor()), version)
finally:
    each(REMOVALS)
