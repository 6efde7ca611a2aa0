"""Counts orders by status. usage: totals.py FILE

The file holds the status of each order, the counts, and the offset of each partition, and is replaced as a whole: what
comes twice counts once.
"""

import json
import os
import sys
from collections import Counter

path = sys.argv[1]
state = {"orders": {}, "offsets": {}, "totals": {}}
if os.path.exists(path):
    with open(path) as f:
        state = json.load(f)


def save():
    state["totals"] = Counter(state["orders"].values())
    with open(path + ".new", "w") as f:
        json.dump(state, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".new", path)


for line in sys.stdin:
    message = json.loads(line)
    if "commit" in message:
        save()
        print(json.dumps({"position": message["commit"]["position"]}), flush=True)
        continue
    partition = f"{message['topic']}/{message['partition']}"
    if message["offset"] <= state["offsets"].get(partition, -1):
        continue
    state["offsets"][partition] = message["offset"]
    key = str(message["key"]["id"])
    if message["op"] == "d":
        state["orders"].pop(key, None)
    else:
        state["orders"][key] = message["after"]["status"]
