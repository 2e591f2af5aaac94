"""Plain Python: a dict, a few counters, a loop."""

import platform
from collections import deque

from triggers import HORIZON, DAY, Clock, Stopwatch, arguments, events, report


def gap(rates):
    return max(rates) - min(rates) if rates else 0.0


def parity(rows, daily, start, watch, fired):
    """Hiring, or seminars if rows have a seminar."""
    has_seminars = len(rows[0]) == 5 if rows else False
    clock, people, seminars = Clock(start, daily), {}, {}

    def check(now):
        for seminar, (_, violated) in seminars.items():
            if violated:
                fired.append((now, 0, seminar if has_seminars else None))

    def count(seminar, gender, place):
        groups, _ = seminars[seminar]
        counts = groups.get(gender)
        if counts is None:
            counts = groups[gender] = [0, 0]
        counts[place] += 1
        rates = [(hired + 0.5 * 24.0) / (applied + 24.0) for applied, hired in groups.values()]
        seminars[seminar] = (groups, gap(rates) > 0.1)

    for row in rows:
        now, accepted = row[0], row[-1]
        for tick in clock.before(now):
            check(tick)
        if accepted is None:
            key, gender = row[1], row[2]
            seminar = row[3] if has_seminars else ""
            if seminar not in seminars:
                seminars[seminar] = ({}, False)
            people[key] = [seminar, gender, False]
            count(seminar, gender, 0)
        else:
            person = people.get(accepted)
            if person is not None and not person[2]:
                person[2] = True
                count(person[0], person[1], 1)
        if not daily:
            check(now)
        if not watch.goes_on():
            return False
    return True


def odds(rows, start, end, exact, watch, fired):
    """COMPAS: people count once their two years are over."""
    clock, people, deadlines, groups, ended = Clock(start, True), {}, deque(), {}, []

    def run(until):
        while True:
            deadline = deadlines[0][0] if deadlines else until + 1
            if min(deadline, clock.next) > until:
                return
            if deadline <= clock.next:
                ended.append(people.pop(deadlines.popleft()[1]))
                continue
            tick = clock.next
            clock.next += DAY
            for group, high, offended in ended:
                counts = groups[group][0 if offended else 1]
                counts[0] += high
                counts[1] += 1
            ended.clear()
            for outcome in (0, 1):
                rates = [counts[outcome][0] / counts[outcome][1] for counts in groups.values()]
                if gap(rates) > 0.1:
                    fired.append((tick, outcome, None))

    for now, event, key, group, score in rows:
        run(now - 1)
        if event == "SCREEN":
            if group not in groups:
                groups[group] = [[50, 100], [50, 100]]
            since = now - start
            deadline = now + HORIZON
            if not exact:
                first = max(since // DAY + (since % DAY > 0), 1)
                deadline = start + (first - 1) * DAY + HORIZON
            deadlines.append((deadline, key))
            people[key] = [group, score > 6, False]
        elif key in people:
            people[key][2] = True
        if not watch.goes_on():
            return False
    run(end)
    return True


task, path, start, end, limit = arguments()
rows, fired = events(path), []
watch = Stopwatch(limit)
if task.startswith("odds"):
    ended = odds(rows, start, end, task == "odds-exact", watch, fired)
else:
    ended = parity(rows, task.endswith("daily"), start, watch, fired)
report(watch, fired, ended, platform.python_version())
