#!/usr/bin/python3
"""Sends and receives frames that no stock tool sends. With scapy, on the device eth0.

frames.py send EXPRESSION...       sends each frame, e.g. 'Ether(dst=A)/Dot1Q(vlan=10)/IP()/ICMP()'
frames.py receive SECONDS          prints each frame that arrives: VLAN tags, source and kind,
                                   of SCTP also the ports and whether its CRC is right, of neighbour
                                   discovery the reserved word, the option and the checksum
frames.py raw HEX...               sends bytes as they are
frames.py flood COUNT BYTES        sends so many frames of this length, as fast as it can
"""
import logging
import socket
import struct
import sys
import time

A, B = "02:00:00:00:00:01", "02:00:00:00:00:02"
PACKET_AUXDATA, TP_STATUS_VLAN_VALID, TP_STATUS_VLAN_TPID_VALID = 8, 0x10, 0x40
SOL_PACKET, PACKET_OUTGOING, ETH_P_ALL = 263, 4, 3


def raw_socket():
    device = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    device.bind(("eth0", 0))
    return device


def untouched(device):
    """One frame as it was on the wire: the kernel moves the outer tag out of the bytes."""
    frame, extra, _, sender = device.recvmsg(65535, 256)
    for level, kind, data in extra:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", data[:20])
            if status & TP_STATUS_VLAN_VALID:
                tpid = tpid if status & TP_STATUS_VLAN_TPID_VALID else 0x8100
                frame = frame[:12] + struct.pack("!HH", tpid, tci) + frame[12:]
    return frame, sender[2] == PACKET_OUTGOING


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def sctp(kind, packet):
    """What to say of an SCTP packet, without IP options or extension headers; else nothing."""
    if kind == "0800" and packet[9] == 132:
        segment = packet[20:struct.unpack("!H", packet[2:4])[0]]
    elif kind == "86dd" and packet[6] == 132:
        segment = packet[40:40 + struct.unpack("!H", packet[4:6])[0]]
    else:
        return ""
    there = struct.unpack("<I", segment[8:12])[0]
    is_good = there == crc32c(segment[:8] + bytes(4) + segment[12:])
    ports = "%d>%d" % struct.unpack("!HH", segment[:4])
    return " sctp=%s crc=%s" % (ports, "good" if is_good else "bad")


def neighbor_discovery(kind, packet):
    """What to say of a neighbour discovery message with an option; else nothing."""
    if kind != "86dd" or packet[6] != 58 or packet[40] not in (135, 136) or len(packet) < 72:
        return ""
    message = packet[40:40 + struct.unpack("!H", packet[4:6])[0]]
    words = packet[8:40] + struct.pack("!II", len(message), 58) + message
    total = sum(struct.unpack("!%dH" % (len(words) // 2), words))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return " nd=%d reserved=%s option=%d address=%s sum=%s" % (
        message[0], message[4:8].hex(), message[24], message[26:32].hex(":"),
        "good" if total == 0xFFFF else "bad")


def receive(seconds):
    device = raw_socket()
    device.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    print("ready", flush=True)
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        device.settimeout(left)
        try:
            frame, outgoing = untouched(device)
        except TimeoutError:
            break
        if outgoing:
            continue
        tags, at = [], 12
        while frame[at:at + 2] in (b"\x81\0", b"\x88\xa8"):
            tci, = struct.unpack("!H", frame[at + 2:at + 4])
            tags.append("%s%d" % ("s" if frame[at] == 0x88 else "", tci & 0xFFF))
            at += 4
        kind = frame[at:at + 2].hex()
        packet = frame[at + 2:]
        detail = sctp(kind, packet) or neighbor_discovery(kind, packet)
        print("vlan=%s from=%s type=%s%s" % ("/".join(tags) or "none", frame[6:12].hex(":"), kind,
                                             detail), flush=True)


def main():
    verb, arguments = sys.argv[1], sys.argv[2:]
    if verb == "receive":
        receive(float(arguments[0]))
        return
    device = raw_socket()
    if verb == "raw":
        frames = [bytes.fromhex(argument) for argument in arguments]
    elif verb == "flood":
        count, length = map(int, arguments)
        addresses = bytes.fromhex("020000000002" "020000000001")
        frames = [(addresses + b"\x88\xb5").ljust(length, b"\0")] * count
    else:
        # Takes half a second to load, so only who needs it waits.
        logging.getLogger("scapy").setLevel(logging.ERROR)
        import scapy.all
        words = {**vars(scapy.all), "A": A, "B": B}
        frames = [bytes(eval(argument, words)) for argument in arguments]
    for frame in frames:
        device.send(frame)


main()
