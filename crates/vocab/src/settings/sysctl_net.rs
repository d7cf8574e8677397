//! `sysctl.net.*`. Meanings follow Documentation/networking/ip-sysctl.rst and admin-guide/sysctl/net.rst.

use super::sysctl::FILE;
use super::{Reading, SettingDef, Twin, settings};

pub(super) const DEFS: &[SettingDef] = settings! {
    Host "sysctl.net.core.rmem_max" at FILE, Some ["net"] : "Largest receive buffer that a program may ask for.";
    Host "sysctl.net.core.wmem_max" at FILE, Some ["net"] : "Largest send buffer that a program may ask for.";
    Host "sysctl.net.core.rmem_default" at FILE, Some ["net"] : "Receive buffer to begin with.";
    Host "sysctl.net.core.wmem_default" at FILE, Some ["net"] : "Send buffer to begin with.";
    Host "sysctl.net.core.somaxconn" at FILE, Some ["net"] : "Most connections that wait to be accepted.";
    Host "sysctl.net.core.netdev_max_backlog" at FILE, Some ["net"] : "Packets that wait for a processor.";
    Host "sysctl.net.core.netdev_budget" at FILE, Some ["net"] : "Packets handled in one go.";
    Host "sysctl.net.core.netdev_budget_usecs" at FILE, Some ["net"] : "Time for it.";
    Host "sysctl.net.core.busy_poll" at FILE, Some ["net", "cpu"] : "Time that poll spins for packets, us.";
    Host "sysctl.net.core.busy_read" at FILE, Some ["net", "cpu"] : "Time that read spins for packets, us.";
    Host "sysctl.net.core.default_qdisc" at FILE, Some ["net"] : "Queueing discipline of new interfaces.";
    Host "sysctl.net.core.bpf_jit_enable" at FILE, Some ["net", "tracing", "cpu"] : "Whether BPF programs are compiled.";
    ReadOnly "sysctl.net.core.bpf_jit_harden" at FILE, Low ["net", "security"] : "Whether compiled BPF programs are hardened.";
    ReadOnly "sysctl.net.core.netdev_rss_key" at FILE, Nil ["net"] { volatile: true, reading: Reading::Masked } : "Key of the receive hash, drawn at boot.";
    ReadOnly "sysctl.net.ipv4.tcp_fastopen_key" at FILE, Nil ["net"] { volatile: true, reading: Reading::Masked } : "Key of fast-open cookies.";
    Host "sysctl.net.ipv4.tcp_congestion_control" at FILE, High ["net"] : "Congestion control of new connections.";
    Host "sysctl.net.ipv4.tcp_rmem" at FILE, High ["net"] : "Least, usual and most receive buffer of TCP.";
    Host "sysctl.net.ipv4.tcp_wmem" at FILE, High ["net"] : "Least, usual and most send buffer of TCP.";
    Host "sysctl.net.ipv4.tcp_mem" at FILE, Some ["net", "memory"] { derived_from: Some("mm.total_bytes") } : "Pages of all TCP buffers: no, some, most pressure.";
    Host "sysctl.net.ipv4.udp_mem" at FILE, Some ["net", "memory"] { derived_from: Some("mm.total_bytes") } : "The same for UDP.";
    Host "sysctl.net.ipv4.tcp_slow_start_after_idle" at FILE, Some ["net"] : "Whether an idle connection starts slowly again.";
    Host "sysctl.net.ipv4.tcp_<path>" at FILE, Some ["net"] : "Any other sysctl of TCP.";
    ReadOnly "sysctl.net.ipv4.ip_forward" at FILE, Low ["net"] : "Routing. Not offered for writing: it resets the settings of every interface.";
    ReadOnly "sysctl.net.ipv4.conf.all.forwarding" at FILE, Low ["net"] : "The same.";
    ReadOnly "sysctl.net.ipv6.conf.all.forwarding" at FILE, Low ["net"] : "The same.";
    ReadOnly "sysctl.net.ipv6.conf.<dev>.disable_ipv6" at FILE, Low ["net"] : "IPv6 off. Not offered for writing: the addresses do not come back.";
    ReadOnly "sysctl.net.ipv6.conf.<dev>.stable_secret" at FILE, Nil ["net"] { reading: Reading::Never } : "Secret of stable addresses.";
    Host "sysctl.net.ipv4.conf.<path>" at FILE, Nil ["net"] : "IPv4 settings of an interface.";
    Host "sysctl.net.ipv6.conf.<path>" at FILE, Nil ["net"] : "IPv6 settings of an interface.";
    Host "sysctl.net.ipv4.neigh.<path>" at FILE, Nil ["net"] : "Neighbours of an interface, IPv4.";
    Host "sysctl.net.ipv6.neigh.<path>" at FILE, Nil ["net"] : "Neighbours of an interface, IPv6.";
    ReadOnly "sysctl.net.ipv4.route.flush" at FILE, Nil ["net"] { reading: Reading::Never } : "Write-only: forgets cached routes.";
    ReadOnly "sysctl.net.ipv6.route.flush" at FILE, Nil ["net"] { reading: Reading::Never } : "Write-only: forgets cached routes.";
    ReadOnly "sysctl.net.netfilter.nf_conntrack_count" at FILE, Nil ["net"] { volatile: true } : "Connections tracked now.";
    Host "sysctl.net.nf_conntrack_max" at FILE, Some ["net", "limits"]
        { twins: &[Twin { when: None, key: "sysctl.net.netfilter.nf_conntrack_max", value: None }],
          companions: super::Companions::Rewritten(&["sysctl.net.netfilter.nf_conntrack_max"]) } : "Most connections tracked, under its older name.";
    Host "sysctl.net.netfilter.nf_conntrack_max" at FILE, Some ["net", "limits"] : "Most connections tracked.";
    Host "sysctl.net.unix.max_dgram_qlen" at FILE, Low ["net", "limits"] : "Datagrams that wait in a local socket.";
    Host "sysctl.net.<path>" at FILE, Low ["net"] { catch_all: true } : "Any other sysctl of the network.";
};
