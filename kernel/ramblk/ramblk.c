// SPDX-License-Identifier: GPL-2.0
/*
 * ramblk - one block device in memory, on blk-mq, for measurements
 *
 * The disk is /dev/ramblk0. All of its memory is taken when the module is
 * loaded, so that a write costs a copy and never an allocation: what is
 * measured on it is the path through file system and block layer, and a device
 * whose service time is set by a parameter.
 *
 * Each request is served on its own: with a delay the device holds up to
 * queues * depth requests at a time, and each takes that long. A short delay is
 * spent in place, as a processor would wait for fast memory. A longer one is
 * left to a timer, and the processor is free meanwhile, as with a real device.
 *
 * With fail_every=N exactly one of each N requests fails with an I/O error and
 * moves no data; which one is drawn from fail_seed, so that two runs with one
 * seed and one order of requests fail alike. Requests are counted from the
 * moment at which either of the two was set.
 *
 * What was done stands in /sys/block/ramblk0/ramblk/, one number per file.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/hash.h>
#include <linux/highmem.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/vmalloc.h>

#include "compat.h"

#define RAMBLK_NAME		"ramblk0"
/* Setting a timer and taking its interrupt costs about as much as this. */
#define RAMBLK_SPIN_NS		(2 * NSEC_PER_USEC)
/* The block layer calls a request lost after 30 s. */
#define RAMBLK_MAX_DELAY_NS	(10 * NSEC_PER_SEC)
#define RAMBLK_MAX_DEPTH	4096

/**
 * struct ramblk_stats - what one processor has done
 * @reads: requests that read, failed ones included
 * @writes: requests that write, failed ones included
 * @discards: requests that discard or write zeros, failed ones included
 * @read_bytes: bytes that were copied out
 * @written_bytes: bytes that were copied in
 * @discarded_bytes: bytes that were made zero
 * @errors: requests that were made to fail
 * @spun: requests whose delay was spent in place
 * @timed: requests whose delay was left to a timer
 */
struct ramblk_stats {
	u64 reads;
	u64 writes;
	u64 discards;
	u64 read_bytes;
	u64 written_bytes;
	u64 discarded_bytes;
	u64 errors;
	u64 spun;
	u64 timed;
};

/**
 * struct ramblk - the device
 * @set: tags of all its queues
 * @disk: the disk
 * @memory: all of its bytes
 * @bytes: how many
 * @stats: what was done
 * @numbered: requests since the rule of failing was set
 */
struct ramblk {
	struct blk_mq_tag_set set;
	struct gendisk *disk;
	void *memory;
	u64 bytes;
	struct ramblk_stats __percpu *stats;
	atomic64_t numbered;
};

/**
 * struct ramblk_cmd - one request under way
 * @timer: ends it
 * @status: how it ends
 */
struct ramblk_cmd {
	struct hrtimer timer;
	blk_status_t status;
};

static struct ramblk ramblk;

static unsigned int size_mib = 256;
module_param(size_mib, uint, 0444);
MODULE_PARM_DESC(size_mib, "Size of the disk in MiB (default: 256)");

static unsigned int queues;
module_param(queues, uint, 0444);
MODULE_PARM_DESC(queues, "Hardware queues (default: one for each processor)");

static unsigned int depth = 64;
module_param(depth, uint, 0444);
MODULE_PARM_DESC(depth, "Requests that each queue holds at a time (default: 64)");

static int ramblk_set_delay(const char *text, const struct kernel_param *param)
{
	u64 ns;
	int ret = kstrtou64(text, 0, &ns);

	if (ret)
		return ret;
	if (ns > RAMBLK_MAX_DELAY_NS)
		return -ERANGE;
	return param_set_ulong(text, param);
}

static const struct kernel_param_ops ramblk_delay_ops = {
	.set	= ramblk_set_delay,
	.get	= param_get_ulong,
};

static unsigned long delay_ns;
module_param_cb(delay_ns, &ramblk_delay_ops, &delay_ns, 0644);
MODULE_PARM_DESC(delay_ns, "Time that each request takes, in ns (default: 0, at most 10 s)");

/* A new rule begins with a new count, so that its first N requests are N. */
static int ramblk_set_rule(const char *text, const struct kernel_param *param)
{
	int ret = param_set_uint(text, param);

	if (!ret)
		atomic64_set(&ramblk.numbered, 0);
	return ret;
}

static const struct kernel_param_ops ramblk_rule_ops = {
	.set	= ramblk_set_rule,
	.get	= param_get_uint,
};

static unsigned int fail_every;
module_param_cb(fail_every, &ramblk_rule_ops, &fail_every, 0644);
MODULE_PARM_DESC(fail_every, "One of so many requests fails (default: 0, none)");

