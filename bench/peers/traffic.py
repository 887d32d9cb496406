"""The traffic of the comparison: pcap files that both switches play in a loop."""
import random
import struct

CLIENT_MAC, SERVER_MAC = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
CLIENTS, SERVER, SERVER_PORT = 0x10000000, 0x30000001, 8080
# Makes a frame of 60 bytes, the shortest there is on a wire.
PAYLOAD = b"x" * 18


def write(path, frames):
    """A pcap file of frames without times."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for frame in frames:
            file.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)


def forward(connections, first=0):
    """A packet from each client to the server, the same ones each time."""
    ports = random.Random(1)
    for number in range(first, first + connections):
        yield udp(CLIENT_MAC, SERVER_MAC, CLIENTS + number, SERVER,
                  ports.randrange(1024, 61024), SERVER_PORT)


def answers(tuples):
    """The server's answers to (address, port) pairs, as it sees them."""
    for address, port in tuples:
        yield udp(SERVER_MAC, CLIENT_MAC, SERVER, address, SERVER_PORT, port)


def sources(connections, first=0):
    """The (address, port) pairs of the clients themselves."""
    for frame in forward(connections, first):
        yield struct.unpack(">I", frame[26:30])[0], struct.unpack(">H", frame[34:36])[0]


def udp(from_mac, to_mac, source, destination, source_port, destination_port):
    """A UDP packet over IPv4 without UDP checksum (RFC 768 allows it; RFC 791 asks for its own)."""
    header = struct.pack(">BBHHHBBHII", 0x45, 0, 28 + len(PAYLOAD), 0, 0, 64, 17, 0,
                         source, destination)
    total = sum(struct.unpack(">10H", header))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    header = header[:10] + struct.pack(">H", 0xFFFF - total) + header[12:]
    ports = struct.pack(">HHHH", source_port, destination_port, 8 + len(PAYLOAD), 0)
    return to_mac + from_mac + b"\x08\x00" + header + ports + PAYLOAD
