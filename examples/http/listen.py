"""A server that checks the signature of each request and prints the events in it. usage: listen.py [PORT]"""

import base64
import hashlib
import hmac
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

SECRET = os.environ.get("HOOK_SECRET", "example").encode()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        signed = f"{self.headers['Webhook-Id']}.{self.headers['Webhook-Timestamp']}.".encode() + body
        want = "v1," + base64.b64encode(hmac.digest(SECRET, signed, hashlib.sha256)).decode()
        if not hmac.compare_digest(want, self.headers["Webhook-Signature"]):
            self.answer(401)
            return
        for event in json.loads(body):
            print(event["type"], event["id"], json.dumps(event["data"]["after"]), flush=True)
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


HTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8088), Handler).serve_forever()
