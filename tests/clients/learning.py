"""A learning switch for os-ken, with each version of OpenFlow that it speaks.

Usage: learning.py PORT VERSION. It asks the switch for all statistics that it can, prints what it got as one line of JSON,
and then installs a flow per pair of addresses that it learns.
"""
import json
import logging
import sys

from os_ken import cfg, log
from os_ken.base import app_manager
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib.packet import ethernet, packet
from os_ken.ofproto import ofproto_v1_0, ofproto_v1_3, ofproto_v1_4, ofproto_v1_5

MODULES = {"1.0": ofproto_v1_0, "1.3": ofproto_v1_3, "1.4": ofproto_v1_4, "1.5": ofproto_v1_5}
VERSION = sys.argv[2]


def say(what, **facts):
    print(json.dumps({"what": what, **facts}), flush=True)


class Learning(app_manager.OSKenApp):
    OFP_VERSIONS = [MODULES[VERSION].OFP_VERSION]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.ports = {}

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def features(self, event):
        path = event.msg.datapath
        say("features", datapath_id=f"{event.msg.datapath_id:016x}", tables=event.msg.n_tables)
        if VERSION != "1.0":
            # The entry for misses, which OpenFlow 1.0 has built in.
            self.add_flow(path, 0, path.ofproto_parser.OFPMatch(), path.ofproto.OFPP_CONTROLLER)

    @set_ev_cls(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])
    def state(self, event):
        if event.state == DEAD_DISPATCHER:
            say("gone")
            return
        path, parser, protocol = event.datapath, event.datapath.ofproto_parser, event.datapath.ofproto
        if VERSION == "1.0":
            match = parser.OFPMatch()
            requests = [
                parser.OFPDescStatsRequest(path, 0),
                parser.OFPFlowStatsRequest(path, 0, match, 0xFF, protocol.OFPP_NONE),
                parser.OFPAggregateStatsRequest(path, 0, match, 0xFF, protocol.OFPP_NONE),
                parser.OFPTableStatsRequest(path, 0),
                parser.OFPPortStatsRequest(path, 0, protocol.OFPP_NONE),
                parser.OFPQueueStatsRequest(path, 0, protocol.OFPP_ALL, protocol.OFPQ_ALL),
            ]
        else:
            requests = [
                parser.OFPDescStatsRequest(path, 0),
                # What was named flow statistics became the description of flows in 1.5. Its new statistics (17) are not in
                # Open vSwitch.
                parser.OFPFlowDescStatsRequest(path) if VERSION == "1.5" else parser.OFPFlowStatsRequest(path),
                parser.OFPAggregateStatsRequest(
                    path, 0, protocol.OFPTT_ALL, protocol.OFPP_ANY, protocol.OFPG_ANY, 0, 0, parser.OFPMatch()
                ),
                parser.OFPTableStatsRequest(path, 0),
                parser.OFPTableFeaturesStatsRequest(path, 0),
                parser.OFPPortStatsRequest(path, 0, protocol.OFPP_ANY),
                parser.OFPPortDescStatsRequest(path, 0),
                parser.OFPQueueStatsRequest(path, 0, protocol.OFPP_ANY, protocol.OFPQ_ALL),
                parser.OFPGroupStatsRequest(path, 0, protocol.OFPG_ALL),
                parser.OFPGroupDescStatsRequest(path, 0),
                parser.OFPGroupFeaturesStatsRequest(path, 0),
                parser.OFPMeterStatsRequest(path, 0, protocol.OFPM_ALL),
                parser.OFPRoleRequest(path, protocol.OFPCR_ROLE_EQUAL, generation_id=0),
            ]
            if VERSION != "1.5":
                requests.append(parser.OFPMeterConfigStatsRequest(path, 0, protocol.OFPM_ALL))
                # Open vSwitch and its tools have the shorter structure of 1.3 in 1.5, too, which os-ken refuses.
                requests.append(parser.OFPMeterFeaturesStatsRequest(path, 0))
            if VERSION in ("1.4", "1.5"):
                requests.append(parser.OFPGetAsyncRequest(path))
        for request in requests + [parser.OFPBarrierRequest(path)]:
            path.send_msg(request)

    def answered(self, event):
        message = event.msg
        body = getattr(message, "body", None)
        say(type(message).__name__, parts=len(body) if isinstance(body, (list, tuple)) else 1)

    @set_ev_cls(ofp_event.EventOFPErrorMsg, [CONFIG_DISPATCHER, MAIN_DISPATCHER])
    def error(self, event):
        say("error", type=event.msg.type, code=event.msg.code)

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, event):
        message = event.msg
        path, parser, protocol = message.datapath, message.datapath.ofproto_parser, message.datapath.ofproto
        in_port = message.in_port if VERSION == "1.0" else message.match["in_port"]
        frame = packet.Packet(message.data).get_protocol(ethernet.ethernet)
        self.ports[frame.src] = in_port
        out_port = self.ports.get(frame.dst, protocol.OFPP_FLOOD)
        if out_port != protocol.OFPP_FLOOD:
            match = (
                parser.OFPMatch(in_port=in_port, dl_src=bytes.fromhex(frame.src.replace(":", "")),
                                dl_dst=bytes.fromhex(frame.dst.replace(":", "")))
                if VERSION == "1.0"
                else parser.OFPMatch(in_port=in_port, eth_src=frame.src, eth_dst=frame.dst)
            )
            self.add_flow(path, 1, match, out_port)
        actions = [parser.OFPActionOutput(out_port)]
        if VERSION == "1.5":
            out = parser.OFPPacketOut(path, protocol.OFP_NO_BUFFER, parser.OFPMatch(in_port=in_port), actions, message.data)
        else:
            out = parser.OFPPacketOut(path, protocol.OFP_NO_BUFFER, in_port, actions, message.data)
        path.send_msg(out)

    @staticmethod
    def add_flow(path, priority, match, port):
        parser, protocol = path.ofproto_parser, path.ofproto
        output = [parser.OFPActionOutput(port)] if port != protocol.OFPP_CONTROLLER else [parser.OFPActionOutput(port, 0xFFFF)]
        if VERSION == "1.0":
            mod = parser.OFPFlowMod(path, match, 0, protocol.OFPFC_ADD, priority=priority, actions=output)
        else:
            apply = [parser.OFPInstructionActions(protocol.OFPIT_APPLY_ACTIONS, output)]
            mod = parser.OFPFlowMod(path, priority=priority, match=match, instructions=apply)
        path.send_msg(mod)


REPLIES = (
    "DescStats FlowStats FlowDescStats AggregateStats TableStats TableFeaturesStats PortStats PortDescStats QueueStats GroupStats "
    "GroupDescStats GroupFeaturesStats MeterStats MeterFeaturesStats MeterConfigStats Role GetAsync Barrier"
)
for name in REPLIES.split():
    if event := getattr(ofp_event, f"EventOFP{name}Reply", None):
        # One method serves them all; each registration is a function of its own.
        handler = set_ev_cls(event, MAIN_DISPATCHER)(lambda self, event: self.answered(event))
        setattr(Learning, f"answered_{name}", handler)

if __name__ == "__main__":
    cfg.CONF(args=[f"--ofp-tcp-listen-port={sys.argv[1]}", "--ofp-listen-host=127.0.0.1"], project="learning")
    log.early_init_log(logging.WARNING)
    log.init_log()
    app_manager.AppManager.run_apps(["os_ken.controller.ofp_handler", "learning"])
