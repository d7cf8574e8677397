//! The text of various kernels, and what is read out of it.

use super::super::parse;
use super::super::source::Tag;
use super::{key, key_of, parsed, understood};

#[test]
fn vmstat_of_an_old_and_a_new_kernel() {
    // 2.6.32 begins with other levels and has no thp_ counters; the reader does not care.
    let values = understood("vmstat.", parse::pairs, b"nr_free_pages 922965\npgfault 9997056\nthp_fault_alloc 0\n");
    assert_eq!(values[&key("vmstat.nr_free_pages")], 922_965.0);
    assert_eq!(values[&key("vmstat.pgfault")], 9_997_056.0);
    assert_eq!(values[&key("vmstat.thp_fault_alloc")], 0.0);
    assert_eq!(values.len(), 3);
}

#[test]
fn meminfo_turns_kilobytes_into_bytes_and_leaves_numbers() {
    let text = b"MemTotal:       24684092 kB\nActive(anon):       1556 kB\nHugePages_Total:      12\n\
        DirectMap1G:    25165824 kB\nVmallocTotal:   34359738367 kB\n";
    let values = understood("meminfo.", parse::meminfo, text);
    assert_eq!(values[&key("meminfo.memtotal_bytes")], 24_684_092.0 * 1024.0);
    assert_eq!(values[&key("meminfo.active_anon_bytes")], 1556.0 * 1024.0);
    assert_eq!(values[&key("meminfo.hugepages_total")], 12.0);
    assert_eq!(values[&key("meminfo.directmap1g_bytes")], f64::from(1 << 24) * 1024.0 * 1.5);
    assert_eq!(values.len(), 5);
}

const STAT: &[u8] = b"cpu  68413 1 5644 76086 1551 2 77 189 3 4\n\
    cpu0 33633 1 2243 39936 124 2 15 84 3 4\n\
    cpu1 34780 0 3401 36150 1427 0 62 105 0 0\n\
    intr 363635 0 0 152 54\nctxt 404417\nbtime 1795245496\nprocesses 8757\nprocs_running 3\nprocs_blocked 1\n\
    softirq 183722 0 23690\n";

#[test]
fn stat_gives_each_cpu_and_the_sum() {
    let values = understood("", parse::stat, STAT);
    assert_eq!(values[&key("cpu.user_ns")], 68_413.0 * 1e7);
    assert_eq!(values[&key_of("cpu.user_ns", "cpu1")], 34_780.0 * 1e7);
    assert_eq!(values[&key_of("cpu.guest_nice_ns", "cpu0")], 4.0 * 1e7);
    assert_eq!(values[&key("stat.interrupts")], 363_635.0);
    assert_eq!(values[&key("stat.context_switches")], 404_417.0);
    assert_eq!(values[&key("stat.forks")], 8757.0);
    assert_eq!(values[&key("stat.procs_running")], 3.0);
    assert_eq!(values[&key("stat.procs_blocked")], 1.0);
    assert_eq!(values.len(), 3 * 10 + 5, "btime and the list of softirqs are no metrics");
}

/// With many CPUs the file is read by two sources; together they must be the one.
#[test]
fn stat_split_for_many_cpus_is_the_same() {
    let mut both = understood("", parse::stat_totals, STAT);
    let each = understood("", parse::stat_cpus, STAT);
    assert!(each.keys().all(|(_, instance)| instance.is_some()));
    both.extend(each);
    assert_eq!(both, understood("", parse::stat, STAT));
}

#[test]
fn stat_of_a_kernel_with_fewer_columns_has_fewer_series() {
    // 2.6.23 knows neither guest nor guest_nice; 2.4 had four columns.
    let values = understood("", parse::stat, b"cpu  10 20 30 40\ncpu0 10 20 30 40\nctxt 5\n");
    assert_eq!(values.len(), 9);
    assert!(!values.contains_key(&key("cpu.iowait_ns")), "what is not there is absent, not 0");
}

