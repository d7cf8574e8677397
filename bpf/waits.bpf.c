// SPDX-License-Identifier: GPL-2.0
/*
 * The states of the recorded tasks: on a CPU, waiting for one, off the CPU. They are summed up here, in each task's storage,
 * so that the account closes although no switch is recorded (that is what the stream `sched` is for).
 *
 * Off the CPU a task is from leaving it until it is first woken; from then on, and when it was preempted, it waits for a CPU.
 * A switch is where the kernel's scheduler has it (end_run()), which may be some microseconds before the tracepoint; how long
 * a task was in a queue is what the kernel counts, too, which is known when it next leaves the CPU (settle()).
 * Waits are told from each other by what is known for nothing (enum wait_key). Where in the kernel they were is told by
 * stacks taken now and then: at the end of a wait of `off` ns with probability min(1, off / stack_scale_ns), and with the weight
 * max(off, stack_scale_ns), so that the weights of many waits sum to their time.
 *
 * The sums are sent once a second by a walk over all tasks, when a task ends, and when a task's slots do not suffice.
 *
 * Needs: BTF of the kernel, raw tracepoints with BTF (5.5), the ring buffer (5.8), iterators over tasks (5.8), task storage in
 * tracing programs (5.11), bpf_task_pt_regs() (5.15), sched_switch with the state that the task had (5.18).
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "wire.h"
#include "waits.h"
#include "loads.bpf.h"
#include "membership.bpf.h"
#include "abi.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Named here only so that the generated Rust types hold them. */
struct wait_types {
	enum wait_event_type type;
	enum wait_holder holder;
	enum wait_waker waker;
	enum wait_key key;
	enum wait_sums_flag flag;
	struct wait_sums sums;
	struct wait_slot_event slot;
	struct wait_stack stack;
};
const volatile struct wait_types *wait_types = NULL;

#define PF_KTHREAD 0x00200000

#define TASK_INTERRUPTIBLE 0x1
#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_STATES 0x4f /* also stopped, traced, parked */
#define TASK_DEAD 0x80
#define TASK_NOLOAD 0x400

/* A task that has had a CPU for longer than this may keep it for seconds. */
#define SETTLES_ITSELF_NS 1000000

/* A task may be woken shortly before it has left the CPU: its wait was over before it began. */
#define WOKEN_BEFORE_NS 10000

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cfs_rq {
	int throttle_count;
};

struct sched_entity___of_group {
	struct cfs_rq *cfs_rq;
};

struct sched_info {
	__u64 run_delay;
};

struct task_struct___waits {
	unsigned int __state;
	int on_cpu;
	unsigned in_iowait : 1;
	bool throttled; /* 6.18 */
	struct sched_info sched_info;
	struct sched_entity___of_group se;
};

#pragma clang attribute pop

/*
 * What a switch to the task and its waking touch comes first, in the line of the cache that its storage begins in: of a task that has
 * slept none of it is near.
 */
struct wait_state {
	__u64 since;        /* on a CPU since; 0: it is not */
	__u64 left;         /* off it since; 0: it is not */
	__u64 woken;        /* last time */
	__u64 counted_ns;   /* sum_exec_runtime when it left, or took the CPU */
	__u32 open_key;     /* of the wait since `left`; 0: it could run */
	__u8 waker;         /* who woke it last */
	__u8 throttled;     /* when it left */
	__u8 active;        /* counted in `active` */
	__u8 dirty;         /* something has changed since the last walk */
	/* The wait before this run, which is not in the sums until settle() has split it. */
	__u32 unsettled_key;    /* 0: it was preempted */
	__u32 unsettled;        /* who had the CPU (enum wait_holder) + 1; 0: there is none */
	__u64 unsettled_off_ns; /* until it was woken; */
	__u64 unsettled_ready_ns; /* and from then on */
	__u64 put_off_ns;   /* what the kernel counted less for the run until then, if it was preempted */
	__u64 left_run_delay_ns; /* what the kernel had counted as waiting for a CPU by then */
	__u64 run_ns;
	__u64 runs;
	__u32 task_id;
	__u32 victim;       /* the slot that gives way next */
	struct wait_slot slots[WAIT_SLOTS];
	__u64 ready_ns[WAIT_HOLDERS];
	__u64 readies[WAIT_HOLDERS];
	__u64 runtime_base_ns;
	__u64 run_delay_base_ns;
	__u32 dead;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct wait_state);
} wait_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} wait_events SEC(".maps");

