#!/usr/bin/env python3
"""Turns what `perf data convert --to-json` writes into an OTLP profile, as JSON.

Kernel frames get no name: kernelsym gives them theirs. User frames keep perf's.

usage: perf_to_otlp.py perf.json >profile.json
"""

import json
import sys

KERNEL = 1 << 63  # the kernel's half of the address space
MARKS = (1 << 64) - 4096  # perf marks the parts of a stack with numbers above


class Table:
    """A table of the dictionary: its entry 0 is empty, and no entry is there twice."""

    def __init__(self, empty):
        self.entries, self.indices = [empty], {json.dumps(empty): 0}

    def add(self, entry):
        index = self.indices.setdefault(json.dumps(entry), len(self.entries))
        if index == len(self.entries):
            self.entries.append(entry)
        return index


def main(perf):
    strings = Table("")
    attributes, functions, locations, stacks = Table({}), Table({}), Table({}), Table({})

    def location(frame):
        ip = int(frame["ip"], 16)
        kind = "kernel" if ip >= KERNEL else "native"
        entry = {"address": str(ip), "attributeIndices": [attributes.add(
            {"keyStrindex": strings.add("profile.frame.type"), "value": {"stringValue": kind}})]}
        if kind == "native" and "symbol" in frame:
            function = {"nameStrindex": strings.add(frame["symbol"]), "filenameStrindex": strings.add(frame["dso"])}
            entry["lines"] = [{"functionIndex": functions.add(function)}]
        return locations.add(entry)

    headers = perf["headers"]
    to_unix = headers["real-time"] - headers["clock-time"]
    samples = []
    for sample in perf["samples"]:
        frames = [f for f in sample["callchain"] if int(f["ip"], 16) < MARKS]
        samples.append({
            "stackIndex": stacks.add({"locationIndices": [location(f) for f in frames]}),
            "timestampsUnixNano": [str(sample["timestamp"] + to_unix)],
        })
    profile = {
        "sampleType": {"typeStrindex": strings.add("samples"), "unitStrindex": strings.add("count")},
        "timeUnixNano": min((s["timestampsUnixNano"][0] for s in samples), default="0"),
        "samples": samples,
    }
    host = {"key": "host.name", "value": {"stringValue": headers["hostname"]}}
    return {
        "resourceProfiles": [{"resource": {"attributes": [host]}, "scopeProfiles": [{"profiles": [profile]}]}],
        "dictionary": {
            "mappingTable": [{}], "linkTable": [{}], "stringTable": strings.entries, "attributeTable": attributes.entries,
            "functionTable": functions.entries, "locationTable": locations.entries, "stackTable": stacks.entries,
        },
    }


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        json.dump(main(json.load(file)), sys.stdout)
