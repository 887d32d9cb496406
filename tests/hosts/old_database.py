#!/usr/bin/python3
"""old_database.py SOCKET SERVER METHOD...: stands before a database server as one that is older.

Listens on SOCKET and passes everything on to the server at SERVER and back, but answers requests of
the METHODs as a server does that does not know them. With `_Server` among them it has no database of
that name either, as servers before 2.9. Prints a line for each refusal and each monitor asked for.
"""
import json
import os
import socket
import sys
import threading

UNKNOWN = set(sys.argv[3:])
MONITORS = ("monitor", "monitor_cond", "monitor_cond_since")


def messages(stream):
    """The JSON objects of a stream, each when it is whole."""
    decoder, text = json.JSONDecoder(), ""
    while piece := stream.recv(1 << 16):
        text += piece.decode()
        while text := text.lstrip():
            try:
                message, end = decoder.raw_decode(text)
            except ValueError:
                break
            yield message
            text = text[end:]


def refusal(message):
    """Why an old server would not do what is asked, or nothing."""
    method, parameters = message.get("method"), message.get("params")
    if method in UNKNOWN:
        return "unknown method"
    asks_server = isinstance(parameters, list) and parameters[:1] == ["_Server"]
    if "_Server" in UNKNOWN and asks_server and message.get("id") is not None:
        return {"error": "unknown database", "details": "get_schema request specifies unknown "
                "database _Server", "syntax": json.dumps(parameters)}
    return None


def pass_on(source, target, lock):
    try:
        for message in messages(source):
            with lock:
                target.sendall(json.dumps(message).encode())
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(client):
    with client, socket.socket(socket.AF_UNIX) as server:
        server.connect(sys.argv[2])
        lock = threading.Lock()
        threading.Thread(target=pass_on, args=(server, client, lock), daemon=True).start()
        try:
            for message in messages(client):
                why = refusal(message)
                method = message.get("method")
                if why is not None:
                    print("refused", method, flush=True)
                    answer = {"id": message["id"], "result": None, "error": why}
                    with lock:
                        client.sendall(json.dumps(answer).encode())
                    continue
                if method in MONITORS:
                    print("passed on", method, message["params"][0], flush=True)
                server.sendall(json.dumps(message).encode())
        except OSError:
            pass


with socket.socket(socket.AF_UNIX) as service:
    if os.path.exists(sys.argv[1]):
        os.unlink(sys.argv[1])
    service.bind(sys.argv[1])
    service.listen(20)
    while True:
        connection, _ = service.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()