/*
 * What runs on this CPU, and beside its task. The kernel's own count of that is a variable that programs cannot have where symbols of
 * data have no addresses (CONFIG_KALLSYMS_ALL). One that begins while another of its kind runs ends both; that is rare.
 */
struct this_cpu {
	__u32 hrtimer;
	__u32 irq;
	__u32 timer;
	__u32 softirq;
	__u32 own;          /* the task that runs here is recorded */
	__u32 random;
	__s64 active;       /* changes that `active_tasks` does not hold yet, while `own` */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct this_cpu);
} cpus SEC(".maps");

/* The recorder sets what a stack stands for at least, so that there are not too many of them. */
__u64 stack_scale_ns = 100000;
/* The next walk is the last one: waits that are not over are sampled as if they were. */
__u32 last_walk = 0;
/* What ended waits so far, and stacks of them that found no room. */
__u64 stacks_seen = 0;
__u64 stacks_lost = 0;
/* Records of sums, and those that found no room and will not be repeated. */
__u64 sums_seen = 0;
__u64 sums_lost = 0;
/*
 * Recorded tasks that run, could run, or sleep uninterruptibly or for I/O; and how long there was none. For each CPU that runs
 * one there is RUNS_OWN more: such a CPU keeps the changes that it makes to itself until it runs none, so that two CPUs with tasks
 * that wake each other do not write to one place at each switch. It is 0 only if no CPU keeps any.
 */
#define RUNS_OWN (1LL << 32)
__s64 active_tasks = 0;
__u64 idle_ns = 0;
__u64 idle_since = 0;

static __always_inline struct this_cpu *this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&cpus, &zero);
}

static __always_inline struct task_struct___waits *more_of(struct task_struct *task)
{
	return (struct task_struct___waits *)task;
}

static __always_inline void add_active(__s64 change, __u64 now)
{
	__s64 before = __sync_fetch_and_add(&active_tasks, change);
	__u64 since;

	if (before == -change) {
		__sync_lock_test_and_set(&idle_since, now);
	} else if (!before) {
		since = __sync_lock_test_and_set(&idle_since, 0);
		if (since && now > since)
			__sync_fetch_and_add(&idle_ns, now - since);
	}
}

/* `cpu`: where this runs, with interrupts off; NULL where they are on, and another program could come in between. */
static __always_inline void set_active(struct wait_state *ws, struct this_cpu *cpu, bool active, __u64 now)
{
	__s64 change = active ? 1 : -1;

	if (ws->active == active)
		return;
	ws->active = active;
	if (cpu && cpu->own)
		cpu->active += change;
	else
		add_active(change, now);
}

/* Says whether the task that gets this CPU is recorded. */
static __always_inline void set_own(struct this_cpu *cpu, bool own, __u64 now)
{
	if (cpu->own == own)
		return;
	cpu->own = own;
	add_active(own ? RUNS_OWN : cpu->active - RUNS_OWN, now);
	cpu->active = 0;
}

static __always_inline __u32 state_bits(__u32 task_state)
{
	return (task_state & TASK_NOLOAD) && (task_state & TASK_UNINTERRUPTIBLE) ? WAIT_STATE_IDLE : task_state & TASK_STATES;
}

/* The key of the wait that a task begins, or is in, without its waker. */
static __always_inline __u32 wait_key_of(struct task_struct *task, __u32 task_state)
{
	__u32 key = WAIT_KEY_SET | state_bits(task_state) << WAIT_STATE_SHIFT;
	struct pt_regs *regs;
	__s64 nr;

	if (BPF_CORE_READ_BITFIELD(more_of(task), in_iowait))
		key |= WAIT_IO;
	if (task->flags & PF_KTHREAD)
		return key;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	if (!has_user_space(regs))
		return key;
	nr = (__s64)regs->orig_ax;
	if (nr == -1)
		return key | WAIT_IN_FAULT;
	if (nr < 0 || nr >= CALL_NUMBERS)
		return key;
	return key | (call_number(task, nr) + 1);
}

