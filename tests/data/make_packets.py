"""Writes small files of packets with scapy, tcpdump and Wireshark's tools into tests/data/packets.

    apt install tcpdump wireshark-common
    python3 -m venv venv && venv/bin/pip install scapy && sudo venv/bin/python tests/data/make_packets.py

Beside each file NAME stands NAME.jsonl: what scapy makes of its packets, a line each, with the names of
our columns. What scapy does not find in a packet is left out. The tests read the files that are committed,
not this script; root is needed for tcpdump alone.
"""

import json
import pathlib
import shutil
import socket
import subprocess
import time

from scapy.all import (
    ARP, AH, DNS, DNSQR, Dot1AD, Dot1Q, Ether, GRE, ICMP, IP, IPOption_RR, IPv6, IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, LLC, NoPayload, RawPcapReader,
    RawPcapNgReader, RawPcapWriter, PcapNgWriter, Raw, STP, TCP, UDP, CookedLinux, CookedLinuxV2, Dot3,
    ICMPv6EchoRequest, ICMPv6ND_NS, PadN, Padding, conf, fragment,
)

HERE = pathlib.Path(__file__).parent / "packets"
shutil.rmtree(HERE, ignore_errors=True)
HERE.mkdir()

START = 1_767_225_600_123_456_789

four = dict(src="192.168.1.7", dst="10.1.2.3")
six = dict(src="fd00::7", dst="2001:db8::1")
deep = IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0" * 4)]) / IPv6ExtHdrRouting(addresses=["::1"])

# What IP carries, in many ways.
internet = [
    IP(**four, ttl=63, id=4711, tos=0xB9, flags="DF") / TCP(sport=40000, dport=443, flags="S", seq=2**32 - 1,
        options=[("MSS", 1460), ("SAckOK", b""), ("WScale", 7)]),
    IP(**four) / TCP(sport=443, dport=40000, flags="SA", seq=7, ack=2**31, window=512),
    IP(**four) / TCP(sport=1, dport=65535, flags=0x1FF, urgptr=9) / b"every flag",
    IP(**four) / TCP(flags="PA") / "GET / HTTP/1.1\r\nHost: ä\r\n\r\n".encode(),
    IP(**four, options=[IPOption_RR(length=11, pointer=4, routers=["0.0.0.0", "0.0.0.0"])]) / UDP(sport=53, dport=53) / DNS(qd=DNSQR(qname="example.org")),
    IP(**four) / UDP(sport=1, dport=2),
    IP(**four, ttl=1) / ICMP(type=8, code=0, id=1, seq=2) / b"ping",
    IP(**four) / ICMP(type=13, ts_ori=1, ts_rx=2, ts_tx=3),
    IP(**four) / ICMP(type=3, code=3) / IP(src="10.1.2.3", dst="192.168.1.7") / UDP(sport=9, dport=10) / b"lost",
    IP(**four) / GRE() / IP(src="1.1.1.1", dst="2.2.2.2") / TCP(dport=22),
    IP(**four, proto=253) / b"\x01\x02\xff",
    IPv6(**six, tc=0xA5, fl=0xABCDE, hlim=3) / TCP(sport=5, dport=6, flags="FA") / b"six",
    IPv6(**six) / UDP(sport=546, dport=547) / b"\x00\x01",
    IPv6(**six) / ICMPv6EchoRequest(id=1, seq=1, data=b"echo"),
    IPv6(**six) / ICMPv6ND_NS(tgt="fd00::9"),
    IPv6(**six) / deep / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 12)]) / TCP(sport=7, dport=8) / b"deep",
    IPv6(**six) / AH(nh=17, payloadlen=4, spi=1, seq=2, icv=b"\0" * 12) / UDP(sport=9, dport=9) / b"signed",
    IPv6(**six) / IPv6ExtHdrFragment(offset=0, m=1, id=3) / UDP(sport=11, dport=12, len=2000) / (b"x" * 16),
    IPv6(**six, nh=44) / IPv6ExtHdrFragment(offset=3, m=0, id=3, nh=17) / Raw(b"later in a fragment"),
    IPv6(**six, nh=59),
    *fragment(IP(**four, id=99) / UDP(sport=1000, dport=2000) / (b"fragment" * 8), fragsize=32),
]
ether = dict(src="02:00:00:00:00:07", dst="02:00:00:00:00:01")
padded = bytes(Ether(**ether) / IP(**four) / TCP(dport=80, flags="R"))
frames = [Ether(**ether) / packet for packet in internet] + [
    Ether(padded + b"\xaa" * (60 - len(padded))),
    Ether(**ether) / Dot1Q(vlan=42, prio=5) / IP(**four) / UDP(sport=3, dport=4) / b"tagged",
    Ether(**ether) / Dot1AD(vlan=7) / Dot1Q(vlan=8) / IPv6(**six) / TCP(dport=9),
    Ether(**ether) / Dot1Q(vlan=4095) / ARP(psrc="192.168.1.7", pdst="192.168.1.1"),
    Ether(src=ether["src"], dst="ff:ff:ff:ff:ff:ff") / ARP(psrc="192.168.1.7", pdst="192.168.1.1"),
    Dot3(dst="01:80:c2:00:00:00", src=ether["src"]) / LLC() / STP(),
    Ether(**ether, type=0x88CC) / b"\x02\x07lldp",
    # Left to hardware, which fills in lengths and sums.
    Ether(**ether) / IP(**four, len=0) / TCP(dport=443, chksum=0) / b"offloaded",
]


