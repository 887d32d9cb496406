"""The traffic of the comparison: pcap files that both switches play in a loop."""
import random
import struct

CLIENT_MAC, SERVER_MAC = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
CLIENTS, SERVER, SERVER_PORT = 0x10000000, 0x30000001, 8080
# Makes a frame of 60 bytes, the shortest there is on a wire.
PAYLOAD = b"x" * 18
# Makes one of 64 bytes, which VXLAN and Geneve make 114.
TUNNEL_PAYLOAD = b"x" * 22
# The tunnel's ends: their Ethernet and IP addresses. The near one is the switch's.
NEAR, FAR = ("02:00:00:09:00:01", "10.9.0.1"), ("02:00:00:09:00:02", "10.9.0.2")
VNI = 101
# UDP port and the first four bytes of the tunnel header: VXLAN (RFC 7348, section 5) with the flag of a valid VNI,
# and Geneve (RFC 8926, section 3.4) without options, around Ethernet.
TUNNELS = {"vxlan": (4789, 0x08000000), "geneve": (6081, 0x00006558)}
# Whole TCP connections: what each side says, the client's packets first.
FIN, SYN, PSH, ACK = 1, 2, 8, 16
SHORT = [(True, SYN, 0), (False, SYN | ACK, 0), (True, PSH | ACK, 20), (False, PSH | ACK, 20),
         (True, FIN | ACK, 0), (False, FIN | ACK, 0), (True, ACK, 0)]
# So many take turns, so that a batch has packets of several, in both directions.
TOGETHER = 16


def write(path, frames):
    """A pcap file of frames without times."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for frame in frames:
            file.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)


def forward(connections, first=0, payload=PAYLOAD):
    """A packet from each client to the server, the same ones each time."""
    ports = random.Random(1)
    for number in range(first, first + connections):
        yield udp(CLIENT_MAC, SERVER_MAC, CLIENTS + number, SERVER,
                  ports.randrange(1024, 61024), SERVER_PORT, payload)


def answers(tuples, payload=PAYLOAD):
    """The server's answers to (address, port) pairs, as it sees them."""
    for address, port in tuples:
        yield udp(SERVER_MAC, CLIENT_MAC, SERVER, address, SERVER_PORT, port, payload)


def in_tunnel(frames, kind):
    """Frames as the far end of a tunnel of this type sends them."""
    number = lambda ip: struct.unpack(">I", bytes(map(int, ip.split("."))))[0]
    mac = lambda text: bytes.fromhex(text.replace(":", ""))
    port, first_word = TUNNELS[kind]
    header = struct.pack(">II", first_word, VNI << 8)
    for frame in frames:
        # The source port differs as connections do.
        source_port = 32768 + sum(struct.unpack(">HH", frame[34:38])) % 28000
        yield udp(mac(FAR[0]), mac(NEAR[0]), number(FAR[1]), number(NEAR[1]), source_port, port,
                  header + frame)


def sources(connections, first=0):
    """The (address, port) pairs of the clients themselves."""
    for frame in forward(connections, first):
        yield struct.unpack(">I", frame[26:30])[0], struct.unpack(">H", frame[34:36])[0]


def short(connections, first, version):
    """Short TCP connections, a few at a time."""
    for begin in range(first, first + connections, TOGETHER):
        group = range(begin, min(begin + TOGETHER, first + connections))
        sent = {number: [1000, 5000] for number in group}
        for from_client, flags, length in SHORT:
            for number in group:
                own, other = (0, 1) if from_client else (1, 0)
                seq, ack = sent[number][own], sent[number][other] if flags & ACK else 0
                yield tcp(number, from_client, version, seq, ack, flags, length)
                sent[number][own] += length + (1 if flags & (SYN | FIN) else 0)


def tcp(number, from_client, version, seq, ack, flags, length):
    """A TCP segment of the connection with that number, its checksums right."""
    port = 1024 + number % 60000
    ports = (port, SERVER_PORT) if from_client else (SERVER_PORT, port)
    segment = struct.pack(">HHIIBBHHH", *ports, seq, ack, 5 << 4, flags, 0xFFFF, 0, 0) + b"x" * length
    if version == 4:
        ends = [struct.pack(">I", CLIENTS + number), struct.pack(">I", SERVER)]
    else:
        prefix = bytes.fromhex("fd000000000000000000000000000000")
        ends = [prefix[:12] + struct.pack(">I", CLIENTS + number), prefix[:12] + struct.pack(">I", SERVER)]
    source, destination = ends if from_client else ends[::-1]
    pseudo = source + destination + struct.pack(">II", len(segment), 6)
    segment = segment[:16] + struct.pack(">H", 0xFFFF - total_of(pseudo + segment)) + segment[18:]
    if version == 4:
        header = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(segment), 0, 0, 64, 6, 0,
                             *struct.unpack(">II", source + destination))
        header = header[:10] + struct.pack(">H", 0xFFFF - total_of(header)) + header[12:]
        kind = b"\x08\x00"
    else:
        header = struct.pack(">IHBB", 6 << 28, len(segment), 6, 64) + source + destination
        kind = b"\x86\xdd"
    macs = (SERVER_MAC, CLIENT_MAC) if from_client else (CLIENT_MAC, SERVER_MAC)
    return macs[0] + macs[1] + kind + header + segment


def total_of(words):
    """The sum of 16-bit words in ones' complement."""
    words += b"\0" * (len(words) % 2)
    total = sum(struct.unpack(f">{len(words) // 2}H", words))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def udp(from_mac, to_mac, source, destination, source_port, destination_port, payload):
    """A UDP packet over IPv4 without UDP checksum (RFC 768 allows it; RFC 791 asks for its own)."""
    header = struct.pack(">BBHHHBBHII", 0x45, 0, 28 + len(payload), 0, 0, 64, 17, 0,
                         source, destination)
    header = header[:10] + struct.pack(">H", 0xFFFF - total_of(header)) + header[12:]
    ports = struct.pack(">HHHH", source_port, destination_port, 8 + len(payload), 0)
    return to_mac + from_mac + b"\x08\x00" + header + ports + payload