#[test]
fn schedstat_is_summed_over_cpus() {
    for version in [15, 16, 17] {
        let domain = if version == 17 { "domain0 MC 00000003" } else { "domain0 00000003" };
        let text = format!(
            "version {version}\ntimestamp 4295105218\ncpu0 1 0 300 100 200 150 7000000000 500000000 199\n\
             {domain} 9 9 9\ncpu1 2 0 30 10 20 15 700000000 50000000 20\n{domain} 9 9 9\n"
        );
        let values = understood("schedstat.", parse::schedstat, text.as_bytes());
        assert_eq!(values[&key("schedstat.yields")], 3.0);
        assert_eq!(values[&key("schedstat.schedules")], 330.0);
        assert_eq!(values[&key("schedstat.wakeups_local")], 165.0);
        assert_eq!(values[&key("schedstat.run_ns")], 7.7e9);
        assert_eq!(values[&key("schedstat.wait_ns")], 5.5e8);
        assert_eq!(values[&key("schedstat.timeslices")], 219.0);
        assert_eq!(values.len(), 8);
    }
}

/// Version 14 and before had other columns: no value is better than a wrong one.
#[test]
fn schedstat_of_another_layout_is_refused() {
    let (values, trouble) =
        parsed("schedstat.", parse::schedstat, &Tag::default(), b"version 14\ncpu0 1 2 3 4 5 6 7 8 9 10 11 12\n");
    assert!(values.is_empty());
    assert!(trouble.is_some_and(|t| t.contains("version 14")));
}

#[test]
fn interrupts_are_summed_and_named() {
    let text = b"           CPU0       CPU1       \n\
         24:          1          0  IO-APIC   5-edge      ACPI:Ged\n\
         36:          2      66477 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n\
         16:         10         20   IO-APIC  16-fasteoi   i801_smbus, ehci_hcd:usb1\n\
        NMI:          0          0   Non-maskable interrupts\n\
        TLB:       5346       5618   TLB shootdowns\n\
        ERR:          7\nMIS:          0\n";
    let values = understood("interrupts", parse::interrupts, text);
    assert_eq!(values[&key_of("interrupts", "36:virtio1-req.0")], 66_479.0);
    assert_eq!(values[&key_of("interrupts", "16:i801_smbus, ehci_hcd:usb1")], 30.0);
    assert_eq!(values[&key_of("interrupts", "TLB")], 10_964.0);
    assert_eq!(values[&key_of("interrupts", "ERR")], 7.0, "lines with one number on any machine");
    assert_eq!(values.len(), 7);
}

#[test]
fn interrupts_of_arm64_and_of_a_machine_with_offline_cpus() {
    // CPU2 and CPU3 are offline: the header names those that are there.
    let text = b"           CPU0       CPU1       CPU4\n\
         11:    1000000    2000000    3000000     GICv3  27 Level     arch_timer\n\
        IPI0:      100        200        300       Rescheduling interrupts\n\
        IPI7:        0          0          0       CPU wake-up interrupts\nErr:          0\n";
    let values = understood("interrupts", parse::interrupts, text);
    assert_eq!(values[&key_of("interrupts", "11:arch_timer")], 6e6);
    assert_eq!(values[&key_of("interrupts", "IPI0")], 600.0);
    assert_eq!(values.len(), 4);
}

#[test]
fn softirqs_are_summed_under_lower_case_names() {
    let text = b"                    CPU0       CPU1       \n          HI:          0          0\n      NET_RX:       2957       3876\n";
    let values = understood("softirqs.", parse::softirqs, text);
    assert_eq!(values[&key("softirqs.net_rx")], 6833.0);
    assert_eq!(values[&key("softirqs.hi")], 0.0);
}

#[test]
fn diskstats_of_three_generations() {
    let text = b" 254       0 vda 58003 9761 4241986 44265 13478 28918 2859128 8795 1 19364 53748 5907 42 359136 627 1176 60\n \
         8       1 sda1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n \
         3       0 hda 1 2 3 4 5 6 7 8 9 10 11\n";
    let values = understood("disk.", parse::diskstats, text);
    assert_eq!(values[&key_of("disk.reads", "vda")], 58_003.0);
    assert_eq!(values[&key_of("disk.read_bytes", "vda")], 4_241_986.0 * 512.0);
    assert_eq!(values[&key_of("disk.write_ns", "vda")], 8795.0 * 1e6);
    assert_eq!(values[&key_of("disk.in_flight", "vda")], 1.0);
    assert_eq!(values[&key_of("disk.flush_ns", "vda")], 60.0 * 1e6);
    assert_eq!(values[&key_of("disk.discard_ns", "sda1")], 15.0 * 1e6);
    assert!(!values.contains_key(&key_of("disk.flushes", "sda1")), "4.18 counts no flushes");
    assert!(!values.contains_key(&key_of("disk.discards", "hda")), "before 4.18 there are no discards");
    assert_eq!(values.len(), 17 + 15 + 11);
}