static unsigned int fail_seed = 1;
module_param_cb(fail_seed, &ramblk_rule_ops, &fail_seed, 0644);
MODULE_PARM_DESC(fail_seed, "Which one of them, as drawn from this (default: 1)");

/* Whether the next request is the one of its N that fails. */
static bool ramblk_fails(void)
{
	unsigned int every = READ_ONCE(fail_every);
	u64 number, round;
	u32 place;

	if (!every)
		return false;
	number = atomic64_inc_return(&ramblk.numbered) - 1;
	round = div_u64_rem(number, every, &place);
	/* The upper half of a product, scaled: no more bias than every / 2^32. */
	round = hash_64(round ^ ((u64)READ_ONCE(fail_seed) << 32), 32);
	return place == (u32)((round * every) >> 32);
}

/* Moves the data of a request, which lies within the disk. */
static void ramblk_copy(struct request *rq)
{
	void *at = ramblk.memory + ((u64)blk_rq_pos(rq) << SECTOR_SHIFT);
	struct req_iterator iter;
	struct bio_vec bvec;

	rq_for_each_segment(bvec, rq, iter) {
		if (rq_data_dir(rq) == WRITE)
			memcpy_from_bvec(at, &bvec);
		else
			memcpy_to_bvec(&bvec, at);
		at += bvec.bv_len;
	}
}

static blk_status_t ramblk_serve(struct request *rq)
{
	u64 start = (u64)blk_rq_pos(rq) << SECTOR_SHIFT;
	unsigned int bytes = blk_rq_bytes(rq);
	bool fails = ramblk_fails();

	if (start > ramblk.bytes || bytes > ramblk.bytes - start)
		return BLK_STS_IOERR;
	if (fails)
		this_cpu_inc(ramblk.stats->errors);

	switch (req_op(rq)) {
	case REQ_OP_READ:
		this_cpu_inc(ramblk.stats->reads);
		if (fails)
			break;
		ramblk_copy(rq);
		this_cpu_add(ramblk.stats->read_bytes, bytes);
		break;
	case REQ_OP_WRITE:
		this_cpu_inc(ramblk.stats->writes);
		if (fails)
			break;
		ramblk_copy(rq);
		this_cpu_add(ramblk.stats->written_bytes, bytes);
		break;
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		this_cpu_inc(ramblk.stats->discards);
		if (fails)
			break;
		memset(ramblk.memory + start, 0, bytes);
		this_cpu_add(ramblk.stats->discarded_bytes, bytes);
		break;
	default:
		return BLK_STS_NOTSUPP;
	}
	return fails ? BLK_STS_IOERR : BLK_STS_OK;
}

static enum hrtimer_restart ramblk_timer(struct hrtimer *timer)
{
	struct ramblk_cmd *cmd = container_of(timer, struct ramblk_cmd, timer);

	blk_mq_complete_request(blk_mq_rq_from_pdu(cmd));
	return HRTIMER_NORESTART;
}

static void ramblk_complete(struct request *rq)
{
	struct ramblk_cmd *cmd = blk_mq_rq_to_pdu(rq);

	blk_mq_end_request(rq, cmd->status);
}

static blk_status_t ramblk_queue_rq(struct blk_mq_hw_ctx *hctx,
				    const struct blk_mq_queue_data *bd)
{
	struct request *rq = bd->rq;
	struct ramblk_cmd *cmd = blk_mq_rq_to_pdu(rq);
	unsigned long ns = READ_ONCE(delay_ns);

	blk_mq_start_request(rq);
	cmd->status = ramblk_serve(rq);
	if (ns > RAMBLK_SPIN_NS) {
		this_cpu_inc(ramblk.stats->timed);
		hrtimer_start(&cmd->timer, ns_to_ktime(ns), HRTIMER_MODE_REL);
		return BLK_STS_OK;
	}
	if (ns) {
		this_cpu_inc(ramblk.stats->spun);
		ndelay(ns);
	}
	blk_mq_end_request(rq, cmd->status);
	return BLK_STS_OK;
}

static int ramblk_init_request(struct blk_mq_tag_set *set, struct request *rq,
			       unsigned int hctx_idx, unsigned int numa_node)
{
	struct ramblk_cmd *cmd = blk_mq_rq_to_pdu(rq);

	hrtimer_init(&cmd->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	cmd->timer.function = ramblk_timer;
	return 0;
}

static const struct blk_mq_ops ramblk_mq_ops = {
	.queue_rq	= ramblk_queue_rq,
	.complete	= ramblk_complete,
	.init_request	= ramblk_init_request,
};

static const struct block_device_operations ramblk_fops = {
	.owner		= THIS_MODULE,
};

/* The sum over all processors of the member of struct ramblk_stats at @offset. */
static u64 ramblk_sum(size_t offset)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu) {
		void *stats = per_cpu_ptr(ramblk.stats, cpu);

		sum += READ_ONCE(*(u64 *)(stats + offset));
	}
	return sum;
}

