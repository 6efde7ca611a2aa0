"""Reads files with DuckDB for tests: a line of JSON in, {"sql": ...}; a line out, {"columns": ..., "types": ..., "rows": ...}.

A value is its text as a record has it: a null stays null, lists and maps are JSON, bytes are base64.
"""
import base64, datetime, decimal, json, os, sys, uuid
import duckdb


def text(v):
    if v is None or isinstance(v, str):
        return v
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, float):
        special = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
        return special.get(repr(v), repr(v))
    if isinstance(v, (int, uuid.UUID)):
        return str(v)
    if isinstance(v, decimal.Decimal):
        return format(v, "f")
    if isinstance(v, (bytes, bytearray)):
        return base64.b64encode(v).decode()
    if isinstance(v, datetime.datetime):
        return fraction(v.replace(tzinfo=None).isoformat()) + ("Z" if v.tzinfo else "")
    if isinstance(v, datetime.time):
        return fraction(v.isoformat())
    if isinstance(v, datetime.date):
        return v.isoformat()
    if isinstance(v, dict):
        return json.dumps({k: text(x) for k, x in v.items()}, ensure_ascii=False)
    if isinstance(v, (list, tuple)):
        return json.dumps([text(x) for x in v], ensure_ascii=False)
    raise TypeError(type(v))


def fraction(s):
    return s.rstrip("0") if "." in s else s


# Answers alone go to where they are read: of a query that takes long DuckDB shows the progress on standard output.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

db = duckdb.connect()
db.execute("SET TimeZone='UTC'; SET threads=1")
for line in sys.stdin:
    try:
        cursor = db.execute(json.loads(line)["sql"])
        d = cursor.description
        out = {"columns": [c[0] for c in d], "types": [str(c[1]) for c in d], "rows": [[text(v) for v in r] for r in cursor.fetchall()]}
    except Exception as e:
        out = {"error": str(e)}
    print(json.dumps(out), file=answers, flush=True)
