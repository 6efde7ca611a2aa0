"""Writes the lines of a web server's log as rows. usage: requests.py FILE

A position is the number of bytes that were read, so that a restart goes on there.
"""

import json
import sys
import time

start = json.loads(sys.stdin.readline())["start"]
at = int(start["position"] or 0)

with open(sys.argv[1], "rb") as f:
    f.seek(at)
    while True:
        line = f.readline()
        if line.endswith(b"\n"):
            when, method, path, status, ms = line.decode().split()
            row = {"at": when, "method": method, "path": path, "status": int(status), "ms": int(ms)}
            print(json.dumps({"table": "requests", "after": row, "position": str(f.tell())}), flush=True)
            at = f.tell()
        elif start["once"]:
            break
        else:
            f.seek(at)  # a line that is still being written comes again
            time.sleep(1)
