"""Flink: becomes the JVM that runs `java/FlinkMonitor.java`, which is compiled once against the jars of the package."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from triggers import arguments

package = importlib.util.find_spec("pyflink")
if package is None:
    sys.exit("No module named 'pyflink'")
jars = [jar for place in package.submodule_search_locations for jar in Path(place, "lib").glob("flink-dist-*.jar")]
if not jars:
    sys.exit("the package pyflink has no lib/flink-dist-*.jar")
if shutil.which("javac") is None:
    sys.exit("there is no javac: a Java development kit of version 17 is needed")

task, path, start, end, limit = arguments()
source = Path(__file__).parent.parent / "java/FlinkMonitor.java"
classes = Path(path).parent / "flink"
if not classes.exists():
    subprocess.run(["javac", "-cp", jars[0], "-d", classes, source], check=True)
# One thread evaluates and waits during collections, so the throughput collector fits, with all the memory needed.
options = ["-XX:+UseParallelGC", "-XX:MaxRAMPercentage=60", "-cp", f"{jars[0]}{os.pathsep}{classes}"]
os.execvp("java", ["java", *options, "FlinkMonitor", *sys.argv[1:]])
