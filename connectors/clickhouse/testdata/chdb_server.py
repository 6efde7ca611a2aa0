"""Puts ClickHouse's HTTP interface in front of chDB, which is ClickHouse's engine as a library.

usage: chdb_server.py FOLDER_OF_CHDB PORT DATA_FOLDER

The statements, the types and the formats are the engine's own; only the transport is written here, and the answer to a
client's first question, which is the engine's with revision 0: the engine writes blocks in that form only.
"""

import os
import struct
import sys
import threading
import types
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

folder, port, data = sys.argv[1], int(sys.argv[2]), sys.argv[3]

# The package around the engine wants pyarrow, which nothing here needs.
package = types.ModuleType("chdb")
package.__path__ = [os.path.join(folder, "chdb")]
sys.modules["chdb"] = package
os.chdir(os.path.join(folder, "chdb"))
from chdb import _chdb  # noqa: E402

engine = _chdb.connect(os.path.join(data, "engine"))
turn = threading.Lock()


def text(value):
    raw = value.encode()
    return bytes([len(raw)]) + raw


def hello():
    """The row of SELECT displayName(), version(), revision(), timezone() as a block of a newer revision."""
    version = bytes(engine.query("SELECT version()", "TabSeparated").bytes()).decode().strip()
    block = b"\x01\x00\x02" + struct.pack("<i", -1) + b"\x00" + bytes([4, 1])
    for name, kind, cell in (
        ("displayName()", "String", text("chdb")),
        ("version()", "String", text(version)),
        ("revision()", "UInt32", struct.pack("<I", 0)),
        ("timezone()", "String", text("UTC")),
    ):
        block += text(name) + text(kind) + b"\x00" + cell
    return block


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def body(self):
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def do_GET(self):
        self.do_POST()

    def do_POST(self):
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        body = self.body()
        statement = query.get("query", [""])[0]
        form = query.get("default_format", ["TabSeparated"])[0]
        if not statement:
            statement, body = body.decode(), b""
        try:
            with turn:
                self.answer(200, self.run(statement, body, form), None)
        except Exception as error:  # what the engine says of a statement
            message = str(error)
            code = message.split("Code: ")[1].split(".")[0] if "Code: " in message else "1"
            self.answer(500, message.encode(), code)

    def run(self, statement, body, form):
        if statement.startswith("SELECT displayName(), version(), revision()"):
            return hello()
        if statement.lstrip().upper().startswith("INSERT") and body:
            statement = self.insert(statement, body)
        return bytes(engine.query(statement, form).bytes())

    def insert(self, statement, body):
        """Lets the engine read the block from a file: it has no other way to take bytes."""
        head, _, form = statement.rpartition("FORMAT")
        path = os.path.join(data, "block")
        with open(path, "wb") as out:
            out.write(body)
        return f"{head} SELECT * FROM file('{path}', '{form.strip()}')"

    def answer(self, status, body, code):
        self.send_response(status)
        if code:
            self.send_header("X-ClickHouse-Exception-Code", code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
