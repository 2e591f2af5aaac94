"""Writes traffic.pcap with scapy: half a minute of the traffic of a web server at 10.0.0.80.

    python3 -m venv venv && venv/bin/pip install scapy && venv/bin/python examples/port-scan/make_traffic.py
"""

import pathlib

from scapy.all import IP, TCP, UDP, Ether, wrpcap

SERVER = "10.0.0.80"
packets = []


def packet(time, source, destination, carried):
    frame = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:50") / IP(src=source, dst=destination) / carried
    frame.time = 1_767_225_600 + time
    packets.append(frame)


def visit(time, guest, port):
    """A client requests a page: a connection is opened, used and closed."""
    packet(time, guest, SERVER, TCP(sport=port, dport=443, flags="S"))
    packet(time + 0.001, SERVER, guest, TCP(sport=443, dport=port, flags="SA"))
    packet(time + 0.002, guest, SERVER, TCP(sport=port, dport=443, flags="A"))
    packet(time + 0.003, guest, SERVER, TCP(sport=port, dport=443, flags="PA") / b"hello")
    packet(time + 0.9, guest, SERVER, TCP(sport=port, dport=443, flags="FA"))


for number in range(24):
    visit(number * 1.1, f"198.51.100.{number % 4 + 1}", 50_000 + number)
# The server sends DNS queries, which are not TCP.
for number in range(10):
    packet(number * 3.0, SERVER, "10.0.0.1", UDP(sport=40_000 + number, dport=53) / b"a question")
# A host tries one port after another, and the ports are closed.
for number in range(40):
    packet(12 + number * 0.05, "203.0.113.9", SERVER, TCP(sport=61_000, dport=20 + number, flags="S"))
    packet(12.001 + number * 0.05, SERVER, "203.0.113.9", TCP(sport=20 + number, dport=61_000, flags="RA"))
# Another host does the same, more slowly.
for number in range(8):
    packet(1 + number * 3.5, "203.0.113.77", SERVER, TCP(sport=61_000, dport=8000 + number, flags="S"))

packets.sort(key=lambda packet: packet.time)
wrpcap(str(pathlib.Path(__file__).parent / "traffic.pcap"), packets)
