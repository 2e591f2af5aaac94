"""Pathway: counts by gender, kept up to date as events come, each at a time of its own. Hiring only."""

import pathway as pw

from triggers import Stopwatch, arguments, events, report

task, path, start, end, limit = arguments()
rows, fired = events(path), []
def signed(key):
    """Pathway has no unsigned numbers."""
    return key - (1 << 64) if key >= 1 << 63 else key


applications = [(signed(key), gender, 2 * at, 1) for at, (_, key, gender, accepted) in enumerate(rows) if accepted is None]
decisions = [(signed(accepted), 2 * at, 1) for at, (_, _, _, accepted) in enumerate(rows) if accepted is not None]


class Application(pw.Schema):
    key: int
    gender: str


class Decision(pw.Schema):
    key: int


watch = Stopwatch(limit)
applied = pw.debug.table_from_rows(Application, applications, is_stream=True)
accepted = pw.debug.table_from_rows(Decision, decisions, is_stream=True)
hired = applied.join(
    accepted.groupby(pw.this.key).reduce(pw.this.key), pw.left.key == pw.right.key
).select(pw.left.gender)
counts = applied.groupby(pw.this.gender).reduce(pw.this.gender, applied=pw.reducers.count())
hires = hired.groupby(pw.this.gender).reduce(pw.this.gender, hired=pw.reducers.count())
rates = counts.join_left(hires, pw.left.gender == pw.right.gender).select(
    rate=(pw.coalesce(pw.right.hired, 0) + 0.5 * 24.0) / (pw.left.applied + 24.0)
)
gap = rates.reduce(gap=pw.reducers.max(pw.this.rate) - pw.reducers.min(pw.this.rate))
changes = {}


def on_change(key, row, time, is_addition):
    if is_addition:
        changes[time] = row["gap"] > 0.1


pw.io.subscribe(gap, on_change)
pw.run(monitoring_level=pw.MonitoringLevel.NONE)
watch.events = len(rows)
violated = False
for at, row in enumerate(rows):
    violated = changes.get(2 * at, violated)
    if violated:
        fired.append((row[0], 0, None))
report(watch, fired, True, pw.__version__)
