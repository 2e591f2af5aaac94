"""Code that the peers in Python share: events from a file, and the triggers that fired as two numbers."""

import csv
import json
import sys
import time

DAY = 86_400_000_000_000
HORIZON = 730 * DAY
MASK = (1 << 64) - 1


def mix(hash, word):
    return ((((hash << 5) | (hash >> 59)) & MASK ^ word & MASK) * 0x517CC1B727220A95) & MASK


def instance_hash(instance):
    """Hash of an instance, from its parameters as JSON."""
    hash = 1
    for byte in json.dumps([instance], ensure_ascii=False).encode():
        hash = mix(hash, byte)
    return hash


def events(path):
    """Rows with parsed numbers; a field without a value is None."""
    numbers = {"time", "id", "accepted", "score"}
    with open(path, newline="") as file:
        rows = csv.reader(file)
        header = next(rows)
        read = [int if name in numbers else str for name in header]
        return [tuple(kind(text) if text else None for kind, text in zip(read, row)) for row in rows]


class Clock:
    """The daily ticks that are before an event."""

    def __init__(self, start, daily):
        self.next = start + DAY if daily else None

    def before(self, now):
        while self.next is not None and self.next < now:
            yield self.next
            self.next += DAY


class Stopwatch:
    """Stops a peer at its limit: reads the clock from time to time."""

    def __init__(self, limit):
        self.begun = time.perf_counter()
        self.limit = limit
        self.events = 0

    def goes_on(self):
        self.events += 1
        return self.events % 64 != 0 or not self.is_late()

    def is_late(self):
        return time.perf_counter() - self.begun >= self.limit


def report(watch, fired, ended, version):
    """Prints the result. `fired` has times, numbers of triggers and instances."""
    seconds = time.perf_counter() - watch.begun
    checksum, hashes = 0, {None: 0}
    for when, trigger, instance in fired:
        if instance not in hashes:
            hashes[instance] = instance_hash(instance)
        for word in (when, trigger, hashes[instance]):
            checksum = mix(checksum, word)
    result = {
        "seconds": seconds,
        "events": watch.events,
        "count": len(fired),
        "checksum": checksum,
        "ended": ended,
        "version": version,
    }
    json.dump(result, sys.stdout)


def arguments():
    """Task, file of events, start of the clock, end of it or None, limit in seconds.

    With `--probe` instead, a script that gets this far has all that it needs.
    """
    if sys.argv[1:] == ["--probe"]:
        sys.exit()
    task, path, start, end, limit = sys.argv[1:6]
    return task, path, int(start), None if end == "-" else int(end), float(limit)
