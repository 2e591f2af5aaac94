"""DuckDB, in memory, with a query at every check: counting is fast, but each query has a fixed cost."""

import duckdb

from duckdb_odds import TABLES, odds
from triggers import Clock, Stopwatch, arguments, events, report

PEOPLE = "CREATE TABLE applicants (id UBIGINT PRIMARY KEY, gender VARCHAR, seminar VARCHAR, hired UTINYINT)"
ASK = """
    SELECT seminar FROM (
        SELECT seminar, (SUM(hired) + 0.5 * 24.0) / (COUNT(*) + 24.0) AS rate
        FROM applicants GROUP BY seminar, gender)
    GROUP BY seminar HAVING MAX(rate) - MIN(rate) > 0.1"""

task, path, start, end, limit = arguments()
rows, fired = events(path), []
daily, has_seminars = task.endswith("daily"), task.startswith("seminar")
has_odds = task.startswith("odds")
database = duckdb.connect(":memory:", config={"threads": 2})
database.execute(TABLES if has_odds else PEOPLE)
watch, clock, seminars = Stopwatch(limit), Clock(start, daily), {}
applications, acceptances = [], []


def insert():
    """Inserts the rows since the last check in one statement; a single row is faster without lists."""
    if daily and applications:
        columns = [list(column) for column in zip(*applications)]
        database.execute("INSERT INTO applicants SELECT unnest(?::UBIGINT[]), unnest(?), unnest(?), 0", columns)
    elif applications:
        database.execute("INSERT INTO applicants VALUES (?, ?, ?, 0)", applications[0])
    if daily and acceptances:
        database.execute("UPDATE applicants SET hired = 1 WHERE id IN (SELECT unnest(?::UBIGINT[]))", [acceptances])
    elif acceptances:
        database.execute("UPDATE applicants SET hired = 1 WHERE id = ?", acceptances)
    applications.clear()
    acceptances.clear()


def check(now):
    insert()
    violated = {seminar for (seminar,) in database.execute(ASK).fetchall()}
    for seminar in seminars:
        if seminar in violated:
            fired.append((now, 0, seminar if has_seminars else None))


def parity():
    for row in rows:
        now, accepted = row[0], row[-1]
        for tick in clock.before(now):
            check(tick)
        if accepted is None:
            seminar = row[3] if has_seminars else ""
            seminars.setdefault(seminar)
            applications.append((row[1], row[2], seminar))
        else:
            acceptances.append(accepted)
        if not daily:
            check(now)
        if not watch.goes_on():
            return False
    return True


if has_odds:
    ended = odds(database, rows, start, end, task == "odds-exact", watch, fired)
else:
    ended = parity()
report(watch, fired, ended, duckdb.__version__)
