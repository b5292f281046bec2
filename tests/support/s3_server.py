"""An S3 on the loopback, as a process of its own: prints its port, and serves until it is ended.

moto checks `If-None-Match` and stores the object in two steps; requests take turns here, so that a conditional PUT is
what it is at a real S3, atomic.
"""

import io
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


def _body(environment):
    """The body of a request; of one that is sent in chunks, which the server puts together, its length is unknown."""
    if environment.get("wsgi.input_terminated"):
        return bytes(environment["wsgi.input"].read())
    return bytes(environment["wsgi.input"].read(int(environment.get("CONTENT_LENGTH") or 0)))


def main():
    moto, turn = DomainDispatcherApplication(create_backend_app), threading.Lock()

    def one_at_a_time(environment, start):
        # all of it before its turn: a client that is held up in the middle of a request must not hold up the others
        environment["wsgi.input"] = io.BytesIO(_body(environment))
        with turn:
            return moto(environment, start)

    server = make_server("127.0.0.1", 0, one_at_a_time, threaded=True)
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
