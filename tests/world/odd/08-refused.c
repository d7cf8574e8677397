/*
 * Calls that are not made. By the first argument:
 *   errno   seccomp refuses getpid 77 times with ENOSYS, and write to a file 5 times with EPERM
 *   kill    the same, then getuid kills the process
 *   thread  getuid kills one of two threads, the other goes on
 *   trap    getpid sends SIGSYS, 9 times; its handler makes a call that is allowed
 *   strict  seccomp's strict mode: getuid kills
 *   notify  a supervisor answers getpid 6 times with 4242
 *   bpf     executes the other arguments, to which the kernel refuses BPF
 *   numbers numbers that no kernel has, and of x32: 500, 511, 512, 99999, -1 and 0x40000000 + 39, 3 times each
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int file;

/* One call is answered by `action`; another by `other`. */
static int filter(int call, unsigned action, int other_call, unsigned other, unsigned flags)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other_call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, other),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(steps) / sizeof(*steps), steps };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static void handler(int number)
{
	syscall(SYS_getppid);
}

static void *ends(void *none)
{
	filter(SYS_getuid, SECCOMP_RET_KILL_THREAD, SYS_getuid, SECCOMP_RET_KILL_THREAD, 0);
	syscall(SYS_getgid);
	syscall(SYS_getuid);
	return none;
}

static void *answers(void *listener)
{
	struct seccomp_notif asked;
	struct seccomp_notif_resp answer;

	for (int i = 0; i < 6; i++) {
		memset(&asked, 0, sizeof(asked));
		if (ioctl((long)listener, SECCOMP_IOCTL_NOTIF_RECV, &asked))
			continue;
		answer = (struct seccomp_notif_resp){ .id = asked.id, .val = 4242 };
		ioctl((long)listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
	return 0;
}

static void numbers(void)
{
	long all[] = { 500, 511, 512, 99999, -1, 0x40000000 + SYS_getpid };

	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++)
		for (int n = 0; n < 3; n++)
			syscall(all[i], 1, 2, 3, 4, 5, 6);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	file = open("/dev/null", O_WRONLY);
	switch (argv[1][0] + argv[1][1]) {
	case 'e' + 'r':
	case 'k' + 'i':
		filter(SYS_getpid, SECCOMP_RET_ERRNO | ENOSYS, SYS_getuid, SECCOMP_RET_KILL_PROCESS, 0);
		filter(SYS_write, SECCOMP_RET_ERRNO | EPERM, SYS_write, SECCOMP_RET_ERRNO | EPERM, 0);
		for (int i = 0; i < 77; i++)
			syscall(SYS_getpid);
		for (int i = 0; i < 5; i++)
			syscall(SYS_write, file, "x", 1);
		if (argv[1][0] == 'k')
			syscall(SYS_getuid);
		/* A child returns from the call that made it, under the same filter. */
		if (!fork()) {
			syscall(SYS_getpid);
			_exit(0);
		}
		break;
	case 't' + 'h':
		pthread_create(&thread, 0, ends, 0);
		pthread_join(thread, 0);
		syscall(SYS_getgid);
		break;
	case 't' + 'r':
		signal(SIGSYS, handler);
		filter(SYS_getpid, SECCOMP_RET_TRAP, SYS_getpid, SECCOMP_RET_TRAP, 0);
		for (int i = 0; i < 9; i++)
			syscall(SYS_getpid);
		break;
	case 's' + 't':
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
		syscall(SYS_getuid);
		break;
	case 'n' + 'o': {
		long listener = filter(SYS_getpid, SECCOMP_RET_USER_NOTIF, SYS_getpid, SECCOMP_RET_USER_NOTIF,
				       SECCOMP_FILTER_FLAG_NEW_LISTENER);
		pthread_create(&thread, 0, answers, (void *)listener);
		for (int i = 0; i < 6; i++)
			syscall(SYS_getpid);
		pthread_join(thread, 0);
		break;
	}
	case 'b' + 'p':
		filter(SYS_bpf, SECCOMP_RET_ERRNO | EPERM, SYS_bpf, SECCOMP_RET_ERRNO | EPERM, 0);
		execv(argv[2], argv + 2);
		return 1;
	case 'n' + 'u':
		numbers();
		break;
	}
	return 0;
}
