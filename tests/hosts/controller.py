#!/usr/bin/python3
"""controller.py (listen|connect) (tcp|ssl) PORT VERSION [CERTIFICATE KEY CA]

An OpenFlow controller that only shakes hands: hello, features request, echo replies. Prints one
line for each message it gets: its type's number and its length. One that listens serves one switch
after the other."""
import socket
import ssl
import struct
import sys
import time

how, transport, port, version = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
HELLO, ECHO_REQUEST, ECHO_REPLY, FEATURES_REQUEST = 0, 2, 3, 5


def connections():
    if how == "listen":
        service = socket.create_server(("127.0.0.1", port))
        print("ready", flush=True)
        while True:
            yield service.accept()[0]
    for _ in range(50):
        try:
            yield socket.create_connection(("127.0.0.1", port))
            return
        except ConnectionRefusedError:
            time.sleep(0.1)
    sys.exit("there is no listener on port %d" % port)


def wrapped(connection):
    if transport == "tcp":
        return connection
    certificate, key, authority = sys.argv[5:8]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    return context.wrap_socket(connection, server_side=True)


def receive(connection):
    try:
        return connection.recv(65536)
    except ConnectionResetError:
        return b""


def serve(connection):
    def send(kind, body=b"", xid=1):
        connection.sendall(struct.pack("!BBHI", version, kind, 8 + len(body), xid) + body)

    send(HELLO)
    waiting = b""
    while received := receive(connection):
        waiting += received
        while len(waiting) >= 8:
            _, kind, length, xid = struct.unpack("!BBHI", waiting[:8])
            if len(waiting) < length:
                break
            body, waiting = waiting[8:length], waiting[length:]
            print("type=%d length=%d" % (kind, length), flush=True)
            if kind == HELLO:
                send(FEATURES_REQUEST, xid=2)
            elif kind == ECHO_REQUEST:
                send(ECHO_REPLY, body, xid)


for connection in connections():
    try:
        with wrapped(connection) as wrapped_connection:
            serve(wrapped_connection)
    except OSError as error:
        # A peer that refuses us, or is gone; an ssl.SSLError is an OSError too.
        print("ended: %s" % error, file=sys.stderr)