static __always_inline bool is_active_wait(__u32 key)
{
	return key & (WAIT_IO | TASK_UNINTERRUPTIBLE << WAIT_STATE_SHIFT);
}

static __always_inline bool is_throttled(struct task_struct *task)
{
	struct task_struct___waits *more = more_of(task);
	int count = 0;

	if (bpf_core_field_exists(more->throttled))
		return more->throttled;
	if (bpf_core_field_exists(more->se.cfs_rq) && bpf_core_field_exists(more->se.cfs_rq->throttle_count))
		count = BPF_CORE_READ(more, se.cfs_rq, throttle_count);
	return count != 0;
}

/* The wait that has ended and is in no sum yet. Should the task leave the CPU meanwhile, it is in both for once. */
static __always_inline void read_unsettled(struct wait_sums *sums, struct wait_state *ws)
{
	bool is_there = *(volatile __u32 *)&ws->unsettled;

	sums->unsettled_key = is_there ? ws->unsettled_key : 0;
	sums->unsettled_off_ns = is_there ? ws->unsettled_off_ns : 0;
	sums->unsettled_ready_ns = is_there ? ws->unsettled_ready_ns : 0;
	sums->padding = 0;
}

static __always_inline void read_sums(struct wait_sums *sums, struct task_struct *task, struct wait_state *ws, __u64 now)
{
	sums->type = WAIT_SUMS;
	sums->task_id = ws->task_id;
	sums->ts = now;
	sums->flags = 0;
	sums->open_key = 0;
	sums->since = 0;
	sums->left = ws->left;
	sums->run_ns = ws->run_ns;
	sums->runs = ws->runs;
	sums->runtime_ns = task->se.sum_exec_runtime - ws->runtime_base_ns;
	sums->run_delay_ns = more_of(task)->sched_info.run_delay - ws->run_delay_base_ns;
	read_unsettled(sums, ws);
#pragma unroll
	for (int i = 0; i < WAIT_HOLDERS; i++) {
		sums->ready_ns[i] = ws->ready_ns[i];
		sums->readies[i] = ws->readies[i];
	}
#pragma unroll
	for (int i = 0; i < WAIT_SLOTS; i++) {
		struct wait_slot *from = &ws->slots[i], *to = &sums->slots[i];
		__u32 generation = *(volatile __u32 *)&from->generation;

		to->generation = generation;
		to->key = *(volatile __u32 *)&from->key;
		to->times = *(volatile __u64 *)&from->times;
		to->off_ns = *(volatile __u64 *)&from->off_ns;
		/* It gave way meanwhile: what it held was sent then. */
		if (*(volatile __u32 *)&from->generation != generation)
			to->key = 0;
	}
}

