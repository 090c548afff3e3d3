#!/usr/bin/env python3
"""Turns what `perf data convert --to-json` writes into an OTLP profile, as JSON.

Kernel frames get no name: kernelsym gives them theirs. User frames keep perf's. perf.data is read, too: `perf data
convert` can stop early and still exit with status 0, and it leaves out the frequency.

usage: perf_to_otlp.py perf.data perf.json >profile.json
"""

import json
import struct
import sys

KERNEL = 1 << 63  # the kernel's half of the address space
MARKS = (1 << 64) - 4096  # perf marks the parts of a stack with numbers above
SECOND = 10**9  # in nanoseconds

# tools/perf/Documentation/perf.data-file-format.txt and include/uapi/linux/perf_event.h
RECORD_SAMPLE, RECORD_AUXTRACE, RECORD_COMPRESSED = 9, 71, (81, 83)
TYPE_SOFTWARE, CPU_CLOCK, DUMMY, FREQ = 1, 0, 9, 1 << 10


class Table:
    """A table of the dictionary: its entry 0 is empty, and no entry is there twice."""

    def __init__(self, empty):
        self.entries, self.indices = [empty], {json.dumps(empty): 0}

    def add(self, entry):
        index = self.indices.setdefault(json.dumps(entry), len(self.entries))
        if index == len(self.entries):
            self.entries.append(entry)
        return index


def read_data(name):
    """Returns the number of samples in a perf.data file, and the nanoseconds that each stands for, or 0."""
    with open(name, "rb") as file:
        content = file.read()
    if content[:8] != b"PERFILE2":
        sys.exit(f"{name} is not written by perf record, or by a machine of the other byte order")
    attr_size, attrs, attrs_size, at, size = struct.unpack_from("<5Q", content, 16)
    if size == 0:
        sys.exit(f"{name} is incomplete: perf record did not end by itself")
    events = []
    for attr in range(attrs, attrs + attrs_size, attr_size):
        kind, _, config, rate = struct.unpack_from("<2I2Q", content, attr)
        flags, = struct.unpack_from("<Q", content, attr + 40)
        if (kind, config) != (TYPE_SOFTWARE, DUMMY):  # which perf adds, and which samples nothing
            events.append((kind, config, rate, flags))
    if len(events) != 1:
        sys.exit(f"{name} has {len(events)} events: record one")
    (kind, config, rate, flags), = events
    samples, end = 0, at + size
    while at < end:
        record, _, length = struct.unpack_from("<I2H", content, at)
        if record in RECORD_COMPRESSED:
            sys.exit(f"{name} is compressed: record without -z")
        if record == RECORD_AUXTRACE:
            sys.exit(f"{name} has traces of hardware: they have no samples")
        if length == 0:
            sys.exit(f"{name} is damaged")
        samples += record == RECORD_SAMPLE
        at += length
    if flags & FREQ:
        return samples, SECOND // rate
    return samples, rate if (kind, config) == (TYPE_SOFTWARE, CPU_CLOCK) else 0


def frames_of(callchain):
    """Returns the frames of a stack, the innermost first, each with whether it is the kernel's."""
    user = False  # what a user frame was called by is a user frame, whatever its address
    for frame in callchain:
        ip = int(frame["ip"], 16)
        if ip >= MARKS:
            continue
        user = user or ip < KERNEL
        if not user or 0 < ip < KERNEL:
            yield ip, not user, frame


def main(data, perf):
    expected, period = read_data(data)
    if len(perf["samples"]) != expected:
        sys.exit(f"perf data convert stopped early: {len(perf['samples'])} of {expected} samples in its output")
    strings = Table("")
    attributes, functions, locations, stacks = Table({}), Table({}), Table({}), Table({})

    def location(ip, kernel, frame):
        entry = {"address": str(ip), "attributeIndices": [attributes.add({
            "keyStrindex": strings.add("profile.frame.type"), "value": {"stringValue": "kernel" if kernel else "native"}})]}
        if not kernel and "symbol" in frame:
            function = {"nameStrindex": strings.add(frame["symbol"]), "filenameStrindex": strings.add(frame["dso"])}
            entry["lines"] = [{"functionIndex": functions.add(function)}]
        return locations.add(entry)

    headers = perf["headers"]
    to_unix = headers["real-time"] - headers["clock-time"]
    samples = []
    for sample in perf["samples"]:
        samples.append({
            "stackIndex": stacks.add({"locationIndices": [location(*f) for f in frames_of(sample["callchain"])]}),
            "timestampsUnixNano": [str(sample["timestamp"] + to_unix)],
        })
    times = [sample["timestamp"] + to_unix for sample in perf["samples"]] or [0]
    profile = {
        "sampleType": {"typeStrindex": strings.add("samples"), "unitStrindex": strings.add("count")},
        "timeUnixNano": str(min(times)),
        "durationNano": str(max(times) - min(times) + max(period, 1)),
        "samples": samples,
    }
    if period:
        profile["period"] = str(period)
        profile["periodType"] = {"typeStrindex": strings.add("cpu"), "unitStrindex": strings.add("nanoseconds")}
    host = {"key": "host.name", "value": {"stringValue": headers["hostname"]}}
    return {
        "resourceProfiles": [{"resource": {"attributes": [host]}, "scopeProfiles": [{"profiles": [profile]}]}],
        "dictionary": {
            "mappingTable": [{}], "linkTable": [{}], "stringTable": strings.entries, "attributeTable": attributes.entries,
            "functionTable": functions.entries, "locationTable": locations.entries, "stackTable": stacks.entries,
        },
    }


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip().rsplit("\n", 1)[-1])
    with open(sys.argv[2], encoding="utf-8") as file:
        json.dump(main(sys.argv[1], json.load(file)), sys.stdout)
