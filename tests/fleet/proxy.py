"""A proxy in front of an object store that does to requests what networks and stores do: tests/fleet/stores.py uses it.

Each request is forwarded as it is, with the name of the host that the client has signed, unless the fault of the moment says
otherwise. Faults: `none`; `errors` and `throttled` (every third request gets 500 or 503 SlowDown), `slow` (each waits), `reset` (every
third connection is cut in mid-answer), `expired`, `forbidden` and `full` (what S3 says then, always), `claim`
(the first PUT gets through, later ones get 500), `away` (connections are cut, also those that were kept).
`opened` has the objects whose content was asked for since it was emptied.
"""

import http.client
import http.server
import socket
import threading
import time

EXPIRED = (400, "ExpiredToken", "The provided token has expired.")
FORBIDDEN = (403, "AccessDenied", "Access Denied")
FULL = (403, "QuotaExceeded", "The quota of this bucket has been exceeded.")


def said(code, message):
    return f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'.encode()


class Proxy:
    """Listens on a port of the loopback address; `fault` may be changed at any time."""

    def __init__(self, port_of_store):
        self.fault, self.requests, self.failed, self.claims, self.opened = "none", 0, 0, 0, set()
        self.lock = threading.Lock()
        self.port_of_store = port_of_store
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def handle_one(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.command == "GET" and "?" not in self.path:
                    proxy.opened.add(self.path)
                answer = proxy.answer(self.command)
                if answer == "reset":
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
                    self.close_connection = True
                    self.connection.close()
                    return
                if answer:
                    status, code, message = answer
                    self.respond(status, [("Content-Type", "application/xml")], said(code, message))
                    return
                store = http.client.HTTPConnection("127.0.0.1", proxy.port_of_store, timeout=60)
                store.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    store.putheader(name, value)
                store.endheaders(body)
                got = store.getresponse()
                content = got.read()
                headers = [(name, value) for name, value in got.getheaders() if name.lower() not in ("transfer-encoding", "connection", "content-length")]
                length = got.getheader("Content-Length") if self.command == "HEAD" else None
                self.respond(got.status, headers, content, length)
                store.close()

            def respond(self, status, headers, content, length=None):
                self.send_response_only(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", length or str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_one

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_):
                pass

            def verify_request(self, request, _):
                return proxy.fault != "away"

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, method):
        """What becomes of the next request: None if it is forwarded."""
        with self.lock:
            self.requests += 1
            third = self.requests % 3 == 0
            fault = self.fault
            if fault == "claim":
                # What takes the place of a recording gets through, and nothing after it.
                self.claims += method == "PUT"
                bad = self.claims > 1
                self.failed += bad
                return (500, "InternalError", "We encountered an internal error.") if bad else None
            self.claims = 0
            bad = {"errors": third, "throttled": third, "reset": third, "expired": True, "forbidden": True, "full": True, "away": True}.get(fault, False)
            self.failed += bad
        if fault == "slow":
            time.sleep(0.2)
        if not bad:
            return None
        return {"errors": (500, "InternalError", "We encountered an internal error."), "throttled": (503, "SlowDown", "Please reduce your request rate."),
                "reset": "reset", "away": "reset", "expired": EXPIRED, "forbidden": FORBIDDEN, "full": FULL}[fault]
