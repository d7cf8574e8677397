/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Stacks of tasks at what they do: where they went to sleep, where they mapped
 * memory.
 *
 * Tasks sleep at the same few places again and again, a hundred thousand times
 * a second. So once the recorder has unwound a stack from its copy, it puts the
 * place (registers) and what it read from the stack (offsets and words) into a
 * map; whoever is found there with the same words in the stack has the same
 * stack, and its number is sent in place of a copy. Nothing else is left out:
 * a stack that differs in one of these words is copied.
 */

#define TASK_DEAD 0x80
#define PLACE_WORDS 128

struct place_key {
	__u32 mm_id;
	__u32 padding;
	__u64 ip, sp, bp;
};

struct known_place {
	__u32 number;       /* the recorder's, from 1 */
	__u32 words;
	__u32 wants_chain;  /* the stack could not be unwound; its frame pointers may still be followed */
	__u32 padding;
	__u32 offsets[PLACE_WORDS];
	__u64 values[PLACE_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set before loading */
	__type(key, struct place_key);
	__type(value, struct known_place);
} places SEC(".maps");

/* The place if the stack at `sp` is the one that the recorder knows. No page is faulted in. */
static __always_inline struct known_place *known_place_at(struct task_state *state, struct pt_regs *regs)
{
	struct place_key key = { .mm_id = state->mm_id, .ip = regs->ip, .sp = regs->sp, .bp = regs->bp };
	struct known_place *place = bpf_map_lookup_elem(&places, &key);

	if (!place)
		return NULL;
	for (int i = 0; i < PLACE_WORDS; i++) {
		__u64 word;

		if (i >= place->words)
			break;
		if (bpf_probe_read_user(&word, sizeof(word), (void *)(key.sp + place->offsets[i])))
			return NULL;
		if (word != place->values[i])
			return NULL;
	}
	return place;
}

/* Takes the stacks of the running task, which at `ts` left the CPU, or began a mapping call (which needs no stack of the
 * kernel); false if none was taken. */
static __always_inline bool take_stack(void *ctx, struct task_struct *task, __u64 ts, bool with_kernel)
{
	struct task_state *state = state_of(task);
	struct sample_ring *ring = sample_ring_here();
	__u64 position, used, kernel = 0, user = 0, copy = 0;
	struct known_place *place = NULL;
	struct sample_head *head;
	struct pt_regs *regs;
	__u32 flags = 0;
	__u8 *frames;

	if (!state || state->waiting || !ring)
		return false;
	ring->seen++;
	if (counting_only)
		return false;
	position = ring->produced;
	used = position - ring->consumed;
	if (used + SAMPLE_BYTES_MAX > (__u64)sample_ring_mask + 1) {
		ring->lost++;
		return false;
	}
	head = (void *)&ring->data[position & sample_ring_mask];
	frames = (void *)(head + 1);
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	if (with_kernel)
		kernel = chain(ctx, frames, 0, SAMPLE_KERNEL_CUT, &flags);
	frames += kernel;
	fill_head(head, task, state, regs, ts, 0);
	if (has_copy(task, state, regs))
		place = known_place_at(state, regs);
	if (place)
		head->place = place->number;
	if ((!place || place->wants_chain) && has_chain(task, state, regs))
		user = chain(ctx, frames, BPF_F_USER_STACK, SAMPLE_USER_CUT, &flags);
	if (!place && has_copy(task, state, regs)) {
		if (used > sample_ring_mask / 2) {
			/* Half a stack would be a wrong one. The rest of the ring is for the kernel's. */
			flags |= SAMPLE_NO_ROOM;
			user = 0;
		} else {
			__u64 bytes = stack_bytes(task, regs, stack_copy, &flags);

			copy = copy_stack(frames + user, regs->sp, bytes, &flags);
		}
	}
	publish(ring, head, kernel, user, copy, flags);
	return true;
}
