"""Equalized odds in DuckDB, counted from scratch once a day; the rows of a day are inserted in one statement."""

from triggers import DAY, HORIZON, Clock

TABLES = """
    CREATE TABLE groups (name VARCHAR PRIMARY KEY);
    CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR, high BOOLEAN, deadline BIGINT, offended BOOLEAN)"""
OFFEND = """
    UPDATE people SET offended = true FROM (SELECT unnest(?) AS id, unnest(?) AS time) AS offence
    WHERE people.id = offence.id AND offence.time <= deadline"""
# The difference between groups in the rate of high scores: of people who re-offended, then of people who did not.
ASK = """
    SELECT MAX(rate) - MIN(rate) > 0.1 FROM (
        SELECT outcome.offended, (50 + COUNT(people.id) FILTER (high)) / (100.0::DOUBLE + COUNT(people.id)) AS rate
        FROM groups CROSS JOIN (VALUES (true), (false)) AS outcome (offended)
            LEFT JOIN people ON people.name = groups.name AND people.offended = outcome.offended AND deadline <= ?
        GROUP BY outcome.offended, groups.name)
    GROUP BY offended ORDER BY offended DESC"""


def odds(database, rows, start, end, exact, watch, fired):
    clock, screenings, offences = Clock(start, True), [], []

    def check(now):
        if screenings:
            ids, names, *others = zip(*screenings)
            database.execute("INSERT OR IGNORE INTO groups SELECT DISTINCT unnest(?)", [names])
            columns = [list(column) for column in (ids, names, *others)]
            database.execute("INSERT INTO people SELECT unnest(?), unnest(?), unnest(?), unnest(?), false", columns)
            screenings.clear()
        if offences:
            database.execute(OFFEND, [list(column) for column in zip(*offences)])
            offences.clear()
        for trigger, (violated,) in enumerate(database.execute(ASK, (now,)).fetchall()):
            if violated:
                fired.append((now, trigger, None))

    def deadline(now):
        if exact:
            return now + HORIZON
        # The clock of a person starts with the first check after the screening.
        since = now - start
        first = max(since // DAY + (since % DAY > 0), 1)
        return start + (first - 1) * DAY + HORIZON

    for now, event, key, group, score in rows:
        for tick in clock.before(now):
            check(tick)
        if event == "SCREEN":
            screenings.append((key, group, score > 6, deadline(now)))
        else:
            offences.append((key, now))
        if not watch.goes_on():
            return False
    for tick in clock.before(end + 1):
        check(tick)
        if watch.is_late():
            return False
    return True
