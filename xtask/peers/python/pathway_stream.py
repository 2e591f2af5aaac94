"""Pathway: counts by seminar and gender, maintained incrementally. The events of a check have their own logical time."""

import pathway as pw

from triggers import Clock, Stopwatch, arguments, events, report


def signed(key):
    """Pathway has no unsigned numbers."""
    return key - (1 << 64) if key >= 1 << 63 else key


class Application(pw.Schema):
    key: int
    seminar: str
    gender: str


class Decision(pw.Schema):
    key: int


task, path, start, end, limit = arguments()
rows, fired = events(path), []
daily, has_seminars = task.endswith("daily"), task.startswith("seminar")
applications, decisions, checks, seminars, clock = [], [], [], {}, Clock(start, daily)
for row in rows:
    now, accepted = row[0], row[-1]
    checks += clock.before(now)
    # Pathway reserves odd times.
    time = 2 * len(checks)
    if accepted is None:
        seminar = row[3] if has_seminars else ""
        seminars.setdefault(seminar)
        applications.append((signed(row[1]), seminar, row[2], time, 1))
    else:
        decisions.append((signed(accepted), time, 1))
    if not daily:
        checks.append(now)

watch = Stopwatch(limit)
applied = pw.debug.table_from_rows(Application, applications, is_stream=True)
accepted = pw.debug.table_from_rows(Decision, decisions, is_stream=True)
hired = applied.join(
    accepted.groupby(pw.this.key).reduce(pw.this.key), pw.left.key == pw.right.key
).select(pw.left.seminar, pw.left.gender)
groups = (pw.this.seminar, pw.this.gender)
counts = applied.groupby(*groups).reduce(*groups, applied=pw.reducers.count())
hires = hired.groupby(*groups).reduce(*groups, hired=pw.reducers.count())
rates = counts.join_left(
    hires, pw.left.seminar == pw.right.seminar, pw.left.gender == pw.right.gender
).select(
    pw.left.seminar,
    rate=(pw.coalesce(pw.right.hired, 0) + 0.5 * 24.0) / (pw.left.applied + 24.0),
)
gaps = rates.groupby(pw.this.seminar).reduce(
    pw.this.seminar, gap=pw.reducers.max(pw.this.rate) - pw.reducers.min(pw.this.rate)
)
changes = {}


def on_change(key, row, time, is_addition):
    if is_addition:
        changes.setdefault(time, {})[row["seminar"]] = row["gap"] > 0.1


pw.io.subscribe(gaps, on_change)
pw.run(monitoring_level=pw.MonitoringLevel.NONE)
watch.events = len(rows)
violated = {}
for number, now in enumerate(checks):
    violated.update(changes.get(2 * number, {}))
    for seminar in seminars:
        if violated.get(seminar):
            fired.append((now, 0, seminar if has_seminars else None))
report(watch, fired, True, pw.__version__)
