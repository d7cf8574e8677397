/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between the kernels that ramblk is built for.
 *
 * Kbuild looks into the kernel's headers for what is there; no version is
 * compared, since distributions carry changes back.
 */
#ifndef RAMBLK_COMPAT_H
#define RAMBLK_COMPAT_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>

/* Discarding and writing zeros are one memset, which has no other limit. */
#define RAMBLK_MAX_ZERO_SECTORS	(UINT_MAX >> SECTOR_SHIFT)

/* ramblk_alloc_disk - a disk with the limits of a device in memory */
#ifdef RAMBLK_LIMITS_AT_ALLOC
static inline struct gendisk *ramblk_alloc_disk(struct blk_mq_tag_set *set,
						void *data)
{
	struct queue_limits limits = {
		.logical_block_size	= SECTOR_SIZE,
		.physical_block_size	= PAGE_SIZE,
		.discard_granularity	= SECTOR_SIZE,
		.max_hw_discard_sectors	= RAMBLK_MAX_ZERO_SECTORS,
		.max_write_zeroes_sectors = RAMBLK_MAX_ZERO_SECTORS,
	};

	return blk_mq_alloc_disk(set, &limits, data);
}
#else
static inline struct gendisk *ramblk_alloc_disk(struct blk_mq_tag_set *set,
						void *data)
{
	struct gendisk *disk = blk_mq_alloc_disk(set, data);

	if (IS_ERR(disk))
		return disk;
	blk_queue_flag_set(QUEUE_FLAG_NONROT, disk->queue);
	blk_queue_logical_block_size(disk->queue, SECTOR_SIZE);
	blk_queue_physical_block_size(disk->queue, PAGE_SIZE);
	disk->queue->limits.discard_granularity = SECTOR_SIZE;
	blk_queue_max_discard_sectors(disk->queue, RAMBLK_MAX_ZERO_SECTORS);
	blk_queue_max_write_zeroes_sectors(disk->queue, RAMBLK_MAX_ZERO_SECTORS);
	return disk;
}
#endif

#endif /* RAMBLK_COMPAT_H */
