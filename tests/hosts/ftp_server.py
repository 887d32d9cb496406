#!/usr/bin/python3
"""ftp_server.py ADDRESS PORT: as much of an FTP server as clients need to fetch and store a file:
active and passive, with the extended commands. One client at a time; what is stored is fetched."""
import socket
import sys

address, port = sys.argv[1], int(sys.argv[2])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
content = b"hello from the server\n" * 4000


class Session:
    def __init__(self, control):
        self.control, self.target, self.listener = control, None, None

    def say(self, text):
        self.control.sendall(text.encode() + b"\r\n")

    def listen(self):
        self.listener = socket.create_server((self.control.getsockname()[0], 0), family=family)
        self.listener.settimeout(5)
        return self.listener.getsockname()[1]

    def data(self):
        if self.listener:
            return self.listener.accept()[0]
        return socket.create_connection(self.target, 5)

    def run(self):
        self.say("220 hello")
        for line in self.control.makefile("r", newline="\r\n"):
            verb, _, rest = line.strip().partition(" ")
            answer = getattr(self, verb.upper(), None)
            if verb.upper() == "QUIT":
                return self.say("221 bye")
            answer(rest) if answer else self.say("200 yes")

    def USER(self, _):
        self.say("230 come in")

    def PWD(self, _):
        self.say('257 "/"')

    def PORT(self, rest):
        numbers = rest.split(",")
        self.target = ".".join(numbers[:4]), int(numbers[4]) * 256 + int(numbers[5])
        self.listener = None
        self.say("200 PORT")

    def EPRT(self, rest):
        self.target, self.listener = (rest.split("|")[2], int(rest.split("|")[3])), None
        self.say("200 EPRT")

    def PASV(self, _):
        host, number = self.control.getsockname()[0].replace(".", ","), self.listen()
        self.say(f"227 Entering Passive Mode ({host},{number // 256},{number % 256}).")

    def EPSV(self, _):
        self.say(f"229 Entering Extended Passive Mode (|||{self.listen()}|)")

    def SIZE(self, _):
        self.say(f"213 {len(content)}")

    def RETR(self, _):
        self.say("150 here it comes")
        with self.data() as data:
            data.sendall(content)
        self.say("226 done")

    def STOR(self, _):
        global content
        self.say("150 go on")
        with self.data() as data:
            content = b"".join(iter(lambda: data.recv(65536), b""))
        self.say("226 done")


with socket.create_server((address, port), family=family) as service:
    while True:
        client = service.accept()[0]
        client.settimeout(5)
        try:
            with client:
                Session(client).run()
        except OSError as error:
            print(error, file=sys.stderr)