def bytes_of(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return list(socket.inet_pton(family, address))


def mac(address):
    return [int(byte, 16) for byte in address.split(":")]


def inside(layer):
    """What a header carries, without what the link appended to it."""
    return b"" if isinstance(layer.payload, Padding) else layer.payload.original


def describe(packet):
    """What scapy finds, by the names of our columns."""
    row, payload, protocol, layer = {}, b"", "Unknown", packet
    while not isinstance(layer, NoPayload):
        kind = type(layer)
        if kind in (Ether, Dot3):
            row["Ethernet::source"], row["Ethernet::destination"] = mac(layer.src), mac(layer.dst)
            row["Ethernet::type"] = layer.type if kind is Ether else layer.len
            protocol = "Ethernet2"
        elif kind in (Dot1Q, Dot1AD):
            row.setdefault("VLAN::id", layer.vlan)
            row.setdefault("VLAN::priority", layer.prio)
        elif kind is IP:
            row |= {
                "IPv4::source": bytes_of(layer.src), "IPv4::destination": bytes_of(layer.dst),
                "IPv4::ihl": layer.ihl, "IPv4::dscp": layer.tos >> 2, "IPv4::ecn": layer.tos & 3,
                "IPv4::length": layer.len, "IPv4::identification": layer.id, "IPv4::fragment_offset": layer.frag,
                "IPv4::ttl": layer.ttl, "IPv4::protocol": layer.proto, "IPv4::checksum": layer.chksum,
                "IPv4::flags::df": bool(layer.flags.DF), "IPv4::flags::mf": bool(layer.flags.MF),
            }
            incoming = layer.dst.startswith("10.")
            row["direction"] = "Incoming" if incoming else "Outgoing"
            protocol = "IPv4" if layer.frag else "Unknown"
            if layer.frag or layer.proto not in (1, 6, 17):
                payload = inside(layer)
                break
        elif kind is IPv6:
            row |= {
                "IPv6::source": bytes_of(layer.src), "IPv6::destination": bytes_of(layer.dst),
                "IPv6::traffic_class": layer.tc, "IPv6::flow_label": layer.fl, "IPv6::length": layer.plen,
                "IPv6::next_header": layer.nh, "IPv6::hop_limit": layer.hlim,
                "direction": "Outgoing",
            }
            protocol = "Unknown"
        elif kind is IPv6ExtHdrFragment and layer.offset:
            payload, protocol = inside(layer), "IPv6"
            break
        elif kind in (IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, IPv6ExtHdrDestOpt):
            pass
        elif kind is AH:
            # scapy does not look any further.
            layer = {6: TCP, 17: UDP}[layer.nh](inside(layer))
            continue
        elif kind is TCP:
            flags = int(layer.flags)
            row |= {
                "TCP::source": layer.sport, "TCP::destination": layer.dport, "TCP::seq_number": layer.seq,
                "TCP::ack_number": layer.ack, "TCP::data_offset": layer.dataofs,
                "TCP::window_size": layer.window, "TCP::checksum": layer.chksum, "TCP::urgent_pointer": layer.urgptr,
            }
            for bit, name in enumerate(["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns"]):
                row["TCP::flags::" + name] = bool(flags >> bit & 1)
            payload, protocol = inside(layer), "TCP"
            break
        elif kind is UDP:
            row |= {
                "UDP::source": layer.sport, "UDP::destination": layer.dport, "UDP::length": layer.len,
                "UDP::checksum": layer.chksum,
            }
            payload, protocol = inside(layer), "UDP"
            break
        elif kind is ICMP:
            row |= {"ICMP::type": layer.type, "ICMP::code": layer.code, "ICMP::checksum": layer.chksum}
            payload, protocol = inside(layer), "ICMPv4"
            break
        elif kind.__name__.startswith("ICMPv6"):
            row |= {"ICMP::type": layer.type, "ICMP::code": layer.code, "ICMP::checksum": layer.cksum}
            payload, protocol = layer.original[8:], "ICMPv6"
            break
        elif kind in (CookedLinux, CookedLinuxV2):
            pass
        else:
            payload = layer.original
            break
        layer = layer.payload
    return row | {"protocol": protocol, "payload": bytes(payload).hex()}


def dissect(name, packets):
    """Writes what scapy makes of packets: their bytes, times in nanoseconds, lengths and link types."""
    with open(HERE / f"{name}.jsonl", "w") as out:
        for data, nanos, length, link in packets:
            if link in (0, 108):
                # scapy knows the families of this system alone.
                packet = (IP if data[4] >> 4 == 4 else IPv6)(data[4:])
            else:
                packet = conf.l2types[link](data)
            row = {"time": nanos, "length": length} | describe(packet)
            out.write(json.dumps(row) + "\n")


def classic(name):
    reader = RawPcapReader(str(HERE / name))
    unit = 1 if reader.nano else 1000
    found = [(data, info.sec * 10**9 + info.usec * unit, info.wirelen, reader.linktype) for data, info in reader]
    dissect(name, found)


def blocks(name):
    reader = RawPcapNgReader(str(HERE / name))
    found = []
    for data, info in reader:
        units = info.tshigh << 32 | info.tslow
        found.append((data, units * 10**9 // info.tsresol, info.wirelen, info.linktype))
    dissect(name, found)


def write(name, packets, linktype, **how):
    writer = RawPcapWriter(str(HERE / name), linktype=linktype, **how)
    writer.write_header(None)
    for number, packet in enumerate(packets):
        seconds, nanos = divmod(START + number * 1_234_567_891, 10**9)
        fraction = nanos if how.get("nano") else nanos // 1000
        writer.write_packet(bytes(packet), sec=seconds, usec=fraction)
    writer.close()
    classic(name)


write("ethernet.pcap", frames, 1)
write("ethernet_big_nano.pcap", frames[:8], 1, endianness=">", nano=True)
write("ethernet_nano.pcap", frames[8:16], 1, endianness="<", nano=True)
write("raw.pcap", internet, 101, endianness=">")
write("cooked.pcap", [CookedLinux(pkttype=4, lladdrlen=6, src=b"\x02\0\0\0\0\x07\0\0") / p for p in internet[::3]]
    + [CookedLinux(proto=0x8100) / Dot1Q(vlan=3) / internet[0]], 113)
write("cooked2.pcap", [CookedLinuxV2(ifindex=2) / p for p in internet[1::3]], 276)
write("null.pcap", [b"\x02\0\0\0" + bytes(p) if p.version == 4 else b"\x1e\0\0\0" + bytes(p) for p in internet[2::3]], 0)
write("loop.pcap", [b"\0\0\0\x02" + bytes(p) if p.version == 4 else b"\0\0\0\x1c" + bytes(p) for p in internet[::4]], 108)

# Wireshark's own pcapng: several interfaces with link types and units of their own.
subprocess.run(["mergecap", "-F", "pcapng", "-w", HERE / "mergecap.pcapng",
    HERE / "ethernet_nano.pcap", HERE / "cooked.pcap", HERE / "raw.pcap"], check=True)
blocks("mergecap.pcapng")
writer = PcapNgWriter(str(HERE / "scapy.pcapng"))
for number, frame in enumerate(frames[::2]):
    frame = type(frame)(bytes(frame))
    frame.time = START // 10**9 + number
    writer.write(frame)
writer.close()
blocks("scapy.pcapng")


def talk():
    """Something to capture on the loopback interface."""
    time.sleep(1)
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    peer, _ = server.accept()
    client.sendall(b"GET / HTTP/1.0\r\n\r\n")
    peer.recv(100)
    peer.sendall(b"HTTP/1.0 200 OK\r\n\r\nhello")
    client.recv(100)
    for end in (client, peer, server):
        end.close()
    datagram = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    datagram.sendto(b"nobody listens", ("::1", 9))
    ping = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    ping.sendto(bytes(ICMP(type=8, id=1, seq=1) / b"ping"), ("127.0.0.1", 0))


for name, interface, more in [("tcpdump.pcap", "lo", []), ("tcpdump_any_nano.pcap", "any", ["--nano"])]:
    capture = subprocess.Popen(["tcpdump", "-i", interface, "-U", "-Z", "root", *more, "-w", HERE / name,
        "host 127.0.0.1 or host ::1"])
    try:
        talk()
        time.sleep(1)
    finally:
        capture.terminate()
        capture.wait()
    classic(name)
