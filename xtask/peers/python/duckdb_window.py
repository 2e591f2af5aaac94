"""DuckDB after the fact: one query with window functions over the whole log, when it is complete.

Not monitoring, as nothing is said before the last event; but the best that a database can do with a log. Hiring
only, a check at every event.
"""

import duckdb

from triggers import Stopwatch, arguments, report

task, path, start, end, limit = arguments()
database = duckdb.connect(":memory:", config={"threads": 2})
database.execute(
    f"""CREATE TABLE events AS SELECT row_number() OVER () AS seq, * FROM read_csv('{path}', header = true, columns = {{
        'time': 'BIGINT', 'id': 'UBIGINT', 'gender': 'VARCHAR', 'accepted': 'UBIGINT'}}, parallel = false)"""
)
watch = Stopwatch(limit)
rows = database.execute(
    """
    WITH hires AS (
        -- The first acceptance of a person who has applied.
        SELECT min(decision.seq) AS seq, application.gender
        FROM events decision JOIN events application ON decision.accepted = application.id
        WHERE decision.seq > application.seq GROUP BY decision.accepted, application.gender),
    steps AS (
        SELECT events.seq, events.time, coalesce(events.gender, hires.gender) AS gender,
            (events.id IS NOT NULL)::INT AS applied, (hires.seq IS NOT NULL)::INT AS hired
        FROM events LEFT JOIN hires ON hires.seq = events.seq),
    genders AS (SELECT DISTINCT gender FROM steps WHERE gender IS NOT NULL),
    rates AS (
        SELECT steps.seq, steps.time,
            sum((steps.gender = genders.gender)::INT * applied) OVER past AS applied,
            sum((steps.gender = genders.gender)::INT * hired) OVER past AS hired
        FROM steps CROSS JOIN genders
        WINDOW past AS (PARTITION BY genders.gender ORDER BY steps.seq))
    SELECT time FROM (
        SELECT seq, time, max((hired + 0.5 * 24.0) / (applied + 24.0)) - min((hired + 0.5 * 24.0) / (applied + 24.0)) AS gap
        FROM rates WHERE applied > 0 GROUP BY seq, time)
    WHERE gap > 0.1 ORDER BY seq"""
).fetchall()
(watch.events,) = database.execute("SELECT count(*) FROM events").fetchone()
report(watch, [(when, 0, None) for (when,) in rows], True, duckdb.__version__)