#define RAMBLK_SHOW(_name)						\
static ssize_t _name##_show(struct device *dev,				\
			    struct device_attribute *attr, char *buf)	\
{									\
	return sysfs_emit(buf, "%llu\n",				\
			  ramblk_sum(offsetof(struct ramblk_stats, _name))); \
}

RAMBLK_SHOW(reads)
static DEVICE_ATTR_RO(reads);
RAMBLK_SHOW(writes)
static DEVICE_ATTR_RO(writes);
RAMBLK_SHOW(discards)
static DEVICE_ATTR_RO(discards);
RAMBLK_SHOW(read_bytes)
static DEVICE_ATTR_RO(read_bytes);
RAMBLK_SHOW(written_bytes)
static DEVICE_ATTR_RO(written_bytes);
RAMBLK_SHOW(discarded_bytes)
static DEVICE_ATTR_RO(discarded_bytes);
RAMBLK_SHOW(errors)
static DEVICE_ATTR_RO(errors);
RAMBLK_SHOW(spun)
static DEVICE_ATTR_RO(spun);
RAMBLK_SHOW(timed)
static DEVICE_ATTR_RO(timed);

static struct attribute *ramblk_attrs[] = {
	&dev_attr_reads.attr,
	&dev_attr_writes.attr,
	&dev_attr_discards.attr,
	&dev_attr_read_bytes.attr,
	&dev_attr_written_bytes.attr,
	&dev_attr_discarded_bytes.attr,
	&dev_attr_errors.attr,
	&dev_attr_spun.attr,
	&dev_attr_timed.attr,
	NULL,
};

static const struct attribute_group ramblk_group = {
	.name	= KBUILD_MODNAME,
	.attrs	= ramblk_attrs,
};

static const struct attribute_group *ramblk_groups[] = {
	&ramblk_group,
	NULL,
};

static int ramblk_add_disk(void)
{
	struct gendisk *disk = ramblk_alloc_disk(&ramblk.set, &ramblk);
	int ret;

	if (IS_ERR(disk))
		return PTR_ERR(disk);
	disk->fops = &ramblk_fops;
	disk->flags |= GENHD_FL_NO_PART;
	strscpy(disk->disk_name, RAMBLK_NAME, sizeof(disk->disk_name));
	set_capacity(disk, ramblk.bytes >> SECTOR_SHIFT);
	ramblk.disk = disk;
	ret = device_add_disk(NULL, disk, ramblk_groups);
	if (ret)
		put_disk(disk);
	return ret;
}

static int __init ramblk_init(void)
{
	int ret = -ENOMEM;

	if (!queues)
		queues = num_online_cpus();
	if (!size_mib || queues > nr_cpu_ids || !depth || depth > RAMBLK_MAX_DEPTH) {
		pr_err("found size_mib=%u queues=%u depth=%u, needed size_mib 1 or more, queues 1 to %u, depth 1 to %u\n",
		       size_mib, queues, depth, nr_cpu_ids, RAMBLK_MAX_DEPTH);
		return -EINVAL;
	}
	ramblk.bytes = (u64)size_mib << 20;
	ramblk.memory = vzalloc(ramblk.bytes);
	if (!ramblk.memory)
		return ret;
	ramblk.stats = alloc_percpu(struct ramblk_stats);
	if (!ramblk.stats)
		goto free_memory;

	ramblk.set.ops = &ramblk_mq_ops;
	ramblk.set.nr_hw_queues = queues;
	ramblk.set.queue_depth = depth;
	ramblk.set.numa_node = NUMA_NO_NODE;
	ramblk.set.cmd_size = sizeof(struct ramblk_cmd);
	/* A scheduler is for whoever wants to measure one. */
	ramblk.set.flags = BLK_MQ_F_SHOULD_MERGE | BLK_MQ_F_NO_SCHED_BY_DEFAULT;
	ret = blk_mq_alloc_tag_set(&ramblk.set);
	if (ret)
		goto free_stats;
	ret = ramblk_add_disk();
	if (ret)
		goto free_tags;
	return 0;

free_tags:
	blk_mq_free_tag_set(&ramblk.set);
free_stats:
	free_percpu(ramblk.stats);
free_memory:
	vfree(ramblk.memory);
	return ret;
}

static void __exit ramblk_exit(void)
{
	del_gendisk(ramblk.disk);
	put_disk(ramblk.disk);
	blk_mq_free_tag_set(&ramblk.set);
	free_percpu(ramblk.stats);
	vfree(ramblk.memory);
}

module_init(ramblk_init);
module_exit(ramblk_exit);

MODULE_DESCRIPTION("A block device in memory with a service time and faults on request");
MODULE_LICENSE("GPL");