/// Before 2.6.25 a partition had four numbers, of which the second were sectors read, not merges.
#[test]
fn short_partition_lines_are_not_misread() {
    let (values, trouble) =
        parsed("disk.", parse::diskstats, &Tag::default(), b"   3    1 hda1 35486 38030 38030 38030\n");
    assert!(values.is_empty());
    assert!(trouble.is_some());
}

#[test]
fn net_dev_with_and_without_a_blank_behind_the_colon() {
    let text = b"Inter-|   Receive                                                |  Transmit\n \
        face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
        lo:    3193      29    0    0    0     0          0         0     3194      30    0    0    0     0       0          0\n  \
        eth0:160250024    7170    1    2    3     4          5         6   509398    4288    7    8    9    10      11         12\n";
    let values = understood("net.", parse::net_dev, text);
    assert_eq!(values[&key_of("net.rx_bytes", "eth0")], 160_250_024.0);
    assert_eq!(values[&key_of("net.rx_multicast", "eth0")], 6.0);
    assert_eq!(values[&key_of("net.tx_bytes", "lo")], 3194.0);
    assert_eq!(values[&key_of("net.tx_compressed", "eth0")], 12.0);
    assert_eq!(values.len(), 32);
}

#[test]
fn pressure_takes_the_totals() {
    let text =
        b"some avg10=4.02 avg60=4.03 avg300=2.35 total=17513017\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
    let values = understood("psi.cpu.", parse::pressure, text);
    assert_eq!(values[&key("psi.cpu.some_ns")], 17_513_017_000.0);
    assert_eq!(values[&key("psi.cpu.full_ns")], 5000.0);
    // 5.2 to 5.12 had no "full" for the CPU; irq has nothing else.
    let values = understood("psi.irq.", parse::pressure, b"full avg10=0.00 avg60=0.00 avg300=0.00 total=9\n");
    assert_eq!(values.len(), 1);
}

#[test]
fn buddyinfo_by_node_zone_and_order() {
    let text = b"Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3 \n\
        Node 1, zone  Movable      9      8      7      6\n";
    let values = understood("buddy.", parse::buddyinfo, text);
    assert_eq!(values[&key_of("buddy.free_blocks", "0/DMA/10")], 3.0);
    assert_eq!(values[&key_of("buddy.free_blocks", "1/Movable/0")], 9.0);
    assert_eq!(values.len(), 15);
}

#[test]
fn slabinfo_of_slub_and_of_the_slab_allocator_with_statistics() {
    let text = b"slabinfo - version: 2.1\n\
        # name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>\n\
        bio-312               10     12    320   12    2 : tunables    0    0    0 : slabdata      1      3      0\n\
        dentry               100    120    192   21    1 : tunables  120   60    8 : slabdata      5      6      0 : globalstat 1 2 3 : cpustat 4 5 6\n\
        cut-off               10     12    320   12    2 : tunables\n";
    let values = understood("slab.", parse::slabinfo, text);
    assert_eq!(values[&key_of("slab.active_bytes", "bio-312")], 3200.0);
    assert_eq!(values[&key_of("slab.total_bytes", "bio-312")], 3.0 * 2.0 * 4096.0);
    assert_eq!(values[&key_of("slab.total_bytes", "dentry")], 6.0 * 4096.0);
    assert_eq!(values[&key_of("slab.active_bytes", "cut-off")], 3200.0);
    assert_eq!(values.len(), 5, "what the cut-off line does not say is absent");
}