static __always_inline void send_slot(struct wait_state *ws, __u32 index, struct wait_slot *slot, __u64 now)
{
	struct wait_slot_event *event = bpf_ringbuf_reserve(&wait_events, sizeof(*event), 0);

	__sync_fetch_and_add(&sums_seen, 1);
	if (!event) {
		__sync_fetch_and_add(&sums_lost, 1);
		return;
	}
	event->type = WAIT_SLOT;
	event->task_id = ws->task_id;
	event->index = index;
	event->padding = 0;
	event->ts = now;
	event->slot = *slot;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static __always_inline void add_wait(struct wait_state *ws, __u32 key, __u64 off_ns, __u64 now)
{
	struct wait_slot *slot;
	__u32 index;

#pragma unroll
	for (int i = 0; i < WAIT_SLOTS; i++) {
		slot = &ws->slots[i];
		if (!slot->key)
			slot->key = key;
		if (slot->key == key) {
			slot->times++;
			slot->off_ns += off_ns;
			return;
		}
	}
	index = ws->victim++ & (WAIT_SLOTS - 1);
	slot = &ws->slots[index];
	send_slot(ws, index, slot, now);
	*(volatile __u32 *)&slot->generation = slot->generation + 1;
	slot->times = 1;
	slot->off_ns = off_ns;
	slot->key = key;
}

/* Marsaglia's xorshift: a call of the kernel's generator takes as long as all else at the end of a short wait. */
static __always_inline __u32 random_here(struct this_cpu *cpu)
{
	__u32 value = cpu->random;

	if (!value)
		value = bpf_get_prandom_u32() | 1;
	value ^= value << 13;
	value ^= value >> 17;
	value ^= value << 5;
	cpu->random = value;
	return value;
}

static __always_inline void sample_wait(struct task_struct *task, struct wait_state *ws, __u32 key, __u64 off_ns, __u64 now)
{
	struct this_cpu *cpu = this_cpu();
	__u64 scale = stack_scale_ns;
	struct wait_stack *stack;
	long bytes;

	if (!cpu || (off_ns < scale && (random_here(cpu) * scale) >> 32 >= off_ns))
		return;
	__sync_fetch_and_add(&stacks_seen, 1);
	stack = bpf_ringbuf_reserve(&wait_events, sizeof(*stack), 0);
	if (!stack) {
		__sync_fetch_and_add(&stacks_lost, 1);
		return;
	}
	bytes = bpf_get_task_stack(task, stack->addrs, sizeof(stack->addrs), 0);
	stack->type = WAIT_STACK;
	stack->task_id = ws->task_id;
	stack->key = key;
	stack->frames = bytes > 0 ? (__u64)bytes >> 3 : 0;
	stack->ts = now;
	stack->off_ns = off_ns;
	stack->weight_ns = off_ns > scale ? off_ns : scale;
	bpf_ringbuf_submit(stack, BPF_RB_NO_WAKEUP);
}

/* The state of a task; made, if it is recorded and had none. It is on the CPU or could be, or it sleeps, as the caller says. */
static __always_inline struct wait_state *new_wait_state(struct task_struct *task)
{
	struct task_state *member = state_of(task);
	struct wait_state *ws;

	if (!member || still_waiting(member, task))
		return NULL;
	ws = bpf_task_storage_get(&wait_states, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!ws || ws->task_id)
		return ws;
	ws->task_id = member->task_id;
	ws->runtime_base_ns = ws->counted_ns = task->se.sum_exec_runtime;
	ws->run_delay_base_ns = ws->left_run_delay_ns = more_of(task)->sched_info.run_delay;
	return ws;
}

static __always_inline struct wait_state *wait_state_of(struct task_struct *task)
{
	return bpf_task_storage_get(&wait_states, task, 0, 0);
}

/*
 * Tells of the wait before this run how long the task was in a queue, as the kernel has counted it (sched_info_arrive()), and how long
 * it had been woken before: a CPU that is told by another queues the task when it has taken the interrupt, an idle one when it has
 * woken up for it. `more_ns` is what the kernel counts as the task's run beyond what this program has seen of it, `less_ns` what it
 * counts less. Gives what of the first was told as woken, and is the run's; or, negative, what of the second was in a queue unseen.
 */
static __always_inline __s64 settle(struct task_struct *task, struct wait_state *ws, __u64 more_ns, __u64 less_ns, __u64 now)
{
	__u64 off = 0, ready = 0, queued, rest, unseen;
	/* One more than it. */
	__u32 holder = __sync_lock_test_and_set(&ws->unsettled, 0);

	if (holder) {
		off = ws->unsettled_off_ns;
		ready = ws->unsettled_ready_ns;
	}
	queued = more_of(task)->sched_info.run_delay - ws->left_run_delay_ns;
	unseen = 0;
	if (queued > ready) {
		/* The kernel's clock stands while it switches, so it may have queued the task before it woke it, or took its CPU. */
		rest = queued - ready < off ? queued - ready : off;
		off -= rest;
		ready += rest;
		rest = queued - ready < ws->put_off_ns ? queued - ready : ws->put_off_ns;
		ws->run_ns -= rest;
		ready += rest;
		unseen = queued - ready < less_ns ? queued - ready : less_ns;
		ws->ready_ns[HELD_BY_FOREIGN] += unseen;
		queued = ready;
	}
	ws->left_run_delay_ns += queued + unseen;
	ws->put_off_ns = 0;
	if (!holder)
		return -(__s64)unseen;
	rest = ready - queued;
	more_ns = rest < more_ns ? rest : more_ns;
	rest -= more_ns;
	if (ws->unsettled_key) {
		add_wait(ws, ws->unsettled_key, off, now);
		ws->ready_ns[HELD_BY_WAKEUP] += rest;
		ws->readies[HELD_BY_WAKEUP] += rest > 0;
	} else {
		queued += rest;
	}
	holder--;
	if (holder < WAIT_HOLDERS) {
		ws->ready_ns[holder] += queued;
		ws->readies[holder]++;
	}
	return (__s64)more_ns - (__s64)unseen;
}

/* From where the scheduler reads its clock to the tracepoint. */
#define SWITCHING_NS 2000

/*
 * Where the kernel's scheduler has the end of a run. It does not read its clock again between the interrupt that queues a task, or
 * finds that another's turn has come, and the switch (rq_clock_skip_update()): the way out of the interrupt, which in a virtual machine
 * takes some 10 us and now and then 200, is no longer the run of a task that is preempted. Whether that is why the kernel counts less
 * is known when it has counted the time in the queue.
 */
static __always_inline __u64 end_run(struct task_struct *task, struct wait_state *ws, bool preempted, __u64 now)
{
	__u64 ran = now - ws->since, counted = task->se.sum_exec_runtime - ws->counted_ns;
	__u64 less = ran > counted ? ran - counted : 0;
	__s64 more = settle(task, ws, counted > ran ? counted - ran : 0, less, now);

	if (more < 0)
		less += more;
	if (preempted)
		ws->put_off_ns = less;
	else if (less < SWITCHING_NS)
		now -= less;
	ws->run_ns += now - ws->since + more;
	return now;
}

/* The wait of a task that gets the CPU now is over; `holder`: who had the CPU until now. Gives its key; 0: it was preempted. */
static __always_inline __u32 end_wait(struct wait_state *ws, __u64 left, __u32 holder, __u64 now)
{
	__u64 ready = left;
	__u32 waker = WOKEN_UNSEEN, key = ws->open_key;

	if (key) {
		ready = now;
		if (ws->woken + WOKEN_BEFORE_NS >= left) {
			ready = ws->woken > left ? ws->woken : left;
			waker = ws->waker;
		}
		/* Woken once more by another CPU, after this one had read the clock: a hypervisor may have taken it in between. */
		if (ready > now)
			ready = now;
		key |= waker << WAIT_WAKER_SHIFT;
	}
	ws->unsettled_key = key;
	ws->unsettled_off_ns = ready - left;
	ws->unsettled_ready_ns = now - ready;
	ws->unsettled = 1 + (ws->throttled ? HELD_BY_THROTTLING : holder);
	ws->throttled = 0;
	return key;
}

/*
 * The kernel leaves hits of tracepoints out now and then. A task that leaves the CPU and was not seen to get it has run for as long as
 * the kernel has counted since it left last.
 */
static __always_inline void get_unseen(struct task_struct *task, struct wait_state *ws, __u64 now)
{
	__u64 gone = now - ws->left, ran = task->se.sum_exec_runtime - ws->counted_ns;

	ws->since = now - (ran < gone ? ran : gone);
	end_wait(ws, ws->left, HELD_BY_FOREIGN, ws->since);
}

static __always_inline void switched_out(struct task_struct *task, struct wait_state *ws, struct this_cpu *cpu,
					__u32 task_state, __u64 now)
{
	struct wait_sums *sums;

	if (!ws) {
		ws = new_wait_state(task);
		if (!ws)
			return;
		set_active(ws, cpu, true, now);
	}
	if (!ws->since && ws->left)
		get_unseen(task, ws, now);
	if (ws->since)
		now = end_run(task, ws, !task_state, now);
	ws->runs++;
	ws->since = 0;
	ws->dirty = 1;
	if (task_state & TASK_DEAD) {
		ws->dead = 1;
		set_active(ws, cpu, false, now);
		__sync_fetch_and_add(&sums_seen, 1);
		sums = bpf_ringbuf_reserve(&wait_events, sizeof(*sums), 0);
		if (!sums) {
			__sync_fetch_and_add(&sums_lost, 1);
			return;
		}
		read_sums(sums, task, ws, now);
		sums->flags = WAIT_DEAD;
		bpf_ringbuf_submit(sums, BPF_RB_NO_WAKEUP);
		return;
	}
	ws->left = now;
	ws->left_run_delay_ns = more_of(task)->sched_info.run_delay;
	ws->counted_ns = task->se.sum_exec_runtime;
	ws->open_key = 0;
	if (task_state) {
		ws->open_key = wait_key_of(task, task_state);
		if (!is_active_wait(ws->open_key))
			set_active(ws, cpu, false, now);
	} else {
		ws->throttled = is_throttled(task);
	}
}

static __always_inline void switched_in(struct task_struct *task, struct wait_state *ws, struct this_cpu *cpu, __u32 holder,
				       __u64 now)
{
	__u64 left, unseen;
	__u32 key;

	if (!ws) {
		ws = new_wait_state(task);
		if (!ws)
			return;
	}
	set_active(ws, cpu, true, now);
	left = ws->left;
	unseen = task->se.sum_exec_runtime - ws->counted_ns;
	ws->left = 0;
	ws->since = now;
	ws->counted_ns += unseen;
	ws->dirty = 1;
	if (!left)
		return;
	/* It was not seen to get the CPU and leave it again; that is told as a run before the wait. */
	if (unseen < now - left) {
		ws->run_ns += unseen;
		left += unseen;
	}
	key = end_wait(ws, left, holder, now);
	if (key)
		sample_wait(task, ws, key, ws->unsettled_off_ns, now);
}

SEC("tp_btf/sched_switch")
int wait_switched(unsigned long long *ctx)
{
	struct task_struct *before = (struct task_struct *)ctx[1], *task = (struct task_struct *)ctx[2];
	struct wait_state *out = NULL, *in = NULL;
	struct this_cpu *cpu = this_cpu();
	__u64 now = bpf_ktime_get_ns();
	__u32 holder = HELD_BY_NOBODY;

	/* Number 0 is idleness. */
	if (before->pid) {
		out = wait_state_of(before);
		holder = out ? HELD_BY_OWN : HELD_BY_FOREIGN;
		/* A task that is preempted could run, whatever its state says. */
		switched_out(before, out, cpu, ctx[0] ? 0 : (__u32)ctx[3], now);
	}
	if (task->pid) {
		in = wait_state_of(task);
		switched_in(task, in, cpu, holder, now);
	}
	if (cpu)
		set_own(cpu, in != NULL, now);
	return 0;
}

/* Who wakes, as the code that runs here now. */
static __always_inline __u32 waker_here(struct this_cpu *cpu)
{
	if (!cpu)
		return WOKEN_UNSEEN;
	if (cpu->hrtimer)
		return WOKEN_BY_TIMER;
	if (cpu->irq)
		return WOKEN_BY_IRQ;
	if (cpu->timer)
		return WOKEN_BY_TIMER;
	if (cpu->softirq)
		return WOKEN_BY_SOFTIRQ;
	return cpu->own ? WOKEN_BY_OWN : WOKEN_BY_FOREIGN;
}

SEC("tp_btf/sched_waking")
int wait_woken(unsigned long long *ctx)
{
	struct wait_state *ws = wait_state_of((struct task_struct *)ctx[0]);
	struct this_cpu *cpu;
	__u64 now;

	if (!ws)
		return 0;
	now = bpf_ktime_get_ns();
	cpu = this_cpu();
	ws->waker = waker_here(cpu);
	ws->woken = now;
	ws->dirty = 1;
	/* Interrupts are off, but where a task wakes itself; that one has not left. */
	if (ws->left)
		set_active(ws, cpu, true, now);
	return 0;
}

/* A new task could run from here on. */
SEC("tp_btf/sched_wakeup_new")
int wait_born(unsigned long long *ctx)
{
	struct wait_state *ws = new_wait_state((struct task_struct *)ctx[0]);
	__u64 now = bpf_ktime_get_ns();

	if (!ws || ws->left || ws->since)
		return 0;
	ws->left = now;
	set_active(ws, this_cpu(), true, now);
	return 0;
}

/* The command's process begins when it runs the command. */
SEC("tp_btf/sched_process_exec")
int wait_execs(unsigned long long *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	struct wait_state *ws = wait_state_of(task);
	__u64 now = bpf_ktime_get_ns();

	if (ws)
		return 0;
	ws = new_wait_state(task);
	if (!ws)
		return 0;
	ws->since = now;
	set_active(ws, NULL, true, now);
	return 0;
}

#define RUNS_BESIDE(tracepoint, program, kind, value)            \
	SEC("tp_btf/" tracepoint)                                \
	int program(unsigned long long *ctx)                     \
	{                                                        \
		struct this_cpu *cpu = this_cpu();               \
                                                                 \
		if (cpu)                                         \
			cpu->kind = value;                       \
		return 0;                                        \
	}

RUNS_BESIDE("hrtimer_expire_entry", hrtimer_begins, hrtimer, 1)
RUNS_BESIDE("hrtimer_expire_exit", hrtimer_ends, hrtimer, 0)
RUNS_BESIDE("irq_handler_entry", irq_begins, irq, 1)
RUNS_BESIDE("irq_handler_exit", irq_ends, irq, 0)
RUNS_BESIDE("timer_expire_entry", timer_begins, timer, 1)
RUNS_BESIDE("timer_expire_exit", timer_ends, timer, 0)
RUNS_BESIDE("softirq_entry", softirq_begins, softirq, 1)
RUNS_BESIDE("softirq_exit", softirq_ends, softirq, 0)

/* A task that was there before the programs were. */
static __always_inline struct wait_state *found_running(struct task_struct *task, __u64 now)
{
	struct wait_state *ws;
	__u32 task_state;

	if (task->exit_state)
		return NULL;
	ws = new_wait_state(task);
	if (!ws || ws->since || ws->left)
		return ws;
	ws->dirty = 1;
	task_state = more_of(task)->__state;
	if (more_of(task)->on_cpu) {
		ws->since = now;
		set_active(ws, NULL, true, now);
		return ws;
	}
	if (task_state)
		ws->open_key = wait_key_of(task, task_state);
	ws->left = now;
	set_active(ws, NULL, !task_state || is_active_wait(ws->open_key), now);
	return ws;
}

SEC("iter/task")
int walk_waits(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct wait_state *ws = task ? wait_state_of(task) : NULL;
	__u64 now = bpf_ktime_get_ns();
	struct wait_sums *sums;
	__u64 left, woken;
	__u32 key;

	if (!task)
		return 0;
	if (!ws)
		ws = found_running(task, now);
	if (!ws || ws->dead)
		return 0;
	if (!ws->dirty && !ws->since && !last_walk)
		return 0;
	__sync_fetch_and_add(&sums_seen, 1);
	sums = bpf_ringbuf_reserve(&wait_events, sizeof(*sums), 0);
	if (!sums) {
		if (last_walk)
			__sync_fetch_and_add(&sums_lost, 1);
		return 0;
	}
	ws->dirty = 0;
	/* One that leaves the CPU soon settles its wait itself; both at once would need it to come back meanwhile. */
	if (ws->since && (last_walk || now - ws->since > SETTLES_ITSELF_NS))
		settle(task, ws, 0, 0, now);
	read_sums(sums, task, ws, now);
	left = sums->left;
	key = ws->open_key;
	woken = ws->woken;
	if (!left) {
		sums->flags = WAIT_RUNNING;
		sums->since = ws->since;
	} else if (!key) {
		sums->flags = WAIT_READY;
		sums->since = left;
	} else if (woken > left) {
		key |= ws->waker << WAIT_WAKER_SHIFT;
		sums->flags = WAIT_OFF | WAIT_READY;
		sums->since = woken;
	} else {
		sums->flags = WAIT_OFF;
		woken = now;
	}
	sums->open_key = left ? key : 0;
	if (last_walk)
		sums->flags |= WAIT_LAST;
	bpf_ringbuf_submit(sums, BPF_RB_NO_WAKEUP);
	if (last_walk && left && key && woken > left)
		sample_wait(task, ws, key, woken - left, now);
	return 0;
}
