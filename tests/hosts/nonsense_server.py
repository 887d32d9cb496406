#!/usr/bin/python3
"""nonsense_server.py SOCKET: a database server that only talks nonsense; prints a line for each
client that it has bored."""
import json
import socket
import sys

LIES = [
    b"nonsense\n",
    b'{"id":1,"result":',
    b'{"id":null,"method":"update3","params":[1,2,3]}' * 50,
    b'{"id":"echo","method":"echo","params":' + b"[" * 5000,
    json.dumps({"id": 0, "result": {"name": "Open_vSwitch", "version": "9", "tables": 7}, "error": None}).encode(),
    b'{"id":2,"error":"no","result":null}{"id":3,"result":[],"error":null}',
    b"\xff\xfe\0\0" * 4000,
    b"",
]
with socket.socket(socket.AF_UNIX) as service:
    service.bind(sys.argv[1])
    service.listen()
    number = 0
    while True:
        client, _ = service.accept()
        with client:
            client.settimeout(0.2)
            try:
                client.recv(65536)
                client.sendall(LIES[number % len(LIES)])
                client.recv(65536)
            except OSError:
                pass
        number += 1
        print("bored", number, flush=True)