#[test]
fn loadavg_and_lone_numbers() {
    let values = understood("loadavg.", parse::loadavg, b"2.06 1.48 0.70 3/105 8784\n");
    assert_eq!(values[&key("loadavg.1min")], 2.06);
    assert_eq!(values[&key("loadavg.15min")], 0.70);
    assert_eq!(values[&key("loadavg.runnable")], 3.0);
    assert_eq!(values[&key("loadavg.tasks")], 105.0);
    assert_eq!(values.len(), 5, "the last process id is no measurement");

    let tag = Tag { field: "free_pages", instance: b"2048kB".to_vec() };
    let (values, trouble) = parsed("hugetlb.", parse::one_number, &tag, b"78\n");
    assert_eq!((values[&key_of("hugetlb.free_pages", "2048kB")], trouble), (78.0, None));
    // A driver that cannot tell says so in words.
    let (values, trouble) = parsed("", parse::one_number, &tag, b"<unknown>\n");
    assert!(values.is_empty() && trouble.is_some());
}

#[test]
fn process_status_takes_levels_and_switches() {
    let text = b"Name:\t7 kB\nUmask:\t0022\nState:\tR (running)\nPid:\t8792\nGroups:\t \nVmPeak:\t    3060 kB\n\
        VmRSS:\t    1652 kB\nHugetlbPages:\t       0 kB\nTHP_enabled:\t1\nThreads:\t12\nSigQ:\t0/96365\n\
        Mems_allowed_list:\t0\nvoluntary_ctxt_switches:\t44\nnonvoluntary_ctxt_switches:\t55\n";
    let values = understood("target.status.", parse::status, text);
    assert_eq!(values[&key("target.status.vmrss_bytes")], 1652.0 * 1024.0);
    assert_eq!(values[&key("target.status.hugetlbpages_bytes")], 0.0);
    assert_eq!(values[&key("target.status.threads")], 12.0);
    assert_eq!(values[&key("target.status.voluntary_ctxt_switches")], 44.0);
    assert_eq!(values.len(), 6, "the process that calls itself \"7 kB\" is no measurement: {values:?}");
}

/// A process may call itself anything, a line of another process's stat for instance.
#[test]
fn process_stat_ends_the_name_at_the_last_bracket() {
    let numbers = "8792 8744 6177 0 -1 4194304 101 2000 3 40 500 600 7 8 20 0 1 0 77 3133440 413";
    for name in ["cat", "a) R 1 1 1 1 1 1 1 1 1 1 1 1 1 1 (b", ") 1 (", ""] {
        let text = format!("8792 ({name}) R {numbers}\n");
        let values = understood("target.stat.", parse::process_stat, text.as_bytes());
        assert_eq!(values[&key("target.stat.minor_faults")], 101.0, "{name:?}");
        assert_eq!(values[&key("target.stat.child_minor_faults")], 2000.0);
        assert_eq!(values[&key("target.stat.major_faults")], 3.0);
        assert_eq!(values[&key("target.stat.child_major_faults")], 40.0);
        assert_eq!(values[&key("target.stat.utime_ns")], 500.0 * 1e7);
        assert_eq!(values[&key("target.stat.stime_ns")], 600.0 * 1e7);
        assert_eq!(values[&key("target.stat.child_stime_ns")], 8.0 * 1e7);
        assert_eq!(values.len(), 8);
    }
}

#[test]
fn process_io_and_smaps_rollup() {
    let values = understood("target.io.", parse::colon_pairs, b"rchar: 6976\nsyscr: 10\ncancelled_write_bytes: 0\n");
    assert_eq!(values[&key("target.io.rchar")], 6976.0);
    let text = b"56123abbc000-7fff30433000 ---p 00000000 00:00 0                          [rollup]\n\
        Rss:                1652 kB\nPss_Dirty:           112 kB\nAnonHugePages:      2048 kB\n";
    let values = understood("target.smaps.", parse::smaps_rollup, text);
    assert_eq!(values[&key("target.smaps.rss_bytes")], 1652.0 * 1024.0);
    assert_eq!(values[&key("target.smaps.pss_dirty_bytes")], 112.0 * 1024.0);
    assert_eq!(values[&key("target.smaps.anonhugepages_bytes")], 2048.0 * 1024.0);
    assert_eq!(values.len(), 3);
}
